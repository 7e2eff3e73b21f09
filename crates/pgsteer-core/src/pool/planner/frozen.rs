//! Idle connections to a host that has been found to be frozen: they are given up, once, lest callers be given one after
//! the other and wait in vain. Those that somebody has are left alone, and what comes back clean later has been answered
//! since, so it stays.

use std::time::Instant;

use super::{CloseReason, Planner, PoolView};
use crate::hosts::Snapshot;

impl Planner {
    pub(super) fn give_up_frozen(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        self.given_up.retain(|host, _| snapshot.frozen.contains_key(host));
        for (host, at) in &snapshot.frozen {
            if self.given_up.insert(host.clone(), *at) == Some(*at) {
                continue;
            }
            let idle = |slot: &u32| self.table.is_idle(*slot, view);
            let there = self
                .table
                .iter()
                .filter(|(_, slot)| slot.serving().is_some_and(|connection| connection.host == *host));
            let idle: Vec<u32> = there.map(|(number, _)| number).filter(idle).collect();
            for slot in idle {
                // Nobody there hears a goodbye.
                self.close_idle_by(slot, CloseReason::Frozen, Some(now));
            }
        }
    }
}
