//! Turns the tokens of one statement into a [`Statement`]. What it does not know is a syntax error (42601); tables
//! and functions it does not know are 42P01 and 42883, as the real server would say.

use super::SqlError;
use super::cursor::Cursor;
use super::queries::{copy, delete, insert, select, update};
use super::statement::Statement;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::describe::describe;
    use crate::sql::expression::Parameters;
    use crate::sql::token::statements;

    #[test]
    fn random_texts_are_statements_or_errors_and_never_panics() {
        let words = "select insert into ledger values update set note delete from where copy stdin to stdout begin \
            commit rollback savepoint release show all reset discard deallocate id count ( ) , ; * + - / :: = < > . || \
            $1 $2 1 2.5 'text' \"name\" null true is not and or as limit order by returning int4 text yb_servers \
            generate_series pg_sleep transaction read only local default é 99999999999999999999";
        let words: Vec<&str> = words.split_whitespace().collect();
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut parsed = 0;
        for _ in 0..20_000 {
            let text: Vec<_> = (0..random.usize(1..12))
                .map(|_| words[random.usize(..words.len())])
                .collect();
            for cut in statements(&text.join(" ")).unwrap_or_default() {
                if let Ok(statement) = parse(&cut) {
                    parsed += 1;
                    let _ = describe(&statement, &mut Parameters::default());
                }
            }
        }
        assert!(parsed > 10, "the words make no statements any more");
    }
}
