//! Guards with other numbers than the default ones.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgsteer_core::breaker::{Breaker, BreakerOptions};

use super::{Closed, ConnectionHealth, Finding, Judge, Opened, Outside, judge};
use crate::config::ConfigError;
use crate::world::Draw;

/// What a [`ConnectionHealth`] is to be like. Everything not set has its default.
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    options: BreakerOptions,
    judge: Arc<Judge>,
    outside: Outside,
}

impl Builder {
    pub(super) fn new() -> Self {
        Builder {
            options: BreakerOptions::default(),
            judge: Arc::new(judge),
            outside: Outside::default(),
        }
    }

    /// Failures in a row that open the guard. 0 turns it off: it lets everything through. Default 5.
    pub fn threshold(mut self, failures: u32) -> Self {
        self.options.threshold = failures;
        self
    }

    /// The first window of an outage; each further one is twice as long. Default 1 s; from 1 ms up to the cap.
    pub fn base(mut self, window: Duration) -> Self {
        self.options.base = window;
        self
    }

    /// What windows grow to, before jitter. Default 60 s; from the base to 24 h.
    pub fn cap(mut self, window: Duration) -> Self {
        self.options.cap = window;
        self
    }

    /// Each window is longer by a random share of itself between 0 and this; never shorter. Default 0.2; from 0 to 1.
    pub fn jitter(mut self, share: f64) -> Self {
        self.options.jitter = share;
        self
    }

    /// How long a probe may take. When that is over another call may be let through in its place, and how the first
    /// one ends no longer counts; so it must be longer than the work can rightly take, or nothing will ever close the
    /// guard. Default 60 s; from 1 ms to 24 h.
    pub fn probe_lease(mut self, limit: Duration) -> Self {
        self.options.probe_lease = limit;
        self
    }

    /// What errors say of the database. Default [`judge`](super::judge), which a judge of your own may ask.
    pub fn judge(
        mut self,
        judge: impl Fn(&(dyn StdError + 'static)) -> Finding + Send + Sync + 'static,
    ) -> Self {
        self.judge = Arc::new(judge);
        self
    }

    /// Called each time a window begins: when the guard opens, and after each probe that failed or was given up. Not
    /// for rejections. Callbacks run on the task whose call made the change, one at a time and in order, with no lock
    /// held: they may use the guard, and should not block. A panic in one is reported by the panic hook and ends there.
    pub fn on_open(mut self, callback: impl Fn(&Opened) + Send + Sync + 'static) -> Self {
        self.outside.on_open = Box::new(callback);
        self
    }

    /// Called once for each outage that ends. See [`on_open`](Self::on_open).
    pub fn on_close(mut self, callback: impl Fn(&Closed) + Send + Sync + 'static) -> Self {
        self.outside.on_close = Box::new(callback);
        self
    }

    /// The clock; it should not go back. Default tokio's, which stands still where time is paused.
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.outside.clock = Box::new(clock);
        self
    }

    /// Where the jitter's random numbers come from. Default a fast generator of the thread's own.
    pub fn draw(mut self, draw: impl Draw) -> Self {
        self.outside.draw = Box::new(move || draw.draw());
        self
    }

    /// The guard, closed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidOption`] for the first number out of its range, by the name `breaker_base`,
    /// `breaker_cap`, `breaker_jitter` or `breaker_probe_lease`.
    pub fn build(self) -> Result<ConnectionHealth, ConfigError> {
        let breaker = Breaker::new(self.options, Box::new(self.outside))?;
        Ok(ConnectionHealth::around(breaker, self.judge))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
