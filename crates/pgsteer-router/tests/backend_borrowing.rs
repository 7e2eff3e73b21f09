//! Borrowing a connection of one backend and giving it back: the bound, the queue, and what becomes of what was borrowed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use backend_rig::{Door, MS, Manners, SECOND, World, ask, borrow_all, quiet, settle, sizes, start};
use pgsteer_router::backend::{
    BackendAddress, BackendIo, BackendOptions, BackendPool, BorrowError, BoxFuture, Dial,
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_given_back_serves_the_next_request() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    for request in 0..10 {
        let mut borrowed = pool.borrow().await.unwrap();
        assert_eq!(borrowed.is_reused(), request > 0);
        assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
        borrowed.release();
    }
    assert_eq!((backend.dials(), backend.asked()), (1, 10));
    assert_eq!(pool.status().handled, 10);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_in_the_middle_costs_its_connection_and_nothing_else() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    let mut borrowed = pool.borrow().await.unwrap();
    ask(borrowed.io(), b"word").await.unwrap();
    drop(borrowed);
    settle().await;
    assert_eq!(backend.sockets(), 0);
    let status = pool.status();
    assert_eq!(
        (status.in_flight, status.failed, status.totals.discarded),
        (0, 0, 1)
    );
    assert!(status.left_out_for.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_touched_goes_back_whole() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    drop(pool.borrow().await.unwrap());
    settle().await;
    assert_eq!(sizes(&pool.status()), [1, 0, 0, 0]);
    drop(pool.borrow().await.unwrap());
    assert_eq!(backend.dials(), 1);
}

/// Covers: S-29, S-82
#[tokio::test(start_paused = true)]
async fn a_spike_never_has_more_sockets_than_max_size_and_everybody_is_served() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.manners(Manners::SlowEcho(10 * MS));
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            min_idle: 2,
            ..quiet()
        },
    );
    let requests: Vec<_> = (0..500)
        .map(|number: usize| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut borrowed = pool.borrow().await.unwrap();
                ask(borrowed.io(), b"word").await.unwrap();
                // Every seventh goes away in the middle, so that connections come and go.
                if number % 7 == 0 {
                    drop(borrowed);
                } else {
                    borrowed.release();
                }
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    assert_eq!(backend.most_sockets(), 16, "of 16 by default");
    assert_eq!(backend.asked(), 500);
    assert_eq!(pool.status().in_flight, 0);
}

/// A backend that does not let go of what was closed holds the connection all the same.
#[tokio::test(start_paused = true)]
async fn a_connection_counts_until_the_backend_has_closed_it_too_or_its_time_is_over() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.manners(Manners::NeverLetsGo);
    let options = BackendOptions {
        max_size: 1,
        max_lifetime: Some(10 * SECOND),
        lifetime_jitter: 0.0,
        close_timeout: SECOND,
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    drop(pool.borrow().await.unwrap());
    sleep(10 * SECOND + 500 * MS).await;
    assert_eq!(sizes(&pool.status()), [0, 0, 0, 1]);

    let began = Instant::now();
    let next = pool.borrow().await.unwrap();
    assert!(
        began.elapsed() >= 400 * MS,
        "not before the socket was cut: {:?}",
        began.elapsed()
    );
    assert_eq!(backend.most_sockets(), 1);
    drop(next);
}

/// Covers: S-37
#[tokio::test(start_paused = true)]
async fn requests_that_wait_are_served_first_come_first_served_and_no_newcomer_overtakes_them() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 1,
            ..quiet()
        },
    );
    let held = pool.borrow().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..20 {
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let borrowed = pool.borrow().await.unwrap();
            order.lock().unwrap().push(number);
            // The next of the queue, and newcomers, are at it at the same time.
            tokio::task::yield_now().await;
            drop(borrowed);
        }));
        settle().await;
    }
    assert_eq!(pool.status().waiting, 20);
    drop(held);
    while !order.lock().unwrap().ends_with(&[19]) {
        let newcomer = pool.clone();
        drop(
            tokio::spawn(async move { newcomer.borrow().await })
                .await
                .unwrap(),
        );
    }
    for task in waiting {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// Covers: S-36
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_too_long_is_told_of_whom_it_waited_for_and_why() {
    let world = World::default();
    let backend = world.backend("10.0.0.1:9090");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 2,
            ..quiet()
        },
    );
    let _held = borrow_all(&pool, 2).await;
    let began = Instant::now();
    let error = pool.borrow().await.unwrap_err();
    assert_eq!(began.elapsed().as_millis(), 2000, "borrow_timeout");
    assert!(matches!(error, BorrowError::TimedOut(_)));
    assert_eq!(
        error.to_string(),
        "no backend connection within 2.0s: 10.0.0.1:9090: \
         0 idle, 2 in use, 0 opening and 0 closing of 2, 0 waiting"
    );
    assert_eq!(pool.status().totals.timeouts, 1);
}

/// The original reports a timeout though a connection has become free in that instant.
/// Covers: S-36
#[tokio::test(start_paused = true)]
async fn a_connection_that_came_back_before_the_deadline_is_the_waiters_however_late_its_task_runs() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 1,
            ..quiet()
        },
    );
    let held = pool.borrow().await.unwrap();
    let mut waits = pin!(pool.borrow());
    let mut nobody = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut nobody).is_pending());
    sleep(1_999 * MS).await;
    drop(held);
    sleep(5 * SECOND).await;
    assert!(waits.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_borrow_that_is_dropped_at_any_moment_loses_nothing() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        max_size: 3,
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    let mut random = fastrand::Rng::with_seed(7);
    let mut held = VecDeque::new();
    for _ in 0..2_000 {
        // Given up after a few polls, wherever it is then: not begun, in the queue, granted.
        let mut wait = Box::pin(pool.borrow());
        let mut polls = random.u32(0..4);
        let mut got = None;
        while polls > 0 && got.is_none() {
            polls -= 1;
            let mut context = Context::from_waker(Waker::noop());
            if let std::task::Poll::Ready(result) = wait.as_mut().poll(&mut context) {
                got = Some(result.unwrap());
            }
            if random.bool() {
                tokio::task::yield_now().await;
            }
            if random.bool() {
                held.pop_front();
            }
        }
        held.extend(got.filter(|_| random.bool()));
    }
    held.clear();
    settle().await;
    assert_eq!(pool.status().in_flight, 0);
    assert_eq!(pool.status().waiting, 0);
    let all = borrow_all(&pool, 3).await;
    assert_eq!(sizes(&pool.status()), [0, 3, 0, 0]);
    assert!(backend.most_sockets() <= 3);
    drop(all);
}

#[tokio::test(start_paused = true)]
async fn a_dial_belongs_to_the_pool_so_a_request_that_goes_away_wastes_none() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Slow(500 * MS));
    let pool = start(&world, &backend, quiet());
    assert!(timeout(100 * MS, pool.borrow()).await.is_err(), "it gives up");
    sleep(500 * MS).await;
    assert_eq!(
        sizes(&pool.status()),
        [1, 0, 0, 0],
        "what it had dialled is there"
    );
    pool.borrow().await.unwrap().release();
    assert_eq!(backend.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_dial_holds_nobody_up_who_could_have_another_connection() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    let held = pool.borrow().await.unwrap();
    backend.door(Door::Slow(SECOND));
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move {
            let began = Instant::now();
            pool.borrow().await.unwrap().release();
            began.elapsed()
        }
    });
    sleep(100 * MS).await;
    held.release();
    let waited = waits.await.unwrap();
    assert!(waited < 200 * MS, "it got the one that came back: {waited:?}");
}

/// How a connection comes back, and whether it serves again.
/// Covers: S-38
#[tokio::test(start_paused = true)]
async fn a_connection_with_something_unread_is_not_used_again() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    backend.manners(Manners::Chatty);
    let mut borrowed = pool.borrow().await.unwrap();
    assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
    settle().await;
    borrowed.release();
    settle().await;
    assert_eq!(
        sizes(&pool.status()),
        [0, 0, 0, 0],
        "a byte more than the answer was there"
    );

    backend.manners(Manners::Echo);
    let mut borrowed = pool.borrow().await.unwrap();
    assert!(!borrowed.is_reused());
    assert_eq!(ask(borrowed.io(), b"other").await.unwrap(), b"other");
    borrowed.release();
}

/// A stream that wakes whoever waits for bytes this often without having any, as TLS does where a backend says something of
/// its own behind the handshake.
struct Stirring {
    stream: DuplexStream,
    times: usize,
}

impl AsyncRead for Stirring {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_pending() && self.times > 0 {
            self.times -= 1;
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl AsyncWrite for Stirring {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Dials streams that stir so often, to a backend that never closes.
struct Restless(usize);

impl Dial for Restless {
    fn dial<'a>(&'a self, _: &'a BackendAddress, _: Instant) -> BoxFuture<'a, io::Result<BackendIo>> {
        Box::pin(async {
            let (stream, far) = tokio::io::duplex(64);
            tokio::spawn(async move {
                let _far = far;
                std::future::pending::<()>().await;
            });
            Ok(BackendIo::boxed(Stirring {
                stream,
                times: self.0,
            }))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_dialled_for_a_request_serves_it_though_something_that_is_no_answer_has_come_on_it()
 {
    for times in 0..4 {
        let address = "a:1".parse().unwrap();
        let pool = BackendPool::start(address, quiet(), Arc::new(Restless(times))).unwrap();

        let borrowed = pool.borrow_fresh().await.unwrap();

        assert!(!borrowed.is_reused());
        assert_eq!(pool.status().totals.opened, 1, "stirred {times} times");
    }
}
