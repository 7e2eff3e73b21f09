//! Futures that are no part of a round trip: they get memory of their own when their turn comes.
//!
//! What an `async fn` may have to wait for is part of its future and of the stack that it is polled on, whether or not it comes
//! to that. A round trip waits for one call of the driver, and should be no larger.

use std::future::Future;
use std::pin::Pin;

/// Makes a future off its caller's own.
#[cold]
#[inline(never)]
pub(crate) fn aside<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
