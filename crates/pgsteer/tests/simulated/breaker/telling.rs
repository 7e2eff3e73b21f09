//! What callers are told while the breaker is open, and who is served all the same.

use std::error::Error as _;

use pgsteer::health::State;
use pgsteer::{Conn, Error};

use super::{breaker, exact, servers, start_again, stop, tripped, turned_away};
use crate::rig::*;

/// Covers: B-15
#[tokio::test(start_paused = true)]
async fn who_met_the_failure_gets_it_and_who_comes_later_gets_it_as_the_source_with_the_time_to_wait() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let pool = start(&sim, exact(&["a"]).pool_size(1));
    for _ in 0..5 {
        let error = pool.get().await.unwrap_err();
        assert!(matches!(error, Error::Connect(_)), "{error}");
    }
    assert_eq!(breaker(&pool).state, State::Open);
    tokio::time::sleep(millis(300)).await;
    let (error, took) = timed(pool.get()).await;
    let error = error.unwrap_err();
    assert!(took.is_zero(), "{took:?}");
    assert_eq!(tried(&error), "a down");
    assert!(error.to_string().contains("ask again in 700ms"), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<Error>());
    assert!(matches!(source, Some(Error::Connect(_))), "{source:?}");
    assert_eq!(turned_away(error).0, millis(700));
    let totals = pool.status().totals;
    assert_eq!(
        (totals.circuit_open, totals.open_failures, totals.timeouts),
        (1, 5, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_when_it_opens_is_told_and_does_not_wait_on() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"]).breaker_base(seconds(30))).await;
    let (error, took) = timed(pool.get_timeout(seconds(20))).await;
    assert!(took.is_zero(), "{took:?}");
    assert!(turned_away(error.unwrap_err()).0 > seconds(29));
}

/// Covers: B-09
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_handed_out_and_a_leased_one_waited_for_while_it_is_open() {
    let sim = servers(&["a"]);
    let config = exact(&["a"])
        .pool_size(3)
        .min_idle(1)
        .max_lifetime(seconds(86_400));
    let pool = full_floor(&sim, config).await;
    refuse(&sim.server("a"));
    let held = pool.get().await.unwrap();
    pool.get_timeout(seconds(20)).await.unwrap_err();
    assert_eq!(breaker(&pool).state, State::Open);
    // It is leased, so there is something to wait for.
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get_timeout(seconds(20)).await.map(Conn::discard) }
    });
    pass(seconds(2)).await;
    assert!(!waiting.is_finished());
    drop(held);
    waiting.await.unwrap().expect("the one that came back");
}

/// A pool whose floor of one connection is open and idle.
async fn full_floor(sim: &pgsteer_sim::Sim, config: pgsteer::Config) -> pgsteer::Pool {
    let pool = start(sim, config);
    until("the floor is open", || pool.status().idle == 1).await;
    pool
}

/// Covers: B-01
#[tokio::test(start_paused = true)]
async fn callers_wait_for_the_probe_and_one_that_goes_away_does_not_end_it() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"])).await;
    blackhole(&sim.server("a"));
    until("the probe is under way", || {
        breaker(&pool).state == State::HalfOpen
    })
    .await;
    let dialled = attempts(&sim, "a");
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(drop) }
    });
    for _ in 0..20 {
        let given_up = tokio::time::timeout(millis(10), pool.get()).await;
        assert!(given_up.is_err());
    }
    assert_eq!(attempts(&sim, "a"), dialled, "one opener, which is nobody's");
    start_again(&sim.server("a"));
    waiting.await.unwrap().expect("the probe's connection");
    assert_eq!(breaker(&pool).state, State::Closed);
    assert_eq!(
        attempts(&sim, "a"),
        dialled,
        "the probe's connection is the pool's"
    );
}

/// Covers: B-11
#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_doubles_the_window_up_to_the_cap() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"]).breaker_cap(seconds(4))).await;
    let mut windows = Vec::new();
    for trips in 1..=5 {
        until("the next window", || breaker(&pool).trips == trips).await;
        windows.push(
            breaker(&pool)
                .retry_after
                .expect("it is open")
                .as_secs_f64()
                .round() as u64,
        );
    }
    assert_eq!(windows, [1, 2, 4, 4, 4]);
    assert_eq!(attempts(&sim, "a"), 5 + 4, "one for each window that ended");
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_says_so_though_the_breaker_is_open() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"])).await;
    pool.close(seconds(1)).await;
    let error = pool.get().await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
}

/// Covers: B-16
#[tokio::test(start_paused = true)]
async fn a_pool_that_goes_while_it_is_open_or_half_open_leaves_no_task() {
    let before = tasks();
    for wanted in [State::Open, State::HalfOpen] {
        let sim = servers(&["a"]);
        let pool = tripped(&sim, exact(&["a"])).await;
        blackhole(&sim.server("a"));
        until("it is there", || breaker(&pool).state == wanted).await;
        drop(pool);
        until("all tasks have ended", || tasks() == before).await;
    }
}
