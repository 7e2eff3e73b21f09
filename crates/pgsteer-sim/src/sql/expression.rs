//! Expressions: how they are parsed and what type they have. A parameter's type comes from a cast on it or from
//! where it stands, and is text if nothing says more.

use super::SqlError;
use super::value::{Column, Kind, Value};

/// Something that has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Literal(Value, Kind),
    Parameter(u16),
    Column(String),
    Cast(Box<Expression>, Kind),
    Negative(Box<Expression>),
    Not(Box<Expression>),
    IsNull {
        of: Box<Expression>,
        negated: bool,
    },
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Call {
        name: String,
        arguments: Vec<Expression>,
    },
    CountAll,
    /// CASE WHEN condition THEN one ELSE other END.
    Case(Box<[Expression; 3]>),
}

/// What is known of the parameters of a statement while its types are worked out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(pub(crate) Vec<Option<Kind>>);

impl Parameters {
    /// The type of parameter `number`; the first place that says one decides.
    fn note(&mut self, number: u16, kind: Option<Kind>) -> Option<Kind> {
        let at = usize::from(number).saturating_sub(1);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        if self.0[at].is_none() {
            self.0[at] = kind;
        }
        self.0[at]
    }
}

/// The type of an expression. `expected` is what the place it stands in wants of a parameter.
pub(crate) fn infer(
    expression: &Expression,
    expected: Option<Kind>,
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<Kind, SqlError> {
    Ok(match expression {
        Expression::Literal(_, kind) => *kind,
        Expression::Parameter(number) => parameters.note(*number, expected).unwrap_or(Kind::Text),
        Expression::Column(name) => columns
            .iter()
            .find(|column| column.name == *name)
            .map(|column| column.kind)
            .ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" does not exist")))?,
        Expression::Cast(inner, kind) => {
            infer(inner, Some(*kind), columns, parameters)?;
            *kind
        }
        Expression::Negative(inner) => infer(inner, expected.or(Some(Kind::Int4)), columns, parameters)?,
        Expression::Not(inner) => infer(inner, Some(Kind::Bool), columns, parameters)?,
        Expression::IsNull { of, .. } => {
            infer(of, None, columns, parameters)?;
            Kind::Bool
        }
        Expression::CountAll => Kind::Int8,
        Expression::Case(parts) => {
            let [condition, one, other] = &**parts;
            infer(condition, Some(Kind::Bool), columns, parameters)?;
            let other_kind = infer(other, expected, columns, parameters)?;
            match infer(one, expected, columns, parameters)? {
                // NULL takes the type of the other.
                _ if matches!(one, Expression::Literal(Value::Null, _)) => other_kind,
                kind => kind,
            }
        }
        Expression::Binary(operator, left, right) => {
            let (left, right) = infer_sides(operator, left, right, columns, parameters)?;
            result_kind(operator, left, right)?
        }
        Expression::Call { name, arguments } => {
            let (wanted, kind) = signature(name, arguments.len())?;
            let mut first = None;
            for (at, argument) in arguments.iter().enumerate() {
                let found = infer(argument, wanted.get(at).copied(), columns, parameters)?;
                first = first.or(Some(found));
            }
            kind.or(first).unwrap_or(Kind::Text)
        }
    })
}

fn infer_sides(
    operator: &str,
    left: &Expression,
    right: &Expression,
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<(Kind, Kind), SqlError> {
    let common = match operator {
        "and" | "or" => Some(Kind::Bool),
        "||" => Some(Kind::Text),
        _ => None,
    };
    // A parameter takes the type of what it is combined with, so the other side is asked first.
    if matches!(left, Expression::Parameter(_)) {
        let right = infer(right, common.or(Some(Kind::Int4)), columns, parameters)?;
        Ok((infer(left, common.or(Some(right)), columns, parameters)?, right))
    } else {
        let left = infer(left, common, columns, parameters)?;
        Ok((left, infer(right, common.or(Some(left)), columns, parameters)?))
    }
}

/// The type an operator gives, if it takes these.
pub(crate) fn result_kind(operator: &str, left: Kind, right: Kind) -> Result<Kind, SqlError> {
    Ok(match operator {
        "and" | "or" | "=" | "<>" | "<" | ">" | "<=" | ">=" => Kind::Bool,
        "||" => Kind::Text,
        _ if left == Kind::Float8 || right == Kind::Float8 => Kind::Float8,
        _ if left == Kind::Int8 || right == Kind::Int8 => Kind::Int8,
        // An untyped string next to a number becomes one, as in the real server.
        _ if left.is_integer() || right.is_integer() => Kind::Int4,
        _ => {
            let text = format!(
                "operator does not exist: {} {operator} {}",
                left.name(),
                right.name()
            );
            return Err(SqlError::new("42883", text));
        }
    })
}

/// What a function takes and gives; no result type means that of its first argument.
pub(crate) fn signature(name: &str, arguments: usize) -> Result<(&'static [Kind], Option<Kind>), SqlError> {
    let known: (&[Kind], Option<Kind>) = match (name, arguments) {
        ("pg_is_in_recovery", 0) => (&[], Some(Kind::Bool)),
        ("pg_backend_pid" | "inet_server_port", 0) => (&[], Some(Kind::Int4)),
        ("pg_current_wal_lsn" | "pg_current_wal_insert_lsn" | "pg_current_wal_flush_lsn", 0) => {
            (&[], Some(Kind::Text))
        }
        ("txid_current", 0) => (&[], Some(Kind::Int8)),
        ("txid_status", 1) => (&[Kind::Int8], Some(Kind::Text)),
        // Times are seconds of the epoch here.
        ("pg_postmaster_start_time" | "pg_stat_get_bgwriter_stat_reset_time", 0) => (&[], Some(Kind::Float8)),
        ("date_part", 2) => (&[Kind::Text, Kind::Float8], Some(Kind::Float8)),
        ("to_regproc", 1) => (&[Kind::Text], Some(Kind::Text)),
        ("pg_walfile_name", 1) => (&[Kind::Text], Some(Kind::Text)),
        ("rig_whoami" | "version" | "inet_server_addr", 0) => (&[], Some(Kind::Text)),
        ("current_database" | "current_catalog" | "current_user" | "session_user" | "user", 0) => {
            (&[], Some(Kind::Name))
        }
        ("current_setting", 1) => (&[Kind::Text], Some(Kind::Text)),
        ("current_setting", 2) => (&[Kind::Text, Kind::Bool], Some(Kind::Text)),
        ("pg_sleep", 1) => (&[Kind::Float8], Some(Kind::Void)),
        ("pg_terminate_backend" | "pg_cancel_backend", 1) => (&[Kind::Int4], Some(Kind::Bool)),
        ("count", 1) => (&[], Some(Kind::Int8)),
        ("sum", 1) => (&[Kind::Int8], Some(Kind::Int8)),
        ("min" | "max", 1) => (&[], None),
        _ => {
            return Err(SqlError::new(
                "42883",
                format!("function {name}() does not exist"),
            ));
        }
    };
    Ok(known)
}
