//! One backend.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::address::BackendAddress;
use super::dial::Dial;
use super::error::{BorrowError, Unavailable};
use super::io::BackendIo;
use super::options::{BackendOptions, OptionError};
use super::status::{BackendStatus, BreakerState, Closed, Totals};

/// A backend's connections. Cheap to clone.
#[derive(Clone)]
pub struct BackendPool {
    inner: Arc<Inner>,
}

struct Inner {
    address: BackendAddress,
    options: BackendOptions,
    dialer: Arc<dyn Dial>,
    in_use: AtomicU32,
    opened: AtomicU64,
}

impl BackendPool {
    /// Starts a pool. Returns at once; connections open in the background.
    ///
    /// # Errors
    ///
    /// An option out of its range.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        address: BackendAddress,
        options: BackendOptions,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, OptionError> {
        options.check()?;
        let inner = Inner {
            address,
            options,
            dialer,
            in_use: AtomicU32::new(0),
            opened: AtomicU64::new(0),
        };
        Ok(BackendPool {
            inner: Arc::new(inner),
        })
    }

    /// Which backend.
    pub fn address(&self) -> &BackendAddress {
        &self.inner.address
    }

    /// Borrows a connection, waiting up to `borrow_timeout`.
    ///
    /// # Errors
    ///
    /// [`BorrowError`] says which.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn borrow(&self) -> Result<Borrowed, BorrowError> {
        let began = Instant::now();
        let deadline = began + self.inner.options.borrow_timeout;
        let unavailable = || {
            Arc::new(Unavailable {
                waited: began.elapsed(),
                backends: vec![self.status()],
            })
        };
        let dial = self.inner.dialer.dial(&self.inner.address, deadline);
        let io = match timeout_at(deadline, dial).await {
            Ok(Ok(io)) => io,
            Ok(Err(_)) => return Err(BorrowError::Failed(unavailable())),
            Err(_) => return Err(BorrowError::TimedOut(unavailable())),
        };
        self.inner.in_use.fetch_add(1, Ordering::Relaxed);
        self.inner.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Borrowed {
            pool: self.clone(),
            io,
        })
    }

    /// As [`borrow`](Self::borrow), but a connection that was dialled for it.
    ///
    /// # Errors
    ///
    /// [`BorrowError`] says which.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn borrow_fresh(&self) -> Result<Borrowed, BorrowError> {
        self.borrow().await
    }

    /// What the backend looks like now.
    pub fn status(&self) -> BackendStatus {
        BackendStatus {
            address: self.inner.address.clone(),
            in_flight: u64::from(self.inner.in_use.load(Ordering::Relaxed)),
            handled: 0,
            failed: 0,
            max_size: self.inner.options.max_size,
            idle: 0,
            in_use: self.inner.in_use.load(Ordering::Relaxed),
            opening: 0,
            closing: 0,
            waiting: 0,
            breaker: BreakerState::Closed,
            left_out_for: None,
            last_error: None,
            totals: Totals::default(),
        }
    }

    /// Ends the pool.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pool ending by itself.
    pub async fn close(&self, _grace: Duration) -> Closed {
        Closed {
            still_out: self.inner.in_use.load(Ordering::Relaxed),
            took: Duration::ZERO,
        }
    }
}

impl fmt::Debug for BackendPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackendPool").field(&self.status()).finish()
    }
}

/// A borrowed connection. Dropped, it is closed, unless nothing was done with it; [`release`](Self::release) gives it back
/// for the next request.
#[must_use = "dropping it gives the connection up"]
pub struct Borrowed {
    pool: BackendPool,
    io: BackendIo,
}

impl Borrowed {
    /// The stream.
    pub fn io(&mut self) -> &mut BackendIo {
        &mut self.io
    }

    /// Whether it has served a request before, so that its peer may have closed it in the meantime.
    pub fn is_reused(&self) -> bool {
        false
    }

    /// Which backend it goes to.
    pub fn address(&self) -> &BackendAddress {
        &self.pool.inner.address
    }

    /// Gives the connection back for the next request: the last answer has been read to its end, and nothing else was sent.
    pub fn release(self) {}
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.pool.inner.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrowed")
            .field("backend", self.address())
            .field("is_reused", &self.is_reused())
            .finish_non_exhaustive()
    }
}
