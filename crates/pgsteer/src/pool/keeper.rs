//! The keeper: the one task of a pool. It owns every slot that is neither idle nor held, tells the planner what
//! happens, carries out what the planner asks for, and times out waiting callers. It never waits for the network
//! itself: openers, rollbacks and cancels are tasks of their own that report back by message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgsteer_core::pool::Lease;
use pgsteer_core::pool::planner::{Action, CloseReason, Oddity, OpenFailure, ReturnReason, SlotState};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;

use super::inner::{Counters, Inner, Message, Settlement};
use super::now;
use super::opener;
use super::settle;
use super::tenant::Tenant;
use crate::cluster::SearchError;
use crate::dial::{EndReason, Handle};
use crate::error::Error;

/// Messages handled before the planner's actions are carried out again.
const BATCH: usize = 128;

pub(super) struct Keeper {
    pool: Arc<Inner>,
    messages: UnboundedReceiver<Message>,
    slots: Vec<Kept>,
    /// When the oldest waiter's time is up, as far as known.
    expiry: Option<Instant>,
    /// When holders are next looked at for leaks.
    leak_check: Option<Instant>,
    live: u32,
    closing: bool,
}

/// What the keeper has of one slot.
#[derive(Default)]
struct Kept {
    /// Present while the keeper owns the slot.
    lease: Option<Lease>,
    /// Counts the slot's connections, so that late news of an earlier one is known as such.
    epoch: u64,
    opener: Option<AbortHandle>,
    /// Present while the slot's connection has a socket.
    driver: Option<Handle>,
}

impl Keeper {
    pub(super) fn new(pool: Arc<Inner>, messages: UnboundedReceiver<Message>, leases: Vec<Lease>) -> Self {
        let slots = leases
            .into_iter()
            .map(|lease| Kept {
                lease: Some(lease),
                ..Kept::default()
            })
            .collect();
        Keeper {
            pool,
            messages,
            slots,
            expiry: None,
            leak_check: None,
            live: 0,
            closing: false,
        }
    }

    /// Runs until the pool has been shut down and every connection is gone.
    pub(super) async fn run(mut self) {
        self.plan(|planner, pool, now| planner.start(pool, now));
        self.leak_check = self.next_leak_check(now());
        let mut batch = Vec::with_capacity(BATCH);
        while !(self.closing && self.pool.planner().is_drained()) {
            let wake = [self.pool.planner().next_wake(), self.expiry, self.leak_check]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                biased;
                received = self.messages.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        break;
                    }
                    for message in batch.drain(..) {
                        self.heard(message);
                    }
                }
                () = self.pool.nudge.notified() => self.nudged(),
                () = sleep_until(wake) => {}
            }
            self.on_time(now());
        }
        // Guards still out at a cut come back here, so that nothing is leaked before the last of them.
        self.messages.close();
    }

    /// Whatever is due.
    fn on_time(&mut self, now: Instant) {
        if self.expiry.is_some_and(|at| at <= now) {
            self.expiry = self.pool.slots.expire(now);
        }
        if self.leak_check.is_some_and(|at| at <= now) {
            self.report_leaks(now);
            self.leak_check = self.next_leak_check(now);
        }
        if self.pool.planner().next_wake().is_some_and(|at| at <= now) {
            let due = self.pool.planner().rebalance_due(now);
            let snapshot = due.then(|| self.pool.cluster.snapshot());
            self.plan(|planner, pool, now| planner.tick(snapshot.as_ref(), pool, now));
        }
    }

    /// A waiter has come whose deadline is earlier than any known, or that may make the pool grow.
    fn nudged(&mut self) {
        self.expiry = self.pool.slots.expire(now());
        self.tell_refused_login();
        if self.pool.elastic && self.pool.slots.waiting() > 0 {
            self.plan(|planner, pool, now| planner.demand(pool, now));
        }
    }

    /// While every login is refused and no attempt is under way, nothing comes for a long time: callers are told why.
    fn tell_refused_login(&mut self) {
        let refused = self.pool.login_refused.load(Ordering::Relaxed);
        if refused && self.live == 0 && !self.slots.iter().any(|kept| kept.opener.is_some()) {
            self.fail_waiters();
        }
    }

    fn fail_waiters(&self) {
        let error = self
            .pool
            .last_failure()
            .as_ref()
            .map_or(Error::NoServer, |(_, error)| error.clone());
        self.pool.slots.fail_waiters(&error);
    }

    fn heard(&mut self, message: Message) {
        match message {
            Message::Opened {
                slot,
                epoch,
                tenant,
                driver,
                jitter,
            } => self.opened(slot, epoch, *tenant, driver, jitter),
            Message::OpenFailed { slot, epoch, error } => self.open_failed(slot, epoch, error),
            Message::OpenVanished { slot, epoch } => {
                if self.is_current(slot, epoch) {
                    self.kept(slot).opener = None;
                    if !self.closing {
                        tracing::error!(target: "pgsteer::pool", slot, "an opener died; its slot is opened again later");
                    }
                    self.report(|planner, pool, now| planner.open_vanished(slot, pool, now));
                }
            }
            Message::Returned { lease, discarded } => self.returned(lease, discarded),
            Message::Detached { lease } => {
                let slot = lease.index();
                self.own(lease);
                self.emptied(slot);
                self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Detached, pool, now));
            }
            Message::Parked { slot } => self.plan(|planner, pool, now| planner.parked(slot, pool, now)),
            Message::Settled {
                slot,
                epoch,
                tenant,
                outcome,
            } => self.settled(slot, epoch, *tenant, outcome),
            Message::Ended {
                slot,
                epoch,
                reason,
                lease,
            } => self.ended(slot, epoch, &reason, lease),
            Message::RetireAll => self.plan(|planner, pool, now| planner.retire_all(pool, now)),
            Message::Rebalance => {
                let snapshot = self.pool.cluster.snapshot();
                self.plan(|planner, pool, now| planner.rebalance(&snapshot, pool, now));
            }
            Message::Shutdown => self.shut_down(),
            Message::Cut => self.cut_all(),
        }
    }

    fn opened(&mut self, slot: u32, epoch: u64, tenant: Tenant, driver: Handle, jitter: u64) {
        if !self.is_current(slot, epoch) {
            return;
        }
        let host = tenant.host.clone();
        self.pool.sheet(slot).set_session(Some(tenant.session.clone()));
        self.kept(slot).opener = None;
        self.kept(slot).driver = Some(driver);
        self.put_tenant(slot, tenant);
        self.live += 1;
        Counters::add(&self.pool.counters.opened);
        *self.pool.last_failure() = None;
        self.pool.login_refused.store(false, Ordering::Relaxed);
        self.report(|planner, pool, now| planner.opened(slot, host, jitter, pool, now));
        self.pool.live.send_replace(self.live);
    }

    fn open_failed(&mut self, slot: u32, epoch: u64, error: SearchError) {
        if !self.is_current(slot, epoch) {
            return;
        }
        self.kept(slot).opener = None;
        Counters::add(&self.pool.counters.open_failures);
        let failure = opener::open_failure(&error);
        self.pool
            .login_refused
            .store(failure == OpenFailure::Login && self.live == 0, Ordering::Relaxed);
        *self.pool.last_failure() = Some((now(), Error::from(error)));
        self.report(|planner, pool, now| planner.open_failed(slot, failure, pool, now));
    }

    /// A slot has come to the keeper with its connection.
    fn returned(&mut self, lease: Lease, discarded: bool) {
        let slot = lease.index();
        let session = self.pool.sheet(slot).session();
        self.own(lease);
        let why = match session {
            Some(session) if !session.is_closed() => {
                if discarded {
                    ReturnReason::Discarded
                } else if session.is_retired() {
                    ReturnReason::Retired
                } else {
                    ReturnReason::Dirty
                }
            }
            _ => {
                self.emptied(slot);
                ReturnReason::Closed
            }
        };
        self.report(|planner, pool, now| planner.returned(slot, why, pool, now));
    }

    fn settled(&mut self, slot: u32, epoch: u64, tenant: Tenant, outcome: Settlement) {
        if !self.is_current(slot, epoch)
            || tenant.session.is_closed()
            || self.state(slot) != SlotState::Settling
        {
            // The connection has ended or is being cut, which its driver reports; the tenant goes here.
            return;
        }
        self.put_tenant(slot, tenant);
        match outcome {
            Settlement::Clean => self.report(|planner, pool, now| planner.cleaned(slot, true, pool, now)),
            Settlement::Failed => self.report(|planner, pool, now| planner.cleaned(slot, false, pool, now)),
            Settlement::InTransaction => {
                self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Dirty, pool, now));
            }
        }
    }

    /// A connection's socket is gone.
    fn ended(&mut self, slot: u32, epoch: u64, reason: &EndReason, lease: Option<Lease>) {
        if let Some(lease) = lease {
            self.own(lease);
        }
        if !self.is_current(slot, epoch) {
            return;
        }
        if self.kept(slot).lease.is_none() {
            if let Some(lease) = self.pool.slots.claim(slot) {
                self.own(lease);
            }
        }
        let owned = self.kept(slot).lease.is_some();
        self.kept(slot).driver = None;
        if self.state(slot) == SlotState::Closing {
            self.emptied(slot);
            return self.report(|planner, pool, now| planner.socket_closed(slot, pool, now));
        }
        Counters::add(&self.pool.counters.lost);
        tracing::debug!(target: "pgsteer::pool", slot, %reason, "a connection ended");
        if owned {
            self.emptied(slot);
        }
        self.report(|planner, pool, now| planner.died(slot, owned, pool, now));
    }

    /// Empties a slot the keeper owns. Dropping the client ends its connection in an orderly way, if it has not ended.
    fn emptied(&mut self, slot: u32) {
        drop(self.take_tenant(slot));
        self.kept(slot).epoch += 1;
        self.kept(slot).driver = None;
        self.pool.sheet(slot).set_session(None);
        self.live = self.live.saturating_sub(1);
        self.pool.live.send_replace(self.live);
    }

    fn shut_down(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.pool.cluster.stop();
        self.plan(|planner, pool, now| planner.shutdown(pool, now));
        for slot in 0..self.slots.len() as u32 {
            // Its drop reports the slot as vanished.
            if let Some(opener) = self.kept(slot).opener.take() {
                opener.abort();
            }
        }
    }

    /// Cuts every socket; slots that are out come back closed.
    fn cut_all(&mut self) {
        for kept in &self.slots {
            if let Some(driver) = &kept.driver {
                driver.abort();
            }
        }
    }

    /// Tells the planner something that cannot be odd, then carries its actions out.
    fn plan(&mut self, tell: impl FnOnce(&mut pgsteer_core::pool::planner::Planner, &Inner, Instant)) {
        tell(&mut self.pool.planner(), &self.pool, now());
        self.carry_out();
    }

    /// Tells the planner an event about one slot, then carries its actions out.
    fn report(
        &mut self,
        tell: impl FnOnce(&mut pgsteer_core::pool::planner::Planner, &Inner, Instant) -> Result<(), Oddity>,
    ) {
        let told = tell(&mut self.pool.planner(), &self.pool, now());
        if let Err(oddity) = told {
            debug_assert!(false, "{oddity}");
            tracing::error!(target: "pgsteer::pool", "{oddity}: please report this");
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        loop {
            let action = self.pool.planner().next_action();
            let Some(action) = action else { return };
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Open { slot, avoid } => {
                let epoch = self.kept(slot).epoch;
                let opener = tokio::spawn(opener::open(self.pool.clone(), slot, epoch, avoid));
                self.kept(slot).opener = Some(opener.abort_handle());
            }
            Action::Release { slot } => self.release(slot),
            Action::Close { slot, why, claim } => self.close(slot, why, claim),
            Action::Retire { slot } => {
                if let Some(session) = self.pool.sheet(slot).session() {
                    session.retire();
                }
            }
            Action::Unretire { slot } => {
                if let Some(session) = self.pool.sheet(slot).session() {
                    session.unretire();
                }
            }
            Action::Rollback { slot } => {
                Counters::add(&self.pool.counters.rolled_back);
                self.settle(slot, settle::Job::Rollback);
            }
            Action::Cancel { slot } => {
                if self.unpark(slot) {
                    Counters::add(&self.pool.counters.cancelled);
                    self.settle(slot, settle::Job::Cancel);
                } else {
                    self.claim_failed(slot);
                }
            }
            Action::Abort { slot, claim } => {
                if claim && !self.unpark(slot) {
                    return self.claim_failed(slot);
                }
                Counters::add(&self.pool.counters.cut);
                if let Some(driver) = &self.kept(slot).driver {
                    driver.abort();
                }
            }
            Action::FailWaiters => self.fail_waiters(),
        }
    }

    /// Makes an owned slot idle, or gives it to the oldest waiter. If its wire is not quiet yet, its driver does so.
    fn release(&mut self, slot: u32) {
        if let Some(lease) = self.disown(slot) {
            self.pool.give_back(lease);
        }
    }

    fn close(&mut self, slot: u32, why: CloseReason, claim: bool) {
        if claim {
            match self.pool.slots.claim(slot) {
                Some(lease) => self.own(lease),
                None => return self.claim_failed(slot),
            }
        }
        match why {
            CloseReason::Expired => Counters::add(&self.pool.counters.expired),
            CloseReason::Stray | CloseReason::Spread => Counters::add(&self.pool.counters.moved),
            _ => {}
        }
        // The driver says goodbye to the server and reports when the socket is gone.
        drop(self.take_tenant(slot));
    }

    /// Moves the connection into a task that makes it clean, or tries to.
    fn settle(&mut self, slot: u32, job: settle::Job) {
        let epoch = self.kept(slot).epoch;
        if let Some(tenant) = self.take_tenant(slot) {
            tokio::spawn(settle::run(self.pool.clone(), slot, epoch, tenant, job));
        }
    }

    fn take_tenant(&mut self, slot: u32) -> Option<Tenant> {
        let lease = self.slots[slot as usize].lease.as_mut()?;
        self.pool.slots.take(lease)
    }

    fn put_tenant(&mut self, slot: u32, tenant: Tenant) {
        if let Some(lease) = &mut self.slots[slot as usize].lease {
            self.pool.slots.put(lease, tenant);
        }
    }

    fn unpark(&mut self, slot: u32) -> bool {
        let won = self
            .pool
            .sheet(slot)
            .session()
            .is_some_and(|session| session.unpark());
        if won {
            if let Some(lease) = self.pool.slots.unpark(slot) {
                self.own(lease);
            }
        }
        won
    }

    fn claim_failed(&mut self, slot: u32) {
        self.report_quietly(|planner, pool, now| planner.claim_failed(slot, pool, now));
    }

    /// As `report`, from inside `carry_out`, whose loop goes on with what this adds.
    fn report_quietly(
        &mut self,
        tell: impl FnOnce(&mut pgsteer_core::pool::planner::Planner, &Inner, Instant) -> Result<(), Oddity>,
    ) {
        if let Err(oddity) = tell(&mut self.pool.planner(), &self.pool, now()) {
            debug_assert!(false, "{oddity}");
            tracing::error!(target: "pgsteer::pool", "{oddity}: please report this");
        }
    }

    fn own(&mut self, lease: Lease) {
        let slot = lease.index();
        self.pool.sheet(slot).keeper_has.store(true, Ordering::Release);
        self.kept(slot).lease = Some(lease);
    }

    fn disown(&mut self, slot: u32) -> Option<Lease> {
        self.pool.sheet(slot).keeper_has.store(false, Ordering::Release);
        self.kept(slot).lease.take()
    }

    fn kept(&mut self, slot: u32) -> &mut Kept {
        &mut self.slots[slot as usize]
    }

    fn state(&self, slot: u32) -> SlotState {
        self.pool
            .planner()
            .slot_info(slot)
            .map_or(SlotState::Unknown, |info| info.state)
    }

    fn is_current(&self, slot: u32, epoch: u64) -> bool {
        self.slots[slot as usize].epoch == epoch
    }

    fn next_leak_check(&self, now: Instant) -> Option<Instant> {
        let threshold = self.pool.settings.leak_threshold?;
        now.checked_add((threshold / 4).max(std::time::Duration::from_millis(10)))
    }

    fn report_leaks(&self, now: Instant) {
        let Some(threshold) = self.pool.settings.leak_threshold else {
            return;
        };
        for leak in self
            .pool
            .holders
            .leaks(now, threshold, |slot| self.pool.leased_uses(slot))
        {
            let host = self
                .pool
                .planner()
                .slot_info(leak.slot)
                .and_then(|info| info.host);
            tracing::warn!(
                target: "pgsteer::pool",
                slot = leak.slot,
                host = host.map(tracing::field::display),
                held_for = ?leak.age,
                taken_at = leak.at.map(tracing::field::display),
                "a connection has been held longer than leak_threshold"
            );
        }
    }
}

impl Drop for Keeper {
    /// Without a keeper nothing comes to anybody: if its runtime goes before the pool was closed, or it dies, callers
    /// are told so instead of waiting for ever.
    fn drop(&mut self) {
        self.pool.slots.close();
        self.pool.cluster.stop();
        self.pool.drained.send_replace(true);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
