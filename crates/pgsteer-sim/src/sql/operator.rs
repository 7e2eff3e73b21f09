//! What the operators compute: arithmetic with its range checks, comparisons, and logic with three truth values.

use std::cmp::Ordering;

use super::SqlError;
use super::expression::result_kind;
use super::value::{Kind, Value, in_range};

pub(super) fn overflow() -> SqlError {
    SqlError::new("22003", "bigint out of range")
}

pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
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

pub(super) fn binary(
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
