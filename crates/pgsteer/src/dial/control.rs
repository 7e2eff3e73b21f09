//! What a connection's driver shares with everybody else: its wake-ups, its orders, and whom to tell of its end.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use pgsteer_core::pool::Session;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ending::EndReason;

/// Who looks after a connection's slot. Called by the connection's driver, on its task.
///
/// Implementations must not block.
pub(crate) trait Owner: Send + Sync {
    /// The slot was parked and its session is clean: the driver owns the slot, and gives it to the callee to be made
    /// idle.
    fn release(&self);

    /// The slot was parked and its session is dirty or retired: the driver owns the slot, and gives it to the callee
    /// for the keeper.
    fn hand_over(&self);

    /// The server refused a write because the session takes none: it may not be what it was taken for. Called once, and
    /// before the session can be given to anybody else.
    fn role_doubted(&self);

    /// The connection has ended and its socket is closed. `owned`: the slot was parked and is now the callee's.
    fn ended(&self, reason: EndReason, owned: bool);
}

/// Orders to a connection's driver, from any thread. Clone is cheap; does not keep the connection open.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Control>);

impl Handle {
    /// Names the owner, who is told of everything from now on. To be called before the slot can be parked.
    ///
    /// # Errors
    ///
    /// The connection has ended already; the reason is given back and the owner is never called.
    pub(crate) fn attach(&self, owner: Arc<dyn Owner>) -> Result<(), EndReason> {
        let mut orders = self.0.orders();
        if let Ownership::Ended(reason) = &orders.ownership {
            return Err(reason.clone());
        }
        let before = std::mem::replace(&mut orders.ownership, Ownership::Owner(owner));
        drop(orders);
        drop(before);
        Ok(())
    }

    /// Cuts the socket now: nothing is sent to the server, queries under way fail as closed.
    pub(crate) fn abort(&self) {
        self.cut(EndReason::Cut);
    }

    /// As [`abort`](Self::abort), for this reason. The first reason given stands.
    pub(crate) fn cut(&self, reason: EndReason) {
        self.0.order(|orders| {
            orders.cut.get_or_insert(reason);
        });
    }

    /// Returns once the connection has ended and its socket is closed.
    ///
    /// Cancel safe: nothing is changed by it.
    pub(crate) async fn ended(&self) {
        let mut told = pin!(self.0.ended.notified());
        // Listening first: an end in between is not missed.
        told.as_mut().enable();
        let has_ended = matches!(self.0.orders().ownership, Ownership::Ended(_));
        if !has_ended {
            told.await;
        }
    }

    /// Cuts the socket unless the connection has ended within `limit`. Meant for when the client has been dropped;
    /// an earlier limit stands.
    pub(crate) fn close_within(&self, limit: Duration) {
        let limit = Instant::now() + limit;
        self.0.order(|orders| {
            orders.close_by = Some(orders.close_by.map_or(limit, |earlier| earlier.min(limit)));
        });
    }

    /// Why the connection ended, if it has. Known by the time at which a query fails for it.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        self.0.orders().ending.clone()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.0.session).finish()
    }
}

/// Shared by a driver and its handles.
pub(super) struct Control {
    session: Arc<Session>,
    /// Set after orders were given, so that a pass without any takes no lock.
    ordered: AtomicBool,
    orders: Mutex<Orders>,
    /// Told when the connection has ended.
    ended: Notify,
}

#[derive(Default)]
struct Orders {
    /// To be cut, and why.
    cut: Option<EndReason>,
    close_by: Option<Instant>,
    /// Why it ends or has ended.
    ending: Option<EndReason>,
    ownership: Ownership,
    /// The task that the driver is polled by, to be woken for orders; none once it has ended.
    task: Option<Waker>,
}

#[derive(Default)]
enum Ownership {
    #[default]
    Nobody,
    Owner(Arc<dyn Owner>),
    Ended(EndReason),
}

/// What a driver has been told to do.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    pub(super) cut: Option<EndReason>,
    pub(super) close_by: Option<Instant>,
}

impl Control {
    pub(super) fn new(session: Arc<Session>) -> Arc<Self> {
        Arc::new(Control {
            session,
            ordered: AtomicBool::new(false),
            orders: Mutex::default(),
            ended: Notify::new(),
        })
    }

    pub(super) fn handle(self: &Arc<Self>) -> Handle {
        Handle(Arc::clone(self))
    }

    /// The driver is polled by another task from now on. Returns the waker for all that its connection waits for. To be
    /// called before orders are looked at.
    #[cold]
    pub(super) fn moved_to(&self, task: &Waker) -> Waker {
        self.orders().task = Some(task.clone());
        Waker::from(Arc::new(Marking {
            session: Arc::clone(&self.session),
            task: task.clone(),
        }))
    }

    /// Whether there are orders that have not been taken.
    #[inline]
    pub(super) fn has_orders(&self) -> bool {
        self.ordered.load(Ordering::Acquire)
    }

    /// All orders given so far. Those given from now on have to be taken again.
    pub(super) fn take_orders(&self) -> Ordered {
        self.ordered.store(false, Ordering::Release);
        let orders = self.orders();
        Ordered {
            cut: orders.cut.clone(),
            close_by: orders.close_by,
        }
    }

    /// Tells the owner, if there is one. Whether there is.
    pub(super) fn tell(&self, tell: impl FnOnce(&dyn Owner)) -> bool {
        let owner = match &self.orders().ownership {
            Ownership::Owner(owner) => Arc::clone(owner),
            Ownership::Nobody | Ownership::Ended(_) => return false,
        };
        tell(&*owner);
        true
    }

    /// Says why the connection is about to end. To be called while it still stands, since queries under way fail the
    /// moment it goes.
    pub(super) fn note_end(&self, reason: &EndReason) {
        self.orders().ending = Some(reason.clone());
    }

    /// Ends the session and tells the owner. The socket must be closed by now.
    pub(super) fn end(&self, reason: EndReason) {
        let owned = self.session.close();
        let (before, task) = {
            let mut orders = self.orders();
            let ended = Ownership::Ended(reason.clone());
            (
                std::mem::replace(&mut orders.ownership, ended),
                orders.task.take(),
            )
        };
        drop(task);
        self.ended.notify_waiters();
        if let Ownership::Owner(owner) = before {
            owner.ended(reason, owned);
        }
    }

    fn order(&self, give: impl FnOnce(&mut Orders)) {
        let task = {
            let mut orders = self.orders();
            give(&mut orders);
            self.ordered.store(true, Ordering::Release);
            orders.task.clone()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        // No caller's code runs under the lock, so there is nothing half done behind a poisoned one.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A driver's waker: it marks the session as woken before it wakes the driver's task, on the thread of whoever queued a
/// request. So a request that the driver has not seen yet is never overlooked.
///
/// It is made once for each task that polls the driver, and kept: a round trip changes no reference count for it but
/// those that the driver's parts take.
struct Marking {
    session: Arc<Session>,
    task: Waker,
}

impl Wake for Marking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.session.wake();
        self.task.wake_by_ref();
    }
}
