//! Signs of life: whether anything has come from a host, on any of its connections, since it was last taken for silent.

use std::sync::atomic::{AtomicBool, Ordering};

/// One host's, shared by the drivers of its connections.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicBool);

impl Pulse {
    /// Something has come. A load as a rule, so that busy connections do not take a cache line from each other.
    pub(super) fn beat(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// From now on only what comes later counts.
    pub(crate) fn listen(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether something has come since.
    pub(crate) fn was_heard(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
