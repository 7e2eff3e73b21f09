//! A backend that cannot be dialled: when it is left out, when it is tried again, and what requests are told meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::time::Duration;

use backend_rig::failing::{answered, exact, is_left_out};
use backend_rig::{Door, MS, SECOND, World, quiet, settle, sizes, start};
use pgsteer_router::backend::{BackendOptions, BorrowError, BreakerState};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_is_told_of_at_once_with_its_reason() {
    let world = World::default();
    let backend = world.backend("10.0.0.1:9090");
    backend.door(Door::Refuse);
    let pool = start(&world, &backend, quiet());
    let began = Instant::now();
    let error = pool.borrow().await.unwrap_err();
    assert!(began.elapsed() < 10 * MS);
    assert!(matches!(error, BorrowError::Failed(_)));
    assert_eq!(
        error.to_string(),
        "no backend can be connected to, after 0.0ns: 10.0.0.1:9090: left out for 0.0ns, \
         0 idle, 0 in use, 0 opening and 0 closing of 16, 0 waiting; 0.0ns ago: connection refused"
    );
}

/// When it is dialled while it refuses and nobody asks for it: after one second each, until the breaker opens with the
/// fifth failure, whose windows double.
#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_is_tried_again_after_its_delay_and_ever_more_rarely_once_the_breaker_is_open()
{
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Refuse);
    let began = Instant::now();
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            min_idle: 2,
            ..exact()
        },
    );
    sleep(45 * SECOND).await;
    let seconds: Vec<u64> = backend
        .dialled_after(began)
        .iter()
        .map(|at| (at.as_millis() as u64 + 20) / 1000)
        .collect();
    assert_eq!(seconds, [0, 1, 2, 3, 4, 5, 7, 11, 19, 29, 39], "capped at ten");
    assert_eq!(pool.status().breaker, BreakerState::Open);
    assert_eq!(pool.status().totals.dials_failed, 11);

    backend.door(Door::Open);
    sleep(11 * SECOND).await;
    assert_eq!(
        (pool.status().breaker, is_left_out(&pool)),
        (BreakerState::Closed, false)
    );
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0], "and it is warm again");
}

#[tokio::test(start_paused = true)]
async fn a_failed_backend_without_a_floor_is_probed_all_the_same() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Refuse);
    let pool = start(&world, &backend, exact());
    assert!(!answered(&pool).await);
    assert!(is_left_out(&pool));
    backend.door(Door::Open);
    sleep(SECOND + 10 * MS).await;
    assert!(!is_left_out(&pool), "nobody has asked for it");
    assert_eq!(pool.status().totals.left_out, 1);
}

/// A pool of its own has nowhere else to go, so its backend is tried whenever somebody comes; but not in a circle.
#[tokio::test(start_paused = true)]
async fn requests_have_a_failed_backend_tried_at_once_but_no_more_than_ten_times_a_second() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Refuse);
    let pool = start(&world, &backend, quiet());
    assert!(!answered(&pool).await);
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < 10 * SECOND {
        assert!(!answered(&pool).await);
        sleep(MS).await;
        asked += 1;
    }
    assert!(asked > 5_000);
    assert!((90..=120).contains(&backend.dials()), "{} dials", backend.dials());
    assert_eq!(
        pool.status().breaker,
        BreakerState::Open,
        "which gates nobody who has no other backend"
    );

    backend.door(Door::Open);
    sleep(100 * MS).await;
    assert!(answered(&pool).await, "the first request finds it well");
    assert_eq!(pool.status().breaker, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn many_requests_at_a_failed_backend_share_one_dial() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Refuse);
    let pool = start(&world, &backend, quiet());
    assert!(!answered(&pool).await);
    sleep(200 * MS).await;
    let before = backend.dials();
    let requests: Vec<_> = (0..1_000)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { answered(&pool).await })
        })
        .collect();
    for request in requests {
        assert!(!request.await.unwrap());
    }
    assert!(
        backend.dials() - before <= 2,
        "{} dials",
        backend.dials() - before
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_on_this_side_is_not_held_against_the_backend() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::NoDescriptors);
    let pool = start(&world, &backend, quiet());
    for _ in 0..10 {
        assert!(!answered(&pool).await);
        sleep(1100 * MS).await;
    }
    let status = pool.status();
    assert!(status.totals.dials_failed >= 5);
    assert_eq!(
        (status.breaker, status.left_out_for),
        (BreakerState::Closed, None)
    );
    assert!(status.last_error.unwrap().text.contains("os error 24"));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_can_no_longer_be_dialled_serves_on_the_connections_it_has() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    let first = pool.borrow().await.unwrap();
    let second = pool.borrow().await.unwrap();
    backend.door(Door::Refuse);
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move { answered(&pool).await }
    });
    sleep(500 * MS).await;
    assert!(pool.status().totals.dials_failed > 0);
    assert!(!is_left_out(&pool));
    first.release();
    assert!(waits.await.unwrap(), "it got one that came back");
    drop(second);
    backend.close_all();
    settle().await;
    assert!(is_left_out(&pool), "with its last connection it is left out");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_for_want_of_something_on_this_side_is_made_again() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Refuse);
    let pool = start(&world, &backend, exact());
    assert!(!answered(&pool).await);
    backend.door(Door::NoDescriptors);
    sleep(30 * SECOND).await;
    assert!(is_left_out(&pool));
    backend.door(Door::Open);
    sleep(1_100 * MS).await;
    assert!(!is_left_out(&pool));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_dies_and_comes_back_is_warm_again_by_itself() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            min_idle: 2,
            ..exact()
        },
    );
    settle().await;
    backend.kill();
    settle().await;
    assert!(is_left_out(&pool), "the end of its connections had it dialled");
    sleep(2 * SECOND).await;
    backend.door(Door::Open);
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!((sizes(&pool.status()), is_left_out(&pool)), ([2, 0, 0, 0], false));
}
