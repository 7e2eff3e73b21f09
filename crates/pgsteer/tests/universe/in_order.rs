//! Without load balancing: the configured hosts, one after the other.

use std::time::Duration;

use pgsteer_testkit::USER;

use crate::rig::{QUICK, becomes, cluster, counts, full_pool, keys, spread, spread_becomes, stays, three};

/// Covers: E-233
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_hosts_that_are_down_or_refuse_are_passed_over_in_order() {
    let universe = three().await;
    universe.server(0).kill();
    universe.server(1).set_hba(&["host all all all reject"]);
    let cluster = cluster(&universe, &format!("load_balance=false&{QUICK}"));
    let first = cluster.connect().await.unwrap();
    let second = cluster.connect().await.unwrap();
    assert_eq!(counts(&cluster, &universe), [0, 0, 2]);
    let snapshot = cluster.snapshot();
    assert_eq!(
        (snapshot.failed(), snapshot.rejected()),
        (keys(&universe, &[0]), keys(&universe, &[1]))
    );
    universe.server(1).reset_hba();
    becomes(keys(&universe, &[1]), || cluster.snapshot().placement).await;
    let third = cluster.connect().await.unwrap();
    assert_eq!(counts(&cluster, &universe), [0, 1, 2]);
    drop((first, second, third));
}

/// Covers: E-216
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_the_first_host_that_works_is_used() {
    let universe = three().await;
    let cluster = cluster(&universe, &format!("load_balance=false&{QUICK}"));
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(cluster.connect().await.unwrap());
    }
    assert_eq!(counts(&cluster, &universe), [4, 0, 0]);
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0]));
    open.clear();
    universe.server(0).kill();
    open.push(cluster.connect().await.unwrap());
    open.push(cluster.connect().await.unwrap());
    becomes(vec![0, 2, 0], || counts(&cluster, &universe)).await;
    let snapshot = cluster.snapshot();
    assert_eq!(
        (snapshot.failed(), snapshot.placement),
        (keys(&universe, &[0]), keys(&universe, &[1]))
    );
    assert_eq!(snapshot.allowed, keys(&universe, &[0, 1]));
    universe.server(1).kill();
    open.push(cluster.connect().await.unwrap());
    becomes(vec![0, 0, 1], || counts(&cluster, &universe)).await;
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0, 2]));
    universe.server(0).start();
    becomes(keys(&universe, &[0]), || cluster.snapshot().placement).await;
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0]));
    assert_eq!(cluster.snapshot().failed(), keys(&universe, &[1]));
    open.push(cluster.connect().await.unwrap());
    assert_eq!(counts(&cluster, &universe), [1, 0, 1]);
}

/// Covers: E-267
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_a_pool_gathers_on_the_first_host_a_batch_per_look() {
    let universe = three().await;
    let options = "pool_size=4&load_balance=false&rebalance_batch=2&rebalance_interval=1h\
                   &failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1";
    let pool = full_pool(&universe, options).await;
    assert_eq!(spread(&pool, &universe), [4, 0, 0]);
    universe.server(0).kill();
    spread_becomes(&pool, &universe, &[0, 4, 0]).await;
    for _ in 0..3 {
        pool.rebalance();
        stays(vec![0, 4, 0], Duration::from_millis(100), || {
            spread(&pool, &universe)
        })
        .await;
    }
    universe.server(0).start();
    becomes(keys(&universe, &[0]), || pool.cluster().snapshot().placement).await;
    stays(vec![0, 4, 0], Duration::from_millis(100), || {
        spread(&pool, &universe)
    })
    .await;
    pool.rebalance();
    spread_becomes(&pool, &universe, &[2, 2, 0]).await;
    stays(vec![2, 2, 0], Duration::from_millis(200), || {
        spread(&pool, &universe)
    })
    .await;
    pool.rebalance();
    spread_becomes(&pool, &universe, &[4, 0, 0]).await;
    assert_eq!(
        universe.server(2).log().logins(USER),
        0,
        "the third was never dialled"
    );
}
