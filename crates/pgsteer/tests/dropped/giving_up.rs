//! When a future is given up.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// How long somebody waits for a future before dropping it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Polled this often, each time it was woken, and dropped at the end of the last poll.
    Polls(u32),
    /// Polled at every turn of the scheduler, and dropped after this many, perhaps between its waking and its poll.
    Turns(u32),
    /// Dropped after this time.
    Time(Duration),
    Endless,
}

impl Patience {
    /// Mostly little, so that every step of a short use is met as often as those of a long one. `longest`: of the times.
    pub(crate) fn random(random: &mut fastrand::Rng, longest: Duration) -> Self {
        let most = if random.bool() { 6 } else { 40 };
        match random.u32(0..8) {
            0 => Patience::Endless,
            1..=3 => Patience::Polls(random.u32(0..most)),
            4..=6 => Patience::Turns(random.u32(0..2 * most)),
            _ => Patience::Time(longest.mul_f64(random.f64())),
        }
    }

    /// What the future came to, if it did in time.
    pub(crate) async fn with<T>(self, future: impl Future<Output = T>) -> Option<T> {
        let (mut left, hurried) = match self {
            Patience::Endless => return Some(future.await),
            Patience::Time(limit) => return tokio::time::timeout(limit, future).await.ok(),
            Patience::Polls(polls) => (polls, false),
            Patience::Turns(turns) => (turns, true),
        };
        let mut future = pin!(future);
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    if hurried {
                        cx.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}
