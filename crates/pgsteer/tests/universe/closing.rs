//! The end of a pool: what happens to those who hold, those who wait and those who come later.

use std::time::{Duration, Instant};

use pgsteer::Error;
use pgsteer_testkit::Universe;

use crate::rig::{LIMIT, Rig, backends, becomes, full_pool, is_lost, rig, soon};

async fn single() -> Rig {
    rig(Universe::builder().servers(1)).await
}

/// Covers: E-354
#[tokio::test(flavor = "multi_thread")]
async fn closing_a_pool_waits_for_holders_until_its_deadline_then_cuts_them() {
    let universe = single().await;
    let pool = full_pool(
        &universe,
        "pool_size=3&load_balance=false&application_name=closing",
    )
    .await;
    let conn = pool.get().await.unwrap();
    let still_held = pool.get().await.unwrap();
    let sleep = tokio::spawn(async move { conn.batch_execute("SELECT pg_sleep(1000)").await });
    becomes(true, || {
        let sql =
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'closing' AND query LIKE '%pg_sleep%'";
        !universe.server(0).sql(sql).is_empty()
    })
    .await;
    let started = Instant::now();
    let closed = pool.close(Duration::from_millis(300)).await;
    assert_eq!(closed.still_out, 2);
    assert!(closed.took >= Duration::from_millis(300) && closed.took <= started.elapsed());
    let error = soon(sleep).await.unwrap().unwrap_err();
    assert!(is_lost(&error), "{error}");
    assert!(still_held.query_one("SELECT 1", &[]).await.is_err());
    assert!(matches!(pool.get().await, Err(Error::Closed)));
    assert!(pool.is_closed() && pool.try_get().is_none());
    // A statement on a session that was cut runs on until the server notices; the idle ones are gone.
    becomes(true, || backends(&universe, "closing").len() <= 1).await;
}

/// Covers: E-254
#[tokio::test(flavor = "multi_thread")]
async fn closing_a_pool_fails_those_who_wait_and_stops_its_cluster() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=any&application_name=closed").await;
    let held = pool.get().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get_timeout(LIMIT).await.map(drop) }
    });
    becomes(1, || pool.status().waiting).await;
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(LIMIT).await }
    });
    assert!(matches!(soon(waiting).await.unwrap(), Err(Error::Closed)));
    held.batch_execute("SELECT 1").await.unwrap();
    drop(held);
    assert_eq!(soon(closing).await.unwrap().still_out, 0);
    assert_eq!(
        universe.server(0).sessions("closed"),
        0,
        "returns when the server has let go"
    );
    assert!(matches!(pool.cluster().connect().await, Err(Error::Closed)));
    assert!(matches!(pool.ready(1, LIMIT).await, Err(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_last_handle_is_dropped_closes_its_connections() {
    let universe = single().await;
    let pool = full_pool(
        &universe,
        "pool_size=4&load_balance=false&application_name=dropped",
    )
    .await;
    let held = pool.get().await.unwrap();
    drop(pool);
    becomes(1, || universe.server(0).sessions("dropped")).await;
    held.batch_execute("SELECT 1").await.unwrap();
    drop(held);
    becomes(0, || universe.server(0).sessions("dropped")).await;
}
