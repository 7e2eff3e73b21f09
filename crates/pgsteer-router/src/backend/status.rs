//! What people and metrics see of a backend.

use std::fmt;
use std::time::Duration;

pub use pgsteer_core::breaker::State as BreakerState;

use super::address::BackendAddress;

/// A backend at one moment. Read one after the other while requests go on, so sums may be off by a few.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendStatus {
    /// Which backend.
    pub address: BackendAddress,
    /// Requests that have it at present, those waiting for a connection included.
    pub in_flight: u64,
    /// Requests it has answered.
    pub handled: u64,
    /// Requests it has failed.
    pub failed: u64,
    /// The most connections there may be.
    pub max_size: u32,
    /// Connections that wait for a request, those being pinged included.
    pub idle: u32,
    /// Connections that serve a request.
    pub in_use: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being closed; their sockets still count.
    pub closing: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
    /// Where the circuit breaker stands.
    pub breaker: BreakerState,
    /// How long it has been left out of the choice, if it is.
    pub left_out_for: Option<Duration>,
    /// The last thing that went wrong, if anything has.
    pub last_error: Option<LastError>,
    /// What has been counted since the start.
    pub totals: Totals,
}

impl BackendStatus {
    /// Connections that are open: idle or in use.
    pub fn open(&self) -> u32 {
        self.idle + self.in_use
    }
}

/// Something that went wrong with a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// How long ago.
    pub age: Duration,
    /// What, in words, without secrets.
    pub text: String,
}

/// What has been counted of a backend's connections since its pool was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Connections opened.
    pub opened: u64,
    /// Dials that ended without a connection.
    pub dials_failed: u64,
    /// Connections closed because their life was over.
    pub expired: u64,
    /// Connections closed because they were unused for too long.
    pub idle_closed: u64,
    /// Connections that the backend ended, or sent something on unasked, while they were idle.
    pub lost: u64,
    /// Connections closed because a request on them failed or was given up.
    pub discarded: u64,
    /// Pings answered.
    pub pings: u64,
    /// Pings not answered, or not as they should be; each cost its connection.
    pub pings_failed: u64,
    /// Requests that did not get a connection in time.
    pub timeouts: u64,
    /// Times that the backend was left out of the choice.
    pub left_out: u64,
}

impl fmt::Display for BackendStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.address)?;
        if let Some(since) = self.left_out_for {
            write!(f, "left out for {since:.1?}, ")?;
        }
        if self.breaker != BreakerState::Closed {
            f.write_str("circuit breaker open, ")?;
        }
        write!(
            f,
            "{} idle, {} in use, {} opening and {} closing of {}, {} waiting",
            self.idle, self.in_use, self.opening, self.closing, self.max_size, self.waiting
        )?;
        if let Some(error) = &self.last_error {
            write!(f, "; {:.1?} ago: {}", error.age, error.text)?;
        }
        Ok(())
    }
}

/// How closing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Connections that were still in use when the time was over, and were left to those who have them.
    pub still_out: u32,
    /// How long it took.
    pub took: Duration,
}
