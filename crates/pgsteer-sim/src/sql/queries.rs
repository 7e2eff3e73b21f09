//! Parses the statements that read and write rows: SELECT, INSERT, UPDATE, DELETE and COPY.

use super::SqlError;
use super::cursor::Cursor;
use super::expression::Expression;
use super::statement::{Insert, Item, Select, Source, Statement};
use super::token::TokenKind;

pub(super) fn select(cursor: &mut Cursor<'_>) -> Result<Select, SqlError> {
    cursor.expect_word("select")?;
    let items = items(cursor)?;
    let from = if cursor.word("from") {
        Some(sources(cursor)?)
    } else {
        None
    };
    let filter = filter(cursor)?;
    if cursor.words(&["order", "by"]) {
        // Every source already comes in the order of its first column, which is the only one that is sorted by.
        let _ = cursor.expression()?;
        let _ = cursor.word("asc");
    }
    let limit = if cursor.word("limit") {
        Some(cursor.expression()?)
    } else {
        None
    };
    Ok(Select {
        items,
        from,
        filter,
        limit,
    })
}

fn items(cursor: &mut Cursor<'_>) -> Result<Vec<Item>, SqlError> {
    let mut items = Vec::new();
    loop {
        if cursor.symbol("*") {
            items.push(Item::Star);
        } else {
            let expression = cursor.expression()?;
            let name = if cursor.word("as") {
                cursor.name()?
            } else {
                column_name(&expression)
            };
            items.push(Item::Expression { expression, name });
        }
        if !cursor.symbol(",") {
            return Ok(items);
        }
    }
}

/// The name PostgreSQL gives a column that was given none.
fn column_name(expression: &Expression) -> String {
    match expression {
        Expression::Column(name) | Expression::Call { name, .. } => name.clone(),
        Expression::CountAll => "count".to_owned(),
        Expression::Literal(super::value::Value::Bool(_), _) => "bool".to_owned(),
        Expression::Cast(inner, kind) => match column_name(inner) {
            name if name == "?column?" => kind.short_name().to_owned(),
            name => name,
        },
        _ => "?column?".to_owned(),
    }
}

fn sources(cursor: &mut Cursor<'_>) -> Result<Source, SqlError> {
    let first = source(cursor)?;
    if !cursor.symbol(",") {
        return Ok(first);
    }
    Ok(Source::Both(Box::new(first), Box::new(source(cursor)?)))
}

fn source(cursor: &mut Cursor<'_>) -> Result<Source, SqlError> {
    let mut name = cursor.name()?;
    while cursor.symbol(".") {
        name = cursor.name()?;
    }
    let source = if cursor.symbol("(") {
        let arguments = cursor.arguments()?;
        match (name.as_str(), <[Expression; 2]>::try_from(arguments)) {
            ("generate_series", Ok([from, to])) => Source::Series { from, to },
            ("yb_servers", Err(arguments)) if arguments.is_empty() => Source::YbServers,
            ("pg_control_system", Err(arguments)) if arguments.is_empty() => Source::ControlSystem,
            ("pg_control_checkpoint", Err(arguments)) if arguments.is_empty() => Source::ControlCheckpoint,
            _ => {
                return Err(SqlError::new(
                    "42883",
                    format!("function {name}() does not exist"),
                ));
            }
        }
    } else if name == "ledger" {
        Source::Ledger
    } else {
        return Err(SqlError::new(
            "42P01",
            format!("relation \"{name}\" does not exist"),
        ));
    };
    let clause = ["where", "order", "limit"];
    let alias = cursor.word("as")
        || matches!(cursor.peek(), Some(TokenKind::Word(word)) if !clause.contains(&word.as_str()));
    if alias {
        cursor.name()?;
    }
    Ok(source)
}

fn filter(cursor: &mut Cursor<'_>) -> Result<Option<Expression>, SqlError> {
    if cursor.word("where") {
        cursor.expression().map(Some)
    } else {
        Ok(None)
    }
}

/// The table of an INSERT, UPDATE, DELETE or COPY.
fn ledger(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    let mut name = cursor.name()?;
    while cursor.symbol(".") {
        name = cursor.name()?;
    }
    if name == "ledger" {
        Ok(())
    } else {
        Err(SqlError::new(
            "42P01",
            format!("relation \"{name}\" does not exist"),
        ))
    }
}

/// A list of the ledger's columns in brackets; `true` stands for the id.
fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<bool>, SqlError> {
    if !cursor.symbol("(") {
        return Ok(vec![true, false]);
    }
    let mut columns = Vec::new();
    loop {
        columns.push(match cursor.name()?.as_str() {
            "id" => true,
            "note" => false,
            other => {
                let text = format!("column \"{other}\" of relation \"ledger\" does not exist");
                return Err(SqlError::new("42703", text));
            }
        });
        if cursor.symbol(")") {
            return Ok(columns);
        }
        cursor.expect_symbol(",")?;
    }
}

pub(super) fn insert(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    cursor.expect_word("into")?;
    ledger(cursor)?;
    let columns = columns(cursor)?;
    cursor.expect_word("values")?;
    let mut rows = Vec::new();
    loop {
        cursor.expect_symbol("(")?;
        let row = cursor.arguments()?;
        if row.len() > columns.len() {
            return Err(SqlError::new(
                "42601",
                "INSERT has more expressions than target columns",
            ));
        }
        rows.push(row);
        if !cursor.symbol(",") {
            break;
        }
    }
    let returning = if cursor.word("returning") {
        items(cursor)?
    } else {
        Vec::new()
    };
    Ok(Statement::Insert(Insert {
        columns,
        rows,
        returning,
    }))
}

pub(super) fn update(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    ledger(cursor)?;
    cursor.expect_word("set")?;
    cursor.expect_word("note")?;
    cursor.expect_symbol("=")?;
    let note = cursor.expression()?;
    Ok(Statement::Update {
        note,
        filter: filter(cursor)?,
    })
}

pub(super) fn delete(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    cursor.expect_word("from")?;
    ledger(cursor)?;
    Ok(Statement::Delete {
        filter: filter(cursor)?,
    })
}

pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    if cursor.symbol("(") {
        let select = select(cursor)?;
        cursor.expect_symbol(")")?;
        cursor.expect_word("to")?;
        cursor.expect_word("stdout")?;
        return Ok(Statement::CopyOut(select));
    }
    ledger(cursor)?;
    if columns(cursor)? != [true, false] {
        return Err(SqlError::new("0A000", "only (id, note) can be copied"));
    }
    if cursor.words(&["from", "stdin"]) {
        return Ok(Statement::CopyIn);
    }
    cursor.expect_word("to")?;
    cursor.expect_word("stdout")?;
    Ok(Statement::CopyOut(Select {
        items: vec![Item::Star],
        from: Some(Source::Ledger),
        filter: None,
        limit: None,
    }))
}
