//! Getting a connection of one backend: from the idle ones, or by waiting in the queue, or dialled on purpose.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgsteer_core::pool::{Lease, Rejected};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::borrowed::Borrowed;
use super::inner::{Inner, Turned};
use super::keeper::{Back, Message};

/// How often a new connection on which something has come is looked at.
const LOOKS: usize = 4;

/// Why a request that wanted a connection dialled for it has none.
pub(super) enum NotFresh {
    /// All connections are in use: one that comes back has just answered, and will do.
    NoRoom,
    /// The dial failed.
    Failed(Turned),
}

impl Borrowed {
    /// Takes an idle connection, if there is one and nobody waits.
    #[inline]
    pub(super) fn take_idle(&mut self) -> bool {
        match self.pool().try_take() {
            Some(lease) => {
                self.equip(lease, true);
                true
            }
            None => false,
        }
    }

    /// Waits for a connection, strictly in the order in which requests come.
    ///
    /// Cancel safe: dropped, it leaves the queue, and what was granted in that instant goes to the next.
    pub(super) async fn wait(&mut self, deadline: Instant) -> Result<(), Rejected<Turned>> {
        let pool = Arc::clone(self.pool());
        loop {
            let mut joined = false;
            let mut checkout = pin!(pool.slots.checkout(Some(deadline.into_std())));
            let lease = poll_fn(|cx| {
                let polled = Pin::new(&mut checkout).poll(cx);
                if polled.is_pending() && !std::mem::replace(&mut joined, true) {
                    pool.began_to_wait();
                }
                polled
            })
            .await?;
            if pool.slots.get(&lease).take_up() {
                self.equip(lease, !joined);
                return Ok(());
            }
            pool.unfit(lease);
        }
    }

    /// Waits for a connection that is dialled for this request; where all are in use, for one that comes back.
    ///
    /// Cancel safe: what is dialled stays in the pool.
    pub(super) async fn wait_fresh(&mut self, deadline: Instant) -> Result<(), Rejected<Turned>> {
        let pool = Arc::clone(self.pool());
        let (fresh, parcel) = oneshot::channel();
        pool.tell_keeper(Message::Fresh(fresh));
        match timeout_at(deadline, parcel).await {
            Ok(Ok(Ok(parcel))) => match parcel.unpack() {
                Some(lease) => match pool.take_up_new(lease) {
                    Some(lease) => {
                        self.equip(lease, false);
                        Ok(())
                    }
                    None => Err(Rejected::Failed("the backend closed a new connection".into())),
                },
                None => Err(Rejected::Closed),
            },
            Ok(Ok(Err(NotFresh::NoRoom))) => self.wait(deadline).await,
            Ok(Ok(Err(NotFresh::Failed(why)))) => Err(Rejected::Failed(why)),
            Ok(Err(_)) => Err(Rejected::Closed),
            Err(_) => Err(Rejected::TimedOut),
        }
    }
}

impl Inner {
    /// Takes up a connection that was opened a moment ago. Behind a TLS handshake the backend says a few more things that
    /// are no answer to anybody: so one on which something has come since is looked at before it is given up.
    fn take_up_new(&self, mut lease: Lease) -> Option<Lease> {
        for _ in 0..LOOKS {
            let connection = self.slots.get_mut(&mut lease);
            if connection.take_up() {
                return Some(lease);
            }
            if let Err(restless) = connection.lay_down() {
                let has_served = connection.answered > 0;
                self.discard(lease, Back::Lost { restless, has_served });
                return None;
            }
        }
        self.unfit(lease);
        None
    }

    /// Hands the keeper a connection that is not to be used again. Apart, for a message is large, and whoever takes a connection
    /// or lays it down should need no room for one on the stack.
    #[cold]
    #[inline(never)]
    pub(super) fn unfit(&self, lease: Lease) {
        let back = Back::Unfit;
        self.tell_keeper(Message::Returned { lease, back });
    }

    /// A request has joined the queue: the pool may have to grow, or its backend to be tried.
    #[cold]
    fn began_to_wait(&self) {
        let is_well = self.is_well();
        if !is_well {
            self.wanted_anyway.store(true, Ordering::Release);
        }
        // The queue's lock lies between the keeper's last look at it and this load: who is not seen there sees this.
        if !is_well || !self.full.load(Ordering::Relaxed) {
            self.nudge.notify_one();
        }
    }
}
