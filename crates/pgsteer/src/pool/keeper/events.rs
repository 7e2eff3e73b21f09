//! What the keeper does when it is told something: it takes over what is its now, and passes the news to the planner.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgsteer_core::host::HostKey;
use pgsteer_core::pool::Lease;
use pgsteer_core::pool::planner::{OpenFailure, ReturnReason, SlotState};

use super::Keeper;
use crate::cluster::SearchError;
use crate::dial::{EndReason, Handle};
use crate::error::Error;
use crate::pool::closes::Gone;
use crate::pool::hooks::HookFailed;
use crate::pool::inner::{Counters, Message, Settlement};
use crate::pool::tenant::Tenant;
use crate::pool::{now, opener};

impl Keeper {
    pub(super) fn heard(&mut self, message: Message) {
        match message {
            Message::Opened {
                slot,
                epoch,
                tenant,
                driver,
                jitter,
            } => self.opened(slot, epoch, *tenant, driver, jitter),
            Message::OpenFailed { slot, epoch, error } => self.open_failed(slot, epoch, error),
            Message::HookFailed { slot, epoch, failed } => self.hook_failed(slot, epoch, failed),
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
            Message::Refused { lease } => self.refused(lease),
            Message::Detached { lease } => {
                let slot = lease.index();
                self.own(lease);
                self.goes(slot, Gone::Detached);
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
                host,
                reason,
                lease,
            } => self.ended(slot, epoch, host, reason, lease),
            Message::RetireAll => self.plan(|planner, pool, now| planner.retire_all(pool, now)),
            Message::Rebalance => {
                let snapshot = self.pool.snapshot();
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
        let (host, address) = (tenant.host.clone(), tenant.address);
        self.pool.sheet(slot).set_session(Some(tenant.session.clone()));
        self.kept(slot).opener = None;
        self.kept(slot).driver = Some(driver);
        self.put_tenant(slot, tenant);
        self.live += 1;
        Counters::add(&self.pool.counters.opened);
        *self.pool.last_failure() = None;
        self.pool.login_refused.store(false, Ordering::Relaxed);
        self.report(|planner, pool, now| planner.opened(slot, host, address, jitter, pool, now));
        self.pool.live.send_replace(self.live);
    }

    fn open_failed(&mut self, slot: u32, epoch: u64, error: SearchError) {
        if !self.is_current(slot, epoch) {
            return;
        }
        self.kept(slot).opener = None;
        if let SearchError::CircuitOpen { retry_after, .. } = error {
            return self.report(|planner, _, now| planner.open_barred(slot, retry_after, now));
        }
        Counters::add(&self.pool.counters.open_failures);
        let failure = opener::open_failure(&error);
        self.pool
            .login_refused
            .store(failure == OpenFailure::Login && self.live == 0, Ordering::Relaxed);
        *self.pool.last_failure() = Some((now(), Error::from(error)));
        let barred_for = self.pool.cluster.shared().barred_for();
        self.report(|planner, pool, now| {
            planner.open_failed(slot, failure, pool, now)?;
            if let Some(rest) = barred_for {
                planner.bar(rest, now);
            }
            Ok(())
        });
    }

    /// A host took the login, so that nobody has to be told of wrong credentials any more.
    fn hook_failed(&mut self, slot: u32, epoch: u64, failed: HookFailed) {
        if !self.is_current(slot, epoch) {
            return;
        }
        self.kept(slot).opener = None;
        Counters::add(&self.pool.counters.hook_failures);
        self.pool.login_refused.store(false, Ordering::Relaxed);
        let host = failed.host().clone();
        *self.pool.last_failure() = Some((now(), Error::AfterConnect(Arc::new(failed))));
        self.report(|planner, pool, now| planner.hook_failed(slot, host, pool, now));
    }

    /// A slot has come to the keeper with its connection.
    fn returned(&mut self, lease: Lease, discarded: bool) {
        let slot = lease.index();
        let session = self.pool.sheet(slot).session();
        let misplaced =
            |lease: &Lease| self.pool.wants_writes() && self.pool.tenant(lease).wire.is_role_doubted();
        let is_open = session.as_ref().is_some_and(|session| !session.is_closed());
        let discarded = discarded || (is_open && misplaced(&lease));
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

    fn refused(&mut self, lease: Lease) {
        Counters::add(&self.pool.counters.refused);
        if self.pool.tenant(&lease).session.is_closed() {
            return self.returned(lease, false);
        }
        let slot = lease.index();
        self.own(lease);
        self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Refused, pool, now));
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
        self.kept(slot).settler = None;
        match outcome {
            Settlement::Clean => self.report(|planner, pool, now| planner.cleaned(slot, true, pool, now)),
            Settlement::Failed => self.report(|planner, pool, now| planner.cleaned(slot, false, pool, now)),
            Settlement::InTransaction => {
                self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Dirty, pool, now));
            }
        }
    }

    /// A connection's socket is gone.
    fn ended(&mut self, slot: u32, epoch: u64, host: HostKey, reason: EndReason, lease: Option<Lease>) {
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
        // It may wait for something else than the connection.
        if let Some(settler) = self.kept(slot).settler.take() {
            settler.abort();
        }
        if self.state(slot) == SlotState::Closing {
            self.emptied(slot);
            return self.report(|planner, pool, now| planner.socket_closed(slot, pool, now));
        }
        Counters::add(&self.pool.counters.lost);
        tracing::debug!(target: "pgsteer::pool", slot, %host, %reason, "a connection ended");
        self.pool.ends.note(host, reason, now());
        if owned {
            self.emptied(slot);
        }
        self.report(|planner, pool, now| planner.died(slot, owned, pool, now));
    }

    /// Empties a slot the keeper owns. Dropping the client ends its connection in an orderly way, if it has not ended.
    fn emptied(&mut self, slot: u32) {
        let tenant = self.take_tenant(slot);
        let end = tenant.and_then(|tenant| tenant.handle.end_reason());
        let why = self.kept(slot).going.take();
        self.pool
            .counters
            .closes
            .add(why.unwrap_or_else(|| Gone::ended(end.as_ref())));
        self.kept(slot).epoch += 1;
        self.kept(slot).driver = None;
        self.pool.sheet(slot).set_session(None);
        self.live = self.live.saturating_sub(1);
        self.pool.live.send_replace(self.live);
    }
}
