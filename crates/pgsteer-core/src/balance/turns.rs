//! Whose turn it is where several are equally good.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many groups of tied backends have a count of their own. Where there are more of them, some share one.
const GROUPS: usize = 64;

/// Multiples of the golden ratio's fraction fall far from each other, and evenly.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// How often each group of tied backends has been chosen from. Each group has a count of its own: with one for all, ties
/// among some backends that come up in step with ties among others would favour one of them for ever.
#[derive(Debug)]
pub struct Turns([AtomicU64; GROUPS]);

impl Turns {
    /// Nobody has had a turn.
    pub fn new() -> Self {
        Turns(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Where in `0..total` the group's next turn falls: evenly over many, and never long in the same place.
    pub(super) fn next(&self, group: Group, total: u64) -> u64 {
        // The top bits of a product with the ratio depend on all bits.
        let count = &self.0[(group.0.wrapping_mul(GOLDEN) >> 58) as usize % GROUPS];
        let turn = count.fetch_add(1, Ordering::Relaxed);
        let position = u128::from(turn.wrapping_mul(GOLDEN)) * u128::from(total);
        // Less than `total`, which has 64 bits.
        (position >> 64) as u64
    }
}

impl Default for Turns {
    fn default() -> Self {
        Turns::new()
    }
}

/// A group of backends, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Group(u64);

impl Group {
    pub(super) fn add(&mut self, place: usize) {
        self.0 = (self.0 ^ (place as u64 + 1)).wrapping_mul(GOLDEN);
    }
}
