//! What comes back to the keeper: dirty, busy, ended, retired or unwanted connections, and the deadlines by which each
//! must be clean or gone.
//!
//! A slot stays taken until its socket is really closed, so that the pool's size holds on the servers too.

use std::time::Instant;

use super::slots::{Connection, Slot};
use super::{Action, CloseReason, Oddity, Planner, PoolView, ReturnReason, SlotState, Stage, earlier};

impl Planner {
    /// Event: the slot came to the keeper with its connection, and the keeper owns it now: from its holder, from a
    /// checkout that found it unfit, or from the driver that found a parked one dirty or retired.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was neither live nor settling.
    pub fn returned(
        &mut self,
        slot: u32,
        why: ReturnReason,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        let (connection, cut_at) = match self.table.get(slot) {
            Some(Slot::Live { connection, .. }) => (connection.clone(), None),
            Some(Slot::Settling {
                connection, cut_at, ..
            }) => (connection.clone(), Some(*cut_at)),
            _ => return self.odd(slot, "returned"),
        };
        match why {
            ReturnReason::Closed => {
                self.table.set(slot, Slot::Empty);
                self.count_death(connection.opened_at, now);
            }
            ReturnReason::Detached => {
                self.table.set(slot, Slot::Empty);
            }
            ReturnReason::Discarded => self.close_owned(slot, connection, CloseReason::Discarded, now),
            ReturnReason::Refused => {
                // An application that refuses whatever comes must not have hosts dialled in a circle.
                self.count_death(connection.opened_at, now);
                self.close_owned(slot, connection, CloseReason::Refused, now);
            }
            ReturnReason::Retired => match self.reason_to_go(&connection, now) {
                Some(reason) => self.close_owned(slot, connection, reason, now),
                None => {
                    // The mark lapsed while the connection was on its way here.
                    self.actions.push_back(Action::Unretire { slot });
                    self.release(slot, connection);
                }
            },
            ReturnReason::Dirty => match self.reason_to_go(&connection, now) {
                // The server ends the transaction with the session.
                Some(reason) => self.close_owned(slot, connection, reason, now),
                None => {
                    // A transaction found after a cancel request has what is left of the first deadline.
                    let cut_at = cut_at.unwrap_or(now + self.options.return_timeout);
                    self.table.set(
                        slot,
                        Slot::Settling {
                            connection,
                            cut_at,
                            claim: false,
                        },
                    );
                    self.actions.push_back(Action::Rollback { slot });
                    earlier(&mut self.deadline_wake, Some(cut_at));
                }
            },
        }
        self.fill(view, now);
        Ok(())
    }

    /// Event: the slot's connection was given back busy and is parked: its driver releases it by itself when all is
    /// answered. May be told late; it is ignored unless the view still calls the slot parked.
    pub fn parked(&mut self, slot: u32, view: &dyn PoolView, now: Instant) {
        if !view.is_parked(slot) {
            return;
        }
        if let Some(Slot::Live { parked_at, .. }) = self.table.get_mut(slot) {
            *parked_at = Some(now);
            let first = self.options.return_cancel_after.min(self.options.return_timeout);
            earlier(&mut self.deadline_wake, now.checked_add(first));
        }
    }

    /// Event: a `Rollback` or `Cancel` ended. `ok`: all is answered and no transaction is open. The keeper owns the
    /// slot. Ignored if the slot's socket was cut meanwhile.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was neither settling nor closing.
    pub fn cleaned(&mut self, slot: u32, ok: bool, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        let (connection, deadline) = match self.table.get(slot) {
            Some(Slot::Settling {
                connection, cut_at, ..
            }) => (connection.clone(), *cut_at),
            Some(Slot::Closing { .. }) => return Ok(()),
            _ => return self.odd(slot, "cleaned"),
        };
        let reason = if ok {
            self.reason_to_go(&connection, now)
        } else {
            Some(CloseReason::Unclean)
        };
        match reason {
            // The deadline since its return goes on: what could not be made clean has no claim to another.
            Some(why) => self.begin_close(slot, connection, why, false, Some(deadline)),
            None => self.release(slot, connection),
        }
        self.fill(view, now);
        Ok(())
    }

    /// Event: the socket of a connection under `Close` or `Abort` is really closed. The keeper has emptied the slot
    /// and owns it.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not closing.
    pub fn socket_closed(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        let Some(Slot::Closing { .. }) = self.table.get(slot) else {
            return self.odd(slot, "socket_closed");
        };
        self.table.set(slot, Slot::Empty);
        self.fill(view, now);
        Ok(())
    }

    /// Event: the slot's connection ended by itself, so its socket is closed.
    ///
    /// `owned`: the keeper owns the slot now (it was idle and the keeper claimed it, or it was parked, or it was the
    /// keeper's already) and has emptied it. Otherwise it comes back later through `returned` as closed, and this is
    /// no more than news.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the keeper owns a slot that has no connection.
    pub fn died(&mut self, slot: u32, owned: bool, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        if !owned {
            return Ok(());
        }
        match self.table.get(slot) {
            Some(Slot::Live { connection, .. } | Slot::Settling { connection, .. }) => {
                let opened_at = connection.opened_at;
                self.table.set(slot, Slot::Empty);
                self.count_death(opened_at, now);
            }
            // Asked to go and going by itself come to the same.
            Some(Slot::Closing { .. }) => {
                self.table.set(slot, Slot::Empty);
            }
            _ => return self.odd(slot, "died"),
        }
        self.fill(view, now);
        Ok(())
    }

    /// Outcome: the slot of a `Close`, `Cancel` or `Abort` could not be claimed, because a caller or its driver was
    /// faster. It is live again; `Retire` follows if it still has to go.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if no claim was asked for.
    pub fn claim_failed(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        let (mut connection, wanted) = match self.table.get(slot) {
            Some(Slot::Closing {
                connection,
                why,
                claim: true,
                ..
            }) => (connection.clone(), Some(*why)),
            Some(Slot::Settling {
                connection,
                claim: true,
                ..
            }) => (connection.clone(), None),
            _ => return self.odd(slot, "claim_failed"),
        };
        connection.unused_since = now;
        let mark = match wanted {
            Some(CloseReason::Expired) if !connection.is_expired(now) => connection.draining,
            Some(why @ (CloseReason::Expired | CloseReason::Stray)) => Some(why),
            Some(why @ (CloseReason::Unfit | CloseReason::Ordered | CloseReason::Shutdown)) => Some(why),
            // Somebody uses it, or it is clean: there is nothing left to hold against it.
            _ => connection.draining,
        };
        connection.draining = mark;
        self.table.set(
            slot,
            Slot::Live {
                connection,
                parked_at: None,
            },
        );
        if mark.is_some() {
            self.mark_session(slot, now);
        }
        self.recompute_lifetime_wake();
        self.fill(view, now);
        Ok(())
    }

    /// Sends a cancel request for what is busy for too long and cuts what is over its deadline.
    pub(super) fn enforce_deadlines(&mut self, view: &dyn PoolView, now: Instant) {
        let (cancel_after, timeout) = (self.options.return_cancel_after, self.options.return_timeout);
        for slot in self.table.numbers() {
            match self.table.get_mut(slot) {
                Some(Slot::Live {
                    connection,
                    parked_at,
                }) => {
                    let Some(since) = *parked_at else { continue };
                    let age = now.saturating_duration_since(since);
                    if !view.is_parked(slot) {
                        *parked_at = None;
                    } else if age >= timeout {
                        let connection = connection.clone();
                        let why = CloseReason::Unclean;
                        self.table.set(
                            slot,
                            Slot::Closing {
                                connection,
                                why,
                                cut_at: None,
                                claim: true,
                            },
                        );
                        self.actions.push_back(Action::Abort { slot, claim: true });
                    } else if age >= cancel_after {
                        let (connection, cut_at) = (connection.clone(), since + timeout);
                        self.table.set(
                            slot,
                            Slot::Settling {
                                connection,
                                cut_at,
                                claim: true,
                            },
                        );
                        self.actions.push_back(Action::Cancel { slot });
                    }
                }
                Some(Slot::Settling {
                    connection, cut_at, ..
                }) if *cut_at <= now => {
                    let (connection, why) = (connection.clone(), CloseReason::Unclean);
                    self.table.set(
                        slot,
                        Slot::Closing {
                            connection,
                            why,
                            cut_at: None,
                            claim: false,
                        },
                    );
                    self.actions.push_back(Action::Abort { slot, claim: false });
                }
                Some(Slot::Closing { cut_at, claim, .. }) if cut_at.is_some_and(|at| at <= now) => {
                    (*cut_at, *claim) = (None, false);
                    self.actions.push_back(Action::Abort { slot, claim: false });
                }
                _ => {}
            }
        }
    }

    /// When the next deadline is over.
    pub(super) fn recompute_deadline_wake(&mut self) {
        let (cancel_after, timeout) = (self.options.return_cancel_after, self.options.return_timeout);
        let mut wake = None;
        for (_, slot) in self.table.iter() {
            match slot {
                Slot::Live {
                    parked_at: Some(since),
                    ..
                } => {
                    earlier(&mut wake, since.checked_add(cancel_after.min(timeout)));
                }
                Slot::Settling { cut_at, .. } => earlier(&mut wake, Some(*cut_at)),
                Slot::Closing { cut_at, .. } => earlier(&mut wake, *cut_at),
                _ => {}
            }
        }
        self.deadline_wake = wake;
    }

    /// Why the connection may not be used again, if it may not.
    fn reason_to_go(&self, connection: &Connection, now: Instant) -> Option<CloseReason> {
        if self.stage == Stage::Down {
            return Some(CloseReason::Shutdown);
        }
        let expired = connection.is_expired(now).then_some(CloseReason::Expired);
        connection.draining.or(expired)
    }

    /// Gives the slot to the pool.
    pub(super) fn release(&mut self, slot: u32, connection: Connection) {
        self.table.set(
            slot,
            Slot::Live {
                connection,
                parked_at: None,
            },
        );
        self.actions.push_back(Action::Release { slot });
    }

    /// Closes a connection whose slot the keeper owns.
    pub(super) fn close_owned(&mut self, slot: u32, connection: Connection, why: CloseReason, now: Instant) {
        let cut_at = now.checked_add(self.options.return_timeout);
        self.begin_close(slot, connection, why, false, cut_at);
    }

    /// Closes a connection that was idle just now, if the keeper can still get hold of it.
    pub(super) fn close_idle(&mut self, slot: u32, why: CloseReason, now: Instant) {
        self.close_idle_by(slot, why, now.checked_add(self.options.return_timeout));
    }

    /// The same, and its socket is cut at this time.
    pub(super) fn close_idle_by(&mut self, slot: u32, why: CloseReason, cut_at: Option<Instant>) {
        debug_assert_eq!(
            self.state(slot),
            SlotState::Live,
            "only live connections are idle"
        );
        if let Some(Slot::Live { connection, .. }) = self.table.get(slot) {
            let connection = connection.clone();
            self.begin_close(slot, connection, why, true, cut_at);
        }
    }

    fn begin_close(
        &mut self,
        slot: u32,
        connection: Connection,
        why: CloseReason,
        claim: bool,
        cut_at: Option<Instant>,
    ) {
        self.table.set(
            slot,
            Slot::Closing {
                connection,
                why,
                cut_at,
                claim,
            },
        );
        self.actions.push_back(Action::Close { slot, why, claim });
        earlier(&mut self.deadline_wake, cut_at);
    }
}
