//! Several backends: which of them gets a request.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::collections::VecDeque;
use std::time::Duration;

use backend_rig::sets::{answer, assert_spread, backends, request, set_of};
use backend_rig::{MS, SECOND, World, quiet, settle};
use pgsteer_router::backend::{BackendOptions, BorrowError, Routed};
use tokio::task::JoinSet;
use tokio::time::Instant;

const REQUESTS: u64 = 100_000;

/// Covers: S-41
#[tokio::test(start_paused = true)]
async fn requests_go_to_the_backend_with_the_least_in_flight_for_its_weight() {
    let world = World::default();
    let set = set_of(&world, &backends(&world, [1, 2, 5]), &quiet());
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(set.borrow().await.unwrap());
    }
    let in_flight: Vec<u64> = set.status().iter().map(|status| status.in_flight).collect();
    assert_eq!(in_flight, [2, 4, 10]);
    held.into_iter().for_each(Routed::answered);
    assert!(set.status().iter().all(|status| status.in_flight == 0));
}

/// Covers: S-41, S-45
#[tokio::test(start_paused = true)]
async fn one_request_after_the_other_is_spread_by_weight_and_not_all_to_the_first() {
    let world = World::default();
    let set = set_of(&world, &backends(&world, [1, 2, 5]), &quiet());
    for _ in 0..REQUESTS {
        set.borrow().await.unwrap().answered();
    }
    let handled: Vec<u64> = set.status().iter().map(|status| status.handled).collect();
    assert_eq!(handled.iter().sum::<u64>(), REQUESTS);
    assert_spread(&handled, &[1, 2, 5]);
}

/// Clients that have some requests each under way, all for equally long. None waits for a connection.
/// Covers: S-41
#[tokio::test(start_paused = true)]
async fn requests_of_a_crowd_are_spread_by_weight() {
    const CLIENTS: u64 = 8;
    let world = World::default();
    let options = BackendOptions {
        max_size: 64,
        max_dials: 64,
        ..quiet()
    };
    let set = set_of(&world, &backends(&world, [1, 2, 5]), &options);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let set = set.clone();
        clients.spawn(async move {
            let mut under_way = VecDeque::new();
            for _ in 0..REQUESTS / CLIENTS {
                let oldest = if under_way.len() == 8 {
                    under_way.pop_front()
                } else {
                    None
                };
                oldest.into_iter().for_each(Routed::answered);
                under_way.push_back(set.borrow().await.unwrap());
                tokio::task::yield_now().await;
            }
            under_way.into_iter().for_each(Routed::answered);
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let status = set.status();
    let handled: Vec<u64> = status.iter().map(|status| status.handled).collect();
    assert_eq!(handled.iter().sum::<u64>(), REQUESTS);
    assert_spread(&handled, &[1, 2, 5]);
    assert!(status.iter().all(|status| status.in_flight == 0));
}

/// On several threads and in real time, so that choices do race; they are held, so that nothing but the choices decides.
/// Covers: S-43
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn choices_that_race_are_off_by_no_more_than_the_number_of_those_in_the_race() {
    const CLIENTS: usize = 16;
    let world = World::default();
    let options = BackendOptions {
        max_size: 4_000,
        max_dials: 4_000,
        borrow_timeout: 600 * SECOND,
        ..quiet()
    };
    let set = set_of(&world, &backends(&world, [1, 2, 5]), &options);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let set = set.clone();
        clients.spawn(async move {
            let mut held = Vec::new();
            for _ in 0..4_000 / CLIENTS {
                held.push(set.borrow().await.unwrap());
            }
            held
        });
    }
    let mut held = Vec::new();
    while let Some(ended) = clients.join_next().await {
        held.extend(ended.unwrap());
    }
    let in_flight: Vec<u64> = set.status().iter().map(|status| status.in_flight).collect();
    assert_eq!((held.len(), in_flight.iter().sum()), (4_000, 4_000_u64));
    for (in_flight, share) in in_flight.iter().zip([500, 1_000, 2_500]) {
        assert!(
            in_flight.abs_diff(share) <= CLIENTS as u64,
            "{in_flight} and not {share}"
        );
    }
    held.into_iter().for_each(Routed::answered);
    assert!(set.status().iter().all(|status| status.in_flight == 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_backend_is_passed_over_while_another_has_room() {
    let world = World::default();
    let two = backends(&world, [5, 1]);
    let set = set_of(
        &world,
        &two,
        &BackendOptions {
            max_size: 2,
            ..quiet()
        },
    );
    let mut held = Vec::new();
    let began = Instant::now();
    for _ in 0..4 {
        held.push(set.borrow().await.unwrap());
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waited");
    let in_use: Vec<u32> = set.status().iter().map(|status| status.in_use).collect();
    assert_eq!(in_use, [2, 2]);
    let error = set.borrow().await.unwrap_err();
    assert!(matches!(error, BorrowError::TimedOut(_)));
    assert_eq!(began.elapsed().as_secs(), 2, "borrow_timeout over both");
    let text = error.to_string();
    assert!(
        text.contains("b1:1: 0 idle, 2 in use") && text.contains("b2:1: 0 idle, 2 in use"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_may_ask_for_any_other_backend() {
    let world = World::default();
    let two = backends(&world, [100, 1]);
    let set = set_of(&world, &two, &quiet());
    for _ in 0..20 {
        let other = set.borrow_other(&two[0].address).await.unwrap();
        assert_eq!(other.address().to_string(), "b2:1");
        other.answered();
    }
    let alone = set_of(&world, &two[..1], &quiet());
    assert!(matches!(
        alone.borrow_other(&two[0].address).await,
        Err(BorrowError::NoBackend)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_retry_may_ask_for_a_connection_that_is_dialled_for_it() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let set = set_of(
        &world,
        &two,
        &BackendOptions {
            min_idle: 2,
            ..quiet()
        },
    );
    settle().await;
    let stale = set.borrow().await.unwrap();
    assert!(stale.is_reused(), "it was open before the request came");
    stale.stale();
    let dialled = two[0].dials() + two[1].dials();
    let fresh = set.borrow_fresh().await.unwrap();
    assert!(!fresh.is_reused());
    assert!(two[0].dials() + two[1].dials() > dialled);
    answer(fresh).await;
}

#[tokio::test(start_paused = true)]
async fn a_borrow_that_is_dropped_is_in_flight_nowhere() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let set = set_of(
        &world,
        &two,
        &BackendOptions {
            max_size: 1,
            ..quiet()
        },
    );
    let held = [set.borrow().await.unwrap(), set.borrow().await.unwrap()];
    for _ in 0..50 {
        assert!(tokio::time::timeout(1_500 * MS, set.borrow()).await.is_err());
    }
    let status = set.status();
    assert!(
        status
            .iter()
            .all(|status| (status.in_flight, status.waiting) == (1, 0)),
        "{status:?}"
    );
    held.into_iter().for_each(Routed::answered);
    request(&set).await.unwrap();
}
