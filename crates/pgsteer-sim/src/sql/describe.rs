//! Works out, before anything runs, which columns a statement returns and which types its parameters have.

use super::SqlError;
use super::expression::{Expression, Parameters, infer};
use super::statement::{Item, Select, Source, Statement};
use super::value::{Column, Kind};

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

pub(super) fn describe_select(select: &Select, parameters: &mut Parameters) -> Result<Vec<Column>, SqlError> {
    if let Some(source) = &select.from {
        infer_source(source, parameters)?;
    }
    let columns = source_columns(select.from.as_ref());
    infer_filter(select.filter.as_ref(), &columns, parameters)?;
    if let Some(limit) = &select.limit {
        infer(limit, Some(Kind::Int8), &[], parameters)?;
    }
    item_columns(&select.items, &columns, parameters)
}

fn infer_source(source: &Source, parameters: &mut Parameters) -> Result<(), SqlError> {
    match source {
        Source::Series { from, to } => {
            infer(from, Some(Kind::Int4), &[], parameters)?;
            infer(to, Some(Kind::Int4), &[], parameters)?;
        }
        Source::Both(left, right) => {
            infer_source(left, parameters)?;
            infer_source(right, parameters)?;
        }
        _ => {}
    }
    Ok(())
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

pub(super) fn source_columns(source: Option<&Source>) -> Vec<Column> {
    let list: &[(&str, Kind)] = match source {
        Some(Source::Both(left, right)) => {
            return [source_columns(Some(left)), source_columns(Some(right))].concat();
        }
        Some(Source::ControlSystem) => &[("system_identifier", Kind::Int8)],
        Some(Source::ControlCheckpoint) => &[
            ("checkpoint_lsn", Kind::Text),
            ("redo_lsn", Kind::Text),
            ("checkpoint_time", Kind::Float8),
        ],
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

/// The ledger's columns.
pub(crate) fn ledger_columns() -> Vec<Column> {
    source_columns(Some(&Source::Ledger))
}
