//! Which slots are idle: one bit per slot, sixty-three to a word, and in each word's last bit whether anybody waits.
//! A set bit means idle and nothing else, so there is no count beside it that could disagree and no order of changes
//! that could be mistaken for another. Clearing a bit gives ownership of its slot; this file says who cleared it, a
//! newcomer only in an instant in which nobody waited, and knows nothing of slots, leases or waiters.

use super::sync::{AtomicU32, AtomicU64, Ordering, Padded};

/// Idle bits in one word. Few of them in the models, so that a pool of three slots has two words.
const BITS: u32 = if cfg!(loom) { 2 } else { 63 };

/// Set in every word while anybody waits, for a moment while somebody looks whether to wait, and for ever once the pool is
/// closed.
const WAITERS: u64 = 1 << BITS;

/// Every slot's bit.
const ALL: u64 = WAITERS - 1;

/// One of several equal parts of a pool's slots, for those who would rather have one of these than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The same in every word, so that it is worked out once.
    bits: u64,
}

impl Lane {
    /// The one with this number of so many; of none or one it is all slots.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Self {
        let of = of.max(1);
        let ours = (0..BITS).filter(|bit| bit % of == number % of);
        Lane {
            bits: ours.fold(0, |bits, bit| bits | 1 << bit),
        }
    }

    /// In which of so many lanes a slot is.
    #[must_use]
    pub fn number_of(slot: u32, of: u32) -> u32 {
        slot % BITS % of.max(1)
    }
}

/// What a newcomer finds in one word.
enum Found {
    /// This slot's bit, which it has cleared.
    Idle(u32),
    /// Somebody waits.
    Waiters,
    /// None that it looked for is idle, and nobody waits.
    Nothing,
}

/// The idle bits of all slots.
#[derive(Debug)]
pub(super) struct Words {
    /// In place, so that a checkout from a pool with one word, as most have, follows no pointer to it.
    first: Padded<AtomicU64>,
    more: Box<[Padded<AtomicU64>]>,
    /// The word a newcomer looks at first: where the last one found a slot. Only a hint.
    hint: Padded<AtomicU32>,
}

/// The lowest set bit.
#[inline]
fn lowest(word: u64) -> u32 {
    word.trailing_zeros()
}

impl Words {
    /// For this many slots, none of them idle.
    pub(super) fn new(slots: u32) -> Self {
        let word = || Padded(AtomicU64::new(0));
        Self {
            first: word(),
            more: (1..slots.div_ceil(BITS)).map(|_| word()).collect(),
            hint: Padded(AtomicU32::new(0)),
        }
    }

    /// A newcomer's attempt: the lowest idle slot of the hinted word, or of the first word after it that has one. `None`
    /// if there is none or if somebody waits.
    /// One locked instruction, and one more for each time another thread changed the word in that instant.
    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        match self.take_among(ALL) {
            Found::Idle(index) => Some(index),
            Found::Waiters | Found::Nothing => None,
        }
    }

    /// As [`take`](Self::take), but one of the lane if one of them is idle.
    #[inline]
    pub(super) fn take_near(&self, lane: Lane) -> Option<u32> {
        match self.take_among(lane.bits) {
            Found::Idle(index) => Some(index),
            Found::Waiters => None,
            Found::Nothing => self.take(),
        }
    }

    #[inline]
    fn take_among(&self, among: u64) -> Found {
        match self.more.is_empty() {
            true => Self::take_in(&self.first.0, 0, among),
            false => self.take_in_any(among),
        }
    }

    #[inline]
    fn take_in(word: &AtomicU64, number: u32, among: u64) -> Found {
        let mut seen = word.load(Ordering::Relaxed);
        while seen & (among | WAITERS) != 0 {
            if seen & WAITERS != 0 {
                return Found::Waiters;
            }
            let place = lowest(seen & among);
            // The whole word, though only one bit changes: so the flag is known to be down in the very instant in which
            // the bit is cleared, and nobody who waits is overtaken. Each change of the word by another thread costs a try,
            // a return as well, which clearing the bit alone would not; that takes x86 longer each time.
            // Acquire: what the previous owner did to the slot is visible to the next.
            match word.compare_exchange_weak(seen, seen & !(1 << place), Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Found::Idle(number * BITS + place),
                Err(now) => seen = now,
            }
        }
        Found::Nothing
    }

    // Out of line: its code would crowd out the one word's, which is what most pools have.
    #[inline(never)]
    fn take_in_any(&self, among: u64) -> Found {
        let hint = self.hint.0.load(Ordering::Relaxed);
        for number in (hint..=self.more.len() as u32).chain(0..hint) {
            let found = Self::take_in(self.word(number), number, among);
            if !matches!(found, Found::Nothing) {
                if number != hint {
                    self.hint.0.store(number, Ordering::Relaxed);
                }
                return found;
            }
        }
        Found::Nothing
    }

    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        match number.checked_sub(1) {
            None => &self.first.0,
            Some(further) => &self.more[further as usize].0,
        }
    }

    /// Each word with its number.
    fn words(&self) -> impl Iterator<Item = (&AtomicU64, u32)> {
        std::iter::once(&self.first)
            .chain(&self.more)
            .map(|word| &word.0)
            .zip(0..)
    }

    /// The word of a slot, and its bit there.
    #[inline]
    fn place(&self, index: u32) -> (&AtomicU64, u64) {
        match self.more.is_empty() {
            // Without the arithmetic.
            true => (&self.first.0, 1 << index),
            false => (self.word(index / BITS), 1 << (index % BITS)),
        }
    }

    /// Whether somebody waits, as far as the slot's word says at this instant.
    #[inline]
    pub(super) fn is_raised(&self, index: u32) -> bool {
        self.place(index).0.load(Ordering::Relaxed) & WAITERS != 0
    }

    /// Makes a slot idle; the caller must own it, so that its bit is clear. Returns whether anybody waits.
    #[inline]
    #[must_use]
    pub(super) fn set(&self, index: u32) -> bool {
        let (word, bit) = self.place(index);
        // The bit is clear, so adding sets it and touches no other; a processor that has an atomic add that returns
        // the old word does this in one instruction, where an atomic or would be a loop.
        // Release: what this owner did to the slot is visible to the next.
        word.fetch_add(bit, Ordering::Release) & WAITERS != 0
    }

    /// Takes one particular slot, whoever waits. Returns whether it was idle, and so is now the caller's.
    #[must_use]
    pub(super) fn clear(&self, index: u32) -> bool {
        let (word, bit) = self.place(index);
        word.fetch_and(!bit, Ordering::Acquire) & bit != 0
    }

    /// Says in every word that somebody waits, and offers every slot that was idle at that instant to `taker`, which
    /// takes it with [`clear`](Self::clear) if it can and says whether it needs no more. If so, the words behind that one are
    /// left as they are, and the caller [lowers](Self::lower) the flag again.
    ///
    /// Per word, a return either comes before the flag, and its bit is offered here, or after it, and sees the flag.
    /// So no return can be missed by both sides.
    pub(super) fn raise(&self, mut taker: impl FnMut(u32) -> bool) {
        for (word, number) in self.words() {
            let mut idle = word.fetch_or(WAITERS, Ordering::AcqRel) & !WAITERS;
            while idle != 0 {
                let bit = lowest(idle);
                if taker(number * BITS + bit) {
                    return;
                }
                idle &= !(1 << bit);
            }
        }
    }

    /// Says in every word that nobody waits.
    pub(super) fn lower(&self) {
        for (word, _) in self.words() {
            word.fetch_and(!WAITERS, Ordering::AcqRel);
        }
    }

    /// Whether this slot is idle at this instant.
    pub(super) fn is_set(&self, index: u32) -> bool {
        let (word, bit) = self.place(index);
        word.load(Ordering::Acquire) & bit != 0
    }

    /// How many slots are idle; a sum over words read one after another.
    pub(super) fn count(&self) -> usize {
        let idle = |word: &AtomicU64| (word.load(Ordering::Relaxed) & !WAITERS).count_ones() as usize;
        self.words().map(|(word, _)| idle(word)).sum()
    }

    /// The idle slots, lowest first, each word as it was when the iteration came to it.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().flat_map(|(word, number)| {
            let mut idle = word.load(Ordering::Acquire) & !WAITERS;
            std::iter::from_fn(move || {
                let bit = (idle != 0).then(|| lowest(idle))?;
                idle &= idle - 1;
                Some(number * BITS + bit)
            })
        })
    }
}
