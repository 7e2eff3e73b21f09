//! Where each waiter's task finds, without the lock, what became of its wait. Cells are known by number and never move or
//! go away while the pool lives, so nothing counts who refers to them: a cell is in use from [`Cell::open`] until
//! [`Cell::close`].

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Still waiting.
const WAITING: u32 = u32::MAX;
/// Rejected; why is in the queue.
const REJECTED: u32 = u32::MAX - 1;
/// In nobody's use.
const FREE: u32 = u32::MAX - 2;
/// Its waiter has let go of it, but its entry is still in the queue.
const LEFT: u32 = u32::MAX - 3;

/// Cells in the first chunk; each later one has twice as many as the one before it. Few in the models, so that there are
/// several.
const FIRST: u32 = if cfg!(loom) { 2 } else { 64 };

/// Cells in a cache line.
const A_LINE: u32 = if cfg!(loom) { 1 } else { 4 };

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
    /// [`WAITING`], [`REJECTED`], [`FREE`], [`LEFT`] or the slot that was granted.
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

/// The chunk of a cell, and its place there: numbers that follow each other are on different cache lines, since they are
/// used at about the same time and maybe by different cores.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let (chunk, nth) = if number < FIRST {
        (0, number)
    } else {
        let beyond = u64::from(number) + u64::from(FIRST);
        let chunk = beyond.ilog2() - FIRST.ilog2();
        (chunk, (beyond - (u64::from(FIRST) << chunk)) as u32)
    };
    let lines = (FIRST / A_LINE).max(1) << chunk;
    (chunk as usize, (nth % lines * A_LINE + nth / lines) as usize)
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

    /// The waiter lets go of it, but its entry is still in the queue. For whoever has the lock.
    pub(super) fn leave(&self) {
        self.state.store(LEFT, Ordering::Release);
    }

    /// Its entry is taken out of the queue, without a slot. For whoever has the lock.
    pub(super) fn part(&self) {
        // One that was rejected may have a waiter yet, who then lets go of it as of any other.
        if self.state.load(Ordering::Relaxed) == LEFT {
            self.close();
        }
    }

    /// The waiter lets go of it, and its entry is not in the queue any more.
    #[inline]
    pub(super) fn close(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{A_LINE, CHUNKS, FIRST, place};

    #[test]
    fn each_number_has_a_place_of_its_own() {
        // Whole chunks, one after the other.
        let mut first = 0;
        for chunk in 0..8 {
            let size = FIRST << chunk;
            let mut taken = vec![false; size as usize];
            for number in first..first + size {
                let (in_chunk, at) = place(number);
                assert_eq!(in_chunk, chunk, "{number}");
                assert!(!std::mem::replace(&mut taken[at], true), "{number}");
            }
            first += size;
        }
    }

    #[test]
    fn numbers_that_follow_each_other_are_on_different_lines() {
        for number in 0..FIRST - 1 {
            let line = |number| place(number).1 as u32 / A_LINE;
            assert_ne!(line(number), line(number + 1), "{number}");
        }
    }

    #[test]
    fn the_last_number_is_in_the_last_chunk() {
        assert_eq!(place(u32::MAX).0, CHUNKS - 1);
    }
}
