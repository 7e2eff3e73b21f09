//! What the router as a whole is doing, and how each client's task gets to know.
//!
//! A task looks at the phase whenever it runs; a change wakes them all once. So nothing is registered and nothing locked
//! for each request.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use slab::Slab;
use tokio::sync::Notify;

use crate::threads::Placed;

/// What the router is doing. It only ever goes on to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Clients are served.
    Serving,
    /// What has been accepted is answered, and nothing more.
    Draining,
    /// Everything ends where it is.
    Stopped,
}

/// The clients that are connected, and the phase they are in.
#[derive(Debug)]
pub(crate) struct Clients {
    phase: AtomicU8,
    wakers: Mutex<Slab<Arc<AtomicWaker>>>,
    connected: AtomicUsize,
    /// Of those, the ones that have got all they will get and are only waited for until they close.
    leaving: AtomicUsize,
    /// Told when a client has gone, or is leaving.
    gone: Notify,
}

impl Clients {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Clients {
            phase: AtomicU8::new(Phase::Serving as u8),
            wakers: Mutex::default(),
            connected: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            gone: Notify::new(),
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Stopped,
        }
    }

    /// Goes on to a later phase and wakes everybody.
    pub(crate) fn enter(&self, phase: Phase) {
        if self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8 {
            for (_, waker) in self.wakers().iter() {
                waker.wake();
            }
        }
    }

    /// How many clients are connected.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Acquire)
    }

    /// Waits until there are fewer than `limit()` clients, which is asked again whenever one has gone. Cancel safe.
    pub(crate) async fn fewer_than(&self, limit: impl Fn() -> usize) {
        self.until(|| self.connected() < limit()).await;
    }

    /// As [`fewer_than`](Self::fewer_than), without those who are leaving.
    pub(crate) async fn fewer_staying_than(&self, limit: impl Fn() -> usize) {
        let staying = || {
            self.connected()
                .saturating_sub(self.leaving.load(Ordering::Acquire))
        };
        self.until(|| staying() < limit()).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let gone = self.gone.notified();
            if is_so() {
                return;
            }
            gone.await;
        }
    }

    /// A client has got all it will get. It counts as leaving until the value is dropped.
    pub(crate) fn leave(&self) -> Leaving<'_> {
        self.leaving.fetch_add(1, Ordering::AcqRel);
        self.gone.notify_waiters();
        Leaving(self)
    }

    /// Makes whoever waits for fewer clients look again.
    pub(crate) fn look_again(&self) {
        self.gone.notify_waiters();
    }

    /// Counts a client in. It is counted out when the value is dropped.
    pub(crate) fn enrol(self: &Arc<Self>) -> Enrolled {
        let waker = Arc::new(AtomicWaker::new());
        self.connected.fetch_add(1, Ordering::AcqRel);
        let key = self.wakers().insert(Arc::clone(&waker));
        Enrolled {
            clients: Arc::clone(self),
            waker,
            key,
            placed: None,
        }
    }

    fn wakers(&self) -> MutexGuard<'_, Slab<Arc<AtomicWaker>>> {
        // Every change is one call that cannot stop half-way.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that is leaving.
#[derive(Debug)]
pub(crate) struct Leaving<'a>(&'a Clients);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leaving.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client's place among the others.
#[derive(Debug)]
pub(crate) struct Enrolled {
    clients: Arc<Clients>,
    waker: Arc<AtomicWaker>,
    key: usize,
    /// The thread that counts it.
    placed: Option<Placed>,
}

impl Enrolled {
    /// It is served on this thread.
    pub(crate) fn on(mut self, placed: Placed) -> Self {
        self.placed = Some(placed);
        self
    }

    /// Runs the client's work until it is done or everything stops; then it is dropped where it is, and the answer is
    /// `None`.
    pub(crate) fn watch<F: Future>(self, work: F) -> Watched<F> {
        Watched { place: self, work }
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.clients.wakers().remove(self.key);
        self.clients.connected.fetch_sub(1, Ordering::AcqRel);
        self.clients.gone.notify_waiters();
    }
}

pin_project_lite::pin_project! {
    /// Work that hears of every change of the phase.
    pub(crate) struct Watched<F> {
        // Dropped last, so that a client counts until all it held is given back.
        #[pin]
        work: F,
        place: Enrolled,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.place.waker.register(cx.waker());
        if this.place.clients.phase() == Phase::Stopped {
            return Poll::Ready(None);
        }
        this.work.poll(cx).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Poll;

    use futures_util::FutureExt;

    use super::{Clients, Phase};

    #[tokio::test]
    async fn work_that_waits_is_told_of_a_drain_and_may_go_on() {
        let clients = Clients::new();
        let seen = Arc::clone(&clients);
        let work = poll_fn(move |_| match seen.phase() {
            Phase::Draining => Poll::Ready("drained"),
            _ => Poll::Pending,
        });
        let task = tokio::spawn(clients.enrol().watch(work));
        tokio::task::yield_now().await;

        clients.enter(Phase::Draining);

        assert_eq!(task.await.unwrap(), Some("drained"));
    }

    #[tokio::test]
    async fn work_that_waits_is_dropped_at_a_stop() {
        let clients = Clients::new();
        let task = tokio::spawn(clients.enrol().watch(pending::<()>()));
        tokio::task::yield_now().await;

        clients.enter(Phase::Stopped);

        assert_eq!(task.await.unwrap(), None);
        assert_eq!(clients.connected(), 0);
    }

    #[tokio::test]
    async fn the_phase_never_goes_back() {
        let clients = Clients::new();

        clients.enter(Phase::Stopped);
        clients.enter(Phase::Draining);

        assert_eq!(clients.phase(), Phase::Stopped);
    }

    #[tokio::test]
    async fn one_that_is_leaving_is_connected_and_does_not_stay() {
        let clients = Clients::new();
        let _client = clients.enrol();

        let leaving = clients.leave();

        clients.fewer_staying_than(|| 1).await;
        assert_eq!(clients.connected(), 1);
        drop(leaving);
        let mut staying = pin!(clients.fewer_staying_than(|| 1));
        assert!(staying.as_mut().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_client_that_goes_makes_room_for_one_that_waits() {
        let clients = Clients::new();
        let first = clients.enrol();
        let waiting = tokio::spawn({
            let clients = Arc::clone(&clients);
            async move { clients.fewer_than(|| 1).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());

        drop(first);

        waiting.await.unwrap();
    }
}
