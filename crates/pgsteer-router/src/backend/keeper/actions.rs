//! What the keeper does when the planner asks for something. Nothing here waits: what takes time is a task of its own.

use std::sync::Arc;

use pgsteer_core::pool::planner::{Action, CloseReason};

use super::Keeper;
use crate::backend::borrowed::Borrowed;
use crate::backend::counters::Counters;
use crate::backend::farewell;
use crate::backend::opener::{self, Manner};

impl Keeper {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Open { slot, .. } => {
                let manner = Manner {
                    probe: !self.pool.is_well(),
                    ..std::mem::take(&mut self.manner)
                };
                let epoch = self.kept(slot).epoch;
                let opener = opener::open(Arc::clone(&self.pool), slot, epoch, manner);
                let opener = self.pool.crew.spawn_for_slot(slot, opener);
                self.kept(slot).opener = Some(opener.abort_handle());
            }
            Action::Release { slot } => self.release(slot),
            Action::Close { slot, why, claim } => self.close(slot, why, claim),
            Action::Retire { slot } => {
                if let Some(watch) = &self.kept(slot).watch {
                    watch.retire();
                }
            }
            Action::Unretire { slot } => {
                if let Some(watch) = &self.kept(slot).watch {
                    watch.unretire();
                }
            }
            Action::Abort { slot, .. } => {
                if let Some(task) = &self.kept(slot).task {
                    task.abort();
                }
            }
            Action::FailWaiters => self.turn_waiters_away(),
            // Connections come back with their answers read, or closed: none is parked or rolled back.
            Action::Rollback { slot } | Action::Cancel { slot } => {
                debug_assert!(false, "slot {slot} is to be cleaned");
            }
        }
    }

    /// Makes an owned slot idle, or gives it to whoever asked for a new connection, or to the oldest waiter.
    fn release(&mut self, slot: u32) {
        let Some(mut lease) = self.disown(slot) else {
            return;
        };
        let connection = self.pool.slots.get_mut(&mut lease);
        let is_new = connection.answered == 0;
        if let Err(restless) = connection.lay_down() {
            self.own(lease);
            return self.lost(slot, restless);
        }
        if is_new && !self.fresh.is_empty() {
            let mut parcel = Borrowed::parcel(Arc::clone(&self.pool), lease);
            while let Some(fresh) = self.fresh.pop_front() {
                match fresh.send(Ok(parcel)) {
                    Ok(()) => return,
                    // Whoever asked has gone; the next one, then.
                    Err(Ok(unsent)) => parcel = unsent,
                    Err(Err(_)) => return,
                }
            }
            return drop(parcel);
        }
        self.pool.slots.release(lease);
    }

    fn close(&mut self, slot: u32, why: CloseReason, claim: bool) {
        if claim {
            match self.pool.slots.claim(slot) {
                Some(lease) => self.own(lease),
                None => return self.tell(|planner, pool, now| planner.claim_failed(slot, pool, now)),
            }
        }
        match why {
            CloseReason::Expired => Counters::add(&self.pool.counters.expired),
            CloseReason::IdleTimeout => Counters::add(&self.pool.counters.idle_closed),
            _ => {}
        }
        let epoch = self.kept(slot).epoch;
        if let Some(connection) = self.take_connection(slot) {
            let goodbye = farewell::say(Arc::clone(&self.pool), slot, epoch, connection);
            self.kept(slot).task = Some(tokio::spawn(goodbye).abort_handle());
        }
    }
}
