//! What the tests of the slots share: a tenant that knows its slot, a keeper that remembers, wakers that count, and a
//! way to wait on a thread. No runtime, so that these tests build with and without loom.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use pgsteer_core::pool::{HasSession, Keeper, Lease, Session, Slots, Tenant};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// A connection that knows which slot it was put into and counts how often it was used.
pub(crate) struct Connection {
    pub(crate) home: u32,
    pub(crate) used: u64,
    pub(crate) session: Arc<Session>,
}

impl Tenant for Connection {
    fn is_fit(&self) -> bool {
        self.session.is_fit()
    }
}

impl HasSession for Connection {
    fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

/// Keeps what it is given and notes when it is due.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    pub(crate) leases: Arc<Mutex<Vec<Lease>>>,
    pub(crate) due: Arc<Mutex<Vec<Instant>>>,
}

impl Shelf {
    pub(crate) fn take(&self) -> Option<Lease> {
        self.leases.lock().unwrap().pop()
    }

    pub(crate) fn indices(&self) -> Vec<u32> {
        self.leases.lock().unwrap().iter().map(Lease::index).collect()
    }
}

impl Keeper for Shelf {
    fn receive(&self, lease: Lease) {
        self.leases.lock().unwrap().push(lease);
    }
    fn due(&self, at: Instant) {
        self.due.lock().unwrap().push(at);
    }
}

pub(crate) type Pool = Slots<Connection, &'static str>;

/// A pool whose slots all have a fit tenant and belong to the caller; the sessions are by slot.
pub(crate) fn leased_pool(size: u32) -> (Pool, Vec<Lease>, Vec<Arc<Session>>, Shelf) {
    let shelf = Shelf::default();
    let (pool, mut leases) = Slots::new(size, Box::new(shelf.clone()));
    let sessions: Vec<_> = leases
        .iter_mut()
        .map(|lease| {
            let session = Arc::new(Session::new());
            let tenant = Connection {
                home: lease.index(),
                used: 0,
                session: Arc::clone(&session),
            };
            assert!(pool.put(lease, tenant).is_none());
            session
        })
        .collect();
    (pool, leases, sessions, shelf)
}

/// A pool whose slots all have a fit tenant and are idle.
pub(crate) fn idle_pool(size: u32) -> (Pool, Vec<Arc<Session>>, Shelf) {
    let (pool, leases, sessions, shelf) = leased_pool(size);
    leases.into_iter().for_each(|lease| pool.release(lease));
    (pool, sessions, shelf)
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls once with a waker that wakes nobody.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The seed of a randomized test: `PGSTEER_SEED` if set, else a new one; printed, so that a failure can be replayed.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("PGSTEER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("replay with PGSTEER_SEED={seed}");
    seed
}
