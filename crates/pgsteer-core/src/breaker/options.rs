//! The numbers a breaker goes by, their ranges, and how long a window lasts.

use std::fmt;
use std::time::Duration;

/// Doublings after which a window no longer grows, whatever the cap; it keeps the arithmetic small.
const MAX_DOUBLINGS: u32 = 30;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The numbers a breaker goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerOptions {
    /// Failures in a row that open it. 0 turns the breaker off: it admits everything and counts nothing. Default 5.
    pub threshold: u32,
    /// The first window of an outage; each further one is twice as long. Default 1 s; from 1 ms up to `cap`.
    pub base: Duration,
    /// What a window grows to, before jitter. Default 60 s; from `base` to 24 h.
    pub cap: Duration,
    /// Each window is longer by a random share of itself between 0 and this, so that a fleet does not probe in step;
    /// it is never shorter. Default 0.2; from 0 to 1.
    pub jitter: f64,
    /// How long a probe may go without an outcome, or [`renewing`](super::Permit::renew) this lease, before another one is
    /// admitted in its place. Its outcome then no longer counts, so this must be longer than a probe, or each step of it,
    /// can rightly take. Default 60 s; from 1 ms to 24 h.
    pub probe_lease: Duration,
}

impl BreakerOptions {
    /// Every number at its default.
    pub const DEFAULT: BreakerOptions = BreakerOptions {
        threshold: 5,
        base: Duration::from_secs(1),
        cap: Duration::from_secs(60),
        jitter: 0.2,
        probe_lease: Duration::from_secs(60),
    };
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A number out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Which one: `breaker_base`, `breaker_cap`, `breaker_jitter` or `breaker_probe_lease`.
    pub name: &'static str,
    /// The value as given.
    pub value: String,
    /// What is allowed, in words.
    pub allowed: &'static str,
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadOption { name, value, allowed } = self;
        write!(f, "option {name} cannot be `{value}`: it takes {allowed}")
    }
}

impl std::error::Error for BadOption {}

impl BreakerOptions {
    /// Whether every number is in its range.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self) -> Result<(), BadOption> {
        let refuse = |name, value: &dyn fmt::Debug, allowed| {
            Err(BadOption {
                name,
                value: format!("{value:?}"),
                allowed,
            })
        };
        if !(SHORTEST..=LONGEST).contains(&self.cap) {
            return refuse("breaker_cap", &self.cap, "a duration from 1 ms to 24 h");
        }
        if self.cap < self.base && self.base == Self::DEFAULT.base {
            // It is the cap that somebody has chosen.
            return refuse("breaker_cap", &self.cap, "a duration from breaker_base to 24 h");
        }
        if !(SHORTEST..=self.cap).contains(&self.base) {
            return refuse("breaker_base", &self.base, "a duration from 1 ms to breaker_cap");
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return refuse("breaker_jitter", &self.jitter, "a number from 0 to 1");
        }
        if !(SHORTEST..=LONGEST).contains(&self.probe_lease) {
            let allowed = "a duration from 1 ms to 24 h";
            return refuse("breaker_probe_lease", &self.probe_lease, allowed);
        }
        Ok(())
    }

    /// The length of the `trips`-th window of an outage, with the part of the jitter that `draw` falls on.
    pub(super) fn window(&self, trips: u32, draw: u64) -> Duration {
        let doublings = trips.saturating_sub(1).min(MAX_DOUBLINGS);
        // A day has fewer than 2^47 nanoseconds, so neither the doublings nor the draw can leave 128 bits.
        let plain = (self.base.as_nanos() << doublings).min(self.cap.as_nanos());
        let spread = (plain as f64 * self.jitter) as u128;
        from_nanos(plain + ((spread * u128::from(draw)) >> 64))
    }
}

fn from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32)
}
