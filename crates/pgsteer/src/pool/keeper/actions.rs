//! What the keeper does when the planner asks for something. Nothing here waits: what takes time is a task of its own.

use pgsteer_core::pool::planner::{Action, CloseReason};

use super::Keeper;
use crate::pool::closes::Gone;
use crate::pool::inner::Counters;
use crate::pool::{opener, settle};

impl Keeper {
    pub(super) fn act(&mut self, action: Action) {
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
                if self.pool.recycles {
                    return self.settle(slot, settle::Job::Recycle);
                }
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
                self.goes(slot, Gone::Cut);
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
            self.pool.put_back(lease);
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
        self.goes(slot, Gone::closed(why));
        // The driver says goodbye to the server and reports when the socket is gone.
        match self.take_tenant(slot) {
            Some(tenant) if !tenant.session.is_quiet() => {
                tokio::spawn(settle::let_go(self.pool.clone(), tenant));
            }
            tenant => drop(tenant),
        }
    }

    /// Notes why the slot's connection goes; the first reason counts.
    pub(super) fn goes(&mut self, slot: u32, why: Gone) {
        self.kept(slot).going.get_or_insert(why);
    }

    /// Moves the connection into a task that makes it clean, or tries to.
    fn settle(&mut self, slot: u32, job: settle::Job) {
        let epoch = self.kept(slot).epoch;
        if let Some(tenant) = self.take_tenant(slot) {
            let settler = tokio::spawn(settle::run(self.pool.clone(), slot, epoch, tenant, job));
            self.kept(slot).settler = Some(settler.abort_handle());
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
        self.tell(|planner, pool, now| planner.claim_failed(slot, pool, now));
    }
}
