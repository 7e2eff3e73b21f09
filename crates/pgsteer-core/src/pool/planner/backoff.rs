//! How long filling rests after an open has failed, where that differs from failure to failure.
//!
//! Refused logins are tried ever more rarely, so that no account is locked out. Where hosts are there and only not what is
//! wanted yet, or not ready yet, they are asked again soon: after a promotion the pool serves within one step.

use std::time::{Duration, Instant};

use super::{OpenFailure, Planner, PlannerOptions, PoolView, Stage};

/// The first rest while no host that answers is what is wanted, and the longest.
const NO_FIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// The first rest while hosts are not ready.
const NOT_READY: Duration = Duration::from_millis(100);

/// The least time between two attempts, however much changes.
const LEAST_REST: Duration = Duration::from_millis(100);

/// A rest that doubles for as long as opens fail for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    pub(super) why: OpenFailure,
    pub(super) rest: Duration,
}

/// The first rest and the longest, if there are any of this failure's own.
fn limits(why: OpenFailure, options: &PlannerOptions) -> Option<(Duration, Duration)> {
    match why {
        OpenFailure::Login => Some((
            options.refill_delay,
            options.login_backoff_max.max(options.refill_delay),
        )),
        OpenFailure::NoFit => Some(NO_FIT),
        OpenFailure::NotReady => Some((NOT_READY, options.not_ready_max.max(NOT_READY))),
        OpenFailure::Hosts | OpenFailure::Refused => None,
    }
}

/// Whether a host of the right kind may be there in a moment.
pub(super) fn is_passing(why: OpenFailure) -> bool {
    matches!(why, OpenFailure::NoFit | OpenFailure::NotReady)
}

impl Planner {
    /// An open has failed: works out how long to rest. Those that fail while the rest goes on were begun in the same
    /// round, and one round doubles once.
    pub(super) fn back_off(&mut self, why: OpenFailure, now: Instant) {
        if is_passing(why) {
            self.asked_at = Some(now);
        }
        let refused = self.login_back_off().is_some();
        // only a host that let somebody in shows that the login is right
        let proves_nothing = !matches!(why, OpenFailure::Login | OpenFailure::NoFit);
        if refused && proves_nothing {
            return;
        }
        self.backoff = limits(why, &self.options).map(|(first, longest)| {
            let rest = match self.backoff.filter(|before| before.why == why) {
                Some(before) if self.refill_at.is_some() => before.rest,
                Some(before) => before.rest.saturating_mul(2).min(longest),
                None => first,
            };
            Backoff { why, rest }
        });
    }

    /// A connection has opened: several openers again, and no longer rest than after any other failure.
    pub(super) fn end_back_off(&mut self, now: Instant) {
        if self.backoff.take().is_some() {
            let soon = now + self.options.refill_delay;
            self.refill_at = self.refill_at.map(|at| at.min(soon));
        }
    }

    /// Something has changed that may make a host fit: no use in resting on.
    pub(super) fn ask_again(&mut self, view: &dyn PoolView, now: Instant) {
        let rests = self.backoff.is_some_and(|backoff| is_passing(backoff.why));
        if self.stage != Stage::Running || !rests {
            return;
        }
        let earliest = self.asked_at.map_or(now, |asked| (asked + LEAST_REST).max(now));
        self.refill_at = self
            .refill_at
            .filter(|_| earliest > now)
            .map(|at| at.min(earliest));
        self.fill(view, now);
    }
}
