//! Simple queries: any number of statements in one text, answered one after the other, in one transaction unless
//! they say otherwise.

use bytes::Bytes;

use crate::log::Event;
use crate::sql::SqlError;
use crate::sql::describe::describe;
use crate::sql::eval::{Arguments, Table};
use crate::sql::expression::Parameters;
use crate::sql::parse::parse;
use crate::sql::token::statements;
use crate::wire::backend::{self, Bare};

use super::execute::Answer;
use super::{Failure, Halt, Session};

impl Session<'_> {
    /// Runs a query text and answers up to ReadyForQuery.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Result<(), Halt> {
        self.cluster
            .record(self.server, self.id, Event::Query(sql.to_owned()));
        // A simple query destroys the unnamed statement and portal.
        self.prepared.remove("");
        self.portals.remove("");
        match self.run_all(sql).await {
            Ok(()) => {}
            Err(Failure::Sql(error)) => self.fail(&error),
            Err(Failure::Halt(halt)) => return Err(halt),
        }
        self.ready().await
    }

    async fn run_all(&mut self, sql: &str) -> Result<(), Failure> {
        let cuts = statements(sql)?;
        if cuts.is_empty() {
            backend::bare(&mut self.out, Bare::EmptyQuery);
            return Ok(());
        }
        // The whole text is parsed first: one syntax error, and none of it runs.
        let mut parsed = Vec::new();
        for cut in &cuts {
            parsed.push((cut.text, parse(cut)));
        }
        if let Some((_, Err(error))) = parsed.iter().find(|(_, outcome)| is_syntax_error(outcome)) {
            return Err(error.clone().into());
        }
        let last = parsed.len() - 1;
        for (at, (text, statement)) in parsed.into_iter().enumerate() {
            if self.transaction.has_failed() && !statement.as_ref().is_ok_and(|one| one.ends_failure()) {
                let text = "current transaction is aborted, commands ignored until end of transaction block";
                return Err(SqlError::new("25P02", text).into());
            }
            let statement = statement?;
            let mut parameters = Parameters::default();
            describe(&statement, &mut parameters)?;
            if !parameters.0.is_empty() {
                return Err(SqlError::new("42P02", "there is no parameter $1").into());
            }
            let answer = self.run(text, &statement, &Arguments::default()).await?;
            let tag = match answer {
                Answer::Done(tag) => tag,
                Answer::Rows { table, tag } => {
                    backend::row_description(&mut self.out, &table.columns, &[]);
                    self.send_rows(&table, &[]).await?;
                    tag.text(table.rows.len())
                }
                Answer::CopyIn => format!("COPY {}", self.copy_in().await?),
                Answer::CopyOut(table) => self.copy_out(&table).await?,
            };
            if at == last {
                // A conflict at commit has to be the answer, so it is looked for before the tag is sent.
                self.finish_implicit()?;
            }
            self.complete(&tag);
        }
        Ok(())
    }

    /// Sends rows; long results in parts.
    pub(super) async fn send_rows(&mut self, table: &Table, formats: &[i16]) -> Result<(), Halt> {
        for row in &table.rows {
            let cells: Vec<Option<Bytes>> = table
                .columns
                .iter()
                .zip(row)
                .enumerate()
                .map(|(at, (column, value))| value.encode(column.kind, backend::format_of(formats, at)))
                .collect();
            backend::data_row(&mut self.out, &cells);
            self.flush_if_long().await?;
        }
        Ok(())
    }

    /// Ends a statement's answer.
    pub(super) fn complete(&mut self, tag: &str) {
        self.cluster
            .record(self.server, self.id, Event::Done(tag.to_owned()));
        backend::command_complete(&mut self.out, tag);
    }
}

fn is_syntax_error<T>(outcome: &Result<T, SqlError>) -> bool {
    outcome.as_ref().is_err_and(|error| error.sqlstate == "42601")
}
