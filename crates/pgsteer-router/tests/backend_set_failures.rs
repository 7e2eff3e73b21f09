//! Several backends, some of which fail: who is passed over, for how long, and what it costs requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::collections::BTreeMap;

use backend_rig::sets::{backends, left_out, request, set_of};
use backend_rig::{Door, MS, Manners, SECOND, World, ask, quiet, settle};
use pgsteer_router::backend::{BackendOptions, BorrowError};
use tokio::time::{Instant, sleep};

/// The one fault that matters: a backend that refuses at once looks least loaded for ever.
/// Covers: S-44
#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_at_once_swallows_nothing() {
    let world = World::default();
    let three = backends(&world, [1, 1, 1]);
    three[1].door(Door::Refuse);
    let set = set_of(&world, &three, &quiet());
    let mut answered = BTreeMap::new();
    for _ in 0..3_000 {
        *answered.entry(request(&set).await.unwrap()).or_insert(0) += 1;
        sleep(MS).await;
    }
    assert_eq!(answered.len(), 2, "{answered:?}");
    assert!(answered.values().all(|count| *count >= 1_400), "{answered:?}");
    assert_eq!(left_out(&set), [false, true, false]);
    assert!(
        three[1].dials() <= 5,
        "{} dials in three seconds",
        three[1].dials()
    );
}

/// Covers: S-44
#[tokio::test(start_paused = true)]
async fn many_requests_at_once_lose_none_while_one_of_three_refuses() {
    let world = World::default();
    let three = backends(&world, [1, 1, 1]);
    let set = set_of(
        &world,
        &three,
        &BackendOptions {
            min_idle: 2,
            ..quiet()
        },
    );
    settle().await;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let set = set.clone();
            tokio::spawn(async move {
                let mut answered = 0;
                for _ in 0..100 {
                    let Ok(mut routed) = set.borrow().await else {
                        continue;
                    };
                    match ask(routed.io(), b"word").await {
                        Ok(_) => {
                            answered += 1;
                            routed.answered();
                        }
                        Err(_) if routed.is_reused() => routed.stale(),
                        Err(error) => routed.failed(&error),
                    }
                    sleep(MS).await;
                }
                answered
            })
        })
        .collect();
    sleep(30 * MS).await;
    three[0].kill();
    let mut answered = 0;
    for task in tasks {
        answered += task.await.unwrap();
    }
    // At most what was on the wire to it in that instant.
    assert!(answered >= 6_400 - 64, "{answered} of 6400");
    assert_eq!(left_out(&set), [true, false, false]);
}

/// Covers: S-44
#[tokio::test(start_paused = true)]
async fn a_failed_backend_gets_requests_again_only_when_a_probe_has_found_it_well() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let options = BackendOptions {
        failed_backend_delay: 5 * SECOND,
        enable_health_check: true,
        ..quiet()
    };
    let set = set_of(&world, &two, &options);
    two[0].door(Door::Refuse);
    while !left_out(&set)[0] {
        request(&set).await.unwrap();
    }
    two[0].door(Door::Open);
    two[0].manners(Manners::Silent);
    for _ in 0..200 {
        assert_eq!(request(&set).await.unwrap(), "b2:1");
        sleep(100 * MS).await;
    }
    assert!(
        two[0].pinged() > 0 && two[0].asked() == 0,
        "it can be dialled, and is not well"
    );
    two[0].manners(Manners::Echo);
    sleep(12 * SECOND).await;
    let mut answered = BTreeMap::new();
    for _ in 0..100 {
        *answered.entry(request(&set).await.unwrap()).or_insert(0) += 1;
    }
    assert!(answered["b1:1"] >= 45 && answered["b2:1"] >= 45, "{answered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_hangs_costs_a_request_half_of_its_time_and_not_its_answer() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    two[0].door(Door::Hang);
    let set = set_of(&world, &two, &quiet());
    let began = Instant::now();
    for _ in 0..4 {
        assert_eq!(request(&set).await.unwrap(), "b2:1");
    }
    assert!(began.elapsed() <= 2 * SECOND, "{:?}", began.elapsed());
    sleep(2 * SECOND).await;
    assert_eq!(left_out(&set), [true, false], "and then it is known");
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_at_a_backend_move_on_when_it_fails() {
    let world = World::default();
    let two = backends(&world, [100, 1]);
    two[0].door(Door::RefuseAfter(300 * MS));
    let set = set_of(&world, &two, &quiet());
    let began = Instant::now();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let set = set.clone();
            tokio::spawn(async move { request(&set).await.unwrap() })
        })
        .collect();
    sleep(100 * MS).await;
    assert!(set.status()[0].waiting >= 3, "its dial is under way");
    for waits in waits {
        assert_eq!(waits.await.unwrap(), "b2:1");
    }
    assert!(began.elapsed() < 310 * MS, "none waited for its deadline");
}

/// Some of its connections are in use and may come back; but others serve, and nobody waits for what may be dead.
#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_connections_of_a_backend_that_can_no_longer_be_dialled() {
    let world = World::default();
    let two = backends(&world, [100, 1]);
    let set = set_of(&world, &two, &quiet());
    let mut held = set.borrow().await.unwrap();
    while held.address().to_string() != "b1:1" {
        held = set.borrow().await.unwrap();
    }
    two[0].door(Door::Refuse);
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(request(&set).await.unwrap(), "b2:1");
    }
    assert_eq!(began.elapsed().as_millis(), 0);
    held.answered();
    let mut answered = BTreeMap::new();
    for _ in 0..100 {
        *answered.entry(request(&set).await.unwrap()).or_insert(0) += 1;
    }
    assert!(
        answered["b1:1"] > 90,
        "on the one it has it serves as before: {answered:?}"
    );
}

/// Covers: S-46
#[tokio::test(start_paused = true)]
async fn when_all_have_failed_each_is_tried_all_the_same_and_the_first_that_works_serves() {
    let world = World::default();
    let three = backends(&world, [1, 1, 1]);
    three.iter().for_each(|backend| backend.door(Door::Refuse));
    let set = set_of(&world, &three, &quiet());
    let error = set.borrow().await.unwrap_err();
    assert!(matches!(error, BorrowError::Failed(_)));
    for backend in &three {
        assert_eq!(backend.dials(), 1);
        assert!(
            error
                .to_string()
                .contains(&format!("{}: left out", backend.address)),
            "{error}"
        );
    }
    assert_eq!(left_out(&set), [true, true, true]);

    // Long after the breakers have opened.
    sleep(60 * SECOND).await;
    three[2].door(Door::Open);
    let dialled = three[0].dials();
    assert_eq!(
        request(&set).await.unwrap(),
        "b3:1",
        "no request is lost to a breaker's window"
    );
    assert!(three[0].dials() <= dialled + 1);
    assert_eq!(left_out(&set), [true, true, false]);
}

/// Covers: S-46
#[tokio::test(start_paused = true)]
async fn where_all_have_failed_and_one_hangs_the_others_are_tried_in_time() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    two.iter().for_each(|backend| backend.door(Door::Refuse));
    let set = set_of(&world, &two, &quiet());
    assert!(set.borrow().await.is_err());
    two[0].door(Door::Hang);
    two[1].door(Door::Open);
    sleep(150 * MS).await;
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(request(&set).await.unwrap(), "b2:1");
        assert!(began.elapsed() <= 1_100 * MS, "{:?}", began.elapsed());
    }
}
