//! `stall_timeout`: when a server that owes an answer has been silent for too long. Told by the driver after each of its
//! passes what is awaited; while nothing is, no clock is read. A timer that is left from an answered request runs out
//! once and is gone.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The watch over one connection.
pub(super) struct Stall {
    limit: Duration,
    /// Since when the server has been awaited in silence.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(super) fn new(limit: Duration) -> Self {
        Stall {
            limit,
            since: None,
            timer: None,
        }
    }

    /// A pass is over. `heard`: the server has shown a sign of life in it; `awaited`: nothing goes on without it.
    pub(super) fn after_pass(&mut self, heard: bool, awaited: bool) {
        match (awaited, self.since) {
            (false, _) => self.since = None,
            (true, Some(_)) if !heard => {}
            (true, _) => self.since = Some(Instant::now()),
        }
    }

    /// Ready once the server has been silent for too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(timer.as_mut().poll(cx));
            }
            let Some(ends) = self.since.and_then(|since| since.checked_add(self.limit)) else {
                self.timer = None;
                // Nothing to wait for: the next pass says when there is.
                return Poll::Pending;
            };
            match &mut self.timer {
                Some(timer) if timer.deadline() >= ends => return Poll::Ready(()),
                Some(timer) => timer.as_mut().reset(ends),
                None => self.timer = Some(Box::pin(sleep_until(ends))),
            }
        }
    }
}
