//! Watching a connection that rests: whether anything has come on its wire while nobody had it. A backend that ends an idle
//! connection, or speaks unasked, is so known of at once, and the checkout that would have met it costs one locked instruction
//! and no system call.
//!
//! It is shared by the holder of the slot, the waker that the stream is left with, and the pool's keeper. The waker is left with
//! the stream anew at each rest; while somebody has the connection its wakes mean nothing.

use super::sync::{AtomicU32, Ordering};

/// At rest, and nothing has come.
const AT_REST: u32 = 1;
/// Something came while it was at rest, and has not been looked at.
const STIRRED: u32 = 1 << 1;
/// Not to be used again.
const RETIRED: u32 = 1 << 2;

/// What is known of one connection while it rests. It begins as in somebody's hands.
#[derive(Debug)]
pub struct IdleWatch {
    bits: AtomicU32,
}

impl IdleWatch {
    /// Of a connection that somebody has.
    #[must_use]
    pub fn new() -> Self {
        IdleWatch {
            bits: AtomicU32::new(0),
        }
    }

    /// Holder: the connection goes to rest. To be called before the stream is looked at a last time and left with its waker:
    /// then whatever comes is seen by that look, or by the waker.
    pub fn rest(&self) {
        self.change(|bits| (bits & RETIRED) | AT_REST);
    }

    /// Holder: the connection is taken up. Returns whether it may be used: nothing came while it was at rest, and it is not
    /// retired. If not, whoever has it passes it to the keeper.
    #[must_use = "one that has stirred may be closed"]
    pub fn take_up(&self) -> bool {
        self.bits.fetch_and(!AT_REST, Ordering::AcqRel) & (STIRRED | RETIRED) == 0
    }

    /// Waker: something has come. Returns whether the keeper is to be told, which is so once for each rest.
    #[must_use = "the keeper does not look by itself"]
    pub fn stir(&self) -> bool {
        let before = self.change(|bits| {
            if bits & AT_REST == 0 {
                bits
            } else {
                (bits & !AT_REST) | STIRRED
            }
        });
        before & AT_REST != 0
    }

    /// Keeper: not to be used again.
    pub fn retire(&self) {
        self.bits.fetch_or(RETIRED, Ordering::AcqRel);
    }

    /// Keeper: may be used again after all.
    pub fn unretire(&self) {
        self.bits.fetch_and(!RETIRED, Ordering::AcqRel);
    }

    /// Whether the keeper has marked it as not to be used again.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.bits.load(Ordering::Acquire) & RETIRED != 0
    }

    /// Whether it may be handed out, as far as is known. One plain load.
    #[inline]
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.bits.load(Ordering::Acquire) & (STIRRED | RETIRED) == 0
    }

    fn change(&self, change: impl Fn(u32) -> u32) -> u32 {
        let mut seen = self.bits.load(Ordering::Relaxed);
        loop {
            match self
                .bits
                .compare_exchange_weak(seen, change(seen), Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return before,
                Err(now) => seen = now,
            }
        }
    }
}

impl Default for IdleWatch {
    fn default() -> Self {
        Self::new()
    }
}
