//! The cluster's circuit breaker. What it gates is dialling, and it is the cluster that dials: so all pools on one cluster
//! share it, and a cluster that is down is met by one pass a window, whoever asks.
//!
//! It counts passes. A pass fails only if no host answered at all, and that does not depend on what was wanted, so one
//! pool's passes speak for the others. Discovery and probes are not gated; a server they find working closes it.

use std::sync::{Arc, Weak};
use std::time::Instant;

use pgsteer_core::breaker::{Breaker, Event, HostsMet, Opened, Permit, Surroundings};
use pgsteer_core::verdict::BreakerEffect;

use super::Shared;
use super::search::SearchError;
use crate::config::{ConfigError, Settings};
use crate::error::Error;
use crate::world::World;

/// What is kept of the last pass that failed.
pub(crate) type LastError = Arc<Error>;

/// The breaker these settings ask for, if any.
pub(super) fn new(
    settings: &Settings,
    world: World,
    shared: Weak<Shared>,
) -> Result<Option<Breaker<LastError>>, ConfigError> {
    if settings.breaker.threshold == 0 {
        return Ok(None);
    }
    let outside = Box::new(Outside { world, shared });
    Ok(Some(Breaker::new(settings.breaker, outside)?))
}

/// Tells the breaker how a pass went.
pub(super) fn settle<T>(permit: Permit<'_, LastError>, met: HostsMet, result: &Result<T, SearchError>) {
    match (result, met.effect()) {
        (Ok(_), _) => permit.success(),
        // Whom the mode leaves out may be there; and failed hosts that it wants are not dialled again before their delay.
        (Err(SearchError::Stopped | SearchError::Refused(_)), _) | (Err(_), None) => drop(permit),
        (Err(error), Some(BreakerEffect::Failure)) => permit.failure(Arc::new(error.clone().into())),
        (Err(_), Some(_)) => permit.neutral(),
    }
}

/// The world as the breaker sees it.
struct Outside {
    world: World,
    shared: Weak<Shared>,
}

impl Surroundings<LastError> for Outside {
    fn now(&self) -> Instant {
        super::now()
    }

    fn draw(&self) -> u64 {
        self.world.draw()
    }

    fn tell(&self, event: &Event<LastError>) {
        log(event);
        // Pools whose own search did not make the change hear of it too: their callers need not wait, or may be served.
        if let (Event::Opened(_) | Event::Closed(_), Some(shared)) = (event, self.shared.upgrade()) {
            shared.tell_changed();
        }
    }
}

fn log(event: &Event<LastError>) {
    match event {
        Event::Opened(opened) => {
            let Opened {
                window,
                trips,
                cause,
                last_error,
                ..
            } = opened;
            if opened.is_news() {
                tracing::warn!(target: "pgsteer::breaker", ?window, trips, ?cause, "nothing is dialled for a while: {last_error}");
            } else {
                tracing::debug!(target: "pgsteer::breaker", ?window, trips, ?cause, "nothing is dialled for another while: {last_error}");
            }
        }
        Event::Closed(closed) => {
            tracing::info!(target: "pgsteer::breaker", outage = ?closed.outage, by = ?closed.by, "hosts are dialled again");
        }
        other => tracing::debug!(target: "pgsteer::breaker", "{other:?}"),
    }
}
