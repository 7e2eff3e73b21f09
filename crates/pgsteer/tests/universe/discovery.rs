//! What discovery learns while a pool runs: servers that leave, come and move, answers that make little sense, and a
//! `yb_servers()` that comes and goes.

use std::time::Duration;

use pgsteer::{Conn, Pool};
use pgsteer_testkit::{Row, Universe, YbServers};

use crate::rig::{
    LIMIT, QUICK, backend, backends, becomes, config_for, full_pool, key, keys, pool, rig, spread,
    spread_becomes, stays, three,
};

/// A discovery that began after this call has been answered when this returns.
async fn discovered_anew(pool: &Pool) {
    let report = || pool.cluster().snapshot().discovery;
    for _ in 0..2 {
        // The first may join a discovery that is running already.
        becomes(false, || report().running).await;
        let before = report();
        pool.cluster().refresh();
        becomes(true, || {
            let now = report();
            !now.running && (now.last_answer > before.last_answer || now.last_failure > before.last_failure)
        })
        .await;
    }
}

/// Covers: E-344
#[tokio::test(flavor = "multi_thread")]
async fn one_seed_leads_to_every_server_and_its_placement() {
    let universe = three().await;
    let config = config_for(&universe.server(0).address(), "load_balance=any&pool_size=6");
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    assert_eq!(spread(&pool, &universe), [2, 2, 2]);
    let snapshot = pool.cluster().snapshot();
    let zones: Vec<String> = snapshot
        .servers
        .iter()
        .map(|server| server.placement.to_string())
        .collect();
    assert_eq!(
        zones,
        [
            "gcp.us-east1.us-east1-b",
            "gcp.us-east1.us-east1-c",
            "gcp.us-east1.us-east1-d"
        ]
    );
    let found: Vec<_> = snapshot.servers.into_iter().map(|server| server.key).collect();
    assert_eq!(found, keys(&universe, &[0, 1, 2]));
}

/// Covers: E-193, E-269
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_longer_listed_is_drained_and_one_that_is_listed_again_gets_its_share() {
    let universe = three().await;
    let config = config_for(
        &universe.server(0).address(),
        &format!("load_balance=any&pool_size=6&{QUICK}"),
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    universe.forget(2);
    spread_becomes(&pool, &universe, &[3, 3, 0]).await;
    assert_eq!(pool.cluster().snapshot().allowed, keys(&universe, &[0, 1]));
    universe.recall(2);
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
}

/// Covers: E-271
#[tokio::test(flavor = "multi_thread")]
async fn a_leased_connection_on_a_server_that_left_is_closed_when_it_comes_back() {
    let universe = three().await;
    let config = config_for(
        &universe.server(0).address(),
        &format!("load_balance=any&pool_size=3&{QUICK}"),
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(3, LIMIT).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.get().await.unwrap());
    }
    universe.forget(2);
    becomes(1, || pool.status().draining).await;
    let gone = key(universe.server(2));
    let leaving = held.iter().find(|conn| *Conn::host(conn) == gone).unwrap();
    leaving.batch_execute("SELECT 1").await.unwrap();
    drop(held);
    becomes(true, || {
        let status = pool.status();
        (status.leased, status.draining, status.idle) == (0, 0, 3) && !status.by_host.contains_key(&gone)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moves_to_another_zone_loses_or_gains_its_connections() {
    let universe = three().await;
    let keys = "topology_keys=gcp.us-east1.us-east1-b:1,gcp.us-east1.us-east1-c:1";
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}&{keys}")).await;
    assert_eq!(spread(&pool, &universe), [3, 3, 0]);
    universe.set(0, "zone", "us-east1-x");
    spread_becomes(&pool, &universe, &[0, 6, 0]).await;
    universe.set(2, "zone", "US-EAST1-B");
    spread_becomes(&pool, &universe, &[0, 3, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_becomes_a_read_replica_loses_its_connections_under_only_primary() {
    let universe = three().await;
    let pool = full_pool(
        &universe,
        &format!("pool_size=6&load_balance=only-primary&{QUICK}"),
    )
    .await;
    universe.set(1, "node_type", "read_replica");
    spread_becomes(&pool, &universe, &[3, 0, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_gaps_duplicates_or_nonsense_costs_only_the_rows_that_make_none() {
    let universe = three().await;
    for index in 0..3 {
        universe.set(index, "public_ip", None);
        universe.set(index, "uuid", None);
    }
    let port = universe.server(0).port();
    universe.add_row(Row::new(universe.server(1).host(), port));
    universe.add_row(Row::new("127.0.0.9", port).with("host", None));
    universe.add_row(Row::new("127.0.0.9", port).with("host", ""));
    universe.add_row(Row::new("127.0.0.9", port).with("port", "0"));
    universe.add_row(Row::new("127.0.0.9", port).with("port", "70000"));
    universe.add_row(Row::new("127.0.0.9", port).with("port", "-5"));
    let pool = full_pool(
        &universe,
        &format!("pool_size=6&application_name=nonsense&{QUICK}"),
    )
    .await;
    assert_eq!(universe.spread("nonsense"), [2, 2, 2]);
    let found: Vec<_> = pool
        .cluster()
        .snapshot()
        .servers
        .into_iter()
        .map(|server| server.key)
        .collect();
    assert_eq!(found, keys(&universe, &[0, 1, 2]));
    let before = pool.status().totals;

    // Columns that are NULL, unknown or of no use leave a server that can be used.
    universe.remove_added_rows();
    universe.set(2, "node_type", "observer");
    universe.set(2, "zone", None);
    universe.set(1, "cloud", None);
    discovered_anew(&pool).await;
    stays(vec![2, 2, 2], Duration::from_millis(500), || {
        spread(&pool, &universe)
    })
    .await;
    assert_eq!(pool.status().totals, before, "nothing moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_and_a_failing_function_change_nothing_that_is_known() {
    let universe = three().await;
    let config = config_for(
        &universe.server(0).address(),
        &format!("load_balance=any&pool_size=6&{QUICK}"),
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    let before = pool.status().totals;
    universe.list_nothing(true);
    discovered_anew(&pool).await;
    universe.list_nothing(false);
    universe.set_yb_servers(YbServers::Fails("XX000".to_owned()));
    discovered_anew(&pool).await;
    let (_, reason) = pool.cluster().snapshot().discovery.last_failure.unwrap();
    assert!(reason.contains("XX000"), "{reason}");
    stays(vec![2, 2, 2], Duration::from_millis(500), || {
        spread(&pool, &universe)
    })
    .await;
    assert_eq!(pool.status().totals, before);
    assert_eq!(pool.cluster().snapshot().servers.len(), 3);
    universe.set_yb_servers(YbServers::WithUniverse);
    discovered_anew(&pool).await;
    assert!(pool.cluster().snapshot().discovery.last_failure.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_dropped_under_a_pool_moves_nothing_and_is_asked_for_again() {
    let universe = three().await;
    let config = config_for(
        &universe.server(0).address(),
        &format!("load_balance=any&pool_size=6&{QUICK}"),
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    let before = pool.status().totals;
    universe.set_yb_servers(YbServers::Missing);
    becomes(false, || pool.cluster().snapshot().discovering).await;
    stays(vec![2, 2, 2], Duration::from_millis(500), || {
        spread(&pool, &universe)
    })
    .await;
    assert_eq!(pool.status().totals, before);
    universe.forget(2);
    universe.set_yb_servers(YbServers::Works);
    becomes(true, || pool.cluster().snapshot().discovering).await;
    spread_becomes(&pool, &universe, &[3, 3, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_appears_later_turns_plain_servers_into_a_cluster() {
    let universe = three().await;
    universe.set_yb_servers(YbServers::Missing);
    let config = config_for(
        &universe.server(1).address(),
        &format!("load_balance=any&pool_size=6&{QUICK}"),
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    assert_eq!(spread(&pool, &universe), [0, 6, 0]);
    assert!(!pool.cluster().snapshot().discovering);
    universe.set_yb_servers(YbServers::Works);
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    assert!(pool.cluster().snapshot().discovered);
}

/// Covers: E-242
#[tokio::test(flavor = "multi_thread")]
async fn no_connection_goes_to_a_seed_just_because_discovery_takes_its_time() {
    let universe = rig(Universe::builder().servers(4)).await;
    universe.forget(3);
    universe.set_yb_servers(YbServers::Slow(Duration::from_millis(500)));
    let config = config_for(&universe.server(3).address(), "load_balance=any&pool_size=3");
    let pool = Pool::start(config).unwrap();
    // The first is alone until half a second has passed or it is open, and both take until discovery ends.
    becomes(1, || pool.status().opening).await;
    assert_eq!(pool.status().idle, 0);
    pool.ready(3, LIMIT).await.unwrap();
    assert_eq!(spread(&pool, &universe), [1, 1, 1, 0]);
    assert_eq!(
        universe.server(3).log().logins(pgsteer_testkit::USER),
        1,
        "discovery's own"
    );
}

/// Covers: E-192
#[tokio::test(flavor = "multi_thread")]
async fn while_discovery_has_never_worked_the_seeds_are_used_in_order() {
    let universe = three().await;
    universe.set_yb_servers(YbServers::Fails("XX000".to_owned()));
    let pool = full_pool(&universe, &format!("pool_size=4&load_balance=only-rr&{QUICK}")).await;
    assert_eq!(spread(&pool, &universe), [4, 0, 0]);
    assert!(!pool.cluster().snapshot().discovered);
    universe.set_yb_servers(YbServers::Works);
    for index in 1..3 {
        universe.set(index, "node_type", "read_replica");
    }
    spread_becomes(&pool, &universe, &[0, 2, 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_reached_by_their_public_address_are_used_by_it() {
    let builder = Universe::builder().servers(3);
    let builder = (0..3).fold(builder, |builder, index| {
        builder.configure(index, |spec| spec.public_ip(&format!("127.0.0.{}", 21 + index)))
    });
    let universe = rig(builder).await;
    let port = universe.server(0).port();
    let config = config_for(
        &format!("127.0.0.22:{port}"),
        "load_balance=any&pool_size=3&application_name=public",
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(3, LIMIT).await.unwrap();
    let hosts: Vec<String> = pool.status().by_host.keys().map(ToString::to_string).collect();
    let wanted = [21, 22, 23].map(|last| format!("127.0.0.{last}:{port}"));
    assert_eq!(hosts, wanted);
    assert_eq!(universe.spread("public"), [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_on_ports_of_their_own_are_told_apart() {
    let universe = rig(Universe::builder().servers(3).different_ports()).await;
    let config = config_for(
        &universe.server(2).address(),
        "load_balance=any&pool_size=6&application_name=ports",
    );
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    assert_eq!(universe.spread("ports"), [2, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_leaves_connections_in_use_alone() {
    let universe = three().await;
    let pool = pool(
        &universe,
        &format!("pool_size=3&application_name=left-alone&{QUICK}"),
    );
    pool.ready(3, LIMIT).await.unwrap();
    let before = backends(&universe, "left-alone");
    let held = pool.get().await.unwrap();
    let process = backend(&held).await;
    for _ in 0..3 {
        discovered_anew(&pool).await;
    }
    assert_eq!(backend(&held).await, process);
    becomes(before, || backends(&universe, "left-alone")).await;
}
