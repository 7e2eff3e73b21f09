//! The end of a connection: its life is over, it was idle for too long, or everything was told to go.
//!
//! The keeper's tick enforces it, so that a checkout reads no clock: idle connections are closed, leased ones marked.
//! Where many lives end together some end early, so that a small pool is not emptied at once.

use std::time::{Duration, Instant};

use super::slots::{Connection, Slot};
use super::{Action, CloseReason, Planner, PoolView, Stage, TICK, earlier};
use crate::host::HostKey;

impl Planner {
    /// Request: every connection goes, those being opened included: idle ones now, others when they come back.
    pub fn retire_all(&mut self, view: &dyn PoolView, now: Instant) {
        self.order_out(CloseReason::Ordered, |_| true, view, now);
        for slot in self.table.numbers() {
            if let Some(Slot::Opening { ordered, .. }) = self.table.get_mut(slot) {
                *ordered = true;
            }
        }
    }

    /// Request: every connection to the host goes: idle ones now, others when they come back.
    pub fn retire_host(&mut self, host: &HostKey, view: &dyn PoolView, now: Instant) {
        self.order_out(CloseReason::Ordered, |it| it == host, view, now);
    }

    /// Request: the pool ends. Nothing is opened any more; idle connections are closed now, others when they come
    /// back. The shell closes the waiters' queue itself, and aborts its openers (reporting `open_vanished`).
    pub fn shutdown(&mut self, view: &dyn PoolView, now: Instant) {
        self.stage = Stage::Down;
        self.refill_at = None;
        self.alone_until = None;
        self.rebalance_at = None;
        self.order_out(CloseReason::Shutdown, |_| true, view, now);
    }

    pub(super) fn order_out(
        &mut self,
        why: CloseReason,
        concerns: impl Fn(&HostKey) -> bool,
        view: &dyn PoolView,
        now: Instant,
    ) {
        for slot in self.table.numbers() {
            let Some(connection) = self.table.get(slot).and_then(Slot::serving) else {
                continue;
            };
            if !concerns(&connection.host) {
                continue;
            }
            if self.table.is_idle(slot, view) {
                self.close_idle(slot, why, now);
            } else {
                self.mark(slot, why, now);
            }
        }
    }

    /// Says that the connection goes when it comes back. A mark for good replaces one that may lapse.
    pub(super) fn mark(&mut self, slot: u32, why: CloseReason, now: Instant) {
        let Some(connection) = self.table.get_mut(slot).and_then(Slot::serving_mut) else {
            return;
        };
        if connection.draining.replace(why).is_none() && self.is_live(slot) {
            self.mark_session(slot, now);
        }
    }

    /// Has the session itself marked. Its holder may give it back as clean in the same moment, so it is looked at
    /// once more a little later.
    pub(super) fn mark_session(&mut self, slot: u32, now: Instant) {
        self.actions.push_back(Action::Retire { slot });
        self.sweep_at = self.sweep_at.or(Some(now + TICK));
    }

    fn is_live(&self, slot: u32) -> bool {
        matches!(self.table.get(slot), Some(Slot::Live { .. }))
    }

    /// Closes the marked connections that are idle all the same: they slipped back while the mark was being set.
    pub(super) fn sweep(&mut self, view: &dyn PoolView, now: Instant) {
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep_at = None;
        }
        for slot in self.table.numbers() {
            let Some(Slot::Live { connection, .. }) = self.table.get(slot) else {
                continue;
            };
            if let (Some(why), true) = (connection.draining, view.is_idle(slot)) {
                self.close_idle(slot, why, now);
            }
        }
    }

    /// Closes idle connections past their life, marks leased ones, and lets some idle ones go early.
    pub(super) fn enforce_lifetimes(&mut self, view: &dyn PoolView, now: Instant) {
        for slot in self.table.numbers() {
            let Some(connection) = self.table.get(slot).and_then(Slot::serving) else {
                continue;
            };
            if !connection.is_expired(now) {
                continue;
            }
            if self.table.is_idle(slot, view) {
                self.close_idle(slot, CloseReason::Expired, now);
            } else if matches!(
                connection.draining,
                None | Some(CloseReason::Stray | CloseReason::Spread)
            ) {
                // A mark that may lapse gives way to one that may not.
                self.mark(slot, CloseReason::Expired, now);
            }
        }
        // Not while opens fail: an early end is a courtesy to the pool, and now it would be none.
        let paced = self.early_at.is_none_or(|at| now >= at + TICK);
        if self.refill_at.is_none() && self.backoff.is_none() && paced {
            self.end_some_early(view, now);
        }
    }

    /// Ends the lives of a few idle connections early if more end together later than one tick should replace.
    fn end_some_early(&mut self, view: &dyn PoolView, now: Instant) {
        let batch = self.lifetime_batch();
        let horizon = self.early_horizon();
        let mut ends = self.ends_of_life();
        ends.retain(|(end, _)| end.saturating_duration_since(now) <= horizon);
        let mut early = 0;
        for (rank, (end, _)) in (1usize..).zip(&ends) {
            let left = end.saturating_duration_since(now);
            let ticks = usize::try_from(left.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(usize::MAX);
            early = early.max(rank.saturating_sub(batch.saturating_mul(ticks)));
        }
        let idle = ends
            .into_iter()
            .map(|(_, slot)| slot)
            .filter(|&slot| self.table.is_idle(slot, view));
        let going: Vec<u32> = idle.take(early.min(batch)).collect();
        for slot in going {
            self.early_at = Some(now);
            self.close_idle(slot, CloseReason::Expired, now);
        }
    }

    /// How many connections one tick should replace for their age.
    fn lifetime_batch(&self) -> usize {
        let size = self.table.len();
        (self.options.rebalance_batch as usize)
            .max(size / 32)
            .min(size / 2)
            .max(1)
    }

    /// No life ends earlier than by a tenth.
    fn early_horizon(&self) -> Duration {
        self.options.max_lifetime.map_or(Duration::ZERO, |life| life / 10)
    }

    /// The ends of all lives that are not marked to end anyway, soonest first.
    fn ends_of_life(&self) -> Vec<(Instant, u32)> {
        let mut ends: Vec<(Instant, u32)> = self
            .table
            .iter()
            .filter_map(|(number, slot)| match slot {
                Slot::Live { connection, .. } if connection.draining.is_none() => {
                    Some((connection.expires_at?, number))
                }
                _ => None,
            })
            .collect();
        ends.sort_unstable();
        ends
    }

    /// When the next life ends, or is to end early. It may be asked for again on the next tick, if it could not be
    /// ended then.
    pub(super) fn recompute_lifetime_wake(&mut self) {
        let batch = self.lifetime_batch();
        let horizon = self.early_horizon();
        self.lifetime_wake = (0usize..)
            .zip(self.ends_of_life())
            .filter_map(|(before, (end, _))| {
                let ticks = u32::try_from(before / batch).unwrap_or(u32::MAX);
                end.checked_sub(TICK.saturating_mul(ticks).min(horizon))
            })
            .min();
    }

    /// Makes room for one more end of life without looking at all the others: a big pool opens one connection after the
    /// other. The wake may come too early for that; the tick then works it out.
    pub(super) fn expect_end_of_life(&mut self, connection: &Connection) {
        let Some(end) = connection.expires_at else {
            return;
        };
        // It may be the one by which all later ones have to go a tick earlier.
        self.lifetime_wake = self.lifetime_wake.and_then(|wake| wake.checked_sub(TICK));
        let early = end.checked_sub(self.early_horizon());
        earlier(&mut self.lifetime_wake, early);
    }

    /// Closes idle connections that were unused for `idle_timeout`, the highest slots first, down to `min_idle`.
    pub(super) fn enforce_idle_timeout(&mut self, view: &dyn PoolView, now: Instant) {
        let Some(timeout) = self.options.idle_timeout else {
            return;
        };
        let mut idle = 0;
        for slot in self.table.numbers() {
            // Being asked whether it works is no use.
            let is_idle = self.table.is_idle(slot, view) || view.is_being_checked(slot);
            let uses = view.uses(slot);
            let Some(Slot::Live { connection, .. }) = self.table.get_mut(slot) else {
                continue;
            };
            if !is_idle || connection.uses != uses {
                connection.uses = uses;
                connection.unused_since = now;
            }
            idle += usize::from(is_idle);
        }
        let mut surplus = idle.saturating_sub(self.options.min_idle as usize);
        for slot in self.table.numbers().rev() {
            if surplus == 0 {
                break;
            }
            let Some(Slot::Live { connection, .. }) = self.table.get(slot) else {
                continue;
            };
            let unused = now.saturating_duration_since(connection.unused_since);
            if unused >= timeout && view.is_idle(slot) {
                self.close_idle(slot, CloseReason::IdleTimeout, now);
                surplus -= 1;
            }
        }
    }
}
