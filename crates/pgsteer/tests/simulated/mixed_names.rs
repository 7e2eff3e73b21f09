//! A name behind which there are several servers of different roles: an address for every node.

use pgsteer::config::TargetSessionAttrs::{self, PreferStandby, ReadWrite, Standby};
use pgsteer_sim::{Death, Resolution, ServerSpec, Sim};

use crate::log_lines::Lines;
use crate::rig::*;
use crate::roles::ordered;

/// A standby and a primary behind the name `db`, the standby's address first.
fn named() -> Sim {
    let sim = plain([ServerSpec::new("standby").standby(), ServerSpec::new("primary")]);
    let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    sim.set_name("db", Resolution::Addresses(addresses.to_vec()));
    sim
}

fn for_target(target: TargetSessionAttrs) -> pgsteer::Config {
    ordered(&["db"], target)
        .pool_size(4)
        .yb_servers_refresh_interval(seconds(10))
}

fn live(sim: &Sim) -> (usize, usize) {
    (
        sim.server("standby").counts().live,
        sim.server("primary").counts().live,
    )
}

#[tokio::test(start_paused = true)]
async fn the_address_that_suits_is_found_behind_the_name() {
    for (target, expected) in [(ReadWrite, (0, 4)), (Standby, (4, 0)), (PreferStandby, (4, 0))] {
        let sim = named();
        let _pool = full(&sim, for_target(target)).await;
        assert_eq!(live(&sim), expected, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_pools_of_different_targets_do_not_close_each_others_connections() {
    let sim = named();
    let writes = full(&sim, for_target(ReadWrite)).await;
    let reads = writes.with_target(Standby).unwrap();
    reads.ready(4, seconds(5)).await.unwrap();
    // new connections and refreshes meet both servers again and again
    for _ in 0..10 {
        pass(seconds(30)).await;
        drop(reads.get().await.unwrap());
        drop(writes.get().await.unwrap());
    }
    let opened = |pool: &pgsteer::Pool| pool.status().totals.opened;
    assert_eq!(
        (opened(&writes), opened(&reads)),
        (4, 4),
        "none had to be replaced"
    );
    assert_eq!(live(&sim), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_dies_behind_the_name_is_followed_to_the_standby_that_is_promoted() {
    let sim = named();
    let pool = full(&sim, for_target(ReadWrite)).await;
    sim.server("primary").kill(Death::Rst);
    pass(millis(500)).await;
    sim.server("standby").promote();
    let (conn, took) = timed(pool.get()).await;
    drop(conn.unwrap());
    assert!(took <= seconds(2), "{took:?}");
    assert_eq!(live(&sim).1, 0);
}

#[tokio::test(start_paused = true)]
async fn when_no_address_suits_the_error_says_what_the_name_is() {
    let sim = plain([ServerSpec::new("one").standby(), ServerSpec::new("two").standby()]);
    let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    sim.set_name("db", Resolution::Addresses(addresses.to_vec()));
    let pool = start(&sim, for_target(ReadWrite).checkout_timeout(seconds(1)));
    let error = pool.get().await.unwrap_err();
    assert!(tried(&error).contains("db"), "{error}");
    assert!(error.to_string().contains("standby"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn people_are_told_that_the_name_is_of_different_servers() {
    let lines = Lines::listen();
    let sim = named();
    let writes = full(&sim, for_target(ReadWrite)).await;
    let reads = writes.with_target(Standby).unwrap();
    reads.ready(4, seconds(5)).await.unwrap();
    pass(seconds(60)).await;
    let told = lines.seen();
    let told = told
        .iter()
        .filter(|line| line.contains("servers of different roles"));
    assert_eq!(told.count(), 1);
}
