//! Servers that accept and never answer: what they may hold up, and for how long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pgsteer::{Conn, Error, FailureKind};
use pgsteer_testkit::Universe;

use crate::load::Load;
use crate::rig::{QUICK, becomes, cluster, full_pool, key, rig, soon, spread_becomes, three};

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_holds_up_each_open_for_connect_timeout_and_no_checkout() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&connect_timeout=2s&{QUICK}")).await;
    let frozen = key(universe.server(1));
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.get().await.unwrap());
    }
    universe.server(1).freeze();
    let (there, others): (Vec<Conn>, Vec<Conn>) =
        held.into_iter().partition(|conn| *Conn::host(conn) == frozen);
    there.into_iter().for_each(Conn::discard);
    drop(others);

    let load = Load::start(&pool, 8);
    spread_becomes(&pool, &universe, &[3, 0, 3]).await;
    load.goes_on(100).await;
    let failure = pool.cluster().snapshot().failures[&frozen].clone();
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(
        failure.reason.contains("did not answer the request for TLS"),
        "{}",
        failure.reason
    );

    universe.server(1).thaw();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    let longest = load.longest_checkout();
    assert!(longest < Duration::from_secs(5), "a checkout took {longest:?}");
    assert_eq!(load.end().await, BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_left_busy_on_a_frozen_server_is_cut_and_replaced_elsewhere() {
    let universe = rig(Universe::builder().servers(2)).await;
    let options = "pool_size=2&connect_timeout=2s&return_cancel_after=100ms&return_timeout=1s";
    let pool = full_pool(&universe, options).await;
    let frozen = key(universe.server(1));
    let (first, second) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let conn = if *Conn::host(&first) == frozen {
        first
    } else {
        second
    };
    universe.server(1).freeze();
    let asked = tokio::time::timeout(Duration::from_millis(50), conn.batch_execute("SELECT 1"));
    assert!(asked.await.is_err());
    drop(conn);
    spread_becomes(&pool, &universe, &[2, 0]).await;
    assert_eq!(pool.status().totals.cut, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_a_frozen_server_closes_by_its_deadline() {
    let universe = rig(Universe::builder().servers(2)).await;
    let pool = full_pool(&universe, "pool_size=4").await;
    universe.server(1).freeze();
    let closed = pool.close(Duration::from_millis(500)).await;
    assert_eq!(closed.still_out, 0, "nobody held any");
    assert!(closed.took < Duration::from_secs(5), "{closed:?}");
    becomes((0, 0), || (pool.status().idle, pool.status().closing)).await;
    becomes(0, || pool.cluster().snapshot().counts.values().sum::<u32>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_on_a_frozen_server_ends_within_connect_timeout() {
    let universe = rig(Universe::builder().servers(2)).await;
    universe.server(0).freeze();
    universe.server(1).freeze();
    let cluster = cluster(&universe, "load_balance=false&connect_timeout=700ms");
    let started = Instant::now();
    let Err(Error::Connect(failed)) = soon(cluster.connect()).await else {
        panic!("frozen servers were connected to")
    };
    let took = started.elapsed();
    assert_eq!(failed.tried.len(), 2, "{failed}");
    for tried in &failed.tried {
        assert!(
            tried.age >= Duration::from_millis(690),
            "{tried} gave up after {:?}",
            tried.age
        );
    }
    let both = failed.tried.iter().map(|tried| tried.age).sum::<Duration>();
    assert!(both <= took && both < Duration::from_secs(7), "{failed}");
}

/// One caller meets it; the other connections there are given up before anybody else does.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_to_a_frozen_server_are_given_up_once_one_caller_has_met_it() {
    let universe = rig(Universe::builder().servers(2)).await;
    let options = "pool_size=6&connect_timeout=1s&stall_timeout=500ms";
    let pool = full_pool(&universe, options).await;
    let frozen = key(universe.server(1));
    let mut held = Vec::new();
    while held.last().map(Conn::host) != Some(&frozen) {
        held.push(pool.get().await.unwrap());
    }
    let conn = held.pop().unwrap();
    drop(held);
    universe.server(1).freeze();
    conn.batch_execute("SELECT 1").await.unwrap_err();
    drop(conn);
    spread_becomes(&pool, &universe, &[6, 0]).await;
    assert_eq!(pool.status().totals.closes.frozen, 2);
    assert_eq!(
        pool.cluster().snapshot().frozen.keys().collect::<Vec<_>>(),
        [&frozen]
    );
    universe.server(1).thaw();
}
