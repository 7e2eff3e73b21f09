//! While a circuit breaker lets nobody dial: filling rests exactly until it may let somebody, and then a single opener
//! goes, which is the breaker's probe.

use std::time::{Duration, Instant};

use super::slots::Slot;
use super::{Experience, Oddity, Planner, PoolView, Stage};

impl Planner {
    /// Event: the breaker did not let the open for the slot begin, so nothing was dialled. Waiters are not failed by this:
    /// see [`Planner::can_serve`].
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not opening.
    pub fn open_barred(&mut self, slot: u32, rest: Duration, now: Instant) -> Result<(), Oddity> {
        let Some(Slot::Opening { .. }) = self.table.get(slot) else {
            return self.odd(slot, "open_barred");
        };
        self.table.set(slot, Slot::Empty);
        self.bar(rest, now);
        Ok(())
    }

    /// Event: the breaker lets nobody dial for so long. Opens that are under way go on.
    pub fn bar(&mut self, rest: Duration, now: Instant) {
        if self.stage != Stage::Running {
            return;
        }
        self.experience = Experience::Fails;
        self.alone_until = None;
        self.barred = true;
        let until = now.checked_add(rest.max(Duration::from_millis(1)));
        // A rest that is longer for a reason of its own stays.
        self.refill_at = self.refill_at.max(until);
    }

    /// Event: the breaker lets everybody dial again. No use in resting on, unless logins are refused, which rests for a
    /// reason of its own.
    pub fn unbar(&mut self, view: &dyn PoolView, now: Instant) {
        if std::mem::take(&mut self.barred) && self.login_back_off().is_none() {
            self.refill_at = None;
            self.fill(view, now);
        }
    }

    /// Request: opens one connection now, to see whether that works, however many are wanted and however long filling
    /// rests. Returns whether it does: not while another is being opened, and not if every slot is taken.
    pub fn try_one(&mut self, now: Instant) -> bool {
        if self.stage != Stage::Running || self.table.opening() > 0 {
            return false;
        }
        let slot = self.table.lowest_empty();
        if let Some(slot) = slot {
            self.open(slot, now);
        }
        slot.is_some()
    }

    /// Whether there is a slot that a connection could be opened for, when that is wanted and allowed.
    pub fn has_empty_slot(&self) -> bool {
        self.table.present() + self.table.closing() < self.table.len()
    }

    /// Whether a waiting caller may be served by what there is: a connection that is open, or one being opened.
    pub fn can_serve(&self) -> bool {
        self.table.present() > 0
    }
}
