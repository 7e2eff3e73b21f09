//! Leave to begin, as a value: it is given back with an outcome, or by being dropped.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::machine::is_closed;
use super::shared::Breaker;

/// The breaker a permit belongs to. A borrowed one costs the hot path no reference count.
pub(super) enum Holder<'a, E: Clone> {
    Borrowed(&'a Breaker<E>),
    Owned(Arc<Breaker<E>>),
}

impl<E: Clone> Deref for Holder<'_, E> {
    type Target = Breaker<E>;

    #[inline]
    fn deref(&self) -> &Breaker<E> {
        match self {
            Holder::Borrowed(breaker) => breaker,
            Holder::Owned(breaker) => breaker,
        }
    }
}

/// Leave to begin. Whoever has it says how it went, once.
///
/// Dropping it says that it ended without an outcome, which is what cancelling the future that holds it and unwinding
/// from a panic do. That counts nowhere; if it was the probe, the same window begins again. Forgetting it is harmless
/// as well: another probe is admitted when its lease is over.
#[must_use = "dropping a permit says that what it was for was given up"]
pub struct Permit<'a, E: Clone> {
    breaker: Holder<'a, E>,
    ticket: u64,
    settled: bool,
}

impl<'a, E: Clone> Permit<'a, E> {
    #[inline]
    pub(super) fn new(breaker: Holder<'a, E>, ticket: u64) -> Self {
        Permit {
            breaker,
            ticket,
            settled: false,
        }
    }

    /// Whether this is the one probe of its window.
    #[inline]
    pub fn is_probe(&self) -> bool {
        !is_closed(self.ticket)
    }

    /// It goes on: if this is the probe, its lease begins again. For work in steps each of which has an end, so that the
    /// lease need be no longer than the longest step, however many there are.
    pub fn renew(&self) {
        if self.is_probe() {
            self.breaker.renewed(self.ticket);
        }
    }

    /// It worked: failures before it no longer count, and a probe closes the breaker.
    #[inline]
    pub fn success(mut self) {
        self.breaker.succeeded(self.ticket);
        self.settled = true;
    }

    /// It failed, in a way that says that the database is down.
    pub fn failure(mut self, error: E) {
        // Only now settled: should a clock or a draw panic on the way, it counts as given up.
        self.breaker.failed(self.ticket, error);
        self.settled = true;
    }

    /// It was answered, but not with what was wanted: a refused login, a full server, the wrong role. That is neither a
    /// failure nor a success; but a probe that is answered closes the breaker, because the database is there.
    #[inline]
    pub fn neutral(mut self) {
        if self.is_probe() {
            self.breaker.succeeded(self.ticket);
        }
        self.settled = true;
    }
}

impl<E: Clone> Drop for Permit<'_, E> {
    #[inline]
    fn drop(&mut self) {
        if !self.settled && self.is_probe() {
            self.breaker.abandoned(self.ticket);
        }
    }
}

impl<E: Clone> fmt::Debug for Permit<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("is_probe", &self.is_probe())
            .finish_non_exhaustive()
    }
}
