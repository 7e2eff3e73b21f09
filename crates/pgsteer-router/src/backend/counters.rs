//! What is counted of a backend.

use std::sync::atomic::{AtomicU64, Ordering};

use super::status::Totals;

/// What every request changes. On cache lines of its own, away from what every request only reads.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Traffic {
    /// Requests that have a connection or wait for one.
    pub(super) in_flight: AtomicU64,
    pub(super) handled: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// The counters behind [`Totals`].
#[derive(Default)]
pub(super) struct Counters {
    pub(super) opened: AtomicU64,
    pub(super) dials_failed: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) idle_closed: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) discarded: AtomicU64,
    pub(super) pings: AtomicU64,
    pub(super) pings_failed: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) left_out: AtomicU64,
}

impl Counters {
    #[inline]
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            opened: read(&self.opened),
            dials_failed: read(&self.dials_failed),
            expired: read(&self.expired),
            idle_closed: read(&self.idle_closed),
            lost: read(&self.lost),
            discarded: read(&self.discarded),
            pings: read(&self.pings),
            pings_failed: read(&self.pings_failed),
            timeouts: read(&self.timeouts),
            left_out: read(&self.left_out),
        }
    }
}
