//! A cluster without a pool, and clusters that must not know of each other.

use std::time::Duration;

use pgsteer::{ClusterConnection, Error};

use crate::log::logged;
use crate::rig::{
    QUICK, backend, becomes, cluster, counts, full_pool, key, keys, pool, soon, spread, spread_becomes,
    stays, three, two_universes,
};

/// Covers: E-168, E-172
#[tokio::test(flavor = "multi_thread")]
async fn connections_go_where_there_are_fewest_and_count_until_they_are_gone() {
    let universe = three().await;
    let cluster = cluster(&universe, "application_name=standalone");
    let mut open = Vec::new();
    for _ in 0..9 {
        open.push(cluster.connect().await.unwrap());
    }
    assert_eq!(counts(&cluster, &universe), [3, 3, 3]);
    assert_eq!(universe.spread("standalone"), [3, 3, 3]);

    // Let go of by its owner.
    let on = |server: usize| key(universe.server(server));
    let first = open
        .iter()
        .position(|connection| *ClusterConnection::host(connection) == on(0))
        .unwrap();
    drop(open.remove(first));
    becomes(vec![2, 3, 3], || counts(&cluster, &universe)).await;
    open.push(cluster.connect().await.unwrap());
    assert_eq!(counts(&cluster, &universe), [3, 3, 3]);

    // Ended by the server, while the owner still has it.
    let dying = open
        .iter()
        .find(|connection| *ClusterConnection::host(connection) == on(1))
        .unwrap();
    universe.server(1).terminate(backend(dying).await);
    becomes(vec![3, 2, 3], || counts(&cluster, &universe)).await;
    assert!(dying.is_closed());
    assert_eq!(*ClusterConnection::host(&cluster.connect().await.unwrap()), on(1));
    assert!(
        cluster.snapshot().failures.is_empty(),
        "a connection that dies marks no host"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_taken_out_of_its_connection_goes_on_counting() {
    let universe = three().await;
    let cluster = cluster(&universe, "load_balance=false");
    let client = ClusterConnection::into_client(cluster.connect().await.unwrap());
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(counts(&cluster, &universe), [1, 0, 0]);
    drop(client);
    becomes(vec![0, 0, 0], || counts(&cluster, &universe)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_cluster_connects_no_more_and_leaves_its_connections_open() {
    let universe = three().await;
    let cluster = cluster(&universe, "");
    let connection = cluster.connect().await.unwrap();
    cluster.stop();
    assert!(matches!(cluster.connect().await, Err(Error::Closed)));
    assert!(matches!(cluster.ready().await, Err(Error::Closed)));
    connection.batch_execute("SELECT 1").await.unwrap();
    drop(cluster);
    connection.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_that_is_given_up_leaves_no_reservation_and_no_mark() {
    let universe = three().await;
    universe
        .servers()
        .iter()
        .for_each(pgsteer_testkit::Server::freeze);
    let cluster = cluster(&universe, "load_balance=false&connect_timeout=20s");
    let attempt = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.connect().await.map(drop) }
    });
    becomes(1, || cluster.snapshot().pending.values().sum::<u32>()).await;
    attempt.abort();
    assert!(soon(attempt).await.unwrap_err().is_cancelled());
    becomes(0, || cluster.snapshot().pending.values().sum::<u32>()).await;
    assert!(cluster.snapshot().failures.is_empty());
}

/// Covers: E-177
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_down_is_left_out_and_found_back_by_a_refresh() {
    let universe = three().await;
    universe.server(0).kill();
    let cluster = cluster(&universe, QUICK);
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(cluster.connect().await.unwrap());
    }
    assert_eq!(counts(&cluster, &universe), [0, 3, 3]);
    let snapshot = cluster.snapshot();
    assert_eq!(
        (snapshot.failed(), snapshot.placement),
        (keys(&universe, &[0]), keys(&universe, &[1, 2]))
    );
    assert_eq!(
        snapshot.allowed,
        keys(&universe, &[0, 1, 2]),
        "a failure moves nobody"
    );
    assert!(snapshot.pending.is_empty());
    universe.server(0).start();
    becomes(true, || cluster.snapshot().failures.is_empty()).await;
    let next = cluster.connect().await.unwrap();
    assert_eq!(*ClusterConnection::host(&next), key(universe.server(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_asked_for_finds_a_host_back_when_no_timer_is_due() {
    let universe = three().await;
    let cluster = cluster(
        &universe,
        "failed_host_reconnect_delay_secs=0&yb_servers_refresh_interval=600",
    );
    universe.server(0).kill();
    let mut open = Vec::new();
    while cluster.snapshot().failures.is_empty() {
        open.push(cluster.connect().await.unwrap());
    }
    universe.server(0).start();
    becomes(true, || {
        cluster.refresh();
        cluster.snapshot().failures.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_in_one_process_know_nothing_of_each_other() {
    let (here, there) = two_universes().await;
    let options = format!("application_name=both&{QUICK}");
    let (six, nine) = (format!("pool_size=6&{options}"), format!("pool_size=9&{options}"));
    let (first, second) = tokio::join!(full_pool(&here, &six), full_pool(&there, &nine));
    assert_eq!(
        (spread(&first, &here), spread(&second, &there)),
        (vec![2, 2, 2], vec![3, 3, 3])
    );
    assert_eq!(
        (spread(&first, &there), spread(&second, &here)),
        (vec![0, 0, 0], vec![0, 0, 0])
    );
    assert_eq!(
        (here.spread("both"), there.spread("both")),
        (vec![2, 2, 2], vec![3, 3, 3])
    );
    let untouched = second.status().totals;

    here.servers().iter().for_each(pgsteer_testkit::Server::kill);
    becomes(0, || first.status().idle).await;
    assert!(first.get().await.is_err());
    stays((9, untouched), Duration::from_millis(500), || {
        (second.status().idle, second.status().totals)
    })
    .await;
    assert!(second.cluster().snapshot().failures.is_empty());
    second.query_one("SELECT 1", &[]).await.unwrap();

    first.close(Duration::from_secs(5)).await;
    assert!(matches!(first.get().await, Err(Error::Closed)));
    second.query_one("SELECT 1", &[]).await.unwrap();
    here.servers().iter().for_each(pgsteer_testkit::Server::start);
    let again = pool(&here, "pool_size=3");
    spread_becomes(&again, &here, &[1, 1, 1]).await;
    assert!(logged(&["WARN", &there.server(0).address()]).is_empty());
}
