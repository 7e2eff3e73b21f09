//! A connection while a request has it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgsteer_core::pool::Lease;

use super::address::BackendAddress;
use super::counters::Counters;
use super::inner::Inner;
use super::io::BackendIo;
use super::keeper::{Back, Message};

/// A borrowed connection, with its request counted in flight on the backend. Say how the request went with
/// [`release`](Self::release), [`failed`](Self::failed) or [`stale`](Self::stale).
///
/// Dropped without a word, the request counts as given up: the connection is closed, since an answer may still be on its way
/// to it, unless its stream was never touched; nothing is held against the backend.
#[must_use = "dropping it gives the request up"]
pub struct Borrowed {
    pool: Arc<Inner>,
    /// `None` before there is a connection, and when it has been given back.
    lease: Option<Lease>,
    counted: bool,
    touched: bool,
    waiting_for_us: bool,
}

impl Borrowed {
    /// A request that has no connection yet, and is counted from now on, if it is not already.
    #[inline]
    pub(super) fn begin(pool: Arc<Inner>, is_counted: bool) -> Self {
        if !is_counted {
            pool.traffic.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        Borrowed {
            pool,
            lease: None,
            counted: true,
            touched: false,
            waiting_for_us: false,
        }
    }

    /// A connection on its way to a request that is counted elsewhere.
    pub(super) fn parcel(pool: Arc<Inner>, lease: Lease) -> Self {
        Borrowed {
            pool,
            lease: Some(lease),
            counted: false,
            touched: false,
            waiting_for_us: false,
        }
    }

    /// What is in a parcel.
    pub(super) fn unpack(mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// The request has its connection. `waiting_for_us`: it had been open and idle.
    #[inline]
    pub(super) fn equip(&mut self, lease: Lease, waiting_for_us: bool) {
        self.lease = Some(lease);
        self.waiting_for_us = waiting_for_us;
    }

    pub(super) fn pool(&self) -> &Arc<Inner> {
        &self.pool
    }

    /// The stream.
    #[inline]
    #[expect(clippy::expect_used, reason = "nobody is given one without a connection")]
    pub fn io(&mut self) -> &mut BackendIo {
        self.touched = true;
        let lease = self
            .lease
            .as_mut()
            .expect("it has a connection until it is consumed");
        &mut self.pool.slots.get_mut(lease).io
    }

    /// Whether the connection was open before this request came, so that the backend may have closed it in the meantime. One
    /// that was dialled for it was not.
    pub fn is_reused(&self) -> bool {
        let answered = |lease| self.pool.slots.get(lease).answered > 0;
        self.waiting_for_us || self.lease.as_ref().is_some_and(answered)
    }

    /// Which backend it goes to.
    pub fn address(&self) -> &BackendAddress {
        &self.pool.address
    }

    /// The answer has been read to its end and nothing else was sent: the request is handled, and the connection is there for
    /// the next one. Should the backend have sent more than the answer, the connection is closed instead.
    #[inline]
    pub fn release(mut self) {
        self.pool.streak.answered();
        Counters::add(&self.pool.traffic.handled);
        if let Some(mut lease) = self.lease.take() {
            let connection = self.pool.slots.get_mut(&mut lease);
            connection.answered = connection.answered.saturating_add(1);
            self.pool.lay_down(lease);
        }
    }

    /// The answer did not come, was cut off or was none: the request is failed, the connection closed, and it is held against
    /// the backend. `why` is for people: it ends up in errors and the log, so it must hold no secret.
    #[cold]
    pub fn failed(mut self, why: &dyn fmt::Display) {
        Counters::add(&self.pool.traffic.failed);
        let why = Arc::<str>::from(format!("a request failed: {why}"));
        self.pool.note_error(Arc::clone(&why));
        if self.pool.streak.failed() {
            self.pool.tell_keeper(Message::RequestsFailed(why));
        }
        if let Some(lease) = self.lease.take() {
            self.pool.discard(lease, Back::Failed);
        }
    }

    /// The connection turned out to be closed before a byte of the answer had come. One that was
    /// [reused](Self::is_reused) may be: nothing is held against the backend, and the request may go another way.
    #[cold]
    pub fn stale(mut self) {
        if let Some(lease) = self.lease.take() {
            self.pool.discard(lease, Back::Stale);
        }
    }
}

impl Drop for Borrowed {
    #[inline]
    fn drop(&mut self) {
        if self.counted {
            self.pool.traffic.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(lease) = self.lease.take() {
            if self.touched {
                self.pool.discard(lease, Back::GivenUp);
            } else {
                self.pool.lay_down(lease);
            }
        }
    }
}

impl fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrowed")
            .field("backend", self.address())
            .field("is_reused", &self.is_reused())
            .finish_non_exhaustive()
    }
}
