//! Runs one statement: scripted effects around it, what it does, and what it answers. Simple and extended queries
//! both come through here.

use tokio::time::Instant;

use crate::sql::SqlError;
use crate::sql::describe::{describe, ledger_columns};
use crate::sql::eval::{self, Arguments, Scope, Table};
use crate::sql::expression::Expression;
use crate::sql::statement::{Insert, Item, Select, Statement};
use crate::sql::value::{Kind, Value};

use super::{Failure, Session};

/// What a statement answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// Rows, and the tag without the number of rows where that is counted by who sends them.
    Rows {
        table: Table,
        tag: Tag,
    },
    Done(String),
    CopyIn,
    CopyOut(Table),
}

/// A command tag.
#[derive(Clone, Debug)]
pub(super) enum Tag {
    /// This word and the number of rows that were sent.
    Counted(&'static str),
    Whole(String),
}

impl Tag {
    pub(super) fn text(&self, sent: usize) -> String {
        match self {
            Tag::Counted(word) => format!("{word} {sent}"),
            Tag::Whole(text) => text.clone(),
        }
    }
}

impl Session<'_> {
    /// Runs a statement, with what is scripted for it.
    pub(super) async fn run(
        &mut self,
        sql: &str,
        statement: &Statement,
        arguments: &Arguments,
    ) -> Result<Answer, Failure> {
        if self.transaction.has_failed() && !statement.ends_failure() {
            let text = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new("25P02", text).into());
        }
        self.begin_implicit();
        self.deadline = self
            .settings
            .time("statement_timeout")
            .map(|timeout| Instant::now() + timeout);
        self.cluster.note_session(self.id, |session| {
            session.running = Some(sql.to_owned());
            session.asked_for_servers |= statement.is_discovery();
        });
        self.cluster.with(self.server, |state| {
            state.counts.statements += 1;
            state.counts.discovery_queries += u64::from(statement.is_discovery());
        });
        self.check_orders(true)?;
        let effects = self.cluster.effects(self.server, sql);
        for effect in &effects {
            self.before(effect).await?;
        }
        let mut answer = self.execute(statement, arguments).await?;
        for effect in effects {
            answer = self.after(effect, answer).await?;
        }
        self.check_orders(false)?;
        Ok(answer)
    }

    async fn execute(&mut self, statement: &Statement, arguments: &Arguments) -> Result<Answer, Failure> {
        if let Some(command) = statement.writes() {
            if self.is_read_only() {
                let text = format!("cannot execute {command} in a read-only transaction");
                return Err(SqlError::new("25006", text).into());
            }
            self.transaction_id().log();
        }
        let tag = match statement {
            Statement::Select(select) => {
                self.sleep_for(select, arguments).await?;
                let table = eval::select(select, arguments, self)?;
                return Ok(Answer::Rows {
                    table,
                    tag: Tag::Counted("SELECT"),
                });
            }
            Statement::CopyOut(select) => return Ok(Answer::CopyOut(eval::select(select, arguments, self)?)),
            Statement::CopyIn => return Ok(Answer::CopyIn),
            Statement::Show(name) => {
                let value = self.show(name)?;
                let column = crate::sql::value::Column::new(name, Kind::Text);
                let table = Table {
                    columns: vec![column],
                    rows: vec![vec![Value::Text(value)]],
                };
                return Ok(Answer::Rows {
                    table,
                    tag: Tag::Whole("SHOW".to_owned()),
                });
            }
            Statement::Insert(insert) => return self.insert(insert, arguments),
            Statement::Update { note, filter } => self.update(note, filter.as_ref(), arguments)?,
            Statement::Delete { filter } => {
                let rows = eval::ledger_rows(filter.as_ref(), arguments, self)?;
                rows.iter()
                    .filter_map(|row| id_of(row))
                    .for_each(|id| self.transaction.changes.delete(id));
                format!("DELETE {}", rows.len())
            }
            Statement::Begin { read_only } => self.begin(*read_only)?,
            Statement::Commit => self.commit_statement()?,
            Statement::Rollback => self.rollback_statement(),
            Statement::Savepoint(name) => self.savepoint(name)?,
            Statement::RollbackTo(name) => self.rollback_to(name)?,
            Statement::Release(name) => self.release(name)?,
            Statement::Set { name, value, local } => self.set(name, value.as_deref(), *local)?,
            Statement::SetTransaction { read_only } => {
                self.set_read_only(*read_only)?;
                "SET".to_owned()
            }
            Statement::Reset(Some(name)) => {
                self.set(name, None, false)?;
                "RESET".to_owned()
            }
            Statement::Reset(None) => {
                self.reset_all_settings();
                "RESET".to_owned()
            }
            Statement::DiscardAll => {
                if self.transaction.is_open() {
                    let text = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new("25001", text).into());
                }
                self.prepared.clear();
                self.reset_all_settings();
                "DISCARD ALL".to_owned()
            }
            Statement::Deallocate(Some(name)) => {
                if self.prepared.remove(name).is_none() {
                    let text = format!("prepared statement \"{name}\" does not exist");
                    return Err(SqlError::new("26000", text).into());
                }
                "DEALLOCATE".to_owned()
            }
            Statement::Deallocate(None) => {
                self.prepared.clear();
                "DEALLOCATE ALL".to_owned()
            }
            Statement::Nothing(tag) => (*tag).to_owned(),
        };
        Ok(Answer::Done(tag))
    }

    /// Sleeps for the `pg_sleep` calls among the things selected.
    async fn sleep_for(&mut self, select: &Select, arguments: &Arguments) -> Result<(), Failure> {
        for item in &select.items {
            let Item::Expression {
                expression:
                    Expression::Call {
                        name,
                        arguments: given,
                    },
                ..
            } = item
            else {
                continue;
            };
            if let ("pg_sleep", [time]) = (name.as_str(), &given[..]) {
                let time = eval::scalar(time, arguments, self)?.0.cast(Kind::Float8)?;
                let Value::Float(seconds) = time else { continue };
                // More than a year is as good as for ever, and cannot overflow the clock.
                let time = std::time::Duration::from_secs_f64(seconds.clamp(0.0, 31_536_000.0));
                self.pause(Some(Instant::now() + time), true).await?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, insert: &Insert, arguments: &Arguments) -> Result<Answer, Failure> {
        let mut rows = Vec::new();
        for given in &insert.rows {
            let mut row = vec![Value::Null, Value::Null];
            for (expression, is_id) in given.iter().zip(&insert.columns) {
                let (at, kind) = if *is_id { (0, Kind::Int8) } else { (1, Kind::Text) };
                row[at] = eval::scalar(expression, arguments, self)?.0.cast(kind)?;
            }
            self.insert_row(&row)?;
            rows.push(row);
        }
        let tag = Tag::Whole(format!("INSERT 0 {}", rows.len()));
        if insert.returning.is_empty() {
            return Ok(Answer::Done(tag.text(0)));
        }
        let columns = ledger_columns();
        let mut table = Table::default();
        let mut parameters = crate::sql::expression::Parameters::default();
        table.columns = describe(&Statement::Insert(insert.clone()), &mut parameters)?.unwrap_or_default();
        for row in &rows {
            let scope = Scope {
                columns: &columns,
                row,
                arguments,
                group: None,
            };
            table.rows.push(eval::project(&insert.returning, &scope, self)?);
        }
        Ok(Answer::Rows { table, tag })
    }

    /// Puts one row into the ledger, as this transaction sees it.
    pub(super) fn insert_row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let [Value::Int(id), note] = row else {
            let text = "null value in column \"id\" of relation \"ledger\" violates not-null constraint";
            return Err(SqlError::new("23502", text));
        };
        let note = note.to_text();
        self.transaction
            .changes
            .insert(*id, note, &self.cluster.state().ledger)
    }

    fn update(
        &mut self,
        note: &Expression,
        filter: Option<&Expression>,
        arguments: &Arguments,
    ) -> Result<String, SqlError> {
        let columns = ledger_columns();
        let rows = eval::ledger_rows(filter, arguments, self)?;
        for row in &rows {
            let scope = Scope {
                columns: &columns,
                row,
                arguments,
                group: None,
            };
            let note = eval::evaluate(note, &scope, self)?.0.cast(Kind::Text)?;
            if let Some(id) = id_of(row) {
                self.transaction.changes.update(id, note.to_text());
            }
        }
        Ok(format!("UPDATE {}", rows.len()))
    }
}

fn id_of(row: &[Value]) -> Option<i64> {
    match row.first() {
        Some(Value::Int(id)) => Some(*id),
        _ => None,
    }
}
