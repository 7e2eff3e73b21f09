//! COPY of the ledger in text format, in and out.

use bytes::{Buf, BytesMut};

use crate::sql::SqlError;
use crate::sql::eval::Table;
use crate::sql::value::{Kind, Value};
use crate::wire::backend::{self, Bare, Direction};
use crate::wire::frontend::Frontend;

use super::io::{Incoming, cancelled};
use super::{Failure, Halt, Session};

impl Session<'_> {
    /// Takes rows from the client until it is done. How many there were.
    pub(super) async fn copy_in(&mut self) -> Result<usize, Failure> {
        backend::copy_response(&mut self.out, Direction::In, 2);
        self.flush().await?;
        let mut text = BytesMut::new();
        let mut count = 0;
        loop {
            let message = match self.incoming().await? {
                Incoming::Message(message) => message,
                Incoming::Cancelled => return Err(cancelled("user request")),
            };
            match message {
                Frontend::CopyData(data) => {
                    text.extend_from_slice(&data);
                    count += self.copy_lines(&mut text, false)?;
                }
                Frontend::CopyDone => return Ok(count + self.copy_lines(&mut text, true)?),
                Frontend::CopyFail(why) => {
                    return Err(SqlError::new("57014", format!("COPY from stdin failed: {why}")).into());
                }
                // These say nothing during a copy.
                Frontend::Sync | Frontend::Flush => {}
                Frontend::Terminate => return Err(Halt::Terminated.into()),
                _ => {
                    let text = "unexpected message type during COPY from stdin";
                    return Err(SqlError::new("08P01", text).into());
                }
            }
        }
    }

    /// Inserts the whole lines of `text`; at the end also one that is not ended.
    fn copy_lines(&mut self, text: &mut BytesMut, at_end: bool) -> Result<usize, SqlError> {
        let mut count = 0;
        loop {
            let line = match text.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = text.split_to(end);
                    text.advance(1);
                    line
                }
                None if at_end && !text.is_empty() => text.split(),
                None => return Ok(count),
            };
            let line = std::str::from_utf8(&line)
                .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
            let line = line.strip_suffix('\r').unwrap_or(line);
            if line == "\\." {
                continue;
            }
            let (id, note) = match line.split_once('\t') {
                Some((_, note)) if note.contains('\t') => {
                    return Err(SqlError::new("22P04", "extra data after last expected column"));
                }
                Some(fields) => fields,
                None => return Err(SqlError::new("22P04", "missing data for column \"note\"")),
            };
            let row = [field(id).cast(Kind::Int8)?, field(note)];
            self.insert_row(&row)?;
            count += 1;
        }
    }

    /// Sends a result as a copy. The command tag.
    pub(super) async fn copy_out(&mut self, table: &Table) -> Result<String, Failure> {
        backend::copy_response(&mut self.out, Direction::Out, table.columns.len());
        for row in &table.rows {
            let fields: Vec<String> = row.iter().map(escaped).collect();
            backend::copy_data(&mut self.out, format!("{}\n", fields.join("\t")).as_bytes());
            self.flush_if_long().await?;
        }
        backend::bare(&mut self.out, Bare::CopyDone);
        Ok(format!("COPY {}", table.rows.len()))
    }
}

/// A field of a line, with its escapes undone; `\N` is NULL.
fn field(text: &str) -> Value {
    if text == "\\N" {
        return Value::Null;
    }
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            value.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => value.push('\n'),
            Some('t') => value.push('\t'),
            Some('r') => value.push('\r'),
            Some(other) => value.push(other),
            None => value.push('\\'),
        }
    }
    Value::Text(value)
}

fn escaped(value: &Value) -> String {
    match value.to_text() {
        None => "\\N".to_owned(),
        Some(text) => text
            .replace('\\', "\\\\")
            .replace('\n', "\\n")
            .replace('\t', "\\t")
            .replace('\r', "\\r"),
    }
}
