//! One backend's pool, as its users see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::breaker::Breaker;
use pgsteer_core::pool::planner::{Planner, PlannerOptions};
use pgsteer_core::pool::{Rejected, Slots};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

use super::address::BackendAddress;
use super::borrowed::Borrowed;
use super::counters::Counters;
use super::dial::Dial;
use super::error::{BorrowError, Unavailable};
use super::inner::{Inner, Parts, ToKeeper, Turned, now};
use super::keeper::{Keeper, Message};
use super::options::{BackendOptions, BreakerOptions, LONGEST, OptionError};
use super::outside::Outside;
use super::status::{BackendStatus, Closed};
use crate::threads::Crew;

/// A backend's warm connections. Cheap to clone; when the last clone is dropped the pool ends as with
/// [`close`](Self::close), without waiting.
///
/// It keeps `min_idle` of them ready, grows up to `max_size` as requests come, and lets those go that are unused, too old, or
/// do not answer pings. What the backend does to an idle connection is noticed when it happens. Requests are served strictly
/// first come, first served.
#[derive(Clone)]
pub struct BackendPool {
    handle: Arc<Handle>,
}

/// Ends the pool when the last [`BackendPool`] goes.
struct Handle {
    inner: Arc<Inner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.slots.close();
        self.inner.tell_keeper(Message::Shutdown);
    }
}

impl BackendPool {
    /// Starts a pool. Returns at once; connections open in the background.
    ///
    /// # Errors
    ///
    /// An option out of its range.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        address: BackendAddress,
        options: BackendOptions,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, OptionError> {
        BackendPool::start_across(address, options, dialer, Crew::default())
    }

    /// As [`start`](Self::start), with the connections spread over these threads.
    pub(super) fn start_across(
        address: BackendAddress,
        options: BackendOptions,
        dialer: Arc<dyn Dial>,
        crew: Crew,
    ) -> Result<Self, OptionError> {
        options.check()?;
        let (keeper, messages) = mpsc::unbounded_channel();
        let nudge = Arc::new(Notify::new());
        let to_keeper = ToKeeper {
            messages: keeper.clone(),
            nudge: Arc::clone(&nudge),
        };
        let (slots, leases) = Slots::new(options.max_size, Box::new(to_keeper));
        let outside = Box::new(Outside(address.clone()));
        let parts = Parts {
            slots,
            planner: Planner::new(planner_options(&options)),
            breaker: Breaker::new(breaker_options(&options), outside)?,
            crew,
            keeper,
            nudge,
        };
        let inner = Arc::new(Inner::new(address, options, dialer, parts));
        tokio::spawn(Keeper::new(Arc::clone(&inner), messages, leases).run());
        Ok(BackendPool {
            handle: Arc::new(Handle { inner }),
        })
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// Which backend.
    pub fn address(&self) -> &BackendAddress {
        &self.inner().address
    }

    /// The knobs it was started with.
    pub fn options(&self) -> &BackendOptions {
        &self.inner().options
    }

    /// Borrows a connection, waiting up to `borrow_timeout`.
    ///
    /// While the backend is known to have failed it is dialled for this all the same, ten times a second at most; requests in
    /// between are told of the last failure at once.
    ///
    /// # Errors
    ///
    /// [`BorrowError::TimedOut`]; [`BorrowError::Failed`] as soon as a dial has failed and no connection is there that could
    /// come back; [`BorrowError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue; a connection granted in that instant goes to the next request. Dials are never
    /// a request's own, so none is wasted.
    pub async fn borrow(&self) -> Result<Borrowed, BorrowError> {
        tokio::task::coop::consume_budget().await;
        let mut borrowed = Borrowed::begin(Arc::clone(self.inner()), false);
        if borrowed.take_idle() {
            return Ok(borrowed);
        }
        let (began, deadline) = self.times();
        match borrowed.wait(deadline).await {
            Ok(()) => Ok(borrowed),
            Err(rejected) => Err(self.error(&rejected, began)),
        }
    }

    /// As [`borrow`](Self::borrow), but a connection that is dialled for this request. Where all are in use it is one that
    /// has just come back.
    ///
    /// # Errors
    ///
    /// As [`borrow`](Self::borrow).
    ///
    /// # Cancel safety
    ///
    /// As [`borrow`](Self::borrow).
    pub async fn borrow_fresh(&self) -> Result<Borrowed, BorrowError> {
        tokio::task::coop::consume_budget().await;
        let mut borrowed = Borrowed::begin(Arc::clone(self.inner()), false);
        let (began, deadline) = self.times();
        match borrowed.wait_fresh(deadline).await {
            Ok(()) => Ok(borrowed),
            Err(rejected) => Err(self.error(&rejected, began)),
        }
    }

    fn times(&self) -> (Instant, Instant) {
        let began = Instant::now();
        (began, began + self.options().borrow_timeout)
    }

    fn error(&self, rejected: &Rejected<Turned>, began: Instant) -> BorrowError {
        let unavailable = || {
            Arc::new(Unavailable {
                waited: began.elapsed(),
                backends: vec![self.status()],
            })
        };
        match rejected {
            Rejected::TimedOut => {
                Counters::add(&self.inner().counters.timeouts);
                BorrowError::TimedOut(unavailable())
            }
            Rejected::Failed(_) => BorrowError::Failed(unavailable()),
            Rejected::Closed => BorrowError::Closed,
        }
    }

    /// What the backend looks like now.
    pub fn status(&self) -> BackendStatus {
        self.inner().status()
    }

    /// Ends the pool: waiting and later requests fail with [`BorrowError::Closed`], idle connections are closed, borrowed ones
    /// when they come back. Waits until every socket is closed, for `grace` at most; goodbyes still under way are then cut
    /// short, and what requests have is left to them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pool ending by itself.
    pub async fn close(&self, grace: Duration) -> Closed {
        close(self.inner(), grace).await
    }
}

/// Ends a pool; see [`BackendPool::close`].
pub(super) async fn close(inner: &Inner, grace: Duration) -> Closed {
    let began = now();
    inner.slots.close();
    inner.tell_keeper(Message::Shutdown);
    let mut drained = inner.drained.subscribe();
    if timeout(grace, drained.wait_for(|drained| *drained))
        .await
        .is_err()
    {
        inner.tell_keeper(Message::Cut);
    }
    Closed {
        still_out: inner.status().in_use,
        took: now().saturating_duration_since(began),
    }
}

/// A probe is a dial and a ping: it is not to be taken for lost while they may still go on.
fn breaker_options(options: &BackendOptions) -> BreakerOptions {
    let least = options.connect_timeout + options.health_check_timeout + Duration::from_secs(1);
    BreakerOptions {
        probe_lease: options.breaker.probe_lease.max(least).min(LONGEST),
        ..options.breaker
    }
}

fn planner_options(options: &BackendOptions) -> PlannerOptions {
    // A life is shorter than the longest by its jitter, where the planner has one longer than the shortest.
    let jitter = |life: Duration| life.mul_f64(options.lifetime_jitter);
    PlannerOptions {
        size: options.max_size,
        min_idle: options.min_idle,
        idle_timeout: options.idle_timeout,
        max_lifetime: options.max_lifetime.map(|life| life - jitter(life)),
        lifetime_jitter: options.max_lifetime.map(jitter).unwrap_or_default(),
        // A backend is one host: nothing is ever moved elsewhere, and there is no login or hook.
        rebalance_interval: Duration::MAX,
        rebalance_batch: 1,
        login_backoff_max: options.failed_backend_delay,
        not_ready_max: options.failed_backend_delay,
        hook_keep_off: Duration::ZERO,
        max_dials: options.max_dials,
        refill_delay: options.failed_backend_delay,
        return_cancel_after: options.close_timeout,
        return_timeout: options.close_timeout,
    }
}

impl fmt::Debug for BackendPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackendPool").field(&self.status()).finish()
    }
}
