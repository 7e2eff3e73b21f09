//! Computes expressions and SELECTs. What depends on the session or the server is asked of [`Surroundings`]; nothing
//! here waits, so `pg_sleep` has been slept by the time its value is asked for.

use std::cmp::Ordering;

use super::SqlError;
use super::describe::{describe_select, ledger_columns, source_columns};
use super::expression::{Expression, Parameters};
use super::operator::{binary, compare, overflow};
use super::statement::{Item, Select, Source};
use super::value::{Column, Kind, Value, in_range};

/// What a statement needs from the session that runs it.
pub(crate) trait Surroundings {
    /// A function's value.
    fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Value, SqlError>;
    /// The rows of `yb_servers()`.
    fn yb_servers(&mut self) -> Result<Vec<Vec<Value>>, SqlError>;
    /// The row of `pg_control_system()`.
    fn control_system(&mut self) -> Vec<Value>;
    /// The row of `pg_control_checkpoint()`.
    fn control_checkpoint(&mut self) -> Vec<Value>;
    /// The ledger as this transaction sees it.
    fn ledger(&mut self) -> Vec<Vec<Value>>;
}

/// A result: its columns and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// The parameters of one execution: values and their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) values: Vec<Value>,
    pub(crate) kinds: Vec<Kind>,
}

/// More rows than this are refused, since they are all held at once.
const MOST_ROWS: i64 = 1_000_000;

/// Runs a SELECT.
pub(crate) fn select(
    select: &Select,
    arguments: &Arguments,
    around: &mut dyn Surroundings,
) -> Result<Table, SqlError> {
    let mut parameters = Parameters(arguments.kinds.iter().copied().map(Some).collect());
    let result = describe_select(select, &mut parameters)?;
    let columns = source_columns(select.from.as_ref());
    let mut rows = source_rows(select.from.as_ref(), arguments, around)?;
    if let Some(filter) = &select.filter {
        rows = matching(filter, rows, &columns, arguments, around)?;
    }
    let aggregates = select.items.iter().any(|item| match item {
        Item::Star => false,
        Item::Expression { expression, .. } => is_aggregate(expression),
    });
    let mut table = Table {
        columns: result,
        rows: Vec::new(),
    };
    if aggregates {
        let scope = Scope {
            columns: &columns,
            row: &[],
            arguments,
            group: Some(&rows),
        };
        table.rows.push(project(&select.items, &scope, around)?);
    } else {
        for row in &rows {
            let scope = Scope {
                columns: &columns,
                row,
                arguments,
                group: None,
            };
            table.rows.push(project(&select.items, &scope, around)?);
        }
    }
    if let Some(limit) = &select.limit {
        if let Value::Int(limit) = scalar(limit, arguments, around)?.0.cast(Kind::Int8)? {
            let limit =
                usize::try_from(limit).map_err(|_| SqlError::new("2201W", "LIMIT must not be negative"))?;
            table.rows.truncate(limit);
        }
    }
    Ok(table)
}

fn source_rows(
    source: Option<&Source>,
    arguments: &Arguments,
    around: &mut dyn Surroundings,
) -> Result<Vec<Vec<Value>>, SqlError> {
    match source {
        None => Ok(vec![Vec::new()]),
        Some(Source::YbServers) => around.yb_servers(),
        Some(Source::Ledger) => Ok(around.ledger()),
        Some(Source::ControlSystem) => Ok(vec![around.control_system()]),
        Some(Source::ControlCheckpoint) => Ok(vec![around.control_checkpoint()]),
        Some(Source::Both(left, right)) => {
            let lefts = source_rows(Some(left), arguments, around)?;
            let rights = source_rows(Some(right), arguments, around)?;
            if lefts.len().saturating_mul(rights.len()) > MOST_ROWS as usize {
                return Err(SqlError::new("54000", "the product of the tables is too long"));
            }
            let pairs = lefts
                .iter()
                .flat_map(|left| rights.iter().map(move |right| [&left[..], right].concat()));
            Ok(pairs.collect())
        }
        Some(Source::Series { from, to }) => {
            let from = scalar(from, arguments, around)?.0.cast(Kind::Int4)?;
            let to = scalar(to, arguments, around)?.0.cast(Kind::Int4)?;
            let (Value::Int(from), Value::Int(to)) = (from, to) else {
                return Ok(Vec::new());
            };
            if to - from >= MOST_ROWS {
                return Err(SqlError::new("54000", "generate_series is too long"));
            }
            Ok((from..=to).map(|number| vec![Value::Int(number)]).collect())
        }
    }
}

/// The rows for which the filter is true.
pub(crate) fn matching(
    filter: &Expression,
    rows: Vec<Vec<Value>>,
    columns: &[Column],
    arguments: &Arguments,
    around: &mut dyn Surroundings,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let mut kept = Vec::new();
    for row in rows {
        let scope = Scope {
            columns,
            row: &row,
            arguments,
            group: None,
        };
        if evaluate(filter, &scope, around)?.0 == Value::Bool(true) {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// The ledger's rows for which the filter is true.
pub(crate) fn ledger_rows(
    filter: Option<&Expression>,
    arguments: &Arguments,
    around: &mut dyn Surroundings,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let rows = around.ledger();
    match filter {
        Some(filter) => matching(filter, rows, &ledger_columns(), arguments, around),
        None => Ok(rows),
    }
}

/// One row of results.
pub(crate) fn project(
    items: &[Item],
    scope: &Scope<'_>,
    around: &mut dyn Surroundings,
) -> Result<Vec<Value>, SqlError> {
    let mut row = Vec::new();
    for item in items {
        match item {
            Item::Star => row.extend(scope.row.iter().cloned()),
            Item::Expression { expression, .. } => row.push(evaluate(expression, scope, around)?.0),
        }
    }
    Ok(row)
}

fn is_aggregate(expression: &Expression) -> bool {
    match expression {
        Expression::CountAll => true,
        Expression::Call { name, .. } => matches!(name.as_str(), "count" | "sum" | "min" | "max"),
        Expression::Cast(inner, _) | Expression::Negative(inner) | Expression::Not(inner) => {
            is_aggregate(inner)
        }
        Expression::IsNull { of, .. } => is_aggregate(of),
        Expression::Binary(_, left, right) => is_aggregate(left) || is_aggregate(right),
        Expression::Case(parts) => parts.iter().any(is_aggregate),
        _ => false,
    }
}

/// What an expression can refer to.
pub(crate) struct Scope<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) row: &'a [Value],
    pub(crate) arguments: &'a Arguments,
    /// All rows, where aggregates are computed.
    pub(crate) group: Option<&'a [Vec<Value>]>,
}

/// An expression that refers to no row.
pub(crate) fn scalar(
    expression: &Expression,
    arguments: &Arguments,
    around: &mut dyn Surroundings,
) -> Result<(Value, Kind), SqlError> {
    evaluate(
        expression,
        &Scope {
            columns: &[],
            row: &[],
            arguments,
            group: None,
        },
        around,
    )
}

pub(crate) fn evaluate(
    expression: &Expression,
    scope: &Scope<'_>,
    around: &mut dyn Surroundings,
) -> Result<(Value, Kind), SqlError> {
    match expression {
        Expression::Literal(value, kind) => Ok((value.clone(), *kind)),
        Expression::Parameter(number) => {
            let at = usize::from(*number).saturating_sub(1);
            match (scope.arguments.values.get(at), scope.arguments.kinds.get(at)) {
                (Some(value), Some(kind)) => Ok((value.clone(), *kind)),
                _ => Err(SqlError::new("42P02", format!("there is no parameter ${number}"))),
            }
        }
        Expression::Column(name) => {
            let at = scope.columns.iter().position(|column| column.name == *name);
            match at.and_then(|at| Some((scope.row.get(at)?.clone(), scope.columns.get(at)?.kind))) {
                Some(found) => Ok(found),
                None => Err(SqlError::new(
                    "42703",
                    format!("column \"{name}\" does not exist"),
                )),
            }
        }
        Expression::Cast(inner, kind) => Ok((evaluate(inner, scope, around)?.0.cast(*kind)?, *kind)),
        Expression::Negative(inner) => match evaluate(inner, scope, around)? {
            (Value::Int(number), kind) => {
                let negated = number.checked_neg().ok_or_else(overflow)?;
                Ok((in_range(negated, kind)?, kind))
            }
            (Value::Float(number), kind) => Ok((Value::Float(-number), kind)),
            (Value::Null, kind) => Ok((Value::Null, kind)),
            (_, kind) => Err(SqlError::new(
                "42883",
                format!("operator does not exist: - {}", kind.name()),
            )),
        },
        Expression::Not(inner) => match evaluate(inner, scope, around)?.0.cast(Kind::Bool)? {
            Value::Bool(flag) => Ok((Value::Bool(!flag), Kind::Bool)),
            other => Ok((other, Kind::Bool)),
        },
        Expression::IsNull { of, negated } => {
            let null = evaluate(of, scope, around)?.0 == Value::Null;
            Ok((Value::Bool(null != *negated), Kind::Bool))
        }
        Expression::CountAll => {
            let count = scope.group.map_or(0, <[_]>::len);
            Ok((Value::Int(count as i64), Kind::Int8))
        }
        Expression::Case(parts) => {
            let [condition, one, other] = &**parts;
            let so = evaluate(condition, scope, around)?.0.cast(Kind::Bool)?;
            evaluate(if so == Value::Bool(true) { one } else { other }, scope, around)
        }
        Expression::Binary(operator, left, right) => {
            let left = evaluate(left, scope, around)?;
            let right = evaluate(right, scope, around)?;
            binary(operator, left, right)
        }
        Expression::Call { name, arguments } => {
            if let (Some(group), [argument], true) = (scope.group, &arguments[..], is_aggregate(expression)) {
                return aggregate(name, argument, group, scope, around);
            }
            let mut values = Vec::new();
            for argument in arguments {
                values.push(evaluate(argument, scope, around)?.0);
            }
            let (_, kind) = super::expression::signature(name, arguments.len())?;
            Ok((around.call(name, &values)?, kind.unwrap_or(Kind::Text)))
        }
    }
}

fn aggregate(
    name: &str,
    argument: &Expression,
    group: &[Vec<Value>],
    scope: &Scope<'_>,
    around: &mut dyn Surroundings,
) -> Result<(Value, Kind), SqlError> {
    let mut kind = Kind::Int8;
    let mut values = Vec::new();
    for row in group {
        let scope = Scope {
            columns: scope.columns,
            row,
            arguments: scope.arguments,
            group: None,
        };
        let (value, found) = evaluate(argument, &scope, around)?;
        kind = found;
        if value != Value::Null {
            values.push(value);
        }
    }
    match name {
        "count" => Ok((Value::Int(values.len() as i64), Kind::Int8)),
        "sum" => {
            let mut total = None;
            for value in values {
                if let Value::Int(number) = value.cast(Kind::Int8)? {
                    total = Some(total.unwrap_or(0i64).checked_add(number).ok_or_else(overflow)?);
                }
            }
            Ok((total.map_or(Value::Null, Value::Int), Kind::Int8))
        }
        _ => {
            let wanted = if name == "min" {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            let best = values.into_iter().reduce(|best, next| {
                if compare(&next, &best) == Some(wanted) {
                    next
                } else {
                    best
                }
            });
            Ok((best.unwrap_or(Value::Null), kind))
        }
    }
}
