//! Names that come to mean another server: connections follow the name.

use pgsteer::config::TargetSessionAttrs;
use pgsteer_sim::{Resolution, ServerSpec, Sim};

use crate::rig::*;
use crate::roles::ordered;

/// Two servers and a name, `db`, for the first of them.
fn named() -> Sim {
    let sim = plain([ServerSpec::new("blue"), ServerSpec::new("green")]);
    point(&sim, &["10.0.0.1"]);
    sim
}

fn point(sim: &Sim, addresses: &[&str]) {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    sim.set_name("db", Resolution::Addresses(addresses));
}

fn by_name() -> pgsteer::Config {
    ordered(&["db"], TargetSessionAttrs::Any)
        .pool_size(6)
        .rebalance_interval(seconds(1))
        .yb_servers_refresh_interval(seconds(10))
}

fn live(sim: &Sim) -> (usize, usize) {
    (
        sim.server("blue").counts().live,
        sim.server("green").counts().live,
    )
}

/// Covers: F-19, Q-03
#[tokio::test(start_paused = true)]
async fn connections_to_an_address_that_a_name_no_longer_has_are_moved_a_batch_at_a_time() {
    let sim = named();
    let pool = full(&sim, by_name()).await;
    assert_eq!(live(&sim), (6, 0));
    point(&sim, &["10.0.0.2"]);
    let mut least = 6;
    within("they follow the name", seconds(25), || {
        least = least.min(pool.status().idle);
        live(&sim) == (0, 6)
    })
    .await;
    assert!(least >= 3, "a batch at a time: {least} idle");
    assert_eq!(pool.status().totals.moved, 6);
    pass(seconds(60)).await;
    assert_eq!(pool.status().totals.moved, 6, "nothing moves without a reason");
}

#[tokio::test(start_paused = true)]
async fn a_leased_connection_is_replaced_when_it_comes_back() {
    let sim = named();
    let pool = full(&sim, by_name().pool_size(1)).await;
    let held = pool.get().await.unwrap();
    point(&sim, &["10.0.0.2"]);
    pass(seconds(15)).await;
    assert_eq!(whoami(&held).await.0, "blue");
    drop(held);
    until("the next is where the name is", || live(&sim) == (0, 1)).await;
}

/// Covers: F-19
#[tokio::test(start_paused = true)]
async fn new_connections_go_where_the_name_is_at_once() {
    let sim = named();
    let cluster = cluster(&sim, by_name()).await;
    let _on_blue = open(&cluster, 1).await;
    point(&sim, &["10.0.0.2"]);
    let _on_green = open(&cluster, 1).await;
    assert_eq!(live(&sim), (1, 1));
}

/// Covers: F-02
#[tokio::test(start_paused = true)]
async fn a_name_that_gets_another_address_besides_or_does_not_resolve_moves_nothing() {
    let changes = [
        Resolution::Addresses(vec!["10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()]),
        Resolution::Unknown,
        Resolution::Fail(std::io::ErrorKind::TimedOut),
        Resolution::Hang,
        Resolution::Addresses(Vec::new()),
    ];
    for change in changes {
        let sim = named();
        let pool = full(&sim, by_name()).await;
        sim.set_name("db", change.clone());
        pass(seconds(60)).await;
        assert_eq!(
            (live(&sim), pool.status().totals.moved),
            ((6, 0), 0),
            "{change:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn connections_stay_where_they_are_if_that_is_wanted() {
    let sim = named();
    let pool = full(&sim, by_name().drain_stale_addresses(false)).await;
    point(&sim, &["10.0.0.2"]);
    pass(seconds(60)).await;
    assert_eq!(live(&sim), (6, 0));
    assert_eq!(pool.status().idle, 6);
}
