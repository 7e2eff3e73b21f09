//! Time limits of whole messages, at the price of almost nothing for the messages that keep to them.
//!
//! A limit is moved by writing down another instant. The timer behind it is not touched for that: when it goes off too
//! early it is set anew, so a busy client costs the timer wheel one entry in five seconds and not one a request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How long a message may take: a base, and beyond it what its length takes at the slowest rate that is put up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) base: Duration,
    /// Bytes a second.
    pub(crate) rate: u64,
}

impl Allowance {
    pub(crate) fn of(self, length: usize) -> Duration {
        let nanos = u128::from(u64::try_from(length).unwrap_or(u64::MAX)) * 1_000_000_000
            / u128::from(self.rate.max(1));
        self.base
            .saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// One limit at a time. Only ever holds a timer once somebody had to wait under it.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    until: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    pub(crate) fn set(&mut self, until: Instant) {
        self.until = Some(until);
    }

    pub(crate) fn clear(&mut self) {
        self.until = None;
    }

    /// Ready once the limit that is set has passed. Without one it is pending.
    pub(crate) fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else {
            return Poll::Pending;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Allowance, Deadline};

    #[test]
    fn a_message_is_allowed_the_base_and_its_length_at_the_slowest_rate() {
        let allowance = Allowance {
            base: Duration::from_secs(5),
            rate: 1024,
        };
        let cases = [
            (0, Duration::from_secs(5)),
            (1024, Duration::from_secs(6)),
            (512, Duration::from_millis(5500)),
            (16 * 1024 * 1024, Duration::from_secs(5 + 16 * 1024)),
        ];
        for (length, allowed) in cases {
            assert_eq!(allowance.of(length), allowed, "{length} bytes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_was_moved_on_passes_at_the_later_instant() {
        let began = Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(began + Duration::from_secs(5));
        let early = tokio::time::timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll_passed(cx)));
        assert!(early.await.is_err());

        deadline.set(began + Duration::from_secs(8));
        poll_fn(|cx| deadline.poll_passed(cx)).await;

        assert_eq!(began.elapsed().as_secs(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_was_moved_nearer_passes_at_the_earlier_instant() {
        let began = Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(began + Duration::from_secs(60));
        let early = tokio::time::timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll_passed(cx)));
        assert!(early.await.is_err());

        deadline.set(began + Duration::from_secs(3));
        poll_fn(|cx| deadline.poll_passed(cx)).await;

        assert_eq!(began.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_passes() {
        let mut deadline = Deadline::default();
        deadline.set(Instant::now() + Duration::from_secs(1));
        deadline.clear();

        let passed = tokio::time::timeout(Duration::from_secs(3600), poll_fn(|cx| deadline.poll_passed(cx)));

        assert!(passed.await.is_err());
    }
}
