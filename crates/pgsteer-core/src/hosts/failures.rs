//! What is remembered of a failed host, and how long it is left alone.
//!
//! A failure stays until a connection to the host opens; the end of its delay by itself changes nothing.

use std::time::{Duration, Instant};

use super::{FailureKind, HostFailure};

/// Doublings after which the delay stands still, so that any number of failures can be counted.
const MAX_DOUBLINGS: u32 = 32;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// As good as never, for delays that no clock can add.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The moment `delay` after `now`; far away if the clock does not reach that far.
pub(super) fn after(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay)
        .or_else(|| now.checked_add(NEVER))
        .unwrap_or(now)
}

/// How long a failed host is left alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// The delay after a first failure.
    pub(super) base: Duration,
    /// With a cap the delay doubles with each failure in a row, up to it.
    pub(super) cap: Option<Duration>,
}

impl Backoff {
    /// The delay after this many failures in a row.
    pub(super) fn delay(self, consecutive: u32) -> Duration {
        let Some(cap) = self.cap else {
            return self.base;
        };
        let doublings = consecutive.saturating_sub(1).min(MAX_DOUBLINGS);
        // the longest duration has fewer than 95 bits of nanoseconds
        let nanos = self.base.as_nanos() << doublings;
        if nanos >= cap.as_nanos() {
            return cap;
        }
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        Duration::from_secs(seconds) + Duration::from_nanos((nanos % NANOS_PER_SECOND) as u64)
    }
}

/// The failure that follows on `previous`. The count goes on across kinds; only an opened connection ends it.
pub(super) fn mark(
    previous: Option<&HostFailure>,
    kind: FailureKind,
    reason: &str,
    backoff: Backoff,
    now: Instant,
) -> HostFailure {
    let consecutive = previous
        .map_or(0, |failure| failure.consecutive)
        .saturating_add(1);
    HostFailure {
        kind,
        consecutive,
        at: now,
        next_probe: after(now, backoff.delay(consecutive)),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Covers: E-144, E-145, E-146
    #[test]
    fn the_delay_is_fixed_without_a_cap_and_doubles_up_to_it_with_one() {
        let table = [
            (5000, None, 1, 5000),
            (5000, None, 7, 5000),
            (5000, Some(60_000), 1, 5000),
            (5000, Some(60_000), 2, 10_000),
            (5000, Some(60_000), 4, 40_000),
            (5000, Some(60_000), 5, 60_000),
            (5000, Some(60_000), 50, 60_000),
            (5000, Some(60_000), u32::MAX, 60_000),
            (5000, Some(5000), 1, 5000),
            (5000, Some(5000), 2, 5000),
            (0, None, 3, 0),
            (0, None, u32::MAX, 0),
        ];
        for (base, cap, consecutive, expected) in table {
            let backoff = Backoff {
                base: millis(base),
                cap: cap.map(millis),
            };
            assert_eq!(
                backoff.delay(consecutive),
                millis(expected),
                "{base} {cap:?} {consecutive}"
            );
        }
    }

    #[test]
    fn no_delay_is_too_long_to_double() {
        let cases = [
            (Duration::MAX, Duration::MAX),
            (Duration::from_nanos(1), Duration::MAX),
        ];
        for (base, cap) in cases {
            let backoff = Backoff { base, cap: Some(cap) };
            let delays: Vec<Duration> = (1..100).map(|count| backoff.delay(count)).collect();
            assert!(delays.is_sorted(), "{delays:?}");
            assert_eq!(delays.first(), Some(&base));
            assert!(delays.iter().all(|delay| *delay <= cap));
        }
    }

    #[test]
    fn a_moment_past_the_end_of_the_clock_is_far_away_instead() {
        let now = Instant::now();
        assert!(after(now, Duration::MAX) > now + Duration::from_secs(3600 * 24 * 365));
    }

    #[test]
    fn the_count_goes_on_across_kinds_and_never_overflows() {
        let backoff = Backoff {
            base: millis(1000),
            cap: Some(millis(4000)),
        };
        let now = Instant::now();
        let first = mark(None, FailureKind::Down, "refused", backoff, now);
        assert_eq!((first.consecutive, first.next_probe), (1, now + millis(1000)));

        let second = mark(Some(&first), FailureKind::Rejected, "starting up", backoff, now);
        assert_eq!((second.consecutive, second.kind), (2, FailureKind::Rejected));
        assert_eq!(second.next_probe, now + millis(2000));

        let full = HostFailure {
            consecutive: u32::MAX,
            ..second
        };
        assert_eq!(
            mark(Some(&full), FailureKind::Down, "refused", backoff, now).consecutive,
            u32::MAX
        );
    }
}
