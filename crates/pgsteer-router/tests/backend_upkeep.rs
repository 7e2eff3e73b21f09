//! What a pool does by itself: the floor, pings, lifetimes, idle timeouts, and what happens to connections that nobody has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::time::Duration;

use backend_rig::{Door, MS, Manners, SECOND, World, ask, quiet, settle, sizes, start};
use pgsteer_router::backend::BackendOptions;
use tokio::time::{Instant, sleep, sleep_until};

/// Covers: S-30
#[tokio::test(start_paused = true)]
async fn the_floor_is_open_before_the_first_request_and_again_when_it_has_been_taken() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, BackendOptions::default());
    settle().await;
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0], "min_idle by default");
    let _first = pool.borrow().await.unwrap();
    let _second = pool.borrow().await.unwrap();
    sleep(SECOND + MS).await;
    assert_eq!(sizes(&pool.status()), [2, 2, 0, 0], "two are ready again");
}

#[tokio::test(start_paused = true)]
async fn a_pool_no_larger_than_its_floor_is_always_full() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        max_size: 1,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    assert_eq!(sizes(&pool.status()), [1, 0, 0, 0]);
    backend.close_all();
    settle().await;
    assert_eq!((sizes(&pool.status()), backend.dials()), ([1, 0, 0, 0], 2));
}

/// Pings go on all the while: in the original each of them made the connection young again.
/// Covers: S-31
#[tokio::test(start_paused = true)]
async fn connections_above_the_floor_go_when_no_request_has_used_them_for_the_idle_timeout_in_spite_of_pings()
{
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        max_lifetime: None,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.borrow().await.unwrap());
    }
    settle().await;
    held.into_iter().for_each(|borrowed| borrowed.release());
    let released = Instant::now();
    sleep(59 * SECOND).await;
    assert!(pool.status().idle >= 6);
    assert!(backend.pinged() >= 6, "pinged {} times", backend.pinged());
    sleep_until(released + 63 * SECOND).await;
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0], "down to the floor");
    assert!(pool.status().totals.idle_closed >= 4);
    sleep(300 * SECOND).await;
    assert_eq!(sizes(&pool.status()), [2, 0, 0, 0], "and no further");
}

/// In the original a return makes the connection young again.
/// Covers: S-32
#[tokio::test(start_paused = true)]
async fn a_connection_in_constant_use_ends_with_its_lifetime_all_the_same() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        lifetime_jitter: 0.0,
        max_lifetime: Some(300 * SECOND),
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    let began = Instant::now();
    let mut dials = Vec::new();
    while began.elapsed() < 650 * SECOND {
        let mut borrowed = pool.borrow().await.unwrap();
        ask(borrowed.io(), b"word").await.unwrap();
        sleep(100 * MS).await;
        borrowed.release();
        dials.push(backend.dials());
    }
    assert_eq!(
        backend.dials(),
        3,
        "at the start, after five minutes and after ten"
    );
    let second = backend.dialled_after(began)[1];
    assert!(second <= 301 * SECOND && second >= 270 * SECOND, "{second:?}");
    assert_eq!(pool.status().totals.expired, 2);
}

/// Covers: S-32
#[tokio::test(start_paused = true)]
async fn one_that_is_in_use_when_its_life_ends_is_closed_when_it_comes_back_and_not_before() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        lifetime_jitter: 0.0,
        max_lifetime: Some(10 * SECOND),
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    let mut held = pool.borrow().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(
        ask(held.io(), b"word").await.unwrap(),
        b"word",
        "nobody cuts it off"
    );
    held.release();
    settle().await;
    assert_eq!((sizes(&pool.status()), backend.sockets()), ([0, 0, 0, 0], 0));
}

/// Covers: S-32
#[tokio::test(start_paused = true)]
async fn no_life_is_longer_than_max_lifetime_and_jitter_makes_them_end_apart() {
    let world = World::default();
    let backend = world.backend("a:1");
    let life = 100 * SECOND;
    let options = BackendOptions {
        max_size: 8,
        min_idle: 8,
        max_lifetime: Some(life),
        lifetime_jitter: 0.5,
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    let began = Instant::now();
    assert_eq!((backend.dials(), pool.status().idle), (8, 8));
    sleep(life + 2 * SECOND).await;
    let replaced: Vec<Duration> = backend.dialled_after(began).into_iter().skip(8).collect();
    assert!(replaced.len() >= 8, "each has been replaced: {replaced:?}");
    assert!(replaced.iter().all(|at| *at >= 40 * SECOND), "{replaced:?}");
    let (first, last) = (replaced.first().unwrap(), replaced.last().unwrap());
    assert!(*last - *first > 2 * SECOND, "{replaced:?}");
}

/// Covers: S-02
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_pinged_with_an_empty_frame_once_an_interval_and_stays() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        idle_timeout: None,
        max_lifetime: None,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    sleep(9 * SECOND).await;
    assert_eq!(backend.pinged(), 0);
    sleep(93 * SECOND).await;
    assert!(
        (18..=20).contains(&backend.pinged()),
        "{} in ten intervals of two",
        backend.pinged()
    );
    assert_eq!((backend.dials(), backend.asked()), (2, 0));
    assert_eq!(pool.status().totals.pings, backend.pinged() as u64);
}

/// Covers: S-34
#[tokio::test(start_paused = true)]
async fn without_health_checks_nothing_is_ever_sent_on_an_idle_connection() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        enable_health_check: false,
        ..BackendOptions::default()
    };
    let _pool = start(&world, &backend, options);
    sleep(1_000 * SECOND).await;
    assert_eq!((backend.pinged(), backend.asked()), (0, 0));
}

/// The original takes all idle connections out while it pings them one after the other: requests meanwhile dial, and the
/// bound does not hold.
/// Covers: S-33
#[tokio::test(start_paused = true)]
async fn while_some_are_pinged_requests_find_the_others_and_nothing_is_dialled_for_it() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        max_size: 8,
        min_idle: 8,
        idle_timeout: None,
        max_lifetime: None,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    backend.manners(Manners::SlowEcho(900 * MS));
    sleep(10 * SECOND + 100 * MS).await;
    assert!(backend.pinged() > 0, "pings are under way");
    assert_eq!(pool.status().idle, 8, "those pinged count as idle");

    let began = Instant::now();
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.borrow().await.unwrap());
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "six of eight were there");
    assert_eq!(backend.dials(), 8);
    held.into_iter().for_each(|borrowed| borrowed.release());
    sleep(20 * SECOND).await;
    assert_eq!((backend.dials(), backend.most_sockets()), (8, 8));
}

/// Covers: S-33
#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_a_ping_when_it_can_have_a_connection_of_its_own() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        min_idle: 1,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    backend.manners(Manners::SlowEcho(900 * MS));
    sleep(10 * SECOND + 100 * MS).await;
    assert_eq!(backend.pinged(), 1);
    let began = Instant::now();
    let borrowed = pool.borrow().await.unwrap();
    assert!(began.elapsed() < 10 * MS, "{:?}", began.elapsed());
    drop(borrowed);
}

/// Covers: S-33
#[tokio::test(start_paused = true)]
async fn a_pinged_connection_goes_to_whoever_waits_when_the_answer_has_come() {
    let world = World::default();
    let backend = world.backend("a:1");
    let options = BackendOptions {
        max_size: 1,
        ..BackendOptions::default()
    };
    let pool = start(&world, &backend, options);
    settle().await;
    backend.manners(Manners::SlowEcho(500 * MS));
    sleep(10 * SECOND + 100 * MS).await;
    let began = Instant::now();
    let mut borrowed = pool.borrow().await.unwrap();
    assert!(began.elapsed() <= 410 * MS, "{:?}", began.elapsed());
    backend.manners(Manners::Echo);
    assert_eq!(
        ask(borrowed.io(), b"word").await.unwrap(),
        b"word",
        "and nothing of the ping is left on it"
    );
    assert_eq!(backend.dials(), 1);
}

/// What the backend does with a ping, and what it costs.
/// Covers: S-33
#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_answer_a_ping_as_it_should_is_closed_and_replaced() {
    for manners in [Manners::Silent, Manners::Garbage, Manners::Chatty] {
        let world = World::default();
        let backend = world.backend("a:1");
        let options = BackendOptions {
            min_idle: 1,
            max_lifetime: None,
            ..BackendOptions::default()
        };
        let pool = start(&world, &backend, options);
        settle().await;
        backend.manners(manners);
        sleep(10 * SECOND + 100 * MS).await;
        backend.manners(Manners::Echo);
        sleep(SECOND).await;
        assert_eq!(backend.pinged(), 1, "{manners:?}");
        assert_eq!(
            (backend.dials(), sizes(&pool.status())),
            (2, [1, 0, 0, 0]),
            "{manners:?}"
        );
        let mut borrowed = pool.borrow().await.unwrap();
        assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
        borrowed.release();
    }
}

/// What the backend does to idle connections. No request ever meets it.
#[tokio::test(start_paused = true)]
async fn what_happens_on_an_idle_connection_is_noticed_at_once_and_no_request_gets_it() {
    for closes in [true, false] {
        let world = World::default();
        let backend = world.backend("a:1");
        let pool = start(
            &world,
            &backend,
            BackendOptions {
                min_idle: 4,
                ..quiet()
            },
        );
        settle().await;
        assert_eq!(pool.status().idle, 4);
        if closes {
            backend.close_all();
        } else {
            backend.speak();
        }
        settle().await;
        assert_eq!(pool.status().totals.lost, 4, "closes: {closes}");
        for _ in 0..4 {
            let mut borrowed = pool.borrow().await.unwrap();
            assert_eq!(
                ask(borrowed.io(), b"word").await.unwrap(),
                b"word",
                "closes: {closes}"
            );
            borrowed.release();
        }
        assert_eq!(backend.sockets() as u32, pool.status().open());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_while_it_is_borrowed_is_the_borrowers_to_notice_and_is_not_used_again() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, quiet());
    let mut borrowed = pool.borrow().await.unwrap();
    ask(borrowed.io(), b"word").await.unwrap();
    backend.close_all();
    settle().await;
    borrowed.release();
    settle().await;
    assert_eq!((sizes(&pool.status()), backend.sockets()), ([0, 0, 0, 0], 0));
}

/// Covers: S-35
#[tokio::test(start_paused = true)]
async fn a_dial_that_is_not_answered_ends_with_the_connect_timeout() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Hang);
    let options = BackendOptions {
        borrow_timeout: 30 * SECOND,
        ..quiet()
    };
    let pool = start(&world, &backend, options);
    let began = Instant::now();
    let error = pool.borrow().await.unwrap_err().to_string();
    assert_eq!(began.elapsed().as_millis(), 2000);
    assert!(
        error.contains("it could not be connected to within 2s"),
        "{error}"
    );
    settle().await;
    assert_eq!(backend.sockets(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dialer_that_panics_is_a_dial_that_failed() {
    let world = World::default();
    let backend = world.backend("a:1");
    backend.door(Door::Panic);
    let pool = start(&world, &backend, quiet());
    let error = pool.borrow().await.unwrap_err().to_string();
    assert!(error.contains("the dialer panicked"), "{error}");
    backend.door(Door::Open);
    sleep(2 * SECOND).await;
    pool.borrow().await.unwrap().release();
}
