//! What a backend's circuit breaker has of the world: the clock, random draws, and the log.

use std::time::Instant;

use pgsteer_core::breaker::{Event, Surroundings};

use super::address::BackendAddress;
use super::inner::{Turned, now};

/// What a breaker has of the world.
pub(super) struct Outside(pub(super) BackendAddress);

impl Surroundings<Turned> for Outside {
    fn now(&self) -> Instant {
        now()
    }

    fn draw(&self) -> u64 {
        fastrand::u64(..)
    }

    fn tell(&self, event: &Event<Turned>) {
        let backend = &self.0;
        match event {
            Event::Opened(opened) if opened.is_news() => {
                tracing::warn!(target: "pgsteer::router", %backend, window = ?opened.window,
                    "the circuit breaker is open: {}", opened.last_error);
            }
            Event::Closed(closed) => {
                tracing::info!(target: "pgsteer::router", %backend, outage = ?closed.outage, "the circuit breaker is closed");
            }
            other => tracing::debug!(target: "pgsteer::router", %backend, "{other:?}"),
        }
    }
}
