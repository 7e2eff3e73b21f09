//! A circuit breaker as data.

use pgsteer::BreakerStatus;
use pgsteer::health::State;
use serde::Serialize;

/// A circuit breaker at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct BreakerFigures {
    /// `closed`, `open` or `half_open`.
    state: &'static str,
    /// Passes in a row that met no host, while it is closed.
    streak: u32,
    /// Windows in this outage.
    trips: u32,
    /// How often it has opened since it was made.
    outages: u64,
    /// Until somebody may dial; `null` while it is closed.
    retry_after_ms: Option<u64>,
    /// Why the last pass failed; `null` while it is closed.
    last_error: Option<String>,
}

impl BreakerFigures {
    /// As it stands.
    pub fn of(status: &BreakerStatus) -> Self {
        BreakerFigures {
            state: match status.state {
                State::Closed => "closed",
                State::Open => "open",
                State::HalfOpen => "half_open",
            },
            streak: status.streak,
            trips: status.trips,
            outages: status.outages,
            retry_after_ms: status
                .retry_after
                .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            last_error: status.last_error.as_ref().map(ToString::to_string),
        }
    }
}
