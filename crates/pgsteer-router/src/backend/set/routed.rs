//! A connection for one request, from a set of backends.

use std::fmt;

use crate::backend::address::BackendAddress;
use crate::backend::borrowed::Borrowed;
use crate::backend::io::BackendIo;

/// A connection for one request, which counts as in flight on its backend. Say how it went; see [`Borrowed`] for what being
/// dropped without a word means.
#[must_use = "dropping it gives the request up"]
#[derive(Debug)]
pub struct Routed {
    borrowed: Borrowed,
}

impl Routed {
    pub(super) fn new(borrowed: Borrowed) -> Self {
        Routed { borrowed }
    }

    /// The stream.
    #[inline]
    pub fn io(&mut self) -> &mut BackendIo {
        self.borrowed.io()
    }

    /// See [`Borrowed::is_reused`].
    pub fn is_reused(&self) -> bool {
        self.borrowed.is_reused()
    }

    /// Which backend it goes to.
    pub fn address(&self) -> &BackendAddress {
        self.borrowed.address()
    }

    /// The answer has been read to its end: see [`Borrowed::release`].
    #[inline]
    pub fn answered(self) {
        self.borrowed.release();
    }

    /// The answer did not come, was cut off or was none: see [`Borrowed::failed`].
    pub fn failed(self, why: &dyn fmt::Display) {
        self.borrowed.failed(why);
    }

    /// The connection turned out to be closed before a byte of the answer had come: see [`Borrowed::stale`].
    pub fn stale(self) {
        self.borrowed.stale();
    }
}
