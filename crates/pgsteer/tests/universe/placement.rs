//! Where a pool's connections go: evenly over the servers, by topology level, by node type.

use pgsteer::{Conn, Error, Pool, Refused};
use pgsteer_testkit::{Server, Universe};

use crate::rig::{
    LIMIT, QUICK, Rig, becomes, full_pool, get_in_the_end, key, pool, rig, spread, spread_becomes, three,
};

/// Two primaries and a read replica.
async fn with_replica() -> Rig {
    rig(Universe::builder()
        .servers(3)
        .configure(2, |spec| spec.read_replica()))
    .await
}

/// Covers: E-241, E-345
#[tokio::test(flavor = "multi_thread")]
async fn thirty_connections_opened_at_once_spread_evenly() {
    let universe = three().await;
    let pool = pool(&universe, "pool_size=30&application_name=spread");
    pool.ready(30, LIMIT).await.unwrap();
    assert_eq!(universe.spread("spread"), [10, 10, 10]);
    assert_eq!(spread(&pool, &universe), [10, 10, 10]);
    assert_eq!(pool.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    assert_eq!(pool.close(LIMIT).await.still_out, 0);
    assert_eq!(universe.spread("spread"), [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_connections_opened_one_by_one_spread_evenly() {
    let universe = three().await;
    let pool = pool(&universe, "pool_size=30&min_idle=0&application_name=one-by-one");
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(pool.get_timeout(LIMIT).await.unwrap());
    }
    assert_eq!(universe.spread("one-by-one"), [10, 10, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pools_that_fill_at_the_same_time_each_spread_evenly() {
    let universe = three().await;
    let first = pool(&universe, "pool_size=30&application_name=first");
    let second = pool(&universe, "pool_size=30&application_name=second");
    let (one, other) = tokio::join!(first.ready(30, LIMIT), second.ready(30, LIMIT));
    one.and(other).unwrap();
    assert_eq!(universe.spread("first"), [10, 10, 10]);
    assert_eq!(universe.spread("second"), [10, 10, 10]);
}

/// Covers: E-173, E-346
#[tokio::test(flavor = "multi_thread")]
async fn topology_keys_choose_the_lowest_level_with_a_server() {
    let universe = three().await;
    let one_region = "gcp.us-east1.us-east1";
    let rows: &[(&str, [u32; 3])] = &[
        (&format!("{one_region}-b:1,{one_region}-c:2"), [6, 0, 0]),
        (&format!("{one_region}-b:1,{one_region}-c:3"), [6, 0, 0]),
        (&format!("{one_region}-c:2,{one_region}-d:7"), [0, 6, 0]),
        (&format!("{one_region}-d:2"), [0, 0, 6]),
        (&format!("{one_region}-b:1,{one_region}-d:1"), [3, 0, 3]),
        (&format!("{one_region}-c:1,gcp.us-east1.*:2"), [0, 6, 0]),
        ("gcp.us-east1.*:4", [2, 2, 2]),
        ("GCP.US-East1.US-EAST1-B", [6, 0, 0]),
        // No server matches: all are used.
        (&format!("{one_region}-x:1,aws.us-east1.*:2"), [2, 2, 2]),
    ];
    for (keys, wanted) in rows {
        let pool = full_pool(&universe, &format!("pool_size=6&topology_keys={keys}")).await;
        assert_eq!(spread(&pool, &universe), wanted, "{keys}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_of_the_keys_and_no_other_allowed_is_refused_at_once() {
    let universe = three().await;
    let pool = pool(
        &universe,
        "pool_size=2&topology_keys=gcp.us-east1.us-east1-x&fallback_to_topology_keys_only=true",
    );
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::NoNode(Refused::Cluster)), "{error}");
    assert!(pool.cluster().snapshot().placement.is_empty());
}

/// Covers: E-169
#[tokio::test(flavor = "multi_thread")]
async fn the_next_level_serves_while_the_first_is_down_and_no_longer() {
    let universe = three().await;
    let keys = "gcp.us-east1.us-east1-b:1,gcp.us-east1.us-east1-c:3";
    let pool = full_pool(&universe, &format!("pool_size=4&{QUICK}&topology_keys={keys}")).await;
    assert_eq!(spread(&pool, &universe), [4, 0, 0]);
    universe.server(0).kill();
    spread_becomes(&pool, &universe, &[0, 4, 0]).await;
    assert_eq!(pool.cluster().snapshot().failed(), [key(universe.server(0))]);
    universe.server(0).start();
    spread_becomes(&pool, &universe, &[4, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fallback_to_the_keys_only_a_level_that_is_down_is_refused_until_it_is_back() {
    let universe = three().await;
    let keys = "topology_keys=gcp.us-east1.us-east1-b:1&fallback_to_topology_keys_only=true";
    let pool = full_pool(&universe, &format!("pool_size=2&{QUICK}&{keys}")).await;
    universe.server(0).kill();
    becomes(true, || {
        spread(&pool, &universe) == [0, 0, 0] && pool.status().idle == 0
    })
    .await;
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::NoNode(Refused::Cluster)), "{error}");
    universe.server(0).start();
    spread_becomes(&pool, &universe, &[2, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_uses_its_node_types() {
    let universe = with_replica().await;
    let rows = [
        ("true", [2, 2, 2]),
        ("any", [2, 2, 2]),
        ("only-primary", [3, 3, 0]),
        ("only-rr", [0, 0, 6]),
        ("prefer-primary", [3, 3, 0]),
        ("prefer-rr", [0, 0, 6]),
    ];
    for (mode, wanted) in rows {
        let pool = full_pool(&universe, &format!("pool_size=6&load_balance={mode}")).await;
        assert_eq!(spread(&pool, &universe), wanted, "{mode}");
    }
}

/// A mode, the spread or the refusal while servers are down, and the spread while all are up.
type Row = (&'static str, Result<[u32; 3], Refused>, [u32; 3]);

/// One pool per mode while servers are down: what each does then, and that each goes home when they are back.
async fn while_down(servers: &[usize], rows: &[Row]) {
    let universe = with_replica().await;
    let mut pools = Vec::new();
    for (mode, _, home) in rows {
        let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}&load_balance={mode}")).await;
        assert_eq!(spread(&pool, &universe), home, "{mode}");
        pools.push(pool);
    }
    let affected = |pool: &Pool| servers.iter().any(|&server| spread(pool, &universe)[server] > 0);
    servers
        .iter()
        .map(|&server| universe.server(server))
        .for_each(Server::kill);
    for (pool, (mode, wanted, _)) in pools.iter().zip(rows) {
        becomes(false, || affected(pool)).await;
        match wanted {
            Ok(wanted) => spread_becomes(pool, &universe, wanted).await,
            Err(refused) => {
                let error = pool.get_timeout(LIMIT).await.unwrap_err();
                assert!(
                    matches!(error, Error::NoNode(seen) if seen == *refused),
                    "{mode}: {error}"
                );
            }
        }
    }
    servers
        .iter()
        .map(|&server| universe.server(server))
        .for_each(Server::start);
    for (pool, (mode, _, home)) in pools.iter().zip(rows) {
        spread_becomes(pool, &universe, home).await;
        let conn = get_in_the_end(pool).await;
        assert!(
            conn.query_one("SELECT 1", &[]).await.is_ok(),
            "{mode} on {}",
            Conn::host(&conn)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_read_replica_the_modes_refuse_fall_back_or_do_not_care() {
    while_down(
        &[2],
        &[
            ("any", Ok([3, 3, 0]), [2, 2, 2]),
            ("only-primary", Ok([3, 3, 0]), [3, 3, 0]),
            ("only-rr", Err(Refused::ReadReplica), [0, 0, 6]),
            ("prefer-primary", Ok([3, 3, 0]), [3, 3, 0]),
            ("prefer-rr", Ok([3, 3, 0]), [0, 0, 6]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_primary_the_modes_refuse_fall_back_or_do_not_care() {
    while_down(
        &[0, 1],
        &[
            ("only-primary", Err(Refused::Primary), [3, 3, 0]),
            ("only-rr", Ok([0, 0, 6]), [0, 0, 6]),
            ("prefer-primary", Ok([0, 0, 6]), [3, 3, 0]),
            ("prefer-rr", Ok([0, 0, 6]), [0, 0, 6]),
        ],
    )
    .await;
}
