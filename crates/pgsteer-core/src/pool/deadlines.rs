//! The deadlines of those who wait, earliest first: a binary heap of waiters' keys in which each waiter knows its
//! place, so that one who has been served leaves in logarithmic time. It allocates only when it grows past its peak.

use std::time::Instant;

/// The place of a waiter that has no deadline.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What the heap asks of the slab that its keys point into.
pub(super) trait Places {
    /// The deadline of a waiter that is in the heap.
    fn deadline(&self, key: u32) -> Option<Instant>;
    /// The place last noted for a waiter.
    fn place(&self, key: u32) -> u32;
    /// Notes where a waiter is in the heap now.
    fn set_place(&mut self, key: u32, place: u32);
}

/// The heap. See the module.
#[derive(Debug, Default)]
pub(super) struct Deadlines(Vec<u32>);

impl Deadlines {
    /// The waiter whose deadline is earliest.
    pub(super) fn earliest(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds a waiter that has a deadline.
    pub(super) fn push(&mut self, key: u32, places: &mut impl Places) {
        self.0.push(key);
        self.rise(self.0.len() - 1, key, places);
    }

    /// Removes a waiter, if it is there.
    pub(super) fn remove(&mut self, key: u32, places: &mut impl Places) {
        let place = places.place(key);
        if place == NOWHERE {
            return;
        }
        places.set_place(key, NOWHERE);
        let Some(last) = self.0.pop() else { return };
        if last != key {
            let settled = self.rise(place as usize, last, places);
            self.sink(settled, last, places);
        }
    }

    /// Moves `key` from `place` towards the front past later deadlines; returns where it came to.
    fn rise(&mut self, mut place: usize, key: u32, places: &mut impl Places) -> usize {
        while place > 0 {
            let parent = self.0[(place - 1) / 2];
            if places.deadline(parent) <= places.deadline(key) {
                break;
            }
            self.0[place] = parent;
            places.set_place(parent, place as u32);
            place = (place - 1) / 2;
        }
        self.0[place] = key;
        places.set_place(key, place as u32);
        place
    }

    /// Moves `key` from `place` away from the front past earlier deadlines.
    fn sink(&mut self, mut place: usize, key: u32, places: &mut impl Places) {
        loop {
            let left = 2 * place + 1;
            let children = left..(left + 2).min(self.0.len());
            let Some(child) = children.min_by_key(|&child| places.deadline(self.0[child])) else {
                break;
            };
            if places.deadline(key) <= places.deadline(self.0[child]) {
                break;
            }
            self.0[place] = self.0[child];
            places.set_place(self.0[place], place as u32);
            place = child;
        }
        self.0[place] = key;
        places.set_place(key, place as u32);
    }
}
