//! Threads with a runtime each: a client is served where it was put, by connections that belong to the same thread where
//! one of them is idle, so that a request wakes no other thread on its way.
//!
//! One thread is the router's own, which accepts clients and keeps the pools; it serves its part of the clients too. What
//! belongs to a thread is a matter of cost alone: any thread may use any connection.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pgsteer_core::pool::Lane;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

thread_local! {
    /// Which seat is this thread's. Whoever is in nobody's crew is where a router was started.
    static SEAT: Cell<usize> = const { Cell::new(0) };
}

/// Threads that a router serves clients on beside the one it was started on; see [`Router::start_across`].
///
/// Each has a runtime of its own that runs nothing else. Dropped, they end with all that is still on them.
///
/// [`Router::start_across`]: crate::server::Router::start_across
pub struct Threads {
    crew: Crew,
    stop: CancellationToken,
}

impl Threads {
    /// Starts this many; with none of them a router has the thread it was started on.
    ///
    /// # Errors
    ///
    /// A system that gives no threads, or no descriptors for them.
    pub fn start(further: usize) -> io::Result<Self> {
        let stop = CancellationToken::new();
        // Ended by its drop if a later one cannot be started.
        let mut threads = Threads {
            crew: Crew::default(),
            stop,
        };
        let mut handles = vec![None];
        for seat in 1..=further {
            handles.push(Some(start_one(seat, threads.stop.clone())?));
        }
        threads.crew = Crew::of(handles);
        Ok(threads)
    }

    pub(crate) fn crew(&self) -> &Crew {
        &self.crew
    }
}

fn start_one(seat: usize, stop: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let work = move || {
        SEAT.set(seat);
        runtime.block_on(stop.cancelled());
        // A look-up that hangs in the system's resolver must not keep the thread.
        runtime.shutdown_background();
    };
    thread::Builder::new()
        .name(format!("router-{seat}"))
        .spawn(work)?;
    Ok(handle)
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Threads").field(&self.crew.seats.len()).finish()
    }
}

/// The threads of a router as its parts see them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Crew {
    seats: Arc<[Seat]>,
}

struct Seat {
    /// `None` is the runtime that the router was started in.
    runtime: Option<Handle>,
    lane: Lane,
    clients: AtomicUsize,
}

impl Default for Crew {
    /// Nobody beside the runtime that the router was started in.
    fn default() -> Self {
        Crew::of(vec![None])
    }
}

impl Crew {
    fn of(runtimes: Vec<Option<Handle>>) -> Self {
        let of = u32::try_from(runtimes.len()).unwrap_or(u32::MAX);
        let seats = runtimes.into_iter().zip(0..).map(|(runtime, number)| Seat {
            runtime,
            lane: Lane::new(number, of),
            clients: AtomicUsize::new(0),
        });
        Crew {
            seats: seats.collect(),
        }
    }

    /// The slots whose connections belong to the calling thread; `None` if it makes no difference.
    #[inline]
    pub(crate) fn lane(&self) -> Option<Lane> {
        match &*self.seats {
            [_] => None,
            seats => seats.get(SEAT.get()).map(|seat| seat.lane),
        }
    }

    /// Runs a slot's work on the thread that the slot's connections belong to.
    pub(crate) fn spawn_for_slot(
        &self,
        slot: u32,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let of = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        let number = Lane::number_of(slot, of);
        match self.runtime(number as usize) {
            None => tokio::spawn(work),
            Some(runtime) => runtime.spawn(work),
        }
    }

    fn runtime(&self, seat: usize) -> Option<&Handle> {
        self.seats.get(seat).and_then(|seat| seat.runtime.as_ref())
    }

    /// Puts a client on the thread that has the fewest.
    pub(crate) fn place(&self) -> Placed {
        let clients = |seat: &Seat| seat.clients.load(Ordering::Relaxed);
        let fewest = self
            .seats
            .iter()
            .enumerate()
            .min_by_key(|(_, seat)| clients(seat));
        let seat = fewest.map_or(0, |(number, _)| number);
        if let Some(seat) = self.seats.get(seat) {
            seat.clients.fetch_add(1, Ordering::Relaxed);
        }
        Placed {
            crew: self.clone(),
            seat,
        }
    }
}

/// A client's thread, which counts it as long as this is there.
pub(crate) struct Placed {
    crew: Crew,
    seat: usize,
}

impl Placed {
    /// The thread's runtime; `None` if it is the one that the router was started in.
    pub(crate) fn runtime(&self) -> Option<&Handle> {
        self.crew.runtime(self.seat)
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Placed").field(&self.seat).finish()
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(seat) = self.crew.seats.get(self.seat) {
            seat.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::Threads;

    /// The name of the thread that a slot's work runs on.
    async fn thread_of(threads: &Threads, slot: u32) -> Option<String> {
        let (tell, told) = oneshot::channel();
        threads.crew().spawn_for_slot(slot, async move {
            let _ = tell.send(thread::current().name().map(str::to_owned));
        });
        told.await.unwrap()
    }

    #[tokio::test]
    async fn the_connections_of_a_pool_belong_to_all_threads_by_turns() {
        let threads = Threads::start(2).unwrap();
        let own = thread::current().name().map(str::to_owned);

        for first in [0, 3] {
            assert_eq!(thread_of(&threads, first).await, own);
            assert_eq!(thread_of(&threads, first + 1).await.unwrap(), "router-1");
            assert_eq!(thread_of(&threads, first + 2).await.unwrap(), "router-2");
        }
    }

    #[tokio::test]
    async fn a_client_is_put_where_the_fewest_are() {
        let threads = Threads::start(1).unwrap();
        let crew = threads.crew();

        let first = crew.place();
        let second = crew.place();
        assert!(first.runtime().is_none());
        assert!(second.runtime().is_some());

        drop(second);
        let third = crew.place();
        assert!(third.runtime().is_some());
    }

    #[tokio::test]
    async fn what_is_on_a_thread_ends_with_it() {
        let threads = Threads::start(1).unwrap();
        let (held, ended) = oneshot::channel::<()>();
        threads.crew().spawn_for_slot(1, async move {
            let _held = held;
            std::future::pending::<()>().await;
        });

        drop(threads);

        assert!(ended.await.is_err());
    }
}
