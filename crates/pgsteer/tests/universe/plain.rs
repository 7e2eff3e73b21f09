//! Plain PostgreSQL servers: no `yb_servers()`, one host or several, TCP or a Unix socket.

use pgsteer::{Config, Error, Pool};
use pgsteer_testkit::{DATABASE, PASSWORD, USER, Universe};

use crate::rig::{LIMIT, QUICK, Rig, becomes, cluster, full_pool, key, keys, rig, spread, spread_becomes};

async fn plain(servers: usize) -> Rig {
    rig(Universe::builder()
        .servers(servers)
        .configure_all(|spec| spec.plain()))
    .await
}

/// Covers: E-185, E-342
#[tokio::test(flavor = "multi_thread")]
async fn with_load_balancing_on_a_plain_server_serves_as_the_configured_host_it_is() {
    let universe = plain(1).await;
    let pool = full_pool(&universe, "pool_size=3").await;
    let snapshot = pool.cluster().snapshot();
    assert!(!snapshot.discovering && !snapshot.discovered);
    assert_eq!(snapshot.placement, keys(&universe, &[0]));
    assert_eq!(
        pool.query_one("SELECT $1::int + 1", &[&41])
            .await
            .unwrap()
            .get::<_, i32>(0),
        42
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_load_balancing_on_plain_servers_are_used_in_order() {
    let universe = plain(3).await;
    let pool = full_pool(&universe, &format!("pool_size=4&{QUICK}")).await;
    assert_eq!(spread(&pool, &universe), [4, 0, 0]);
    universe.server(0).kill();
    spread_becomes(&pool, &universe, &[0, 4, 0]).await;
    universe.server(0).start();
    spread_becomes(&pool, &universe, &[4, 0, 0]).await;
}

/// Covers: E-186
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_server_that_failed_is_still_tried_first() {
    let universe = plain(1).await;
    let cluster = cluster(&universe, "failed_host_reconnect_delay_secs=30");
    cluster.ready().await.unwrap();
    universe.server(0).kill();
    let error = cluster.connect().await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
    let snapshot = cluster.snapshot();
    assert_eq!(snapshot.failed(), [key(universe.server(0))]);
    assert_eq!(snapshot.placement, [key(universe.server(0))]);
    universe.server(0).start();
    cluster
        .connect()
        .await
        .unwrap()
        .batch_execute("SELECT 1")
        .await
        .unwrap();
    assert!(cluster.snapshot().failures.is_empty());
}

/// Covers: E-343
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_taken_where_writes_are_wanted() {
    let universe = plain(1).await;
    let pool = full_pool(
        &universe,
        "pool_size=1&load_balance=false&target_session_attrs=read-write",
    )
    .await;
    pool.batch_execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    assert_eq!(
        pool.query_one("SELECT n FROM t", &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_holds_on_every_connection() {
    let universe = plain(1).await;
    let pool = full_pool(
        &universe,
        "pool_size=2&load_balance=false&statement_timeout=100ms",
    )
    .await;
    for _ in 0..2 {
        let error = pool.batch_execute("SELECT pg_sleep(1000)").await.unwrap_err();
        assert_eq!(error.code(), Some("57014"), "{error}");
    }
    assert_eq!(pool.status().totals.lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_works_over_a_unix_socket() {
    let universe = plain(1).await;
    let server = universe.server(0);
    let folder = server.socket_folder().to_str().unwrap();
    let config = Config::new()
        .host((folder, server.port()))
        .user(USER)
        .password(PASSWORD)
        .database(DATABASE);
    let pool = Pool::start(config.pool_size(2)).unwrap();
    pool.ready(2, LIMIT).await.unwrap();
    let row = pool
        .query_one("SELECT inet_client_addr() IS NULL", &[])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0), "the server sees no address");
    assert!(pool.status().by_host.keys().all(|host| host.name() == folder));
    universe.server(0).kill();
    becomes(0, || pool.status().idle).await;
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(error.to_string().contains(folder), "{error}");
    universe.server(0).start();
    pool.ready(2, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_running_over_a_unix_socket_is_cancelled_when_its_holder_goes() {
    let universe = plain(1).await;
    let server = universe.server(0);
    let folder = server.socket_folder().to_str().unwrap().replace('/', "%2F");
    let url = format!(
        "postgresql://{USER}:{PASSWORD}@{folder}:{}/{DATABASE}?pool_size=1&return_cancel_after=50ms",
        server.port()
    );
    let pool = Pool::start(url.parse().unwrap()).unwrap();
    pool.ready(1, LIMIT).await.unwrap();
    let asked = tokio::time::timeout(
        std::time::Duration::from_millis(100),
        pool.batch_execute("SELECT pg_sleep(1000)"),
    );
    assert!(asked.await.is_err());
    pool.get_timeout(LIMIT)
        .await
        .unwrap()
        .batch_execute("SELECT 1")
        .await
        .unwrap();
    assert_eq!(
        (pool.status().totals.cancelled, pool.status().totals.lost),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_may_be_found_through_a_unix_socket() {
    let universe = rig(Universe::builder().servers(2)).await;
    let server = universe.server(0);
    let folder = server.socket_folder().to_str().unwrap();
    let config = Config::new()
        .host((folder, server.port()))
        .user(USER)
        .password(PASSWORD)
        .database(DATABASE);
    let pool = Pool::start(config.pool_size(4).load_balance(pgsteer::LoadBalance::Any)).unwrap();
    pool.ready(4, LIMIT).await.unwrap();
    assert_eq!(
        spread(&pool, &universe),
        [2, 2],
        "the servers it lists are used, over TCP"
    );
}
