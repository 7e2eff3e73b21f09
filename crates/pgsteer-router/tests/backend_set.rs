//! Several backends: who gets a request, who is passed over, and what a change of the list does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backend_rig::{Backend, Door, MS, Manners, SECOND, World, ask, quiet, settle, sizes, start_set};
use pgsteer_router::backend::{BackendAddress, BackendOptions, BackendSet, BorrowError, Routed, SetError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const REQUESTS: u64 = 100_000;

fn backends<const N: usize>(world: &World, weights: [u32; N]) -> [Arc<Backend>; N] {
    let mut number = 0;
    weights.map(|weight| {
        number += 1;
        world.backend(&format!("b{number}:1:{weight}"))
    })
}

fn set_of(world: &World, backends: &[Arc<Backend>], options: &BackendOptions) -> BackendSet {
    let list: Vec<_> = backends
        .iter()
        .map(|backend| (backend, options.clone()))
        .collect();
    start_set(world, &list)
}

fn list_of(backends: &[&Arc<Backend>], options: &BackendOptions) -> Vec<(BackendAddress, BackendOptions)> {
    backends
        .iter()
        .map(|backend| (backend.address.clone(), options.clone()))
        .collect()
}

async fn answer(mut routed: Routed) {
    assert_eq!(ask(routed.io(), b"word").await.unwrap(), b"word");
    routed.answered();
}

/// One request, and who answered it.
async fn request(set: &BackendSet) -> Result<String, BorrowError> {
    let routed = set.borrow().await?;
    let who = routed.address().to_string();
    answer(routed).await;
    Ok(who)
}

fn left_out(set: &BackendSet) -> Vec<bool> {
    set.status()
        .iter()
        .map(|status| status.left_out_for.is_some())
        .collect()
}

fn assert_spread(handled: &[u64], weights: &[u32]) {
    let (all, total): (u64, u32) = (handled.iter().sum(), weights.iter().sum());
    for (handled, weight) in handled.iter().zip(weights) {
        let share = all * u64::from(*weight) / u64::from(total);
        assert!(
            handled.abs_diff(share) * 100 <= share,
            "{handled} of {all} for {weight} of {total}"
        );
    }
}

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

/// The one fault that matters: a backend that refuses at once looks least loaded for ever.
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
async fn a_change_of_the_list_touches_no_request_under_way() {
    let world = World::default();
    let three = backends(&world, [1, 1, 1]);
    let options = BackendOptions {
        min_idle: 1,
        ..quiet()
    };
    let set = set_of(&world, &three[..2], &options);
    settle().await;
    let mut held = [set.borrow().await.unwrap(), set.borrow().await.unwrap()];
    held.sort_by_key(|routed| routed.address().to_string());
    let [first, mut second] = held;

    // b2 goes, b3 comes, b1 stays with another weight.
    let heavier = three[0].address.clone().with_weight(NonZeroU32::new(7).unwrap());
    let mut list = list_of(&[&three[2]], &options);
    list.insert(0, (heavier, options.clone()));
    set.update(list).unwrap();
    settle().await;

    let status = set.status();
    let names: Vec<String> = status.iter().map(|status| status.address.to_string()).collect();
    assert_eq!(names, ["b1:1", "b3:1"]);
    assert_eq!(status[0].address.weight().get(), 7);
    assert_eq!(
        (status[0].in_flight, three[0].dials()),
        (1, 1),
        "it is the same pool"
    );
    assert_eq!(sizes(&status[1]), [1, 0, 0, 0], "the new one is warm");
    assert_eq!(
        three[1].sockets(),
        1,
        "its idle ones are closed, what is in use is not"
    );
    assert_eq!(ask(second.io(), b"last").await.unwrap(), b"last");
    second.answered();
    settle().await;
    assert_eq!(three[1].sockets(), 0, "now it is gone");
    first.answered();
    for _ in 0..16 {
        assert_ne!(request(&set).await.unwrap(), "b2:1");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_at_a_backend_that_is_taken_out_go_elsewhere() {
    let world = World::default();
    let two = backends(&world, [100, 1]);
    let options = BackendOptions {
        max_size: 1,
        ..quiet()
    };
    let set = set_of(&world, &two[..1], &options);
    let held = set.borrow().await.unwrap();
    let waits = tokio::spawn({
        let set = set.clone();
        async move { request(&set).await.unwrap() }
    });
    settle().await;
    set.update(list_of(&[&two[1]], &options)).unwrap();
    assert_eq!(waits.await.unwrap(), "b2:1");
    held.answered();
}

#[tokio::test(start_paused = true)]
async fn a_backend_whose_options_have_changed_is_started_anew_and_the_old_one_ends_in_peace() {
    let world = World::default();
    let [backend] = backends(&world, [1]);
    let set = set_of(
        &world,
        &[Arc::clone(&backend)],
        &BackendOptions {
            min_idle: 1,
            ..quiet()
        },
    );
    settle().await;
    let mut held = set.borrow().await.unwrap();
    set.update(list_of(
        &[&backend],
        &BackendOptions {
            min_idle: 3,
            ..quiet()
        },
    ))
    .unwrap();
    settle().await;
    assert_eq!(sizes(&set.status()[0]), [3, 0, 0, 0]);
    assert_eq!(ask(held.io(), b"last").await.unwrap(), b"last");
    held.answered();
    settle().await;
    assert_eq!(backend.sockets(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_list_is_refused_with_its_reason_and_changes_nothing() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let set = set_of(&world, &two, &quiet());
    let twice = list_of(&[&two[0], &two[1], &two[0]], &quiet());
    let mut bad = list_of(&[&two[0]], &quiet());
    bad[0].1.max_size = 0;
    let table = [
        (vec![], "there must be at least one backend"),
        (twice, "backend b1:1 is given twice"),
        (
            bad,
            "backend b1:1: option max_size cannot be `0`: it takes a number from 1 to 65535",
        ),
    ];
    for (list, expected) in table {
        assert_eq!(
            BackendSet::start(list.clone(), world.dialer())
                .unwrap_err()
                .to_string(),
            expected
        );
        assert_eq!(set.update(list).unwrap_err().to_string(), expected);
    }
    assert_eq!(set.status().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_is_under_way_everywhere_also_at_backends_that_were_taken_out() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let options = BackendOptions {
        min_idle: 1,
        ..quiet()
    };
    let set = set_of(&world, &two, &options);
    let held = [set.borrow().await.unwrap(), set.borrow().await.unwrap()];
    set.update(list_of(&[&two[0]], &options)).unwrap();
    let closes = tokio::spawn({
        let set = set.clone();
        async move { set.close(30 * SECOND).await }
    });
    sleep(5 * SECOND).await;
    assert!(!closes.is_finished());
    assert!(matches!(set.borrow().await, Err(BorrowError::Closed)));
    assert!(matches!(
        set.update(list_of(&[&two[0]], &options)),
        Err(SetError::Closed)
    ));
    held.into_iter().for_each(Routed::answered);
    let closed = closes.await.unwrap();
    assert_eq!((closed.still_out, closed.took.as_secs()), (0, 5));
    assert_eq!(two[0].sockets() + two[1].sockets(), 0);
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
