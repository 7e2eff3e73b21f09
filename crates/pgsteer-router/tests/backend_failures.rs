//! Backends that fail, one at a time: when one is left out, when it is tried again, and what requests are told meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::time::Duration;

use backend_rig::{Door, MS, Manners, SECOND, World, ask, quiet, settle, sizes, start};
use pgsteer_router::backend::{BackendOptions, BackendPool, BorrowError, BreakerOptions, BreakerState};
use tokio::time::{Instant, sleep};

/// With windows that are exactly as long as they are said to be.
fn exact() -> BackendOptions {
    let breaker = BreakerOptions {
        jitter: 0.0,
        ..BackendOptions::default().breaker
    };
    BackendOptions { breaker, ..quiet() }
}

fn is_left_out(pool: &BackendPool) -> bool {
    pool.status().left_out_for.is_some()
}

async fn answered(pool: &BackendPool) -> bool {
    let Ok(mut borrowed) = pool.borrow().await else {
        return false;
    };
    let answered = ask(borrowed.io(), b"word").await.is_ok();
    borrowed.release();
    answered
}

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

/// Five requests in a row: the backend takes connections and answers nobody.
#[tokio::test(start_paused = true)]
async fn a_backend_that_fails_requests_is_left_out_though_it_can_be_dialled_and_a_ping_brings_it_back() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        enable_health_check: true,
        ..exact()
    };
    let pool = start(&world, &backend, options);
    assert!(answered(&pool).await);
    backend.manners(Manners::Silent);
    for request in 1..=5 {
        let mut borrowed = pool.borrow().await.unwrap();
        assert!(!is_left_out(&pool), "before failure {request}");
        let in_time = tokio::time::timeout(SECOND, ask(borrowed.io(), b"word")).await;
        assert!(in_time.is_err());
        borrowed.failed(&"no answer within 1 s");
        settle().await;
    }
    assert!(is_left_out(&pool));
    let status = pool.status();
    assert_eq!((status.failed, status.totals.left_out), (5, 1));
    assert_eq!(
        status.last_error.unwrap().text,
        "a request failed: no answer within 1 s"
    );

    let dials = backend.dials();
    sleep(10 * SECOND).await;
    assert!(backend.dials() > dials, "it is dialled");
    assert!(is_left_out(&pool), "but a dial alone proves nothing");
    assert_eq!(backend.sockets(), 0);
    backend.manners(Manners::Echo);
    sleep(12 * SECOND).await;
    assert!(!is_left_out(&pool));
    assert!(answered(&pool).await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_between_begins_the_count_anew_and_stale_connections_do_not_count() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    for _ in 0..20 {
        for _ in 0..4 {
            pool.borrow().await.unwrap().failed(&"cut off");
        }
        assert!(answered(&pool).await);
        for _ in 0..10 {
            pool.borrow().await.unwrap().stale();
        }
    }
    assert!(!is_left_out(&pool));
    assert_eq!(pool.status().failed, 80);
}

#[tokio::test(start_paused = true)]
async fn a_failure_threshold_of_none_never_leaves_a_backend_out_for_its_requests() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(
        &world,
        &backend,
        BackendOptions {
            failure_threshold: 0,
            ..quiet()
        },
    );
    for _ in 0..100 {
        pool.borrow().await.unwrap().failed(&"cut off");
    }
    settle().await;
    assert!(!is_left_out(&pool));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_ends_what_it_has_taken_is_left_out_and_not_dialled_in_a_circle() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.manners(Manners::CloseAtOnce);
    let options = BackendOptions {
        min_idle: 2,
        enable_health_check: true,
        ..exact()
    };
    let pool = start(&world, &backend, options);
    sleep(5 * SECOND).await;
    assert!(is_left_out(&pool));
    assert!(backend.dials() < 30, "{} dials in five seconds", backend.dials());
    backend.manners(Manners::Echo);
    sleep(12 * SECOND).await;
    assert!(!is_left_out(&pool));
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0]);
}

/// Requests that each want a new connection, and pools that may not ping.
#[tokio::test(start_paused = true)]
async fn nobody_who_wants_a_connection_has_such_a_backend_dialled_in_a_circle() {
    for enable_health_check in [true, false] {
        for failure_threshold in [0, 5] {
            let world = World::default();
            let backend = world.backend("a:1");
            backend.manners(Manners::CloseAtOnce);
            let options = BackendOptions {
                enable_health_check,
                failure_threshold,
                ..exact()
            };
            let pool = start(&world, &backend, options);
            let mut requests = tokio::task::JoinSet::new();
            for number in 0..20 {
                let pool = pool.clone();
                requests.spawn(async move {
                    let borrowed = if number % 2 == 0 {
                        pool.borrow().await
                    } else {
                        pool.borrow_fresh().await
                    };
                    if let Ok(mut borrowed) = borrowed {
                        assert!(ask(borrowed.io(), b"word").await.is_err());
                        borrowed.failed(&"closed");
                    }
                });
            }
            sleep(5 * SECOND).await;
            let case = format!("pings {enable_health_check}, threshold {failure_threshold}");
            assert!(backend.dials() < 200, "{} dials, {case}", backend.dials());
            while let Some(ended) = requests.join_next().await {
                ended.unwrap();
            }
        }
    }
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

/// A backend that lets idle connections go after a while is no bad one.
#[tokio::test(start_paused = true)]
async fn a_backend_that_closes_unused_connections_after_a_while_is_not_left_out_for_it() {
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
    for _ in 0..20 {
        sleep(3 * SECOND).await;
        backend.close_all();
        settle().await;
        assert!(!is_left_out(&pool));
    }
    sleep(2 * SECOND).await;
    assert!(answered(&pool).await);
}

#[tokio::test(start_paused = true)]
async fn pings_that_fail_in_a_row_leave_a_frozen_backend_out_before_any_request_has_met_it() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        min_idle: 8,
        enable_health_check: true,
        ..exact()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    backend.manners(Manners::Silent);
    sleep(20 * SECOND).await;
    assert!(is_left_out(&pool));
    assert_eq!((backend.asked(), backend.sockets()), (0, 0));
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
