//! What a caller of guarded work gets instead of a result.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The work was not begun: the database is taken to be down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitOpen {
    /// When asking again may help: exactly what is left of the window, or while a probe is on its way, the first
    /// window's length or what is left of the probe's lease, whichever is shorter.
    pub retry_after: Duration,
    /// Whether a probe is on its way.
    pub probing: bool,
    /// The text of the last failure that counted, with those of its sources; 500 characters at most.
    pub last_error: Arc<str>,
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CircuitOpen {
            retry_after,
            last_error,
            ..
        } = self;
        write!(
            f,
            "the database is taken to be down, ask again in {retry_after:?}; the last attempt said: {last_error}"
        )
    }
}

impl StdError for CircuitOpen {}

/// Why guarded work gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guarded<E> {
    /// It was not begun.
    CircuitOpen(CircuitOpen),
    /// It was begun, and this is its own error.
    Failed(E),
}

impl<E> Guarded<E> {
    /// The error of the work, if it was begun.
    pub fn failed(self) -> Option<E> {
        match self {
            Guarded::CircuitOpen(_) => None,
            Guarded::Failed(error) => Some(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Guarded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guarded::CircuitOpen(open) => open.fmt(f),
            Guarded::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for Guarded<E> {
    /// The error of the work, or [`CircuitOpen`]: either can be found by downcasting.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Guarded::CircuitOpen(open) => Some(open),
            Guarded::Failed(error) => Some(error),
        }
    }
}
