//! Requests that failed in a row, counted by whoever finishes one.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many requests a backend has failed in a row, over all that use it: "in a row" is the order in which they are
/// reported. One atomic load for a request that is answered while all is well.
#[derive(Debug)]
pub struct Streak {
    failures: AtomicU32,
    threshold: u32,
}

impl Streak {
    /// `threshold` failures in a row are too many; 0 means that no number is.
    pub fn new(threshold: u32) -> Self {
        Streak {
            failures: AtomicU32::new(0),
            threshold,
        }
    }

    /// A request was answered.
    #[inline]
    pub fn answered(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.reset();
        }
    }

    /// A request failed. Returns whether these were too many in a row; it is told to one caller, and counting begins anew.
    #[must_use = "too many in a row have consequences"]
    pub fn failed(&self) -> bool {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let too_many = self.threshold > 0 && before.saturating_add(1) == self.threshold;
        if too_many {
            self.reset();
        }
        too_many
    }

    /// Counting begins anew: the backend has been found well, or is left out already.
    pub fn reset(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }
}
