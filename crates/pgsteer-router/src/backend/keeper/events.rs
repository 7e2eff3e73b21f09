//! What the keeper does when it is told something: it takes over what is its now, and passes the news to the planner.

use pgsteer_core::pool::Lease;
use pgsteer_core::pool::planner::{OpenFailure, ReturnReason, SlotInfo, SlotState};

use super::{Back, Fresh, Keeper, Message};
use crate::backend::checkout::NotFresh;
use crate::backend::connection::{Connection, Restless};
use crate::backend::counters::Counters;
use crate::backend::inner::{Turned, now};

impl Keeper {
    pub(super) fn heard(&mut self, message: Message) {
        match message {
            Message::Opened {
                slot,
                epoch,
                connection,
                jitter,
                was_probe,
            } => self.opened(slot, epoch, *connection, jitter, was_probe),
            Message::OpenFailed {
                slot,
                epoch,
                reason,
                is_ours,
            } => self.open_failed(slot, epoch, reason, is_ours),
            Message::OpenBarred { slot, epoch, rest } => {
                if self.is_current(slot, epoch) {
                    self.kept(slot).opener = None;
                    self.probe_after(rest);
                    self.report(|planner, _, now| planner.open_barred(slot, rest, now));
                    if self.pool.planner().can_serve() {
                        self.let_waiters_move_on();
                    } else {
                        self.turn_waiters_away();
                    }
                    self.turn_fresh_away();
                }
            }
            Message::OpenVanished { slot, epoch } => self.open_vanished(slot, epoch),
            Message::Returned { lease, back } => self.returned(lease, back),
            Message::Stirred { slot, epoch } => {
                if self.is_current(slot, epoch) {
                    // If somebody has it, they look when they lay it down.
                    if let Some(lease) = self.pool.slots.claim(slot) {
                        self.returned(lease, Back::Unfit);
                    }
                }
            }
            Message::Checked {
                slot,
                epoch,
                connection,
                result,
            } => self.checked(slot, epoch, connection, result),
            Message::SocketClosed { slot, epoch } => {
                if self.is_current(slot, epoch) {
                    self.emptied(slot);
                    self.report(|planner, pool, now| planner.socket_closed(slot, pool, now));
                    self.dial_for_fresh();
                }
            }
            Message::RequestsFailed(why) => self.requests_failed(&why),
            Message::Fresh(fresh) => self.wanted_fresh(fresh),
            Message::Shutdown => self.shut_down(),
            Message::Cut => self.cut_all(),
        }
    }

    fn opened(&mut self, slot: u32, epoch: u64, connection: Connection, jitter: u64, was_probe: bool) {
        if !self.is_current(slot, epoch) {
            return;
        }
        let kept = self.kept(slot);
        kept.opener = None;
        kept.watch = Some(connection.watch().clone());
        self.put_connection(slot, connection);
        self.live += 1;
        Counters::add(&self.pool.counters.opened);
        if let Some(checks) = &mut self.checks {
            checks.opened(slot, &*self.pool, now());
        }
        // Dialled before its requests had failed, it says no more than those did.
        let proves_nothing = self.standing.is_distrusted() && !was_probe;
        if !proves_nothing {
            self.found_well();
        }
        let host = self.pool.address.key().clone();
        self.report(|planner, pool, now| {
            planner.opened(slot, host, None, jitter, pool, now)?;
            if !proves_nothing {
                planner.unbar(pool, now);
            }
            Ok(())
        });
        self.dial_for_fresh();
    }

    fn open_failed(&mut self, slot: u32, epoch: u64, reason: Turned, is_ours: bool) {
        if !self.is_current(slot, epoch) {
            return;
        }
        self.kept(slot).opener = None;
        Counters::add(&self.pool.counters.dials_failed);
        self.tried_at = Some(now());
        self.pool.note_error(reason.clone());
        let rest = if is_ours {
            self.probe_after(self.pool.options.failed_backend_delay);
            None
        } else {
            Some(self.dial_failed(&reason))
        };
        self.report(|planner, pool, now| {
            planner.open_failed(slot, OpenFailure::Hosts, pool, now)?;
            if let Some(rest) = rest {
                planner.bar(rest, now);
            }
            Ok(())
        });
        self.let_waiters_move_on();
        self.turn_fresh_away();
    }

    fn open_vanished(&mut self, slot: u32, epoch: u64) {
        if !self.is_current(slot, epoch) {
            return;
        }
        if self.closing {
            self.kept(slot).opener = None;
            return self.report(|planner, pool, now| planner.open_vanished(slot, pool, now));
        }
        tracing::error!(target: "pgsteer::router", backend = %self.pool.address, "a dial died");
        self.open_failed(slot, epoch, "the dialer panicked".into(), false);
    }

    /// A slot has come to the keeper.
    fn returned(&mut self, lease: Lease, back: Back) {
        let slot = lease.index();
        self.own(lease);
        let why = match back {
            Back::Unfit => return self.examine(slot),
            Back::Lost { restless, has_served } => {
                self.ended(slot, restless, has_served);
                return self.carry_out();
            }
            Back::Failed => ReturnReason::Closed,
            Back::Stale | Back::GivenUp => ReturnReason::Detached,
        };
        if back == Back::Stale {
            Counters::add(&self.pool.counters.lost);
        } else {
            Counters::add(&self.pool.counters.discarded);
        }
        self.emptied(slot);
        self.report(|planner, pool, now| planner.returned(slot, why, pool, now));
    }

    /// A slot has come with its connection, which may be closed, retired or well.
    pub(super) fn examine(&mut self, slot: u32) {
        let Some(mut connection) = self.take_connection(slot) else {
            self.emptied(slot);
            return self.report(|planner, pool, now| planner.died(slot, true, pool, now));
        };
        let looked = connection.lay_down();
        self.put_connection(slot, connection);
        match looked {
            Ok(()) => {
                // The planner says whether it goes, and if not, has it released.
                self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Retired, pool, now));
            }
            Err(restless) => {
                self.lost(slot, restless);
                self.carry_out();
            }
        }
    }

    /// The connection in a slot of the keeper's has turned out to be of no use. Whoever calls it sees to the actions.
    pub(super) fn lost(&mut self, slot: u32, restless: Restless) {
        let young = self.pool.options.failed_backend_delay;
        let connection = self.take_connection(slot);
        let has_served = connection
            .as_ref()
            .is_some_and(|connection| connection.answered > 0);
        let never_lived = !has_served
            && connection
                .is_some_and(|connection| now().saturating_duration_since(connection.opened_at) < young);
        self.ended(slot, restless, has_served);
        if never_lived {
            // It lets itself be dialled and ends what it has taken: nobody would ever be answered there, and whoever wants a
            // new connection is not to have it dialled in a circle.
            self.turn_fresh_away();
            if self.pool.streak.failed() {
                self.requests_failed("it ends connections before they have been used");
            }
        }
    }

    /// The connection of a slot of the keeper's has ended and is closed; `has_served`: after it had answered a request.
    fn ended(&mut self, slot: u32, restless: Restless, has_served: bool) {
        Counters::add(&self.pool.counters.lost);
        tracing::debug!(target: "pgsteer::router", backend = %self.pool.address, slot, "{restless}");
        self.pool.note_error(restless.to_string().into());
        self.emptied(slot);
        self.tell(|planner, pool, now| {
            let is_live = |info: SlotInfo| info.state == SlotState::Live;
            if has_served && planner.slot_info(slot).is_some_and(is_live) {
                // There are backends that close after each answer, or after some. Their connections' ends are no reason to
                // rest between dials, as those of a backend are that only lets itself be dialled.
                planner.returned(slot, ReturnReason::Detached, pool, now)
            } else {
                planner.died(slot, true, pool, now)
            }
        });
    }

    fn wanted_fresh(&mut self, fresh: Fresh) {
        if self.closing {
            return;
        }
        self.fresh.push_back(fresh);
        self.dial_for_fresh();
    }

    /// Has a connection dialled for whoever wants one of their own, making room if need be: what is idle may be as stale as
    /// what they had.
    fn dial_for_fresh(&mut self) {
        self.fresh.retain(|fresh| !fresh.is_closed());
        if self.fresh.is_empty() || self.closing {
            return;
        }
        let stats = self.pool.planner().stats(&*self.pool);
        if stats.opening > 0 || stats.closing > 0 {
            return;
        }
        if self.pool.planner().try_one(now()) {
            return self.carry_out();
        }
        let idle = self.pool.slots.idle_slots().last();
        match idle.and_then(|slot| self.pool.slots.claim(slot)) {
            Some(lease) => {
                let slot = lease.index();
                self.own(lease);
                self.report(|planner, pool, now| planner.returned(slot, ReturnReason::Discarded, pool, now));
            }
            None => {
                for fresh in self.fresh.drain(..) {
                    let _ = fresh.send(Err(NotFresh::NoRoom));
                }
            }
        }
    }

    fn turn_fresh_away(&mut self) {
        let why = self.last_error();
        for fresh in self.fresh.drain(..) {
            let _ = fresh.send(Err(NotFresh::Failed(why.clone())));
        }
    }

    /// Fails everybody who waits, with what the last dial failed with.
    pub(super) fn turn_waiters_away(&mut self) {
        self.pool.slots.fail_waiters(&self.last_error());
    }

    fn last_error(&self) -> Turned {
        let last = self.pool.last_error();
        last.map_or_else(|| "it has failed".into(), |(_, reason)| reason)
    }
}
