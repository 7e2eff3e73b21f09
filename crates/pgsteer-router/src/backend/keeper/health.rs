//! Pings: which idle connections are asked, and what comes of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgsteer_core::pool::planner::ReturnReason;

use super::{Keeper, Message};
use crate::backend::connection::Connection;
use crate::backend::counters::Counters;
use crate::backend::inner::{Inner, now};
use crate::backend::ping::ping;

impl Keeper {
    /// Claims the connections that are due and has them pinged, each in a task of its own.
    pub(super) fn check_health(&mut self, now: Instant) {
        let Some(checks) = &mut self.checks else { return };
        for slot in checks.due(&*self.pool, now) {
            let Some(lease) = self.pool.slots.claim(slot) else {
                if let Some(checks) = &mut self.checks {
                    checks.claim_failed(slot, now);
                }
                continue;
            };
            self.pool.checked[slot as usize].store(true, Ordering::Release);
            self.own(lease);
            let epoch = self.kept(slot).epoch;
            if let Some(connection) = self.take_connection(slot) {
                if !connection.take_up() {
                    // Something has come on it already, of which the keeper is going to hear.
                    self.put_connection(slot, connection);
                    self.pool.checked[slot as usize].store(false, Ordering::Release);
                    if let Some(checks) = &mut self.checks {
                        checks.claim_failed(slot, now);
                    }
                    self.examine(slot);
                    continue;
                }
                let report = Report {
                    connection: Some(Box::new(connection)),
                    result: Err(io::Error::other("the health check was given up")),
                    pool: Arc::clone(&self.pool),
                    slot,
                    epoch,
                };
                self.kept(slot).task = Some(tokio::spawn(check(report)).abort_handle());
            }
        }
    }

    /// A ping has ended.
    pub(super) fn checked(
        &mut self,
        slot: u32,
        epoch: u64,
        connection: Option<Box<Connection>>,
        result: io::Result<()>,
    ) {
        if !self.is_current(slot, epoch) {
            return;
        }
        self.pool.checked[slot as usize].store(false, Ordering::Release);
        self.kept(slot).task = None;
        match (result, connection) {
            (Ok(()), Some(mut connection)) => {
                Counters::add(&self.pool.counters.pings);
                if let Some(checks) = &mut self.checks {
                    checks.answered(slot, now());
                }
                let looked = connection.lay_down();
                self.put_connection(slot, *connection);
                match looked {
                    // The planner says whether it goes, and if not, has it released.
                    Ok(()) => self.report(|planner, pool, now| {
                        planner.returned(slot, ReturnReason::Retired, pool, now)
                    }),
                    Err(restless) => {
                        self.lost(slot, restless);
                        self.carry_out();
                    }
                }
            }
            (result, connection) => {
                // The socket first: the slot is free when it is reported to be.
                drop(connection);
                Counters::add(&self.pool.counters.pings_failed);
                let why = result.err().map_or_else(String::new, |error| error.to_string());
                tracing::debug!(target: "pgsteer::router", backend = %self.pool.address, slot, "{why}");
                self.pool.note_error(why.as_str().into());
                self.emptied(slot);
                self.report(|planner, pool, now| planner.died(slot, true, pool, now));
                if self.pool.streak.failed() {
                    self.requests_failed(&why);
                }
            }
        }
    }
}

async fn check(mut report: Report) {
    let limit = report.pool.options.health_check_timeout;
    if let Some(connection) = &mut report.connection {
        // Given up in between, it stays a failure.
        let result = ping(&mut connection.io, limit).await;
        report.result = result;
    }
}

/// Tells the keeper how the ping went, whatever became of its task.
struct Report {
    connection: Option<Box<Connection>>,
    result: io::Result<()>,
    pool: Arc<Inner>,
    slot: u32,
    epoch: u64,
}

impl Drop for Report {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        self.pool.tell_keeper(Message::Checked {
            slot: self.slot,
            epoch: self.epoch,
            connection: self.connection.take(),
            result,
        });
    }
}
