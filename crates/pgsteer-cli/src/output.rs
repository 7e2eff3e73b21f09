//! Standard output and standard error. Data goes to the first, a line at a time and flushed, so that a reader sees each
//! line at once; a reader that goes away becomes an error instead of a panic.

use std::fmt;
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

/// Microseconds, written in the unit that suits.
#[derive(Clone, Copy, Debug)]
pub struct Micros(pub f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            micros if micros < 1.0 => write!(f, "{:.0} ns", micros * 1000.0),
            micros if micros < 1000.0 => write!(f, "{micros:.0} us"),
            micros if micros < 1_000_000.0 => write!(f, "{:.1} ms", micros / 1000.0),
            micros => write!(f, "{:.1} s", micros / 1_000_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_suits() {
        let cases = [
            (0.04, "40 ns"),
            (12.0, "12 us"),
            (1500.0, "1.5 ms"),
            (2_000_000.0, "2.0 s"),
        ];

        for (micros, written) in cases {
            assert_eq!(Micros(micros).to_string(), written);
        }
    }
}
