//! Who holds what, and for how long. A checkout reads no clock, so ages come from looks at the slots' use counters:
//! a slot seen leased twice with the same counter has been held at least that long. With `record_holders` on, each
//! checkout is stamped instead, and the place it was made is kept.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks of waiting callers come no more often than this, in nanoseconds.
const LOOK_GAP: u64 = 100_000_000;

/// One connection that is out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The slot it is in.
    pub slot: u32,
    /// How long it has been out: exactly with `record_holders`, else at least this long.
    pub age: Duration,
    /// Where it was taken (`record_holders` only).
    pub at: Option<&'static Location<'static>>,
}

pub(super) struct Holders {
    /// Present with `record_holders`.
    stamps: Option<Box<[Mutex<Option<Stamp>>]>>,
    looks: Mutex<Looks>,
    /// When a waiting caller is to look next, in nanoseconds since `born`: most need no more than this load.
    next_look: AtomicU64,
    born: Instant,
}

#[derive(Clone, Copy)]
struct Stamp {
    since: Instant,
    at: &'static Location<'static>,
}

struct Looks {
    slots: Vec<Look>,
}

#[derive(Clone, Copy, Default)]
struct Look {
    uses: u64,
    since: Option<Instant>,
    /// The use that has been reported as a leak already.
    reported: Option<u64>,
}

impl Holders {
    pub(super) fn new(size: u32, record: bool) -> Self {
        Holders {
            stamps: record.then(|| (0..size).map(|_| Mutex::new(None)).collect()),
            looks: Mutex::new(Looks {
                slots: vec![Look::default(); size as usize],
            }),
            next_look: AtomicU64::new(0),
            born: super::now(),
        }
    }

    /// Called at each checkout; does nothing unless `record_holders` is on.
    #[inline]
    pub(super) fn taken(&self, slot: u32, at: &'static Location<'static>) {
        if let Some(stamps) = &self.stamps {
            stamp(stamps, slot, at);
        }
    }

    /// A waiting caller looks at the slots, unless somebody did just now.
    pub(super) fn look_soon(&self, now: Instant, leased: impl Fn(u32) -> Option<u64>) {
        let at = now.saturating_duration_since(self.born).as_nanos() as u64;
        if at < self.next_look.load(Ordering::Relaxed) {
            return;
        }
        self.next_look.store(at + LOOK_GAP, Ordering::Relaxed);
        if let Ok(mut looks) = self.looks.try_lock() {
            looks.look(now, leased);
        }
    }

    /// Everything that is out, oldest first. `leased` gives a leased slot's use counter and nothing for others.
    pub(super) fn held(&self, now: Instant, leased: impl Fn(u32) -> Option<u64>) -> Vec<Holder> {
        let mut looks = lock(&self.looks);
        looks.look(now, &leased);
        let mut held: Vec<Holder> = (0..looks.slots.len() as u32)
            .filter(|&slot| leased(slot).is_some())
            .map(|slot| self.holder(&looks, slot, now))
            .collect();
        held.sort_by_key(|holder| std::cmp::Reverse(holder.age));
        held
    }

    /// Those out for at least `threshold` that have not been reported for this use.
    pub(super) fn leaks(
        &self,
        now: Instant,
        threshold: Duration,
        leased: impl Fn(u32) -> Option<u64>,
    ) -> Vec<Holder> {
        let mut looks = lock(&self.looks);
        looks.look(now, &leased);
        let mut leaks = Vec::new();
        for slot in 0..looks.slots.len() as u32 {
            let Some(uses) = leased(slot) else { continue };
            let holder = self.holder(&looks, slot, now);
            let look = &mut looks.slots[slot as usize];
            if holder.age >= threshold && look.reported != Some(uses) {
                look.reported = Some(uses);
                leaks.push(holder);
            }
        }
        leaks
    }

    fn holder(&self, looks: &Looks, slot: u32, now: Instant) -> Holder {
        let stamp = self
            .stamps
            .as_ref()
            .and_then(|stamps| *lock(&stamps[slot as usize]));
        let since = stamp
            .map(|stamp| stamp.since)
            .or(looks.slots[slot as usize].since);
        Holder {
            slot,
            age: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            at: stamp.map(|stamp| stamp.at),
        }
    }
}

impl Looks {
    fn look(&mut self, now: Instant, leased: impl Fn(u32) -> Option<u64>) {
        for (slot, look) in self.slots.iter_mut().enumerate() {
            match leased(slot as u32) {
                Some(uses) if look.uses == uses && look.since.is_some() => {}
                Some(uses) => (look.uses, look.since) = (uses, Some(now)),
                None => look.since = None,
            }
        }
    }
}

#[cold]
fn stamp(stamps: &[Mutex<Option<Stamp>>], slot: u32, at: &'static Location<'static>) {
    if let Some(stamp) = stamps.get(slot as usize) {
        *lock(stamp) = Some(Stamp {
            since: super::now(),
            at,
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
