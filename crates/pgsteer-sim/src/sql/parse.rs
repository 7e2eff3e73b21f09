//! Turns the tokens of one statement into a [`Statement`]. What it does not know is a syntax error (42601); tables
//! and functions it does not know are 42P01 and 42883, as the real server would say.

use super::SqlError;
use super::expression::{Cursor, Expression};
use super::statement::{Insert, Item, Select, Source, Statement};
use super::token::{Cut, TokenKind};

/// Parses one statement.
pub(crate) fn parse(cut: &Cut<'_>) -> Result<Statement, SqlError> {
    let mut cursor = Cursor::new(cut.text, &cut.tokens);
    let statement = statement(&mut cursor)?;
    cursor.end()?;
    Ok(statement)
}

fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let Some(TokenKind::Word(first)) = cursor.peek() else {
        return Err(cursor.wrong());
    };
    let first = first.clone();
    match first.as_str() {
        "select" => select(cursor).map(Statement::Select),
        "insert" => insert(cursor),
        "update" => update(cursor),
        "delete" => delete(cursor),
        "copy" => copy(cursor),
        "set" => set(cursor),
        _ => short(cursor, &first),
    }
}

/// Statements of a few words.
fn short(cursor: &mut Cursor<'_>, first: &str) -> Result<Statement, SqlError> {
    let begin = cursor.wrong();
    cursor.next();
    Ok(match first {
        "begin" => {
            let _ = cursor.word("transaction") || cursor.word("work");
            Statement::Begin {
                read_only: modes(cursor)?,
            }
        }
        "start" => {
            cursor.expect_word("transaction")?;
            Statement::Begin {
                read_only: modes(cursor)?,
            }
        }
        "commit" | "end" => {
            let _ = cursor.word("transaction") || cursor.word("work");
            Statement::Commit
        }
        "rollback" | "abort" => {
            let _ = cursor.word("transaction") || cursor.word("work");
            if cursor.word("to") {
                let _ = cursor.word("savepoint");
                Statement::RollbackTo(cursor.name()?)
            } else {
                Statement::Rollback
            }
        }
        "savepoint" => Statement::Savepoint(cursor.name()?),
        "release" => {
            let _ = cursor.word("savepoint");
            Statement::Release(cursor.name()?)
        }
        "reset" => Statement::Reset(if cursor.word("all") {
            None
        } else {
            Some(setting_name(cursor)?)
        }),
        "show" => Statement::Show(setting_name(cursor)?),
        "discard" => {
            cursor.expect_word("all")?;
            Statement::DiscardAll
        }
        "deallocate" => {
            let _ = cursor.word("prepare");
            Statement::Deallocate(if cursor.word("all") {
                None
            } else {
                Some(cursor.name()?)
            })
        }
        "close" => {
            cursor.expect_word("all")?;
            Statement::Nothing("CLOSE CURSOR ALL")
        }
        "listen" => {
            cursor.name()?;
            Statement::Nothing("LISTEN")
        }
        "unlisten" => {
            if !cursor.symbol("*") {
                cursor.name()?;
            }
            Statement::Nothing("UNLISTEN")
        }
        _ => return Err(begin),
    })
}

/// Transaction modes; only the access mode matters.
fn modes(cursor: &mut Cursor<'_>) -> Result<Option<bool>, SqlError> {
    let mut read_only = None;
    while cursor.peek().is_some() {
        let _ = cursor.symbol(",");
        if cursor.words(&["read", "only"]) {
            read_only = Some(true);
        } else if cursor.words(&["read", "write"]) {
            read_only = Some(false);
        } else if cursor.words(&["isolation", "level"]) {
            let known: [&[&str]; 4] = [
                &["serializable"],
                &["repeatable", "read"],
                &["read", "committed"],
                &["read", "uncommitted"],
            ];
            if !known.into_iter().any(|level| cursor.words(level)) {
                return Err(cursor.wrong());
            }
        } else if !(cursor.word("deferrable") || cursor.words(&["not", "deferrable"])) {
            return Err(cursor.wrong());
        }
    }
    Ok(read_only)
}

fn setting_name(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    if cursor.words(&["transaction", "isolation", "level"]) {
        return Ok("transaction_isolation".to_owned());
    }
    if cursor.words(&["time", "zone"]) {
        return Ok("timezone".to_owned());
    }
    let mut name = cursor.name()?;
    while cursor.symbol(".") {
        name = format!("{name}.{}", cursor.name()?);
    }
    Ok(name)
}

fn set(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    if cursor.words(&["session", "characteristics", "as", "transaction"]) || cursor.word("transaction") {
        return Ok(Statement::SetTransaction {
            read_only: modes(cursor)?,
        });
    }
    let local = cursor.word("local");
    if !local {
        let _ = cursor.word("session");
    }
    let name = setting_name(cursor)?;
    if name != "timezone" || !matches!(cursor.peek(), Some(TokenKind::Text(_))) {
        let assigned = cursor.symbol("=") || cursor.word("to");
        if !assigned {
            return Err(cursor.wrong());
        }
    }
    if cursor.word("default") {
        return Ok(Statement::Set {
            name,
            value: None,
            local,
        });
    }
    let mut parts = Vec::new();
    loop {
        let sign = if cursor.symbol("-") { "-" } else { "" };
        match cursor.next() {
            Some(
                TokenKind::Word(part)
                | TokenKind::Quoted(part)
                | TokenKind::Text(part)
                | TokenKind::Number(part),
            ) => parts.push(format!("{sign}{part}")),
            _ => return Err(SqlError::syntax("=")),
        }
        if !cursor.symbol(",") {
            break;
        }
    }
    Ok(Statement::Set {
        name,
        value: Some(parts.join(", ")),
        local,
    })
}

fn select(cursor: &mut Cursor<'_>) -> Result<Select, SqlError> {
    cursor.expect_word("select")?;
    let items = items(cursor)?;
    let from = if cursor.word("from") {
        Some(source(cursor)?)
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

fn insert(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
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

fn update(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
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

fn delete(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.next();
    cursor.expect_word("from")?;
    ledger(cursor)?;
    Ok(Statement::Delete {
        filter: filter(cursor)?,
    })
}

fn copy(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
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
