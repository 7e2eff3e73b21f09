//! When an idle connection is asked whether it still works: for pools that are allowed to send something of their own.
//!
//! A connection that a request used has shown that it works, so only those are asked that were neither used nor asked for
//! an interval, a few at a time: the others stay where callers find them.

use std::time::{Duration, Instant};

use super::planner::PoolView;

/// Of so many idle connections one may be asked at a time.
const IDLE_FOR_EACH: usize = 4;
/// No more than this many at a time.
const MOST: usize = 4;

/// Looks in one interval for connections that were used meanwhile.
const LOOKS: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Seen {
    uses: u64,
    /// When it was last known to work.
    well_at: Instant,
    checking: bool,
}

/// Which idle connections of a pool are to be asked, and when.
#[derive(Debug)]
pub struct HealthChecks {
    interval: Duration,
    slots: Vec<Option<Seen>>,
    checking: usize,
    looked_at: Option<Instant>,
}

impl HealthChecks {
    /// For a pool of `size` slots, all empty.
    pub fn new(size: u32, interval: Duration) -> Self {
        HealthChecks {
            interval: interval.max(Duration::from_millis(1)),
            slots: vec![None; size as usize],
            checking: 0,
            looked_at: None,
        }
    }

    /// Event: a connection has opened in the slot.
    pub fn opened(&mut self, slot: u32, view: &dyn PoolView, now: Instant) {
        self.gone(slot);
        self.looked_at = self.looked_at.or(Some(now));
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Seen {
                uses: view.uses(slot),
                well_at: now,
                checking: false,
            });
        }
    }

    /// Event: the slot's connection has gone.
    pub fn gone(&mut self, slot: u32) {
        let gone = self.slots.get_mut(slot as usize).and_then(Option::take);
        self.checking -= usize::from(gone.is_some_and(|seen| seen.checking));
    }

    /// Event: the slot's connection was asked and answered.
    pub fn answered(&mut self, slot: u32, now: Instant) {
        if let Some(Some(seen)) = self.slots.get_mut(slot as usize) {
            self.checking -= usize::from(std::mem::take(&mut seen.checking));
            seen.well_at = now;
        }
    }

    /// Outcome: the slot could not be claimed, because a caller was faster.
    pub fn claim_failed(&mut self, slot: u32, now: Instant) {
        self.answered(slot, now);
    }

    /// The slots that are to be claimed and asked now. Each ends with `answered`, `gone` or `claim_failed`.
    pub fn due(&mut self, view: &dyn PoolView, now: Instant) -> Vec<u32> {
        self.looked_at = Some(now);
        let mut due = Vec::new();
        for (slot, seen) in (0u32..).zip(&mut self.slots) {
            let Some(seen) = seen else { continue };
            let uses = view.uses(slot);
            if seen.uses != uses {
                seen.uses = uses;
                seen.well_at = now;
            } else if !seen.checking
                && now.saturating_duration_since(seen.well_at) >= self.interval
                && view.is_idle(slot)
            {
                due.push((seen.well_at, slot));
            }
        }
        due.sort_unstable();
        let most = (view.idle() / IDLE_FOR_EACH).clamp(1, MOST);
        due.truncate(most.saturating_sub(self.checking));
        let due: Vec<u32> = due.into_iter().map(|(_, slot)| slot).collect();
        for slot in &due {
            if let Some(Some(seen)) = self.slots.get_mut(*slot as usize) {
                seen.checking = true;
                self.checking += 1;
            }
        }
        due
    }

    /// When `due` is to be asked next; `None` if only events matter. After `due(.., now)` it is later than that `now`.
    pub fn next_wake(&self) -> Option<Instant> {
        let waiting = self.slots.iter().flatten().filter(|seen| !seen.checking);
        let first = waiting.map(|seen| seen.well_at).min()?;
        let at = first.checked_add(self.interval);
        // Uses are not told, so they are looked for; and one that is due but in use, or waits its turn, is met again then.
        let pause = (self.interval / LOOKS).max(Duration::from_millis(1));
        let look = self.looked_at.and_then(|looked| looked.checked_add(pause));
        match (at, look) {
            (Some(at), Some(look)) if self.looked_at.is_some_and(|looked| at > looked) => Some(at.min(look)),
            (_, look) => look,
        }
    }
}
