//! Waiting for a slot, and handing a returned one to whoever has waited longest.
//! It relies on two facts: a slot's idle bit and the flag that somebody waits are in one word, and the flag changes
//! only under the lock. So a return either comes before the flag, and the waiter that raises it sees the bit, or after
//! it, and comes to the lock; whenever the lock is free, an idle slot beside a waiter has a return on its way to it.
//! Wakers are woken and dropped, and the keeper is called, only after the lock is let go.

use super::session::{GiveBack, Session};
use super::slots::{HasSession, Lease, Slots, Tenant};
use super::sync::{MutexGuard, Ordering};
use super::waiters::{Granted, Outcome, Queue, Rejected, Wait};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// What became of a slot that its holder gave back.
#[derive(Debug)]
#[must_use = "an unfit slot is to be passed to the keeper"]
pub enum GivenBack {
    /// It is idle, or belongs to the oldest waiter.
    Released,
    /// The wire is busy: the driver releases it when the last answer has come. The keeper sets a deadline: if
    /// [`Session::unpark`] then says `true`, it takes the lease with [`Slots::unpark`]. Noting
    /// [`Slots::uses`] with the deadline tells this parking from a later one of the same slot.
    Parked,
    /// Dirty, closed or retired: still the caller's, to be passed to the keeper.
    Unfit(Lease),
}

impl<T: Tenant, E> Slots<T, E> {
    fn lock(&self) -> MutexGuard<'_, Queue<E>> {
        // A panic under the lock could only come from a waker's or an error's clone, between whole steps.
        self.queue.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a slot back in whatever state its session is: what a guard does when it is dropped.
    /// One load and one locked instruction if the session is quiet and clean.
    #[inline]
    pub fn give_back(&self, lease: Lease) -> GivenBack
    where
        T: HasSession,
    {
        let outlook = self.tenant(&lease).map(|tenant| tenant.session().outlook());
        match outlook {
            Some(GiveBack::Clean) => {
                self.release(lease);
                GivenBack::Released
            }
            Some(GiveBack::Parked) => self.give_back_parked(lease),
            Some(GiveBack::Keeper) | None => GivenBack::Unfit(lease),
        }
    }

    #[cold]
    fn give_back_parked(&self, lease: Lease) -> GivenBack
    where
        T: HasSession,
    {
        // Once parked, the slot may be emptied at any moment.
        match self.tenant(&lease).map(|tenant| Arc::clone(tenant.session())) {
            Some(session) => self.give_back_busy(lease, &session),
            None => GivenBack::Unfit(lease),
        }
    }

    #[cold]
    fn give_back_busy(&self, lease: Lease, session: &Session) -> GivenBack {
        // First the lease, then the session: whoever wins the session's parked bit must find the lease.
        let index = lease.index();
        self.park(lease);
        let settled = session.give_back();
        if settled == GiveBack::Parked {
            return GivenBack::Parked;
        }
        // The pass ended in between, so nobody else may take it back.
        match self.unpark(index) {
            Some(lease) if settled == GiveBack::Keeper => GivenBack::Unfit(lease),
            Some(lease) => {
                self.release(lease);
                GivenBack::Released
            }
            None => GivenBack::Parked,
        }
    }

    /// A slot has just been made idle and somebody waited: takes it back for the oldest waiter.
    ///
    /// If it is not idle any more, somebody else has taken it, and a slot that comes back from there will be brought
    /// here in its turn.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&self, index: u32) {
        let queue = self.lock();
        if queue.is_empty() && !self.closed_for(&queue) {
            return;
        }
        if let Some(lease) = self.claim(index) {
            let fit = self.fits(&lease);
            self.grant_or_keep(queue, lease, fit);
        }
    }

    /// A slot comes back and its word says that somebody waits: gives it to the oldest waiter without making it idle
    /// in between.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_on(&self, lease: Lease) {
        let fit = self.fits(&lease);
        let queue = self.lock();
        if queue.is_empty() && !self.closed_for(&queue) {
            drop(queue);
            self.make_idle(lease);
        } else {
            self.grant_or_keep(queue, lease, fit);
        }
    }

    fn grant_or_keep(&self, mut queue: MutexGuard<'_, Queue<E>>, lease: Lease, fit: bool) {
        let granted = if fit {
            self.grant(&mut queue, lease)
        } else {
            Err(lease)
        };
        match granted {
            Ok(waker) => {
                self.unlock(queue);
                waker.wake();
            }
            // Unfit, or nobody waits because the pool is closed.
            Err(lease) => {
                drop(queue);
                self.keeper.receive(lease);
            }
        }
    }

    /// Whether the pool is closed, for whoever has the lock.
    fn closed_for(&self, _: &Queue<E>) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Lets the lock go, with the flags up if somebody waits or the pool is closed, and down otherwise.
    fn unlock(&self, mut queue: MutexGuard<'_, Queue<E>>) {
        let wanted = !queue.is_empty() || self.closed_for(&queue);
        if queue.raised && !wanted {
            queue.raised = false;
            self.lower();
        }
        drop(queue);
    }

    /// Before the first waiter joins: raises the flags, unless a fit slot turns up.
    fn raise_or_take_first(&self, queue: &mut Queue<E>, unfit: &mut Vec<Lease>) -> Option<Lease> {
        if !queue.is_empty() || self.closed_for(queue) {
            return None;
        }
        queue.raised = true;
        self.raise_or_take(unfit)
    }

    /// Waits for a slot, strictly in the order of first polls.
    ///
    /// `deadline` is to be the same at each poll; [`expire`](Self::expire) enforces it. A slot that became unfit between
    /// grant and poll goes to the keeper, and the waiter back to its old place. When it is ready, the wait may be
    /// used anew.
    ///
    /// Cancel safe if every wait that is abandoned while pending is passed to [`cancel`](Self::cancel);
    /// [`checkout`](Self::checkout) sees to that.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says which.
    pub fn poll_take(
        &self,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        let taken = match wait.pool() {
            Some(pool) => {
                self.check_wait(pool);
                self.resume(wait, cx, deadline)
            }
            None => self.join(wait, cx, deadline),
        };
        if let Poll::Ready(Ok(lease)) = &taken {
            self.count_use(lease);
        }
        taken
    }

    fn join(
        &self,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        let waker = cx.waker().clone();
        let mut queue = self.lock();
        if queue.is_empty() {
            return self.join_first(queue, wait, waker, deadline);
        }
        // Somebody waits already: the flags are up, and the pool is not closed.
        *wait = queue.join(waker, deadline);
        let due = queue.newly_due();
        drop(queue);
        if let Some(at) = due {
            self.keeper.due(at);
        }
        Poll::Pending
    }

    /// Joins an empty queue, unless a slot turns up.
    #[inline(never)]
    fn join_first(
        &self,
        mut queue: MutexGuard<'_, Queue<E>>,
        wait: &mut Wait,
        waker: Waker,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        if self.closed_for(&queue) {
            // The lock before the waker, whose drop may run anything.
            drop(queue);
            return Poll::Ready(Err(Rejected::Closed));
        }
        let mut unfit = Vec::new();
        let taken = self.raise_or_take_first(&mut queue, &mut unfit);
        if taken.is_none() {
            *wait = queue.join(waker, deadline);
        }
        self.tell_keeper(queue, unfit);
        taken.map_or(Poll::Pending, |lease| Poll::Ready(Ok(lease)))
    }

    fn resume(
        &self,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        if let Some(granted) = wait.granted(&self.cells) {
            return self.accept(granted, wait, cx, deadline);
        }
        let mut queue = self.lock();
        // Granted between the look and the lock?
        if let Some(granted) = wait.granted(&self.cells) {
            drop(queue);
            return self.accept(granted, wait, cx, deadline);
        }
        let (outcome, _old_waker) = queue.collect(wait, cx.waker());
        // Before the old waker, whose drop may run anything.
        drop(queue);
        match outcome {
            Outcome::Over(rejected) => Poll::Ready(Err(rejected)),
            Outcome::Pending | Outcome::None => Poll::Pending,
        }
    }

    /// The waiter has come for its slot: without the lock, unless it is no use.
    #[inline]
    fn accept(
        &self,
        granted: Granted,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        let ticket = granted.ticket;
        let lease = self.collect(granted);
        if self.closed.load(Ordering::Acquire) || !self.fits(&lease) {
            return self.refuse(lease, ticket, wait, cx, deadline);
        }
        Poll::Ready(Ok(lease))
    }

    /// The granted slot became unfit before its waiter came for it, or the pool was closed.
    #[cold]
    fn refuse(
        &self,
        lease: Lease,
        ticket: u64,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<Lease, Rejected<E>>> {
        let waker = cx.waker().clone();
        let mut unfit = vec![lease];
        let mut queue = self.lock();
        let taken = self.raise_or_take_first(&mut queue, &mut unfit);
        let answer = match taken {
            Some(lease) => Poll::Ready(Ok(lease)),
            None if self.closed_for(&queue) => Poll::Ready(Err(Rejected::Closed)),
            None => {
                *wait = queue.rejoin(ticket, waker, deadline);
                Poll::Pending
            }
        };
        self.tell_keeper(queue, unfit);
        answer
    }

    /// Lets the lock go, then tells the keeper what it has to know.
    fn tell_keeper(&self, mut queue: MutexGuard<'_, Queue<E>>, unfit: Vec<Lease>) {
        let due = queue.newly_due();
        self.unlock(queue);
        for lease in unfit {
            self.keeper.receive(lease);
        }
        if let Some(at) = due {
            self.keeper.due(at);
        }
    }

    /// Ends a wait that its task gives up. A slot that was granted meanwhile goes to the next waiter.
    /// Does nothing to a wait that is not pending.
    #[inline]
    pub fn cancel(&self, wait: &mut Wait) {
        if let Some(pool) = wait.pool() {
            self.check_wait(pool);
            self.cancel_pending(wait);
        }
    }

    #[cold]
    fn cancel_pending(&self, wait: &mut Wait) {
        let mut queue = self.lock();
        let granted = wait.granted(&self.cells);
        // Dropped last, after the lock.
        let _left = queue.leave(wait);
        self.unlock(queue);
        if let Some(granted) = granted {
            let lease = self.collect(granted);
            if self.fits(&lease) {
                self.release(lease);
            } else {
                self.keeper.receive(lease);
            }
        }
    }

    /// Waits for a slot; the future may be dropped at any time without losing one.
    ///
    /// # Errors
    ///
    /// [`Rejected`] says which.
    pub fn checkout(&self, deadline: Option<Instant>) -> Checkout<'_, T, E> {
        Checkout {
            slots: self,
            wait: Wait::default(),
            deadline,
        }
    }

    /// Times out every waiter whose deadline is `now` or earlier. Returns the next deadline, at which it is to be
    /// called again; should an earlier one come, the keeper is told.
    pub fn expire(&self, now: Instant) -> Option<Instant> {
        let mut queue = self.lock();
        let wakers = queue.expire(now);
        let next = queue.next_deadline();
        self.unlock(queue);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// Fails everybody who waits now with this error. Whoever has been granted a slot keeps it.
    /// The error is cloned under the pool's lock, so its clone must be plain, as an `Arc`'s is.
    pub fn fail_waiters(&self, error: &E)
    where
        E: Clone,
    {
        self.reject_all(|| Rejected::Failed(error.clone()));
    }

    fn reject_all(&self, rejected: impl FnMut() -> Rejected<E>) {
        let mut queue = self.lock();
        let wakers = queue.reject_all(rejected);
        self.unlock(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Closes the pool. Everybody who waits, and every later wait, gets [`Rejected::Closed`]; nothing more is handed
    /// out. Slots that are idle when this returns stay so until the keeper claims them; every one that is released
    /// later, and every one granted but not collected, goes to the keeper. Closing again does nothing.
    pub fn close(&self) {
        let mut queue = self.lock();
        self.closed.store(true, Ordering::Release);
        queue.raised = true;
        self.raise();
        let wakers = queue.reject_all(|| Rejected::Closed);
        self.unlock(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether the pool is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }
}

/// Waiting for a slot. Cancel safe: dropped, it leaves the queue and passes on what was granted to it.
#[must_use = "futures do nothing unless polled"]
pub struct Checkout<'a, T: Tenant, E> {
    slots: &'a Slots<T, E>,
    wait: Wait,
    deadline: Option<Instant>,
}

impl<T: Tenant, E> Future for Checkout<'_, T, E> {
    type Output = Result<Lease, Rejected<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            slots,
            wait,
            deadline,
        } = &mut *self;
        slots.poll_take(wait, cx, *deadline)
    }
}

impl<T: Tenant, E> Drop for Checkout<'_, T, E> {
    fn drop(&mut self) {
        self.slots.cancel(&mut self.wait);
    }
}
