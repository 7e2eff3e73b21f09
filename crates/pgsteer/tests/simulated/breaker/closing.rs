//! What closes the breaker: its probe, and every other sign of life.

use pgsteer::health::State;
use pgsteer_sim::Login;

use super::{breaker, exact, servers, start_again, stop, tripped};
use crate::rig::*;

#[tokio::test(start_paused = true)]
async fn a_probe_of_a_refresh_that_finds_a_server_closes_it_and_the_pool_fills_at_once() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"]).breaker_base(seconds(60)).pool_size(1)).await;
    start_again(&sim.server("a"));
    pass(seconds(2)).await;
    assert_eq!(breaker(&pool).state, State::Open, "nobody has looked yet");
    pool.cluster().refresh();
    pass(millis(10)).await;
    drop(pool.get().await.expect("the pool has opened one"));
    assert_eq!(breaker(&pool).state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_lists_servers_closes_it() {
    let sim = three().build();
    sim.servers().iter().for_each(stop);
    let config = abc().breaker_jitter(0.0).breaker_base(seconds(60)).pool_size(3);
    let pool = start(&sim, config);
    until("it opens", || breaker(&pool).state == State::Open).await;
    sim.servers().iter().for_each(start_again);
    pool.cluster().refresh();
    until("it closes", || breaker(&pool).state == State::Closed).await;
    pool.ready(3, seconds(2)).await.expect("the pool fills");
}

/// What a refresh hears is worth as much as what the breaker's own probe hears.
#[tokio::test(start_paused = true)]
async fn a_probe_of_a_refresh_that_is_only_refused_closes_it_too() {
    for sqlstate in ["57P03", "53300", "28P01", "3D000", "57M02"] {
        let sim = servers(&["a"]);
        let pool = tripped(&sim, exact(&["a"]).breaker_base(seconds(60))).await;
        start_again(&sim.server("a"));
        sim.server("a").set_login(Login::fatal(sqlstate));
        pass(seconds(2)).await;
        assert_eq!(breaker(&pool).state, State::Open, "nobody has looked yet");
        pool.cluster().refresh();
        pass(millis(10)).await;
        assert_eq!(breaker(&pool).state, State::Closed, "{sqlstate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_discovery_whose_login_is_refused_closes_it() {
    let sim = three().build();
    sim.servers().iter().for_each(stop);
    // Longer than the test, so that failed hosts are not probed.
    let config = abc()
        .breaker_base(seconds(60))
        .failed_host_reconnect_delay_secs(60);
    let pool = start(&sim, config.pool_size(1));
    until("it opens", || breaker(&pool).state == State::Open).await;
    for server in sim.servers() {
        start_again(&server);
        server.set_login(Login::fatal("28P01"));
    }
    pool.cluster().refresh();
    until("it closes", || breaker(&pool).state == State::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn while_it_is_closed_a_refused_probe_neither_ends_the_streak_nor_adds_to_it() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let cluster = cluster(&sim, exact(&["a"])).await;
    for _ in 0..4 {
        cluster.connect().await.unwrap_err();
    }
    pass(seconds(2)).await;
    start_again(&sim.server("a"));
    sim.server("a").set_login(Login::fatal("53300"));
    cluster.refresh();
    pass(millis(10)).await;
    let now = cluster.breaker().expect("there is a breaker");
    assert_eq!((now.state, now.streak), (State::Closed, 4));
}

/// A server that answers is there. What it answers has a pace of its own.
#[tokio::test(start_paused = true)]
async fn a_probe_that_is_answered_closes_it_though_no_connection_came_of_it() {
    for (sqlstate, soon) in [("57P03", millis(500)), ("53300", seconds(2))] {
        let sim = servers(&["a"]);
        let pool = tripped(&sim, exact(&["a"])).await;
        start_again(&sim.server("a"));
        sim.server("a").set_login(Login::fatal(sqlstate));
        until("the probe is answered", || breaker(&pool).state == State::Closed).await;
        sim.server("a").set_login(Login::default());
        let (conn, took) = timed(pool.get()).await;
        drop(conn.unwrap_or_else(|error| panic!("{sqlstate}: {error}")));
        assert!(took <= soon, "{sqlstate}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_nobody_uses_dials_nothing_and_serves_the_first_who_comes_after_the_window() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let pool = start(&sim, exact(&["a"]).pool_size(4).min_idle(0));
    while breaker(&pool).state == State::Closed {
        pool.get().await.unwrap_err();
    }
    let dialled = attempts(&sim, "a");
    start_again(&sim.server("a"));
    // Less than to the next refresh, which would look.
    pass(seconds(200)).await;
    assert_eq!(attempts(&sim, "a"), dialled);
    assert_eq!(breaker(&pool).state, State::Open);
    drop(pool.get().await.expect("whoever comes is the probe"));
    assert_eq!(breaker(&pool).state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_next_one_begins_with_the_first_window() {
    let sim = servers(&["a"]);
    let pool = tripped(&sim, exact(&["a"])).await;
    until("some windows", || breaker(&pool).trips == 4).await;
    start_again(&sim.server("a"));
    until("it is back", || pool.status().idle == 1).await;
    stop(&sim.server("a"));
    until("it opens", || breaker(&pool).state == State::Open).await;
    assert_eq!(breaker(&pool).trips, 1);
}
