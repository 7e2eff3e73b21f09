//! Computes expressions and SELECTs. What depends on the session or the server is asked of [`Surroundings`]; nothing
//! here waits, so `pg_sleep` has been slept by the time its value is asked for.

use std::cmp::Ordering;

use super::SqlError;
use super::expression::{Expression, Parameters, infer, result_kind};
use super::statement::{Item, Select, Source, Statement};
use super::value::{Column, Kind, Value, in_range};

/// What a statement needs from the session that runs it.
pub(crate) trait Surroundings {
    /// A function's value.
    fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Value, SqlError>;
    /// The rows of `yb_servers()`.
    fn yb_servers(&mut self) -> Result<Vec<Vec<Value>>, SqlError>;
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

/// The columns of what a statement returns, `None` if it returns no rows; notes parameter types on the way.
pub(crate) fn describe(
    statement: &Statement,
    parameters: &mut Parameters,
) -> Result<Option<Vec<Column>>, SqlError> {
    match statement {
        Statement::Select(select) => describe_select(select, parameters).map(Some),
        Statement::CopyOut(select) => describe_select(select, parameters).map(|_| None),
        Statement::Show(name) => Ok(Some(vec![Column::new(name, Kind::Text)])),
        Statement::Insert(insert) => {
            for row in &insert.rows {
                for (expression, id) in row.iter().zip(&insert.columns) {
                    let kind = if *id { Kind::Int8 } else { Kind::Text };
                    infer(expression, Some(kind), &[], parameters)?;
                }
            }
            if insert.returning.is_empty() {
                return Ok(None);
            }
            item_columns(
                &insert.returning,
                &source_columns(Some(&Source::Ledger)),
                parameters,
            )
            .map(Some)
        }
        Statement::Update { note, filter } => {
            let columns = source_columns(Some(&Source::Ledger));
            infer(note, Some(Kind::Text), &columns, parameters)?;
            infer_filter(filter.as_ref(), &columns, parameters)?;
            Ok(None)
        }
        Statement::Delete { filter } => {
            infer_filter(
                filter.as_ref(),
                &source_columns(Some(&Source::Ledger)),
                parameters,
            )?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn describe_select(select: &Select, parameters: &mut Parameters) -> Result<Vec<Column>, SqlError> {
    if let Some(Source::Series { from, to }) = &select.from {
        infer(from, Some(Kind::Int4), &[], parameters)?;
        infer(to, Some(Kind::Int4), &[], parameters)?;
    }
    let columns = source_columns(select.from.as_ref());
    infer_filter(select.filter.as_ref(), &columns, parameters)?;
    if let Some(limit) = &select.limit {
        infer(limit, Some(Kind::Int8), &[], parameters)?;
    }
    item_columns(&select.items, &columns, parameters)
}

fn infer_filter(
    filter: Option<&Expression>,
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<(), SqlError> {
    match filter {
        Some(filter) => match infer(filter, Some(Kind::Bool), columns, parameters)? {
            Kind::Bool => Ok(()),
            other => {
                let text = format!(
                    "argument of WHERE must be type boolean, not type {}",
                    other.name()
                );
                Err(SqlError::new("42804", text))
            }
        },
        None => Ok(()),
    }
}

fn item_columns(
    items: &[Item],
    columns: &[Column],
    parameters: &mut Parameters,
) -> Result<Vec<Column>, SqlError> {
    let mut result = Vec::new();
    for item in items {
        match item {
            Item::Star if columns.is_empty() => {
                return Err(SqlError::new(
                    "42601",
                    "SELECT * with no tables specified is not valid",
                ));
            }
            Item::Star => result.extend(columns.iter().cloned()),
            Item::Expression { expression, name } => {
                result.push(Column::new(name, infer(expression, None, columns, parameters)?));
            }
        }
    }
    Ok(result)
}

fn source_columns(source: Option<&Source>) -> Vec<Column> {
    let list: &[(&str, Kind)] = match source {
        None => &[],
        Some(Source::Series { .. }) => &[("generate_series", Kind::Int4)],
        Some(Source::Ledger) => &[("id", Kind::Int8), ("note", Kind::Text)],
        Some(Source::YbServers) => &[
            ("host", Kind::Text),
            ("port", Kind::Int8),
            ("num_connections", Kind::Int8),
            ("node_type", Kind::Text),
            ("cloud", Kind::Text),
            ("region", Kind::Text),
            ("zone", Kind::Text),
            ("public_ip", Kind::Text),
            ("uuid", Kind::Text),
        ],
    };
    list.iter().map(|(name, kind)| Column::new(name, *kind)).collect()
}

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

/// The ledger's columns.
pub(crate) fn ledger_columns() -> Vec<Column> {
    source_columns(Some(&Source::Ledger))
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

fn overflow() -> SqlError {
    SqlError::new("22003", "bigint out of range")
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Float(right)) => (*left as f64).partial_cmp(right),
        (Value::Float(left), Value::Int(right)) => left.partial_cmp(&(*right as f64)),
        _ => None,
    }
}

fn binary(
    operator: &str,
    (mut left, left_kind): (Value, Kind),
    (mut right, right_kind): (Value, Kind),
) -> Result<(Value, Kind), SqlError> {
    let kind = result_kind(operator, left_kind, right_kind)?;
    if operator == "and" || operator == "or" {
        return logic(operator, left.cast(Kind::Bool)?, right.cast(Kind::Bool)?);
    }
    if left == Value::Null || right == Value::Null {
        return Ok((Value::Null, kind));
    }
    // A string next to a value of another type is read as that type.
    match (&left, &right) {
        _ if operator == "||" => {
            left = left.cast(Kind::Text)?;
            right = right.cast(Kind::Text)?;
        }
        (Value::Text(_), Value::Text(_)) => {}
        (Value::Text(_), _) => left = left.cast(right_kind)?,
        (_, Value::Text(_)) => right = right.cast(left_kind)?,
        _ => {}
    }
    let value = match (operator, &left, &right) {
        ("||", Value::Text(left), Value::Text(right)) => Value::Text(format!("{left}{right}")),
        ("+" | "-" | "*" | "/" | "%", Value::Int(left), Value::Int(right)) => {
            in_range(arithmetic(operator, *left, *right)?, kind)?
        }
        ("+" | "-" | "*" | "/" | "%", left, right) => {
            let (Value::Float(left), Value::Float(right)) = (
                left.clone().cast(Kind::Float8)?,
                right.clone().cast(Kind::Float8)?,
            ) else {
                return Ok((Value::Null, kind));
            };
            match operator {
                "+" => Value::Float(left + right),
                "-" => Value::Float(left - right),
                "*" => Value::Float(left * right),
                _ if right == 0.0 => return Err(division_by_zero()),
                "/" => Value::Float(left / right),
                _ => Value::Float(left % right),
            }
        }
        _ => {
            let order = compare(&left, &right);
            Value::Bool(match operator {
                "=" => order == Some(Ordering::Equal),
                "<>" => order != Some(Ordering::Equal),
                "<" => order == Some(Ordering::Less),
                ">" => order == Some(Ordering::Greater),
                "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            })
        }
    };
    Ok((value, kind))
}

/// AND and OR with three truth values.
fn logic(operator: &str, left: Value, right: Value) -> Result<(Value, Kind), SqlError> {
    let decides = Value::Bool(operator == "or");
    let value = if left == decides || right == decides {
        decides
    } else if left == Value::Null || right == Value::Null {
        Value::Null
    } else {
        Value::Bool(operator != "or")
    };
    Ok((value, Kind::Bool))
}

fn arithmetic(operator: &str, left: i64, right: i64) -> Result<i64, SqlError> {
    if right == 0 && (operator == "/" || operator == "%") {
        return Err(division_by_zero());
    }
    match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        _ => left.checked_rem(right),
    }
    .ok_or_else(overflow)
}

fn division_by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}
