//! Futures of what is seldom: they get memory of their own when their turn comes, instead of making every client's task larger and
//! the stack deeper that it is polled on.

use std::future::Future;
use std::pin::Pin;

/// Makes a future off its caller's own.
#[cold]
#[inline(never)]
pub(crate) fn aside<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
