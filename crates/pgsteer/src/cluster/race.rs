//! Connection attempts of one search, in the order of their hosts. Usually there is one at a time; with
//! `connect_race_delay` the next host is dialled beside one that has kept silent for so long.

use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;
use tokio::time::{Instant, Sleep, sleep_until};

use super::reservation::Reservation;
use crate::dial::{DialError, Dialled};
use crate::world::BoxFuture;

/// How a dial ended. The outer error is what it panicked with.
pub(super) type Outcome = Result<Result<Dialled, DialError>, Box<dyn Any + Send>>;

/// One dial.
pub(super) type Dialling = BoxFuture<'static, Outcome>;

/// A host being dialled. Dropping it closes what it opened and marks nothing.
pub(super) struct Attempt {
    reservation: Reservation,
    dial: Dialling,
}

impl Attempt {
    pub(super) fn new(reservation: Reservation, dial: Dialling) -> Self {
        Attempt { reservation, dial }
    }
}

/// The attempts under way.
pub(super) struct Race {
    delay: Option<Duration>,
    running: Vec<Attempt>,
    /// When another may be begun beside those that run. `None`: not before one has ended.
    next_start: Option<Pin<Box<Sleep>>>,
    room: bool,
    /// How many of those that run were begun before the one that ended last.
    overtaken: usize,
}

impl Race {
    /// `delay`: how long the youngest attempt may keep silent before another is begun; `None` for ever.
    pub(super) fn new(delay: Option<Duration>) -> Self {
        Race {
            delay,
            running: Vec::new(),
            next_start: None,
            room: true,
            overtaken: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether another attempt may be begun now.
    pub(super) fn has_room(&self) -> bool {
        self.room || self.running.is_empty()
    }

    /// There is nobody to begin another attempt with, until one has ended.
    pub(super) fn is_full(&mut self) {
        self.room = false;
        self.next_start = None;
    }

    pub(super) fn add(&mut self, attempt: Attempt) {
        self.running.push(attempt);
        self.room = false;
        self.next_start = self
            .delay
            .map(|delay| Box::pin(sleep_until(Instant::now() + delay)));
    }

    /// Waits for an attempt to end; of several that have ended the earliest in order comes first. `None`: none has for so
    /// long that another may be begun. There must be an attempt. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(Reservation, Outcome)> {
        poll_fn(|cx| {
            for place in 0..self.running.len() {
                if let Poll::Ready(outcome) = self.running[place].dial.poll_unpin(cx) {
                    let Attempt { reservation, .. } = self.running.remove(place);
                    self.overtaken = place;
                    return Poll::Ready(Some((reservation, outcome)));
                }
            }
            if let Some(sleep) = &mut self.next_start {
                ready!(sleep.poll_unpin(cx));
                self.next_start = None;
                self.room = true;
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// The host that ended last has won. What has been opened meanwhile is closed in an orderly way. Of those that run,
    /// the ones that were begun earlier are given back: they have kept silent for longer than the winner, and may be silent
    /// for ever.
    pub(super) fn close(self) -> Vec<(HostKey, Dialling)> {
        let mut overtaken = Vec::new();
        let look = &mut Context::from_waker(Waker::noop());
        for (
            place,
            Attempt {
                reservation,
                mut dial,
            },
        ) in self.running.into_iter().enumerate()
        {
            match dial.poll_unpin(look) {
                Poll::Ready(Ok(Ok(dialled))) => dialled.close_in_background(),
                Poll::Pending if place < self.overtaken => overtaken.push((reservation.key().clone(), dial)),
                _ => {}
            }
        }
        overtaken
    }
}
