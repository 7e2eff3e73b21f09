//! Watches how many connections the pool moves at one time, as it moves them home.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::show::Show;

/// How often the pool is looked at; well under a rebalance interval.
const GLANCE: Duration = Duration::from_millis(5);

/// How many connections are moved at one time.
pub(super) struct Batches<'a> {
    show: &'a Show,
    largest: AtomicU64,
}

impl<'a> Batches<'a> {
    pub(super) fn of(show: &'a Show) -> Self {
        Batches {
            show,
            largest: AtomicU64::new(0),
        }
    }

    /// Watches, for ever. Cancel safe.
    pub(super) async fn watch(&self) -> Infallible {
        let moved = || self.show.pool.status().totals.moved;
        let (mut last, mut at) = (moved(), Instant::now());
        loop {
            sleep(GLANCE).await;
            let (now_moved, now) = (moved(), Instant::now());
            // On a busy machine a glance may come so late that more than one batch was moved since the last.
            let ticks = 1 + (now - at).as_millis() / self.show.plan.rebalance_interval.as_millis().max(1);
            let batch = (now_moved - last).div_ceil(ticks as u64);
            self.largest.fetch_max(batch, Ordering::Relaxed);
            (last, at) = (now_moved, now);
        }
    }

    pub(super) fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}
