//! Standard output and standard error. Data goes to the first, a line at a time and flushed, so that a reader sees each
//! line at once; a reader that goes away becomes an error instead of a panic.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Where a command's data goes.
pub struct Output {
    sink: Box<dyn Write + Send>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Output {
            sink: Box::new(io::stdout()),
        }
    }

    /// Anything else; for tests.
    pub fn to(sink: impl Write + Send + 'static) -> Self {
        Output { sink: Box::new(sink) }
    }

    /// Writes a line.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.text(&format!("{}\n", text.as_ref()))
    }

    /// Writes text as it is.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.sink.write_all(text.as_bytes())?;
        Ok(self.sink.flush()?)
    }

    /// Writes a value as JSON on one line.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(serde_json::to_string(value).map_err(Failure::work)?)
    }

    /// Writes a value as JSON for people, indented.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn pretty_json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(serde_json::to_string_pretty(value).map_err(Failure::work)?)
    }
}

/// Writes a line to standard error. Nobody is left to tell if that fails.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
