//! Those who wait for a slot, oldest first, in a ring that allocates only when it grows past its peak.
//! A waiter's place is its ticket: one whose granted slot turned out unfit comes back to where it stood. A slot is
//! granted by writing it into the waiter's cell (`cells.rs`), where its task finds it without the lock; so a waited checkout
//! takes the lock once to join and the return that ends it once to grant.
//! All but [`Wait::granted`] happens under the pool's one lock; nothing here wakes, drops a waker or calls out.

use super::cells::{Cells, Fate};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// How many cells a newcomer looks at, as a rule, before it takes one that was never used.
const LOOKS: u32 = 2;

/// Why a wait ended without a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected<E> {
    /// The deadline given with the wait is over.
    TimedOut,
    /// The pool is closed.
    Closed,
    /// Everybody who waited was failed with this error.
    Failed(E),
}

/// One task's place in the queue. Belongs to the pool it was first polled with; must be cancelled when abandoned.
#[derive(Debug, Default)]
pub struct Wait {
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    pool: NonZeroU64,
    /// The number of its cell.
    cell: u32,
}

impl Wait {
    /// Whose queue it is in, if any.
    pub(super) fn pool(&self) -> Option<NonZeroU64> {
        self.place.as_ref().map(|place| place.pool)
    }

    /// The slot granted to it, if it has been. The wait is over then, and its slot the caller's.
    #[inline]
    pub(super) fn granted(&mut self, cells: &Cells) -> Option<Granted> {
        let cell = cells.get(self.place.as_ref()?.cell);
        let Fate::Granted(slot) = cell.fate() else {
            return None;
        };
        self.place = None;
        let ticket = cell.ticket();
        cell.close();
        Some(Granted { slot, ticket })
    }
}

/// A slot that was granted, and the place in the queue that it was granted to.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) slot: u32,
    pub(super) ticket: u64,
}

/// What a wait that was granted no slot has come to.
#[derive(Debug)]
pub(super) enum Outcome<E> {
    /// Not waiting, or granted a slot.
    None,
    /// Still waiting.
    Pending,
    /// Over.
    Over(Rejected<E>),
}

/// One place in the ring.
#[derive(Debug)]
struct Entry {
    /// Whom to wake; `None` once the waiter has gone. The oldest entry's is always there.
    waker: Option<Waker>,
    /// The number of its cell, which stays its own until the entry has left the ring.
    cell: u32,
    deadline: Option<Instant>,
}

/// Whether the first deadline is not after the second; none at all is after every other.
fn in_order(first: Option<Instant>, second: Option<Instant>) -> bool {
    match (first, second) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(first), Some(second)) => first <= second,
    }
}

/// The queue. See the module.
///
/// In this order, so that all that a join and a grant change here is in one cache line with the lock: where the callers
/// are on several cores, they take each line that changes from each other.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Queue<E> {
    /// By ticket. A ring and not a list, so that neighbours share cache lines and each end has its own.
    ring: VecDeque<Entry>,
    next_ticket: u64,
    waiting: u32,
    /// How many cells have been used so far.
    cells_used: u32,
    /// The one to look at next: of those used, as a rule the one used longest ago.
    next_cell: u32,
    /// Whether every word's flag is up.
    pub(super) raised: bool,
    /// The keeper has not been told yet that `armed` has become earlier.
    newly_armed: bool,
    /// Whether the deadlines come in the order of the queue, as they do while everybody waits with the same limit.
    sorted: bool,
    /// Whose queue it is, so that no wait is taken for one of another pool.
    pool: NonZeroU64,
    /// How many grants at most can be uncollected.
    slots: u32,
    cells: Arc<Cells>,
    /// The instant at which the pool's keeper has been asked to call `expire`, if any. Nobody's deadline is earlier;
    /// who leaves does not change it, since a call for nothing costs less than keeping it exact.
    armed: Option<Instant>,
    /// Rejected and not yet collected, by ticket.
    rejected: BTreeMap<u64, Rejected<E>>,
}

impl<E> Queue<E> {
    pub(super) fn new(pool: NonZeroU64, slots: u32, cells: Arc<Cells>) -> Self {
        Self {
            ring: VecDeque::new(),
            next_ticket: 0,
            waiting: 0,
            cells_used: 0,
            next_cell: 0,
            raised: false,
            newly_armed: false,
            sorted: true,
            pool,
            slots,
            cells,
            armed: None,
            rejected: BTreeMap::new(),
        }
    }

    /// How many wait: neither granted nor rejected.
    pub(super) fn len(&self) -> usize {
        self.waiting as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// A newcomer joins at the end.
    #[inline]
    pub(super) fn join(&mut self, waker: Waker, deadline: Option<Instant>) -> Wait {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        match self.ring.back() {
            // The keeper comes for the one before, or earlier; which it need not for one that has left.
            Some(last)
                if last.waker.is_some() && last.deadline.is_some() && in_order(last.deadline, deadline) => {}
            Some(last) => {
                self.sorted &= in_order(last.deadline, deadline);
                self.arm(deadline);
            }
            None => self.arm(deadline),
        }
        let (entry, wait) = self.open(ticket, waker, deadline);
        self.ring.push_back(entry);
        wait
    }

    /// A waiter whose granted slot was no use comes back to its old place.
    pub(super) fn rejoin(&mut self, ticket: u64, waker: Waker, deadline: Option<Instant>) -> Wait {
        let at = self.ring.partition_point(|entry| self.ticket(entry) < ticket);
        let older = at.checked_sub(1).and_then(|at| self.ring.get(at));
        let younger = self.ring.get(at);
        self.sorted &= older.is_none_or(|older| in_order(older.deadline, deadline))
            && younger.is_none_or(|younger| in_order(deadline, younger.deadline));
        self.arm(deadline);
        let (entry, wait) = self.open(ticket, waker, deadline);
        self.ring.insert(at, entry);
        wait
    }

    /// Sees to it that `expire` is called by then.
    fn arm(&mut self, deadline: Option<Instant>) {
        if deadline.is_some() && !in_order(self.armed, deadline) {
            self.armed = deadline;
            self.newly_armed = true;
        }
    }

    /// A wait begins: its place in the ring, and what the waiter keeps.
    #[inline]
    fn open(&mut self, ticket: u64, waker: Waker, deadline: Option<Instant>) -> (Entry, Wait) {
        let cell = self.cell(ticket);
        let entry = Entry {
            waker: Some(waker),
            cell,
            deadline,
        };
        self.waiting += 1;
        let pool = self.pool;
        let wait = Wait {
            place: Some(Place { pool, cell }),
        };
        (entry, wait)
    }

    /// The number of a cell that nobody else has.
    #[inline]
    fn cell(&mut self, ticket: u64) -> u32 {
        let number = self.used_cell().unwrap_or_else(|| {
            self.cells_used += 1;
            self.cells_used - 1
        });
        self.cells.get(number).open(ticket);
        number
    }

    /// One that has been used before and that its waiter has let go of. They are asked in turn, since whoever was granted
    /// a slot lets go without the lock.
    #[inline]
    fn used_cell(&mut self) -> Option<u32> {
        // All but these are free for certain. While those are the fewer, a new cell costs less than a search; it lasts no
        // longer than that, so that there are never many more than were needed at once.
        let in_use = self.ring.len() + self.slots as usize + self.rejected.len();
        let looks = if self.cells_used as usize > 2 * in_use + 64 {
            self.cells_used
        } else {
            self.cells_used.min(LOOKS)
        };
        for _ in 0..looks {
            let number = self.next_cell;
            self.next_cell = if number + 1 < self.cells_used {
                number + 1
            } else {
                0
            };
            if self.cells.get(number).is_free() {
                return Some(number);
            }
        }
        None
    }

    fn ticket(&self, entry: &Entry) -> u64 {
        self.cells.get(entry.cell).ticket()
    }

    /// Drops the entries of those who left, up to the oldest waiter; and all of them when they are too many.
    #[inline]
    fn tidy(&mut self) {
        while let Some(Entry {
            waker: None, cell, ..
        }) = self.ring.front()
        {
            self.cells.get(*cell).part();
            self.ring.pop_front();
        }
        if self.ring.len() > 2 * self.waiting as usize + 64 {
            let cells = &self.cells;
            self.ring.retain(|entry| {
                if entry.waker.is_none() {
                    cells.get(entry.cell).part();
                }
                entry.waker.is_some()
            });
        }
        self.sorted |= self.waiting == 0;
    }

    /// Gives this slot to the oldest waiter and returns whom to wake; or nothing, if nobody waits.
    #[must_use]
    pub(super) fn grant(&mut self, slot: u32) -> Option<Waker> {
        let Entry { waker, cell, .. } = self.ring.pop_front()?;
        self.cells.get(cell).grant(slot);
        self.waiting -= 1;
        self.tidy();
        waker
    }

    /// The place of a waiter that is still in the ring.
    fn find(&self, cell: u32) -> Option<usize> {
        let ticket = self.cells.get(cell).ticket();
        let found = self
            .ring
            .binary_search_by_key(&ticket, |entry| self.ticket(entry));
        found.ok()
    }

    /// The waiter of this cell, which was granted nothing, lets go of it. Returns its place in the ring, if it is still
    /// there; nobody else has the cell until that has been tidied away.
    fn close(&self, cell: u32) -> Option<usize> {
        let at = self.find(cell);
        match at {
            Some(_) => self.cells.get(cell).leave(),
            None => self.cells.get(cell).close(),
        }
        at
    }

    /// What a wait has come to that was granted nothing. If it is over, the wait may be used anew.
    /// Of one that is pending, the waker is replaced if `waker` would wake another task; the old one comes back, to
    /// be dropped outside the lock.
    pub(super) fn collect(&mut self, wait: &mut Wait, waker: &Waker) -> (Outcome<E>, Option<Waker>) {
        let Some(Place { cell, .. }) = wait.place else {
            return (Outcome::None, None);
        };
        match self.cells.get(cell).fate() {
            Fate::Waiting => {
                let entry = self.find(cell).and_then(|at| self.ring.get_mut(at));
                let old = entry.and_then(|entry| entry.waker.as_mut());
                let replaced = old
                    .filter(|old| !old.will_wake(waker))
                    .map(|old| std::mem::replace(old, waker.clone()));
                (Outcome::Pending, replaced)
            }
            Fate::Rejected => {
                let rejected = self.rejected.remove(&self.cells.get(cell).ticket());
                self.close(cell);
                *wait = Wait::default();
                (rejected.map_or(Outcome::None, Outcome::Over), None)
            }
            Fate::Granted(_) => (Outcome::None, None),
        }
    }

    /// Ends a wait whose task gives up and which was granted nothing. Returns what is left of it, to be dropped
    /// outside the lock.
    pub(super) fn leave(&mut self, wait: &mut Wait) -> (Option<Waker>, Option<Rejected<E>>) {
        let (mut waker, mut rejected) = (None, None);
        let Some(Place { cell, .. }) = wait.place.take() else {
            return (waker, rejected);
        };
        if self.cells.get(cell).fate() == Fate::Rejected {
            rejected = self.rejected.remove(&self.cells.get(cell).ticket());
            self.close(cell);
        } else if let Some(entry) = self.close(cell).and_then(|at| self.ring.get_mut(at)) {
            waker = entry.waker.take();
            self.waiting -= 1;
            self.tidy();
        }
        (waker, rejected)
    }

    /// Ends the wait at this place of the ring; returns whom to wake.
    fn reject(&mut self, at: usize, why: Rejected<E>) -> Option<Waker> {
        let entry = self.ring.get_mut(at)?;
        let waker = entry.waker.take()?;
        let cell = self.cells.get(entry.cell);
        cell.reject();
        self.rejected.insert(cell.ticket(), why);
        self.waiting -= 1;
        Some(waker)
    }

    /// Ends every wait with what `rejected` says; returns whom to wake, oldest first.
    pub(super) fn reject_all(&mut self, mut rejected: impl FnMut() -> Rejected<E>) -> Vec<Waker> {
        let mut wakers = Vec::with_capacity(self.len());
        for at in 0..self.ring.len() {
            wakers.extend(self.reject(at, rejected()));
        }
        self.tidy();
        wakers
    }

    /// Times out every waiter whose deadline is `now` or earlier; returns whom to wake, earliest deadline first.
    ///
    /// While everybody waits with the same limit it looks at those who are due and one more; else at everybody.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        let mut next = None;
        let waiting = self
            .ring
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.waker.is_some());
        for (at, entry) in waiting {
            match entry.deadline {
                Some(deadline) if deadline <= now => due.push((deadline, at)),
                later if !in_order(next, later) => next = later,
                _ if self.sorted => break,
                _ => {}
            }
        }
        (self.armed, self.newly_armed) = (next, false);
        due.sort_by_key(|&(deadline, _)| deadline);
        let wakers = due
            .into_iter()
            .filter_map(|(_, at)| self.reject(at, Rejected::TimedOut))
            .collect();
        self.tidy();
        wakers
    }

    /// The instant at which `expire` is to be called; right after it, the earliest deadline of all.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.armed
    }

    /// The next deadline, if it is earlier than the keeper has been told so far.
    pub(super) fn newly_due(&mut self) -> Option<Instant> {
        std::mem::take(&mut self.newly_armed).then_some(self.armed)?
    }
}
