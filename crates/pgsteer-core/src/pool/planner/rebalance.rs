//! Rebalancing: connections where they may no longer stay are moved away, and those that may are spread evenly, a
//! batch at a time.
//!
//! It relies on the cluster's snapshot alone and sends nothing to any server. A host that merely failed is still one
//! where connections may stay, so a failure by itself moves nothing. Where a host is not what is wanted, its connections
//! go at once: they do harm, and no other is closed in their stead.

use std::collections::HashSet;
use std::time::Instant;

use super::slots::{Connection, Slot};
use super::{Action, CloseReason, Planner, PoolView, Stage};
use crate::host::HostKey;
use crate::hosts::Snapshot;

impl Planner {
    /// Request: look at where the connections are, now. At most a batch is moved, as on a tick.
    pub fn rebalance(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        if self.stage != Stage::Running {
            return;
        }
        self.retire_unfit(snapshot, view, now);
        if snapshot.allowed.is_empty() {
            return self.fill(view, now);
        }
        let strays: Vec<u32> = self
            .table
            .iter()
            .filter(|(_, slot)| slot.serving().is_some_and(|it| is_stray(it, snapshot)))
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

    /// Event: something about the hosts has changed. Connections to hosts that are not what is wanted go: idle ones now,
    /// others when they come back. Idle ones to hosts that have been found to be frozen go too. If filling rests because nothing fitted or nothing was ready, it rests no longer.
    pub fn cluster_changed(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        if self.stage == Stage::Running {
            self.retire_unfit(snapshot, view, now);
            self.give_up_frozen(snapshot, view, now);
            self.ask_again(view, now);
        }
    }

    fn retire_unfit(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        if !snapshot.unfit.is_empty() {
            self.order_out(
                CloseReason::Unfit,
                |host| snapshot.unfit.contains(host),
                view,
                now,
            );
        }
    }

    /// Closes idle strays, then marks leased ones, a batch in all. Those marked earlier cost nothing.
    fn move_strays(&mut self, strays: &[u32], view: &dyn PoolView, now: Instant) {
        let unmarked = |slot: &u32| {
            let connection = self.table.get(*slot).and_then(Slot::serving);
            connection.is_some_and(|it| it.draining.is_none())
        };
        let strays = strays.iter().copied().filter(unmarked);
        let (idle, others): (Vec<u32>, Vec<u32>) = strays.partition(|slot| self.table.is_idle(*slot, view));
        let batch = self.options.rebalance_batch as usize;
        let rest = batch.saturating_sub(idle.len());
        for slot in idle.into_iter().take(batch) {
            self.close_idle(slot, CloseReason::Stray, now);
        }
        for slot in others.into_iter().take(rest) {
            self.mark(slot, CloseReason::Stray, now);
        }
    }

    /// Takes the marks from connections that were strays and may stay again, and from those that were to even out the
    /// spread: whether they still have to is asked anew.
    fn let_marks_lapse(&mut self, strays: &[u32]) {
        let strays: HashSet<u32> = strays.iter().copied().collect();
        for slot in self.table.numbers() {
            let live = matches!(self.table.get(slot), Some(Slot::Live { .. }));
            let Some(connection) = self.table.get_mut(slot).and_then(Slot::serving_mut) else {
                continue;
            };
            if !matches!(
                connection.draining,
                Some(CloseReason::Stray | CloseReason::Spread)
            ) {
                continue;
            }
            if strays.contains(&slot) {
                connection.draining = Some(CloseReason::Stray);
                continue;
            }
            connection.draining = None;
            if live {
                self.actions.push_back(Action::Unretire { slot });
            }
        }
    }

    /// Moves connections of the busiest host if it has at least two more than the quietest.
    fn spread(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {
        let kept_off = self.kept_off(now);
        // A failed host would look quietest for ever: what is closed in its favour would only open where it was.
        let hosts = || {
            let works = |host: &&HostKey| !snapshot.failures.contains_key(host) && !kept_off.contains(host);
            snapshot.placement.iter().filter(works)
        };
        let count = |host: &HostKey| snapshot.counts.get(host).copied().unwrap_or(0);
        // The cluster still counts what this pool is closing already. It would have more and more closed in its stead
        // for as long as that takes, so it is left out of the busiest's number; what the quietest loses comes back.
        let staying = |host: &HostKey| count(host).saturating_sub(self.closing_on(host));
        // What is on its way to a host counts as there already, or a slow open would have more and more follow it.
        let expected = |host: &HostKey| count(host) + snapshot.pending.get(host).copied().unwrap_or(0);
        let Some(quietest) = hosts().map(expected).min() else {
            return;
        };
        let Some(most) = hosts().map(staying).max() else {
            return;
        };
        // Half the difference evens it out; more would only come back.
        let surplus = most.saturating_sub(quietest) / 2;
        if surplus == 0 {
            return;
        }
        // Among equally busy ones the greatest that has an idle connection to give, else the greatest.
        let busiest = hosts()
            .filter(|host| staying(host) == most)
            .max_by_key(|host| (self.live_on(host, view, true).next().is_some(), *host));
        let Some(busiest) = busiest else { return };
        let budget = self.options.rebalance_batch.min(surplus) as usize;
        let idle: Vec<u32> = self.live_on(busiest, view, true).take(budget).collect();
        // A pool in full use has no idle ones: those in use go when they come back, so nobody is disturbed.
        let leased: Vec<u32> = self
            .live_on(busiest, view, false)
            .take(budget - idle.len())
            .collect();
        for slot in idle {
            self.close_idle(slot, CloseReason::Spread, now);
        }
        for slot in leased {
            self.mark(slot, CloseReason::Spread, now);
        }
    }

    fn closing_on(&self, host: &HostKey) -> u32 {
        let closing = self
            .table
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Closing { connection, .. } if connection.host == *host));
        u32::try_from(closing.count()).unwrap_or(u32::MAX)
    }

    /// The connections on the host that are idle, or that are not, leaving out those marked for other reasons.
    fn live_on<'a>(
        &'a self,
        host: &'a HostKey,
        view: &'a dyn PoolView,
        idle: bool,
    ) -> impl Iterator<Item = u32> + 'a {
        self.table
            .iter()
            .filter(move |(number, slot)| match slot {
                Slot::Live { connection, .. } => {
                    connection.host == *host && connection.draining.is_none() && view.is_idle(*number) == idle
                }
                _ => false,
            })
            .map(|(number, _)| number)
    }
}

/// Whether the connection is where none may stay: on such a host, or at an address that the host's name no longer has.
fn is_stray(connection: &Connection, snapshot: &Snapshot) -> bool {
    let now_at = snapshot.addresses.get(&connection.host);
    let has_moved = |address| now_at.is_some_and(|now_at| !now_at.is_empty() && !now_at.contains(&address));
    !snapshot.allowed.contains(&connection.host) || connection.address.is_some_and(has_moved)
}
