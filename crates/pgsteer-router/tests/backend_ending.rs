//! Connections that are dialled for one request, and how a pool ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::time::Duration;

use backend_rig::{Door, MS, Manners, SECOND, World, ask, borrow_all, quiet, settle, sizes, start};
use pgsteer_router::backend::{BackendOptions, BorrowError};
use tokio::time::{sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_connection_dialled_for_a_request_is_not_one_of_those_that_were_there() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 2,
            ..quiet()
        },
    );
    drop(borrow_all(&pool, 2).await);
    settle().await;
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0]);

    let fresh = pool.borrow_fresh().await.unwrap();
    assert!(!fresh.is_reused());
    assert_eq!(backend.dials(), 3, "room was made by closing an idle one");
    assert_eq!(backend.most_sockets(), 2);

    let other = pool.borrow().await.unwrap();
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move { pool.borrow_fresh().await.map(|borrowed| borrowed.is_reused()) }
    });
    settle().await;
    other.release();
    assert!(
        waits.await.unwrap().unwrap(),
        "with all in use it is one that has come back"
    );
    drop(fresh);
}

#[tokio::test(start_paused = true)]
async fn requests_that_all_want_a_new_connection_at_once_all_get_one_that_is_good() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 4,
            ..quiet()
        },
    );
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut borrowed = pool.borrow_fresh().await.unwrap();
                ask(borrowed.io(), b"word").await.unwrap();
                borrowed.release();
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    assert!(backend.most_sockets() <= 4);
    assert_eq!(pool.status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_new_connection_that_is_given_up_leaves_the_connection_in_the_pool() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Slow(500 * MS));
    let pool = start(&world, &backend, quiet());
    assert!(timeout(100 * MS, pool.borrow_fresh()).await.is_err());
    sleep(SECOND).await;
    assert_eq!(sizes(&pool.status()), [1, 0, 0, 0]);
}

/// Covers: S-39
#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_is_borrowed_turns_everybody_else_away_and_leaves_no_socket() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            max_size: 2,
            ..quiet()
        },
    );
    let mut held = borrow_all(&pool, 2).await;
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move { pool.borrow().await.map(drop) }
    });
    settle().await;
    let closes = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(30 * SECOND).await }
    });
    assert!(matches!(waits.await.unwrap(), Err(BorrowError::Closed)));
    assert!(matches!(pool.borrow().await, Err(BorrowError::Closed)));
    assert!(matches!(pool.borrow_fresh().await, Err(BorrowError::Closed)));

    sleep(5 * SECOND).await;
    for mut borrowed in held.drain(..) {
        assert_eq!(ask(borrowed.io(), b"last").await.unwrap(), b"last", "it goes on");
        borrowed.release();
    }
    let closed = closes.await.unwrap();
    assert_eq!(closed.still_out, 0);
    assert!(closed.took < 6 * SECOND, "{closed:?}");
    assert_eq!(backend.sockets(), 0);
}

/// Covers: S-39
#[tokio::test(start_paused = true)]
async fn closing_ends_with_the_grace_and_says_what_is_still_out() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.manners(Manners::NeverLetsGo);
    let options = BackendOptions {
        close_timeout: 3600 * SECOND,
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    let mut held = borrow_all(&pool, 3).await;
    held.truncate(2);
    settle().await;
    let closed = pool.close(2 * SECOND).await;
    assert_eq!((closed.still_out, closed.took.as_secs()), (2, 2));
    settle().await;
    assert_eq!(backend.sockets(), 2, "goodbyes are cut short");
    held.clear();
    assert!(pool.close(Duration::from_secs(5)).await.still_out == 0);
}

#[tokio::test(start_paused = true)]
async fn a_pool_ends_with_its_last_handle_and_its_borrowed_connections_when_they_come_back() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            min_idle: 3,
            ..quiet()
        },
    );
    settle().await;
    let held = pool.borrow().await.unwrap();
    drop(pool);
    settle().await;
    assert_eq!(backend.sockets(), 1);
    held.release();
    settle().await;
    assert_eq!(backend.sockets(), 0);
}

#[test]
fn a_pool_whose_runtime_has_gone_turns_requests_away() {
    let world = World::default();
    let backend = world.backend("a:1");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = runtime.block_on(async { start(&world, &backend, quiet()) });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let result = other.block_on(async { pool.borrow().await.map(drop) });
    assert!(matches!(result, Err(BorrowError::Closed)));
}
