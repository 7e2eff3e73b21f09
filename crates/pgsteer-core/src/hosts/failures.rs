//! What is remembered of a failed host, and how long it is left alone.
//!
//! A failure stays until a connection to the host opens; the end of its delay by itself changes nothing. Hosts that
//! answered and will soon take connections have a schedule of their own, which begins anew whenever they come into that
//! state: a server that was down for long and is starting up is worth asking soon.

use std::time::{Duration, Instant};

use super::{ClusterOptions, FailureKind, HostFailure};

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

/// How long a host that is starting up or shutting down is left alone at first.
const NOT_READY_DELAY: Duration = Duration::from_millis(100);

/// How long a host that takes no more sessions is left alone at first.
const FULL_DELAY: Duration = Duration::from_millis(500);

/// Whether hosts that failed in this way are probed when their delay is over, and not only by refreshes.
pub(super) fn has_own_schedule(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NotReady | FailureKind::Full)
}

/// How long a failed host is left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// The delay after a first failure.
    pub(crate) base: Duration,
    /// With a cap the delay doubles with each failure in a row, up to it.
    pub(crate) cap: Option<Duration>,
}

impl Backoff {
    pub(super) fn of(kind: FailureKind, options: &ClusterOptions) -> Self {
        let doubling_from = |base: Duration| Backoff {
            base,
            cap: Some(options.failed_host_delay.max(base)),
        };
        match kind {
            FailureKind::Down | FailureKind::Rejected => Backoff {
                base: options.failed_host_delay,
                cap: options.failed_host_max_delay,
            },
            FailureKind::NotReady => doubling_from(NOT_READY_DELAY),
            FailureKind::Full => doubling_from(FULL_DELAY),
        }
    }

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

/// The failure that follows on `previous`. The count goes on across kinds; only an opened connection ends it. `again`: it is
/// no further failure, only another look at the same.
pub(crate) fn mark(
    previous: Option<&HostFailure>,
    kind: FailureKind,
    reason: &str,
    again: bool,
    backoff: Backoff,
    now: Instant,
) -> HostFailure {
    let before = previous.map_or(0, |failure| failure.consecutive);
    let same_kind = previous.filter(|failure| failure.kind == kind);
    let before_of_kind = same_kind.map_or(0, |failure| failure.of_kind);
    let one_more = u32::from(!again || same_kind.is_none());
    let consecutive = before.saturating_add(one_more);
    let of_kind = before_of_kind.saturating_add(one_more);
    let delay = backoff.delay(if has_own_schedule(kind) {
        of_kind
    } else {
        consecutive
    });
    HostFailure {
        kind,
        consecutive,
        of_kind,
        at: now,
        next_probe: after(now, delay),
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
        let first = mark(None, FailureKind::Down, "refused", false, backoff, now);
        assert_eq!((first.consecutive, first.next_probe), (1, now + millis(1000)));

        let second = mark(Some(&first), FailureKind::Rejected, "no", false, backoff, now);
        assert_eq!((second.consecutive, second.kind), (2, FailureKind::Rejected));
        assert_eq!(second.next_probe, now + millis(2000));

        let full = HostFailure {
            consecutive: u32::MAX,
            ..second
        };
        assert_eq!(
            mark(Some(&full), FailureKind::Down, "refused", false, backoff, now).consecutive,
            u32::MAX
        );
    }
}
