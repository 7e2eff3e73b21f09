//! Rebalancing: connections where they may no longer stay are moved away, and those that may are spread evenly, a
//! batch at a time.
//!
//! It relies on the cluster's snapshot alone and sends nothing to any server. A host that merely failed is still one
//! where connections may stay, so a failure by itself moves nothing.

use std::time::Instant;

use super::slots::Slot;
use super::{Action, CloseReason, Planner, PoolView, Stage};
use crate::host::HostKey;
use crate::hosts::Snapshot;

impl Planner {
    /// Request: look at where the connections are, now. At most a batch is moved, as on a tick.
    pub fn rebalance(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        if self.stage != Stage::Running || snapshot.allowed.is_empty() {
            return;
        }
        let strays: Vec<u32> = self
            .table
            .iter()
            .filter(|(_, slot)| {
                slot.serving()
                    .is_some_and(|it| !snapshot.allowed.contains(&it.host))
            })
            .map(|(number, _)| number)
            .collect();
        self.let_marks_lapse(&strays);
        if strays.is_empty() {
            self.spread(snapshot, view, now);
        } else {
            self.move_strays(&strays, view, now);
        }
        self.fill(view, now);
    }

    /// Closes idle strays, then marks leased ones, a batch in all. Those marked earlier cost nothing.
    fn move_strays(&mut self, strays: &[u32], view: &dyn PoolView, now: Instant) {
        let mut budget = self.options.rebalance_batch;
        for &slot in strays {
            if budget > 0 && self.table.is_idle(slot, view) {
                self.close_idle(slot, CloseReason::Stray, now);
                budget -= 1;
            }
        }
        for &slot in strays {
            let marked = self
                .table
                .get(slot)
                .and_then(Slot::serving)
                .map(|it| it.draining.is_some());
            if budget > 0 && marked == Some(false) {
                self.mark(slot, CloseReason::Stray, now);
                budget -= 1;
            }
        }
    }

    /// Takes the marks from connections that were strays and may stay again.
    fn let_marks_lapse(&mut self, strays: &[u32]) {
        for slot in self.table.numbers() {
            if strays.contains(&slot) {
                continue;
            }
            let live = matches!(self.table.get(slot), Some(Slot::Live { .. }));
            let Some(connection) = self.table.get_mut(slot).and_then(Slot::serving_mut) else {
                continue;
            };
            if connection.draining == Some(CloseReason::Stray) {
                connection.draining = None;
                if live {
                    self.actions.push_back(Action::Unretire { slot });
                }
            }
        }
    }

    /// Closes idle connections of the busiest host if it has at least two more than the quietest.
    fn spread(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        let kept_off = self.kept_off(now);
        // A failed host would look quietest for ever: what is closed in its favour would only open where it was.
        let loads: Vec<(u32, &HostKey)> = snapshot
            .placement
            .iter()
            .filter(|host| !snapshot.failures.contains_key(host) && !kept_off.contains(host))
            .map(|host| (self.load(host, snapshot), host))
            .collect();
        let Some(quietest) = loads.iter().map(|(load, _)| *load).min() else {
            return;
        };
        let Some(most) = loads.iter().map(|(load, _)| *load).max() else {
            return;
        };
        if most - quietest < 2 {
            return;
        }
        // Among equally busy ones the greatest that has anything to give.
        let busiest = loads
            .iter()
            .filter(|(load, host)| *load == most && self.idle_on(host, view).next().is_some())
            .map(|(_, host)| *host)
            .max();
        let Some(busiest) = busiest else { return };
        let moving: Vec<u32> = self
            .idle_on(busiest, view)
            .take(self.options.rebalance_batch as usize)
            .collect();
        for slot in moving {
            self.close_idle(slot, CloseReason::Spread, now);
        }
    }

    /// The open connections of a host. Those this pool is closing already are still counted by the cluster, and would
    /// have more and more closed in their stead for as long as it takes.
    fn load(&self, host: &HostKey, snapshot: &Snapshot) -> u32 {
        let closing = self
            .table
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Closing { connection, .. } if connection.host == *host));
        let closing = u32::try_from(closing.count()).unwrap_or(u32::MAX);
        snapshot
            .counts
            .get(host)
            .copied()
            .unwrap_or(0)
            .saturating_sub(closing)
    }

    fn idle_on<'a>(&'a self, host: &'a HostKey, view: &'a dyn PoolView) -> impl Iterator<Item = u32> + 'a {
        self.table
            .iter()
            .filter(move |(number, slot)| match slot {
                Slot::Live { connection, .. } => connection.host == *host && view.is_idle(*number),
                _ => false,
            })
            .map(|(number, _)| number)
    }
}
