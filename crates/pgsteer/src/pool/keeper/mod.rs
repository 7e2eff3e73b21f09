//! The keeper: the one task of a pool. It owns every slot that is neither idle nor held, tells the planner what
//! happens, carries out what the planner asks for, and times out waiting callers. It never waits for the network
//! itself: openers, rollbacks and cancels are tasks of their own that report back by message.

mod actions;
mod events;
mod kept;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgsteer_core::pool::Lease;
use pgsteer_core::pool::planner::{Oddity, Planner};
use tokio::sync::mpsc::UnboundedReceiver;

use super::inner::{Inner, Message};
use super::now;
use crate::error::Error;
use kept::Kept;

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
        let mut changes = self.pool.cluster.shared().changes();
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
                // The sender lives in the cluster, which the pool holds.
                _ = changes.changed() => self.cluster_changed(),
                () = sleep_until(wake) => {}
            }
            self.on_time(now());
            self.judge_circuit();
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
            let snapshot = due.then(|| self.pool.snapshot());
            self.plan(|planner, pool, now| planner.tick(snapshot.as_ref(), pool, now));
        }
    }

    /// Something has changed that decides where connections may be: a role, an address, a host that is back.
    fn cluster_changed(&mut self) {
        let snapshot = self.pool.snapshot();
        let may_dial = self.pool.cluster.shared().barred_for().is_none();
        self.plan(|planner, pool, now| {
            planner.cluster_changed(&snapshot, pool, now);
            if may_dial {
                planner.unbar(pool, now);
            }
        });
    }

    /// While nothing may be dialled and no connection is open, nothing comes before the breaker's window is over: whoever
    /// waits is told so, and whoever comes now need not even begin to wait.
    fn judge_circuit(&self) {
        let is_down = !self.closing && !self.pool.planner().can_serve();
        let error = self.pool.cluster.shared().circuit_open().filter(|_| is_down);
        self.pool.circuit_open.store(error.is_some(), Ordering::Release);
        if let Some(error) = error {
            self.pool.slots.fail_waiters(&error);
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

    fn shut_down(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.pool.leave_cluster();
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
    fn plan(&mut self, tell: impl FnOnce(&mut Planner, &Inner, Instant)) {
        tell(&mut self.pool.planner(), &self.pool, now());
        self.carry_out();
    }

    /// Tells the planner an event about one slot, then carries its actions out.
    fn report(&mut self, event: impl FnOnce(&mut Planner, &Inner, Instant) -> Result<(), Oddity>) {
        self.tell(event);
        self.carry_out();
    }

    /// Tells the planner an event about one slot; whoever calls it sees to the actions.
    fn tell(&self, event: impl FnOnce(&mut Planner, &Inner, Instant) -> Result<(), Oddity>) {
        if let Err(oddity) = event(&mut self.pool.planner(), &self.pool, now()) {
            debug_assert!(false, "{oddity}");
            tracing::error!(target: "pgsteer::pool", "{oddity}: please report this");
        }
    }

    fn carry_out(&mut self) {
        loop {
            let action = self.pool.planner().next_action();
            let Some(action) = action else { return };
            self.act(action);
        }
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
        self.pool.leave_cluster();
        self.messages.close();
        while let Ok(message) = self.messages.try_recv() {
            self.pool.unheard(&message);
        }
        self.pool.drained.send_replace(true);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
