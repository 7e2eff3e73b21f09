//! Connections move to where they belong, a batch at a time, and only there; a mere failure moves nothing.

use pgsteer::config::LoadBalance;
use pgsteer::{Conn, Pool};
use pgsteer_sim::{Death, Login, Sim};

use crate::rig::*;

/// Covers: E-260
#[tokio::test(start_paused = true)]
async fn connections_even_out_over_a_host_that_is_found_back() {
    let sim = three().build();
    refuse(&sim.server("a"));
    let pool = full(&sim, abc().pool_size(6).yb_servers_refresh_interval(seconds(1))).await;
    assert_eq!(placed(&pool.status()), "b:3 c:3");
    serve(&sim.server("a"));
    within("they are even", seconds(8), || {
        placed(&pool.status()) == "a:2 b:2 c:2"
    })
    .await;
    assert_eq!(pool.status().totals.moved, 2, "no more than needed");
}

/// Covers: E-261
#[tokio::test(start_paused = true)]
async fn nothing_moves_towards_a_host_that_is_down() {
    let sim = three().build();
    refuse(&sim.server("a"));
    let pool = full(&sim, abc().pool_size(6).failed_host_reconnect_delay_secs(30)).await;
    assert_eq!(placed(&pool.status()), "b:3 c:3");
    let snapshot = pool.cluster().snapshot();
    assert!(snapshot.allowed.contains(&key("a")));
    assert_eq!(names(&snapshot.failed()), ["a"]);
    let before = sessions(&sim);
    pass(millis(650)).await;
    assert_eq!(sessions(&sim), before);
}

async fn only_the_seed_in_reach(size: u32) -> (Sim, Pool) {
    let sim = behind_lb();
    ["a", "b", "c"]
        .iter()
        .for_each(|name| blackhole(&sim.server(name)));
    let pool = full(&sim, config(&["lb"]).connect_timeout(millis(300)).pool_size(size)).await;
    within("the servers are known to be out of reach", seconds(5), || {
        sorted(&pool.cluster().snapshot().failed()) == ["a", "b", "c"]
    })
    .await;
    (sim, pool)
}

/// Covers: E-264
#[tokio::test(start_paused = true)]
async fn a_pool_that_reaches_only_the_seed_settles_there() {
    let (sim, pool) = only_the_seed_in_reach(4).await;
    assert_eq!(placed(&pool.status()), "lb:4");
    let before = sessions(&sim);
    let tries = ["a", "b", "c"].map(|name| attempts(&sim, name));
    pass(seconds(3)).await;
    assert_eq!(sessions(&sim), before);
    assert_eq!(["a", "b", "c"].map(|name| attempts(&sim, name)), tries);
}

/// Covers: E-265
#[tokio::test(start_paused = true)]
async fn a_pool_on_the_seed_goes_on_serving_without_trying_the_servers() {
    let (sim, pool) = only_the_seed_in_reach(1).await;
    let tries = ["a", "b", "c"].map(|name| attempts(&sim, name));
    pass(millis(1200)).await;
    for _ in 0..5 {
        let (conn, took) = timed(pool.get()).await;
        let conn = conn.unwrap();
        assert!(took < millis(250) && Conn::host(&conn).name() == "lb", "{took:?}");
        Conn::discard(conn);
    }
    assert_eq!(Conn::host(&pool.get().await.unwrap()).name(), "lb");
    assert_eq!(["a", "b", "c"].map(|name| attempts(&sim, name)), tries);
}

/// Covers: E-267
#[tokio::test(start_paused = true)]
async fn without_discovery_connections_return_to_the_first_host_a_batch_at_a_look() {
    let sim = three().build();
    let config = abc()
        .load_balance(LoadBalance::Off)
        .pool_size(4)
        .rebalance_batch(2)
        .rebalance_interval(seconds(10_000))
        .yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config).await;
    assert_eq!(placed(&pool.status()), "a:4");
    sim.server("a").kill(Death::Fin);
    until("all are on b", || placed(&pool.status()) == "b:4").await;
    for _ in 0..3 {
        pool.rebalance();
        pass(millis(50)).await;
        assert_eq!(placed(&pool.status()), "b:4");
    }
    assert_eq!(attempts(&sim, "c"), 0);
    sim.server("a").start();
    until("a is found back", || {
        pool.cluster().snapshot().failures.is_empty()
    })
    .await;
    assert_eq!(placed(&pool.status()), "b:4", "nothing moves before a look");
    pool.rebalance();
    pass(millis(50)).await;
    assert_eq!(placed(&pool.status()), "a:2 b:2");
    pool.rebalance();
    pass(millis(50)).await;
    assert_eq!(placed(&pool.status()), "a:4");
}

/// Covers: E-268
#[tokio::test(start_paused = true)]
async fn connections_move_to_the_near_zone_only_once_it_takes_them() {
    let sim = behind_lb();
    sim.server("a").set_login(Login::fatal("53300"));
    let config = config(&["lb"])
        .topology_keys(NEAR_A)
        .pool_size(4)
        .yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config).await;
    assert_eq!(placed(&pool.status()), "b:2 c:2");
    assert_eq!(names(&pool.cluster().snapshot().rejected()), ["a"]);
    let (before, tries) = (sessions(&sim), attempts(&sim, "a"));
    pass(millis(2500)).await;
    assert_eq!(sessions(&sim), before);
    assert!(attempts(&sim, "a") > tries, "it was probed");
    sim.server("a").set_login(Login::Work);
    until("all are on a", || placed(&pool.status()) == "a:4").await;
}

/// Covers: E-269
#[tokio::test(start_paused = true)]
async fn connections_leave_a_server_that_is_no_longer_listed() {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).pool_size(6)).await;
    sim.server("c").unlist();
    pool.cluster().refresh();
    until("they have moved", || {
        placed(&pool.status()) == "a:3 b:3" && pool.status().idle == 6
    })
    .await;
    assert!(sim.server("c").sessions().is_empty());
}

/// Covers: E-271
#[tokio::test(start_paused = true)]
async fn leased_connections_to_a_server_no_longer_listed_go_when_they_come_back() {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).pool_size(3)).await;
    let held = [
        pool.get().await.unwrap(),
        pool.get().await.unwrap(),
        pool.get().await.unwrap(),
    ];
    sim.server("c").unlist();
    pool.cluster().refresh();
    until("one is marked", || pool.status().draining == 1).await;
    for conn in &held {
        conn.batch_execute("SELECT 1")
            .await
            .expect("the holder is not disturbed");
    }
    pass(millis(1)).await;
    drop(held);
    until("it is replaced elsewhere", || pool.status().idle == 3).await;
    let status = pool.status();
    assert_eq!((status.leased, status.draining), (0, 0));
    assert!(!status.by_host.contains_key(&key("c")));
}

/// A mark lapses when its reason does.
#[tokio::test(start_paused = true)]
async fn a_leased_connection_may_stay_if_its_server_is_listed_again_in_time() {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).pool_size(3)).await;
    let before = sessions(&sim);
    let held = [
        pool.get().await.unwrap(),
        pool.get().await.unwrap(),
        pool.get().await.unwrap(),
    ];
    sim.server("c").unlist();
    pool.cluster().refresh();
    until("one is marked", || pool.status().draining == 1).await;
    sim.server("c").list();
    pool.cluster().refresh();
    until("the mark is gone", || pool.status().draining == 0).await;
    drop(held);
    pass(seconds(2)).await;
    assert_eq!(sessions(&sim), before);
}

/// A pool whose every connection is in use moves as well, as they come back.
#[tokio::test(start_paused = true)]
async fn a_pool_in_full_use_comes_home_too() {
    let sim = three().build();
    let config = abc()
        .topology_keys("gcp.us-east1.us-east1-b:1")
        .pool_size(6)
        .yb_servers_refresh_interval(seconds(1));
    refuse(&sim.server("a"));
    let pool = full(&sim, config).await;
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let pool = pool.clone();
        users.spawn(async move {
            loop {
                pool.batch_execute("SELECT pg_sleep(0.05)").await.unwrap();
            }
        });
    }
    pass(seconds(5)).await;
    serve(&sim.server("a"));
    within("all are on a", seconds(20), || placed(&pool.status()) == "a:6").await;
    assert_eq!(users.try_join_next().map(drop), None, "and nobody noticed");
    users.shutdown().await;
}
