//! While nothing fits, servers that answered are asked again on connections that are kept for that.

use pgsteer::config::TargetSessionAttrs::ReadWrite;
use pgsteer::{Conn, Pool};
use pgsteer_sim::{Death, Sim};
use tokio::time::Instant;

use crate::rig::*;
use crate::roles::{ALL, ordered, primary_and_standbys};

/// A pool for writes whose primary has just died, with a caller that waits.
async fn orphaned(sim: &Sim) -> (Pool, tokio::task::JoinHandle<String>) {
    let pool = full(sim, ordered(&ALL, ReadWrite).pool_size(2)).await;
    sim.server("pg1").kill(Death::Rst);
    pass(millis(5)).await;
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move {
            let conn = pool.get_timeout(seconds(3600)).await.unwrap();
            Conn::host(&conn).name().to_owned()
        }
    });
    (pool, waiting)
}

fn sessions_on_standbys(sim: &Sim) -> (usize, usize) {
    (sim.server("pg2").counts().live, sim.server("pg3").counts().live)
}

#[tokio::test(start_paused = true)]
async fn a_promotion_is_seen_at_once_however_long_it_took() {
    for outage in [millis(300), seconds(7), seconds(61), seconds(900)] {
        let sim = primary_and_standbys();
        let (_pool, waiting) = orphaned(&sim).await;
        pass(outage).await;
        let promoted = Instant::now();
        sim.server("pg3").promote();
        assert_eq!(waiting.await.unwrap(), "pg3", "{outage:?}");
        let took = promoted.elapsed();
        assert!(took <= millis(250), "after {outage:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_standby_has_one_lookout_however_long_nothing_fits() {
    let sim = primary_and_standbys();
    let (_pool, _waiting) = orphaned(&sim).await;
    for _ in 0..60 {
        pass(millis(997)).await;
        assert_eq!(sessions_on_standbys(&sim), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn pools_of_one_cluster_share_their_lookouts() {
    let sim = primary_and_standbys();
    let (pool, _waiting) = orphaned(&sim).await;
    let other = pool.with_target(ReadWrite).unwrap();
    pass(seconds(20)).await;
    assert!(other.try_get().is_none());
    assert_eq!(sessions_on_standbys(&sim), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_lookouts_are_over_when_something_fits_again() {
    let sim = primary_and_standbys();
    let (pool, waiting) = orphaned(&sim).await;
    pass(seconds(3)).await;
    sim.server("pg2").promote();
    waiting.await.unwrap();
    pool.ready(2, seconds(5)).await.unwrap();
    within("only the pool's own are left", seconds(10), || {
        sessions_on_standbys(&sim) == (2, 0)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_leaves_no_lookout() {
    let sim = primary_and_standbys();
    let (pool, waiting) = orphaned(&sim).await;
    pass(seconds(3)).await;
    waiting.abort();
    pool.close(seconds(1)).await;
    until("none is left", || sessions_on_standbys(&sim) == (0, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_under_its_lookout_is_dialled_again_when_it_is_back() {
    let sim = primary_and_standbys();
    let (_pool, waiting) = orphaned(&sim).await;
    pass(seconds(3)).await;
    sim.server("pg2").kill(Death::Rst);
    pass(seconds(30)).await;
    sim.server("pg2").start();
    sim.server("pg2").promote();
    let back = Instant::now();
    assert_eq!(waiting.await.unwrap(), "pg2");
    assert!(back.elapsed() <= millis(2100), "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_search_that_succeeds_keeps_no_connection_to_those_it_passed_over() {
    let sim = primary_and_standbys();
    let hosts = ["pg3", "pg2", "pg1"];
    let pool = full(&sim, ordered(&hosts, ReadWrite).pool_size(2)).await;
    until("those passed over are closed", || {
        sessions_on_standbys(&sim) == (0, 0)
    })
    .await;
    assert_eq!(pool.status().idle, 2);
}
