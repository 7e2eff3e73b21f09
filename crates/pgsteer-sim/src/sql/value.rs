//! Values, their types, and how both look on the wire: text and binary, in and out. Numbers are range-checked; a
//! parameter that does not fit its type is an SQL error.

use bytes::{Bytes, BytesMut};
use postgres_protocol::types;

use super::SqlError;

/// The types this server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Text,
    Varchar,
    Name,
    Oid,
    Void,
}

impl Kind {
    pub(crate) fn oid(self) -> u32 {
        match self {
            Kind::Bool => 16,
            Kind::Name => 19,
            Kind::Int8 => 20,
            Kind::Int2 => 21,
            Kind::Int4 => 23,
            Kind::Text => 25,
            Kind::Oid => 26,
            Kind::Float8 => 701,
            Kind::Varchar => 1043,
            Kind::Void => 2278,
        }
    }

    pub(crate) fn from_oid(oid: u32) -> Option<Self> {
        let known = [
            Kind::Bool,
            Kind::Name,
            Kind::Int8,
            Kind::Int2,
            Kind::Int4,
            Kind::Text,
            Kind::Oid,
            Kind::Float8,
            Kind::Varchar,
        ];
        known.into_iter().find(|kind| kind.oid() == oid)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bool" | "boolean" => Kind::Bool,
            "int2" | "smallint" => Kind::Int2,
            "int" | "int4" | "integer" => Kind::Int4,
            "int8" | "bigint" => Kind::Int8,
            "float8" | "double" => Kind::Float8,
            "text" => Kind::Text,
            "varchar" => Kind::Varchar,
            "name" => Kind::Name,
            "oid" => Kind::Oid,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Bool => "boolean",
            Kind::Int2 => "smallint",
            Kind::Int4 => "integer",
            Kind::Int8 => "bigint",
            Kind::Float8 => "double precision",
            Kind::Text => "text",
            Kind::Varchar => "character varying",
            Kind::Name => "name",
            Kind::Oid => "oid",
            Kind::Void => "void",
        }
    }

    /// The internal name, which an unnamed column with a cast is called by.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int2 => "int2",
            Kind::Int4 => "int4",
            Kind::Int8 => "int8",
            Kind::Float8 => "float8",
            Kind::Varchar => "varchar",
            other => other.name(),
        }
    }

    /// Bytes of a value, as a row description says it: negative for variable width.
    pub(crate) fn size(self) -> i16 {
        match self {
            Kind::Bool => 1,
            Kind::Int2 => 2,
            Kind::Int4 | Kind::Oid | Kind::Void => 4,
            Kind::Int8 | Kind::Float8 => 8,
            Kind::Name => 64,
            Kind::Text | Kind::Varchar => -1,
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Oid)
    }

    fn range(self) -> Option<std::ops::RangeInclusive<i64>> {
        Some(match self {
            Kind::Int2 => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Kind::Int4 => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Kind::Oid => 0..=i64::from(u32::MAX),
            Kind::Int8 => i64::MIN..=i64::MAX,
            _ => return None,
        })
    }
}

/// One value. Which of the integer types it has is the column's or expression's matter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Column {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Column {
            name: name.to_owned(),
            kind,
        }
    }
}

impl Value {
    /// The text PostgreSQL shows for it; `None` for NULL.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(true) => "t".to_owned(),
            Value::Bool(false) => "f".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        })
    }

    /// Its bytes in a data row; `None` for NULL. `format` 1 is binary.
    pub(crate) fn encode(&self, kind: Kind, format: i16) -> Option<Bytes> {
        if format != 1 {
            return self.to_text().map(Bytes::from);
        }
        let mut out = BytesMut::new();
        match self {
            Value::Null => return None,
            Value::Bool(value) => types::bool_to_sql(*value, &mut out),
            Value::Float(number) => types::float8_to_sql(*number, &mut out),
            Value::Text(text) => types::text_to_sql(text, &mut out),
            Value::Int(number) => match kind {
                Kind::Int2 => types::int2_to_sql(*number as i16, &mut out),
                Kind::Int4 => types::int4_to_sql(*number as i32, &mut out),
                Kind::Oid => types::oid_to_sql(*number as u32, &mut out),
                Kind::Float8 => types::float8_to_sql(*number as f64, &mut out),
                Kind::Text | Kind::Varchar | Kind::Name => types::text_to_sql(&number.to_string(), &mut out),
                _ => types::int8_to_sql(*number, &mut out),
            },
        }
        Some(out.freeze())
    }

    /// A parameter's value from its bytes.
    pub(crate) fn decode(bytes: Option<&Bytes>, kind: Kind, format: i16) -> Result<Self, SqlError> {
        let Some(bytes) = bytes else {
            return Ok(Value::Null);
        };
        if format != 1 {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
            return Value::Text(text.to_owned()).cast(kind);
        }
        let value = match kind {
            Kind::Bool => types::bool_from_sql(bytes).map(Value::Bool),
            Kind::Int2 => types::int2_from_sql(bytes).map(|number| Value::Int(number.into())),
            Kind::Int4 => types::int4_from_sql(bytes).map(|number| Value::Int(number.into())),
            Kind::Int8 => types::int8_from_sql(bytes).map(Value::Int),
            Kind::Oid => types::oid_from_sql(bytes).map(|number| Value::Int(number.into())),
            Kind::Float8 => types::float8_from_sql(bytes).map(Value::Float),
            Kind::Text | Kind::Varchar | Kind::Name => {
                types::text_from_sql(bytes).map(|text| Value::Text(text.to_owned()))
            }
            Kind::Void => Ok(Value::Null),
        };
        value.map_err(|_| SqlError::new("22P03", "incorrect binary data format in bind parameter"))
    }

    /// Converts to another type as `::` does.
    pub(crate) fn cast(self, kind: Kind) -> Result<Self, SqlError> {
        let wrong = |text: &str| {
            SqlError::new(
                "22P02",
                format!("invalid input syntax for type {}: \"{text}\"", kind.name()),
            )
        };
        match (self, kind) {
            (Value::Null, _) => Ok(Value::Null),
            (value, Kind::Void) => Ok(value),
            (value, Kind::Text | Kind::Varchar | Kind::Name) => {
                let text = match value {
                    Value::Bool(flag) => flag.to_string(),
                    other => other.to_text().unwrap_or_default(),
                };
                Ok(Value::Text(text))
            }
            (Value::Text(text), Kind::Bool) => match text.trim().to_ascii_lowercase().as_str() {
                "t" | "true" | "yes" | "on" | "1" => Ok(Value::Bool(true)),
                "f" | "false" | "no" | "off" | "0" => Ok(Value::Bool(false)),
                _ => Err(wrong(&text)),
            },
            (Value::Text(text), Kind::Float8) => {
                text.trim().parse().map(Value::Float).map_err(|_| wrong(&text))
            }
            (Value::Text(text), _) => match text.trim().parse() {
                Ok(number) => in_range(number, kind),
                Err(_) => Err(wrong(&text)),
            },
            (Value::Int(number), Kind::Float8) => Ok(Value::Float(number as f64)),
            (Value::Int(number), Kind::Bool) => Ok(Value::Bool(number != 0)),
            (Value::Int(number), _) => in_range(number, kind),
            (Value::Float(number), Kind::Float8) => Ok(Value::Float(number)),
            (Value::Float(number), Kind::Bool) => Ok(Value::Bool(number != 0.0)),
            (Value::Float(number), _) => in_range(number.round() as i64, kind),
            (Value::Bool(flag), Kind::Bool) => Ok(Value::Bool(flag)),
            (Value::Bool(flag), Kind::Float8) => Ok(Value::Float(f64::from(u8::from(flag)))),
            (Value::Bool(flag), _) => Ok(Value::Int(flag.into())),
        }
    }
}

/// The number, if it fits its type.
pub(crate) fn in_range(number: i64, kind: Kind) -> Result<Value, SqlError> {
    match kind.range() {
        Some(range) if !range.contains(&number) => {
            Err(SqlError::new("22003", format!("{} out of range", kind.name())))
        }
        _ => Ok(Value::Int(number)),
    }
}
