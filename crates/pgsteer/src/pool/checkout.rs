//! Checking a connection out. The fast path is two atomic steps and no more; only a caller that has to wait reads the
//! clock and joins the queue.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pgsteer_core::pool::{Lease, Rejected, Take, Wait};

use super::guard::{Conn, ConnRef};
use super::inner::{Counters, Inner};
use crate::error::Error;

/// A checkout under way. Dropping it leaves the queue, or gives on what was granted in that instant.
#[must_use = "futures do nothing unless polled"]
struct Checkout<'pool> {
    pool: &'pool Inner,
    wait: Wait,
    limit: Option<Duration>,
    /// Set when the caller had to wait.
    since: Option<Instant>,
    at: &'static Location<'static>,
}

/// A checkout that need not wait is an eighth of what tokio's cooperative budget is counted in, so each eighth use of a
/// slot pays for all of them.
const USES_PER_PAYMENT: u32 = 8;

impl Checkout<'_> {
    #[inline]
    fn poll_lease(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lease, Error>> {
        if self.since.is_none() {
            while let Some(lease) = self.pool.try_take() {
                let index = lease.index();
                if self.pool.slots.uses(index) % USES_PER_PAYMENT == 0 && pay(cx).is_pending() {
                    self.pool.put_back(lease);
                    return Poll::Pending;
                }
                if let Some(lease) = self.pool.attend(lease, self.at) {
                    return Poll::Ready(Ok(lease));
                }
            }
        }
        self.poll_wait(cx)
    }

    #[cold]
    #[inline(never)]
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lease, Error>> {
        let mut joins = self.since.is_none();
        if joins {
            if let Some(error) = self.pool.turned_away() {
                return Poll::Ready(Err(error));
            }
        }
        let since = *self.since.get_or_insert_with(super::now);
        let deadline = self.limit.and_then(|limit| since.checked_add(limit));
        loop {
            match self.pool.slots.poll_take(&mut self.wait, cx, deadline) {
                Poll::Pending => {
                    if joins {
                        self.pool.began_to_wait(since);
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(lease)) => {
                    if let Some(lease) = self.pool.attend(lease, self.at) {
                        #[cfg(feature = "metrics")]
                        self.pool
                            .labels
                            .waited(super::now().saturating_duration_since(since));
                        return Poll::Ready(Ok(lease));
                    }
                    // To the end of the queue: its place went with the connection that was refused.
                    self.wait = Wait::default();
                    joins = true;
                }
                Poll::Ready(Err(rejected)) => {
                    return Poll::Ready(Err(match rejected {
                        Rejected::TimedOut => {
                            self.pool.exhausted(super::now().saturating_duration_since(since))
                        }
                        Rejected::Closed => Error::Closed,
                        Rejected::Failed(error) => {
                            if matches!(error, Error::CircuitOpen { .. }) {
                                Counters::add(&self.pool.counters.circuit_open);
                            }
                            error
                        }
                    }));
                }
            }
        }
    }
}

impl Drop for Checkout<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.since.is_some() {
            self.pool.slots.cancel(&mut self.wait);
        }
    }
}

/// A loop of checkouts must let other tasks of its thread run: pending once the task has had its share.
#[cold]
fn pay(cx: &mut Context<'_>) -> Poll<()> {
    ready!(tokio::task::coop::poll_proceed(cx)).made_progress();
    Poll::Ready(())
}

impl Inner {
    /// Takes an idle, fit connection if there is one and nobody waits. Unfit ones met go to the keeper.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Lease> {
        loop {
            match self.slots.try_take() {
                Take::Leased(lease) => return Some(lease),
                Take::Unfit(lease) => self.unfit(lease),
                Take::Empty => return None,
            }
        }
    }

    #[inline]
    fn checkout(&self, limit: Option<Duration>, at: &'static Location<'static>) -> Checkout<'_> {
        Checkout {
            pool: self,
            wait: Wait::default(),
            limit,
            since: None,
            at,
        }
    }
}

/// The future of [`Pool::get`](super::Pool::get).
#[must_use = "futures do nothing unless polled"]
pub struct Get<'pool> {
    pool: &'pool Arc<Inner>,
    checkout: Checkout<'pool>,
}

impl<'pool> Get<'pool> {
    #[inline]
    pub(super) fn new(
        pool: &'pool Arc<Inner>,
        limit: Option<Duration>,
        at: &'static Location<'static>,
    ) -> Self {
        Get {
            pool,
            checkout: pool.checkout(limit, at),
        }
    }
}

impl Future for Get<'_> {
    type Output = Result<Conn, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = ready!(self.checkout.poll_lease(cx))?;
        Poll::Ready(Ok(Conn::new(self.pool.clone(), lease)))
    }
}

/// The future of [`Pool::get_ref`](super::Pool::get_ref).
#[must_use = "futures do nothing unless polled"]
pub struct GetRef<'pool> {
    checkout: Checkout<'pool>,
}

impl<'pool> GetRef<'pool> {
    #[inline]
    pub(super) fn new(pool: &'pool Inner, limit: Option<Duration>, at: &'static Location<'static>) -> Self {
        GetRef {
            checkout: pool.checkout(limit, at),
        }
    }
}

impl<'pool> Future for GetRef<'pool> {
    type Output = Result<ConnRef<'pool>, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = ready!(self.checkout.poll_lease(cx))?;
        Poll::Ready(Ok(ConnRef::new(self.checkout.pool, lease)))
    }
}
