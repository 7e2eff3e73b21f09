//! Stretches of time without any success: when they began and ended, and what failed in them. Every operation passes
//! here, so the usual one costs two atomic operations and no lock. Nothing here reads a clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many are listed; a query that is slower than the shortest outage makes each of its runs one.
const LISTED: usize = 50;

/// A stretch of time without any success. Times are since the start of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    /// The last success before it.
    pub(super) from: Duration,
    /// The first success after it, or the end of the measuring.
    pub(super) to: Duration,
    /// Whether it was over by then.
    pub(super) is_over: bool,
    /// What failed meanwhile, by class.
    pub(super) errors: BTreeMap<String, u64>,
}

/// What there was in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The longest time without a success, be it an outage or not.
    pub(super) longest: Duration,
    /// The first of the outages, in order.
    pub(super) listed: Vec<Outage>,
    /// How many more there were.
    pub(super) unlisted: u64,
}

/// Watches for outages.
#[derive(Debug)]
pub(super) struct Outages {
    /// Shorter ones are none, in nanoseconds.
    shortest: u64,
    /// When the last success was.
    last: AtomicU64,
    longest: AtomicU64,
    rare: Mutex<Rare>,
}

#[derive(Debug, Default)]
struct Rare {
    found: Found,
    /// The failures since the success at this time.
    errors: BTreeMap<String, u64>,
    since: u64,
}

impl Outages {
    /// Watches for stretches of at least this length.
    pub(super) fn of_at_least(shortest: Duration) -> Self {
        Outages {
            shortest: nanos(shortest),
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            rare: Mutex::default(),
        }
    }

    /// The measuring begins at this time: forgets what was before.
    pub(super) fn begun(&self, at: Duration) {
        let mut rare = self.rare();
        self.last.fetch_max(nanos(at), Ordering::AcqRel);
        self.longest.store(0, Ordering::Relaxed);
        *rare = Rare::default();
    }

    /// An operation succeeded at this time.
    pub(super) fn succeeded(&self, at: Duration) {
        let at = nanos(at);
        let before = self.last.fetch_max(at, Ordering::AcqRel);
        let gap = at.saturating_sub(before);
        if gap > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(gap, Ordering::Relaxed);
        }
        if gap >= self.shortest {
            self.rare().note(before, at, true);
        }
    }

    /// An operation failed at this time.
    pub(super) fn failed(&self, at: Duration, class: &str) {
        let last = self.last.load(Ordering::Acquire);
        // It failed before a success that is already known: while others succeeded, in no outage.
        if nanos(at) < last {
            return;
        }
        let mut rare = self.rare();
        if rare.since != last {
            rare.errors.clear();
            rare.since = last;
        }
        *rare.errors.entry(class.to_owned()).or_default() += 1;
    }

    /// What there was, when the measuring ends at this time.
    pub(super) fn ended(&self, at: Duration) -> Found {
        let (at, last) = (nanos(at), self.last.load(Ordering::Acquire));
        let gap = at.saturating_sub(last);
        let mut rare = self.rare();
        if gap >= self.shortest {
            rare.note(last, at, false);
        }
        let longest = self.longest.load(Ordering::Relaxed).max(gap);
        Found {
            longest: Duration::from_nanos(longest),
            ..rare.found.clone()
        }
    }

    fn rare(&self) -> MutexGuard<'_, Rare> {
        self.rare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rare {
    fn note(&mut self, from: u64, to: u64, is_over: bool) {
        let errors = std::mem::take(&mut self.errors);
        if self.found.listed.len() == LISTED {
            self.found.unlisted += 1;
            return;
        }
        self.found.listed.push(Outage {
            from: Duration::from_nanos(from),
            to: Duration::from_nanos(to),
            is_over,
            errors: if self.since == from {
                errors
            } else {
                BTreeMap::new()
            },
        });
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn watching() -> Outages {
        Outages::of_at_least(ms(500))
    }

    #[test]
    fn an_outage_is_from_the_last_success_to_the_next_with_the_failures_between() {
        let outages = watching();
        outages.succeeded(ms(100));
        outages.failed(ms(150), "connection_lost");
        outages.failed(ms(800), "checkout_timeout");
        outages.failed(ms(900), "checkout_timeout");
        outages.succeeded(ms(1100));
        outages.succeeded(ms(1200));

        let found = outages.ended(ms(1300));

        let errors = [("connection_lost", 1), ("checkout_timeout", 2)];
        let expected = Outage {
            from: ms(100),
            to: ms(1100),
            is_over: true,
            errors: errors.map(|(class, count)| (class.to_owned(), count)).into(),
        };
        assert_eq!((found.longest, found.listed), (ms(1000), vec![expected]));
    }

    #[test]
    fn a_short_pause_is_no_outage_and_its_length_is_told() {
        let outages = watching();
        outages.succeeded(ms(100));
        outages.succeeded(ms(599));

        let found = outages.ended(ms(600));

        assert_eq!((found.longest, found.listed.len()), (ms(499), 0));
    }

    #[test]
    fn failures_beside_successes_are_in_no_outage() {
        let outages = watching();
        outages.failed(ms(10), "sqlstate_40001");
        outages.succeeded(ms(20));
        outages.succeeded(ms(700));

        let found = outages.ended(ms(700));

        let errors: Vec<_> = found.listed.iter().map(|outage| outage.errors.len()).collect();
        assert_eq!(errors, [0]);
    }

    #[test]
    fn what_was_before_the_measuring_began_is_forgotten() {
        let outages = watching();
        outages.failed(ms(10), "connect");
        outages.succeeded(ms(3000));

        outages.begun(ms(3100));
        outages.succeeded(ms(3200));

        assert_eq!(
            outages.ended(ms(3250)),
            Found {
                longest: ms(100),
                ..Found::default()
            }
        );
    }

    #[test]
    fn one_that_lasts_until_the_end_is_not_over() {
        let outages = watching();
        outages.succeeded(ms(100));
        outages.failed(ms(200), "connect");

        let found = outages.ended(ms(2000));

        let last = found.listed.last().expect("there is one");
        assert_eq!((last.from, last.to, last.is_over), (ms(100), ms(2000), false));
        assert_eq!((last.errors.get("connect"), found.longest), (Some(&1), ms(1900)));
    }

    #[test]
    fn successes_that_come_in_late_change_nothing() {
        let outages = watching();
        outages.succeeded(ms(1000));
        outages.succeeded(ms(900));
        outages.failed(ms(950), "connect");

        let found = outages.ended(ms(1000));

        assert_eq!((found.longest, found.listed.len()), (ms(1000), 1));
    }

    #[test]
    fn the_list_is_bounded_and_the_rest_counted() {
        let outages = watching();
        for second in 1..=60 {
            outages.succeeded(ms(second * 1000));
        }

        let found = outages.ended(ms(60_000));

        assert_eq!((found.listed.len(), found.unlisted), (LISTED, 10));
    }
}
