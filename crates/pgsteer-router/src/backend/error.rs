//! Why a request got no connection, for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::address::BackendAddress;
use super::options::OptionError;
use super::status::BackendStatus;

/// Why there is no connection for a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BorrowError {
    /// None came free and none could be opened within `borrow_timeout`.
    TimedOut(Arc<Unavailable>),
    /// Every backend that there is to try has failed.
    Failed(Arc<Unavailable>),
    /// There is no backend, or none but those that were not to be tried.
    NoBackend,
    /// The pool has been closed.
    Closed,
}

/// What the backends looked like to a request that got none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unavailable {
    /// How long the request waited.
    pub waited: Duration,
    /// The backends that were tried.
    pub backends: Vec<BackendStatus>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, backend) in self.backends.iter().enumerate() {
            let before = if number == 0 { ": " } else { " | " };
            write!(f, "{before}{backend}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BorrowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BorrowError::TimedOut(why) => {
                write!(f, "no backend connection within {:.1?}{why}", why.waited)
            }
            BorrowError::Failed(why) => {
                write!(f, "no backend can be connected to, after {:.1?}{why}", why.waited)
            }
            BorrowError::NoBackend => f.write_str("there is no backend to try"),
            BorrowError::Closed => f.write_str("the backend pool is closed"),
        }
    }
}

impl std::error::Error for BorrowError {}

/// Why a set of backends cannot be started or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// There is no backend in the list.
    Empty,
    /// A backend is in the list twice.
    Twice(BackendAddress),
    /// A backend's option is out of its range.
    Option(BackendAddress, OptionError),
    /// The set has been closed.
    Closed,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Empty => f.write_str("there must be at least one backend"),
            SetError::Twice(backend) => write!(f, "backend {backend} is given twice"),
            SetError::Option(backend, error) => write!(f, "backend {backend}: {error}"),
            SetError::Closed => f.write_str("the set of backends is closed"),
        }
    }
}

impl std::error::Error for SetError {}
