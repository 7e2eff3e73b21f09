//! A backend that can be dialled and fails what comes then: how long it is trusted, and what brings it back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use backend_rig::failing::{answered, exact, is_left_out};
use backend_rig::{Manners, SECOND, World, ask, quiet, settle, sizes, start};
use pgsteer_router::backend::BackendOptions;
use tokio::time::sleep;

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

/// More connections end within a second than the pool has slots, each after an answer: as it is given back, or when it is idle.
#[tokio::test(start_paused = true)]
async fn a_backend_that_closes_after_each_answer_is_dialled_for_each_request_without_a_rest() {
    for closes_while_it_is_held in [false, true] {
        let world = World::default();
        let backend = world.backend("a:1");
        let pool = start(&world, &backend, quiet());
        let started = tokio::time::Instant::now();
        for _ in 0..200 {
            let mut borrowed = pool.borrow().await.unwrap();
            ask(borrowed.io(), b"word").await.unwrap();
            if closes_while_it_is_held {
                backend.close_all();
                settle().await;
                borrowed.release();
            } else {
                borrowed.release();
                backend.close_all();
            }
            settle().await;
        }
        assert!(started.elapsed() < SECOND, "{:?}", started.elapsed());
        assert!(!is_left_out(&pool));
    }
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

/// Covers: S-68
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
