//! Where each waiter's task finds, without the lock, what became of its wait. Cells are known by number and never move or
//! go away while the pool lives, so nothing counts who refers to them: a cell is in use from [`Cell::open`] until its
//! waiter's [`Cell::close`].

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Still waiting.
const WAITING: u32 = u32::MAX;
/// Rejected; why is in the queue.
const REJECTED: u32 = u32::MAX - 1;
/// In nobody's use.
const FREE: u32 = u32::MAX - 2;

/// Cells in the first chunk; each later one has twice as many as the one before it. Few in the models, so that there are
/// several.
const FIRST: u32 = if cfg!(loom) { 2 } else { 64 };

/// As many chunks as hold a cell for every number.
const CHUNKS: usize = (u32::BITS - FIRST.ilog2() + 1) as usize;

/// The cells of one pool.
#[derive(Debug)]
pub(super) struct Cells {
    chunks: [OnceLock<Box<[Cell]>>; CHUNKS],
}

/// One waiter's. Written by whoever has the lock, at most once while its wait lasts, and then by its waiter.
#[derive(Debug)]
pub(super) struct Cell {
    /// [`WAITING`], [`REJECTED`], [`FREE`] or the slot that was granted.
    state: AtomicU32,
    ticket: AtomicU64,
}

/// What is in a cell that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Waiting,
    Rejected,
    /// This slot is the waiter's.
    Granted(u32),
}

impl Cells {
    pub(super) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }

    /// The cell of this number, which is there from the first time it is asked for.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Cell {
        let (chunk, at) = place(number);
        let cells = self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| Cell::new()).collect());
        &cells[at]
    }
}

/// The chunk of a cell, and its place there.
#[inline]
fn place(number: u32) -> (usize, usize) {
    if number < FIRST {
        return (0, number as usize);
    }
    let beyond = u64::from(number) + u64::from(FIRST);
    let chunk = beyond.ilog2() - FIRST.ilog2();
    (chunk as usize, (beyond - (u64::from(FIRST) << chunk)) as usize)
}

impl Cell {
    fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            ticket: AtomicU64::new(0),
        }
    }

    /// Whether nobody uses it.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        // Acquire: its last waiter has read the ticket before a new one is written.
        self.state.load(Ordering::Acquire) == FREE
    }

    /// A wait begins. For whoever has the lock, of a free one.
    #[inline]
    pub(super) fn open(&self, ticket: u64) {
        self.ticket.store(ticket, Ordering::Relaxed);
        self.state.store(WAITING, Ordering::Relaxed);
    }

    /// The slot is the waiter's. For whoever has the lock.
    #[inline]
    pub(super) fn grant(&self, slot: u32) {
        // Release: what the slot's previous owner did to it is visible to the next.
        self.state.store(slot, Ordering::Release);
    }

    /// The wait is over without a slot. For whoever has the lock.
    pub(super) fn reject(&self) {
        self.state.store(REJECTED, Ordering::Release);
    }

    /// What has become of the wait.
    #[inline]
    pub(super) fn fate(&self) -> Fate {
        match self.state.load(Ordering::Acquire) {
            WAITING => Fate::Waiting,
            REJECTED => Fate::Rejected,
            slot => Fate::Granted(slot),
        }
    }

    /// The place in the queue of the wait that it is used for.
    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Relaxed)
    }

    /// The waiter lets go of it.
    #[inline]
    pub(super) fn close(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CHUNKS, FIRST, place};

    #[test]
    fn each_number_has_a_place_of_its_own_right_behind_the_one_before_it() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(place(number), expected, "{number}");
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn the_last_number_is_in_the_last_chunk() {
        assert_eq!(place(u32::MAX).0, CHUNKS - 1);
    }
}
