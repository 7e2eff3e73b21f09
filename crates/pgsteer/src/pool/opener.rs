//! Opening one connection for one slot, in a task of its own: the connect belongs to the pool, so a caller that goes
//! away wastes nothing. Whatever happens to the task, the keeper hears of it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pgsteer_core::host::HostKey;
use pgsteer_core::pool::Session;
use pgsteer_core::pool::planner::OpenFailure;
use pgsteer_core::verdict::HostEffect;

use super::hooks::{self, HookFailed};
use super::inner::{Counters, Inner, Message};
use super::statements::Statements;
use super::tenant::Tenant;
use crate::cluster::{Counted, Opened, SearchError, Wanted};
use crate::dial::{Dialled, EndReason, Owner, Purpose};

/// Opens a connection for the slot and reports to the keeper how it went. The report is there before the task has
/// begun, so that the keeper hears of one that was aborted before its first step too.
pub(super) fn open(pool: Arc<Inner>, slot: u32, epoch: u64, avoid: Vec<HostKey>) -> impl Future<Output = ()> {
    search(
        Report {
            pool,
            slot,
            epoch,
            told: false,
        },
        avoid,
    )
}

async fn search(mut report: Report, avoid: Vec<HostKey>) {
    let (slot, epoch) = (report.slot, report.epoch);
    let wanted = Wanted {
        target: report.pool.settings.target_session_attrs,
        avoid: &avoid,
        purpose: Purpose::Pool,
    };
    let shared = report.pool.cluster.shared().clone();
    #[cfg(feature = "metrics")]
    let began = super::now();
    match shared.open(wanted).await {
        Ok(mut opened) => {
            let opened_at = super::now();
            #[cfg(feature = "metrics")]
            report
                .pool
                .labels
                .connected(opened_at.saturating_duration_since(began));
            let driver = &mut opened.dialled.driver;
            driver.end_when_silent(report.pool.settings.stall_timeout);
            driver.tell_of_life(shared.pulse(&opened.key));
            let opened = match prepared(&report.pool, opened).await {
                Ok(opened) => opened,
                Err(failed) => return report.tell(Message::HookFailed { slot, epoch, failed }),
            };
            let Opened {
                key,
                dialled,
                counted,
            } = opened;
            // Drawn here and not by the keeper, who must not go down with a source of randomness that panics.
            let jitter = report.pool.cluster.shared().draw();
            let owner = SlotOwner {
                pool: report.pool.clone(),
                counted: Mutex::new(Some(counted)),
                slot,
                epoch,
                host: key.clone(),
                session: dialled.session.clone(),
            };
            if dialled.handle.attach(Arc::new(owner)).is_err() {
                // It has ended already: the report's drop says that nothing came of this open.
                return;
            }
            let Dialled {
                client,
                driver,
                session,
                wire,
                handle,
                canceller,
                peer,
                version,
                ..
            } = dialled;
            let address = peer.address().map(|address| address.to_canonical());
            let tenant = Tenant {
                socket_timeout: report.pool.settings.socket_timeout,
                client,
                session,
                wire,
                canceller,
                handle: handle.clone(),
                host: key,
                address,
                opened_at,
                statements: Statements::new(report.pool.settings.statement_cache_size),
                version,
                unasked: OnceLock::new(),
            };
            // Told before the driver starts, so that the keeper hears of the opening before it hears of the end.
            report.tell(Message::Opened {
                slot,
                epoch,
                tenant: Box::new(tenant),
                driver: handle,
                jitter,
            });
            tokio::spawn(driver);
        }
        Err(error) => report.tell(Message::OpenFailed { slot, epoch, error }),
    }
}

/// Runs `after_connect` on the connection, if there is one, and lets the cluster know how that went.
async fn prepared(pool: &Inner, opened: Opened) -> Result<Opened, HookFailed> {
    let Some(hook) = &pool.settings.after_connect else {
        return Ok(opened);
    };
    let (host, wire, handle) = (
        opened.key.clone(),
        opened.dialled.wire.clone(),
        opened.dialled.handle.clone(),
    );
    let shared = pool.cluster.shared();
    let prepared = hooks::prepare(hook, opened, &pool.settings).await;
    match &prepared {
        Ok(_) => shared.hook_passed(&host),
        Err(failed) => {
            // The hook may have been the first to meet a host that is not any more what it was taken for.
            if pool.wants_writes() && wire.is_role_doubted() {
                shared.role_doubted(&host);
            }
            match handle.end_reason() {
                Some(EndReason::Stalled) => shared.unresponsive(&host),
                Some(reason) if reason.host_effect() == HostEffect::Suspect => shared.suspect(&host),
                _ => {}
            }
            shared.hook_failed(&host, failed.reason(), pool.settings.hook_keep_off());
        }
    }
    prepared
}

/// Tells the keeper that the opener is gone if it went without a word.
struct Report {
    pool: Arc<Inner>,
    slot: u32,
    epoch: u64,
    told: bool,
}

impl Report {
    fn tell(&mut self, message: Message) {
        self.told = true;
        self.pool.tell_keeper(message);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.told {
            self.pool.tell_keeper(Message::OpenVanished {
                slot: self.slot,
                epoch: self.epoch,
            });
        }
    }
}

/// What a connection's driver does with the slot when the connection comes clean, comes dirty or ends.
struct SlotOwner {
    pool: Arc<Inner>,
    /// The connection's place in the cluster's counts. Given up before the keeper hears of the end, so that the
    /// replacement is placed by counts that are true.
    counted: Mutex<Option<Counted>>,
    slot: u32,
    epoch: u64,
    host: HostKey,
    session: Arc<Session>,
}

impl Owner for SlotOwner {
    fn release(&self) {
        if let Some(lease) = self.pool.slots.unpark(self.slot) {
            Counters::add(&self.pool.counters.came_clean);
            self.pool.slots.release(lease);
        }
    }

    fn hand_over(&self) {
        if let Some(lease) = self.pool.slots.unpark(self.slot) {
            self.pool.tell_keeper(Message::Returned {
                lease,
                discarded: false,
            });
        }
    }

    fn role_doubted(&self) {
        if self.pool.wants_writes() {
            self.session.retire();
            self.pool.cluster.shared().role_doubted(&self.host);
        }
    }

    fn ended(&self, reason: EndReason, owned: bool) {
        drop(self.counted.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Its role may have gone with it, so that the replacement asks elsewhere first.
        if reason.host_effect() == HostEffect::Suspect {
            self.pool.cluster.shared().suspect(&self.host);
        }
        if reason == EndReason::Stalled {
            self.pool.cluster.shared().unresponsive(&self.host);
        }
        let lease = if owned {
            self.pool.slots.unpark(self.slot)
        } else {
            None
        };
        self.pool.tell_keeper(Message::Ended {
            slot: self.slot,
            epoch: self.epoch,
            host: self.host.clone(),
            reason,
            lease,
        });
    }
}

/// What a failed search means for the planner.
pub(super) fn open_failure(error: &SearchError) -> OpenFailure {
    match error {
        SearchError::Login(_) => OpenFailure::Login,
        SearchError::NoFit(_) => OpenFailure::NoFit,
        SearchError::NotReady(_) => OpenFailure::NotReady,
        SearchError::Refused(_) | SearchError::NoServer => OpenFailure::Refused,
        SearchError::Hosts(_) | SearchError::CircuitOpen { .. } | SearchError::Stopped => OpenFailure::Hosts,
    }
}
