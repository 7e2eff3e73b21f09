//! What opens the breaker, and what never does.

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::health::State;
use pgsteer::{Cluster, Error, Pool};
use pgsteer_sim::{Login, ServerSpec, Sim};

use super::{breaker, exact, servers, state, stop, tripped};
use crate::rig::*;

/// Covers: B-09
#[tokio::test(start_paused = true)]
async fn it_opens_after_five_passes_that_met_nobody() {
    let sim = servers(&["a", "b"]);
    sim.servers().iter().for_each(stop);
    let pool = start(&sim, exact(&["a", "b"]).pool_size(1));
    pass(millis(3_900)).await;
    assert_eq!((breaker(&pool).state, breaker(&pool).streak), (State::Closed, 4));
    pass(millis(200)).await;
    let now = breaker(&pool);
    assert_eq!((now.state, now.trips), (State::Open, 1));
    assert_eq!((pool.status().totals.open_failures, attempts(&sim, "a")), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn the_threshold_is_an_option() {
    for threshold in [1, 2, 7] {
        let sim = servers(&["a"]);
        let pool = tripped(&sim, exact(&["a"]).breaker_threshold(threshold)).await;
        assert_eq!(attempts(&sim, "a"), u64::from(threshold), "{threshold}");
        assert_eq!(breaker(&pool).trips, 1, "{threshold}");
    }
}

/// Covers: B-17
#[tokio::test(start_paused = true)]
async fn with_a_threshold_of_zero_there_is_no_breaker_and_a_pass_a_second_for_ever() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let pool = start(&sim, exact(&["a"]).pool_size(1).breaker_threshold(0));
    pass(millis(59_900)).await;
    assert_eq!(attempts(&sim, "a"), 60);
    assert!(pool.status().breaker.is_none() && pool.cluster().breaker().is_none());
    let error = pool.get().await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
}

/// Covers: B-08, B-09
#[tokio::test(start_paused = true)]
async fn one_dead_host_of_three_never_opens_it_in_ten_thousand_passes() {
    let sim = servers(&["a", "b", "c"]);
    stop(&sim.server("a"));
    let cluster = cluster(&sim, exact(&["a", "b", "c"]).failed_host_reconnect_delay_secs(0)).await;
    for _ in 0..10_000 {
        cluster.connect().await.expect("b and c serve");
        let now = cluster.breaker().expect("there is a breaker");
        assert_eq!((now.state, now.streak), (State::Closed, 0));
    }
    assert!(attempts(&sim, "a") > 0);
}

/// What the servers answer, and what they are.
type Answer = (&'static str, fn(&Sim), TargetSessionAttrs);

/// Covers: B-10
#[tokio::test(start_paused = true)]
async fn servers_that_answer_whatever_they_answer_never_open_it() {
    fn login(sim: &Sim, sqlstate: &str) {
        for server in sim.servers() {
            server.set_login(Login::fatal(sqlstate));
        }
    }
    let rows: [Answer; 7] = [
        (
            "wrong password",
            |sim| login(sim, "28P01"),
            TargetSessionAttrs::Any,
        ),
        (
            "no such database",
            |sim| login(sim, "3D000"),
            TargetSessionAttrs::Any,
        ),
        ("full", |sim| login(sim, "53300"), TargetSessionAttrs::Any),
        (
            "cold standbys",
            |sim| login(sim, "57M02"),
            TargetSessionAttrs::Any,
        ),
        ("starting up", |sim| login(sim, "57P03"), TargetSessionAttrs::Any),
        (
            "only standbys",
            |sim| sim.servers().iter().for_each(pgsteer_sim::Server::demote),
            TargetSessionAttrs::ReadWrite,
        ),
        (
            "one is down and the other is a standby",
            |sim| {
                stop(&sim.server("a"));
                sim.server("b").demote();
            },
            TargetSessionAttrs::ReadWrite,
        ),
    ];
    for (name, act, target) in rows {
        let sim = plain([ServerSpec::new("a"), ServerSpec::new("b")]);
        act(&sim);
        let pool = start(&sim, exact(&["a", "b"]).pool_size(3).target_session_attrs(target));
        for _ in 0..600 {
            let _ = pool.get_timeout(seconds(1)).await;
            pass(millis(100)).await;
            assert_eq!(breaker(&pool).state, State::Closed, "{name}");
        }
        assert!(attempts(&sim, "b") > 5, "{name}: {} passes", attempts(&sim, "b"));
    }
}

/// Servers that the mode rules out are not asked, so nothing is known of the cluster; and those it wants rest anyway.
#[tokio::test(start_paused = true)]
async fn a_mode_that_allows_none_of_those_that_work_does_not_open_it() {
    let sim = three().server(in_zone("r", "us-east1-b").read_replica()).build();
    let config = abc()
        .load_balance(LoadBalance::OnlyReplica)
        .yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config.pool_size(2)).await;
    stop(&sim.server("r"));
    for _ in 0..60 {
        pass(seconds(1)).await;
        let error = pool.get().await.unwrap_err();
        assert!(matches!(error, Error::NoNode(_) | Error::Connect(_)), "{error}");
        assert_eq!(breaker(&pool).state, State::Closed);
    }
    super::start_again(&sim.server("r"));
    pool.ready(2, seconds(5)).await.expect("the replica is back");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_succeeds_ends_the_streak() {
    let sim = servers(&["a"]);
    let cluster = cluster(&sim, exact(&["a"])).await;
    for _ in 0..3 {
        stop(&sim.server("a"));
        for _ in 0..4 {
            cluster.connect().await.unwrap_err();
        }
        super::start_again(&sim.server("a"));
        cluster.connect().await.expect("it is back");
    }
    assert_eq!(state(&cluster), State::Closed);
}

/// A crowd of opens that meet one hiccup together is five passes by definition; it costs one window.
///
/// Covers: B-07
#[tokio::test(start_paused = true)]
async fn opens_in_flight_that_meet_one_hiccup_open_it_for_one_window() {
    let sim = servers(&["a"]);
    let pool = full(&sim, exact(&["a"]).pool_size(8)).await;
    stop(&sim.server("a"));
    pass(millis(100)).await;
    super::start_again(&sim.server("a"));
    assert_eq!((breaker(&pool).state, breaker(&pool).trips), (State::Open, 1));
    let (ready, took) = timed(pool.ready(8, seconds(5))).await;
    ready.expect("it recovers");
    assert!(took <= seconds(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn connects_through_the_cluster_count_and_are_refused_like_a_pools() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let cluster = cluster(&sim, exact(&["a"])).await;
    for _ in 0..5 {
        let error = cluster.connect().await.unwrap_err();
        assert!(matches!(error, Error::Connect(_)), "{error}");
    }
    let (retry_after, _) = super::turned_away(cluster.connect().await.unwrap_err());
    assert_eq!((retry_after, attempts(&sim, "a")), (seconds(1), 5));
}

/// A crowd of two that was let through before it opened.
async fn under_way(sim: &Sim, cluster: &Cluster) -> tokio::task::JoinSet<Result<(), Error>> {
    sim.server("a").set_connect_latency(seconds(3));
    let mut connects = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let cluster = cluster.clone();
        connects.spawn(async move { cluster.connect().await.map(drop) });
    }
    until("both are dialling", || attempts(sim, "a") == 2).await;
    sim.server("a").set_connect_latency(seconds(0));
    connects
}

/// Covers: B-05
#[tokio::test(start_paused = true)]
async fn passes_that_began_before_it_opened_and_fail_after_it_change_nothing() {
    let sim = servers(&["a"]);
    let cluster = cluster(&sim, exact(&["a"]).breaker_base(seconds(30))).await;
    let mut late = under_way(&sim, &cluster).await;
    refuse(&sim.server("a"));
    for _ in 0..5 {
        cluster.connect().await.unwrap_err();
    }
    let opened = cluster.breaker().expect("there is a breaker");
    while let Some(ended) = late.join_next().await {
        assert!(matches!(ended.unwrap(), Err(Error::Connect(_))));
    }
    let now = cluster.breaker().expect("there is a breaker");
    assert_eq!((now.state, now.trips, now.outages), (State::Open, 1, 1));
    let left = |status: &pgsteer::BreakerStatus| status.retry_after.expect("it is open");
    assert!(left(&now) < left(&opened) - seconds(2), "{:?}", left(&now));
}

/// Its connection is somebody's all the same; only the window is not cut short by it.
///
/// Covers: B-05
#[tokio::test(start_paused = true)]
async fn a_pass_that_began_before_it_opened_and_succeeds_after_it_serves_its_caller_and_leaves_it_open() {
    let sim = servers(&["a"]);
    let config = exact(&["a"]).breaker_base(seconds(30));
    let cluster = cluster(&sim, config.clone()).await;
    let pool = Pool::start_on(&cluster, config.pool_size(1).min_idle(0)).unwrap();
    sim.server("a").set_connect_latency(seconds(3));
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(drop) }
    });
    until("the pool is dialling", || attempts(&sim, "a") == 1).await;
    sim.server("a").set_connect_latency(seconds(0));
    refuse(&sim.server("a"));
    for _ in 0..5 {
        cluster.connect().await.unwrap_err();
    }
    assert_eq!(state(&cluster), State::Open);
    super::start_again(&sim.server("a"));
    waiting.await.unwrap().expect("it was dialled before");
    assert_eq!(state(&cluster), State::Open);
    drop(pool.get().await.expect("what is open is handed out"));
    super::turned_away(cluster.connect().await.unwrap_err());
}

/// Three hosts take thrice as long as one; a lease that did not know would let a second probe through.
#[tokio::test(start_paused = true)]
async fn a_probe_that_goes_over_many_silent_hosts_is_alone_to_its_end() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let sim = servers(&names);
    sim.servers().iter().for_each(stop);
    let cluster = cluster(&sim, exact(&names).connect_timeout(seconds(2))).await;
    for _ in 0..5 {
        cluster.connect().await.unwrap_err();
    }
    sim.servers().iter().for_each(blackhole);
    pass(seconds(1)).await;
    let probe = tokio::spawn({
        let cluster = cluster.clone();
        async move { timed(cluster.connect()).await }
    });
    pass(millis(1)).await;
    while !probe.is_finished() {
        assert_eq!(state(&cluster), State::HalfOpen);
        super::turned_away(cluster.connect().await.unwrap_err());
        pass(millis(100)).await;
    }
    let (ended, took) = probe.await.unwrap();
    assert!(matches!(ended, Err(Error::Connect(_))), "{ended:?}");
    assert_eq!(took, seconds(12));
    let now = cluster.breaker().expect("there is a breaker");
    assert_eq!((now.state, now.trips), (State::Open, 2), "its outcome counted");
}

/// Whoever asks at the end of a window is the probe, and a caller that goes away does not leave the breaker waiting.
///
/// Covers: B-01
#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_while_it_is_the_probe_costs_a_window_and_no_more() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let cluster: Cluster = cluster(&sim, exact(&["a"])).await;
    for _ in 0..5 {
        cluster.connect().await.unwrap_err();
    }
    pass(seconds(1)).await;
    blackhole(&sim.server("a"));
    let given_up = tokio::time::timeout(millis(500), cluster.connect()).await;
    assert!(given_up.is_err());
    let now = cluster.breaker().expect("there is a breaker");
    assert_eq!((now.state, now.trips), (State::Open, 1), "the same window again");
    assert_eq!(now.retry_after, Some(seconds(1)));
    super::start_again(&sim.server("a"));
    pass(seconds(1)).await;
    cluster.connect().await.expect("the next probe");
    assert_eq!(state(&cluster), State::Closed);
}
