//! What an application has run on its connections, on real servers.

use pgsteer::{Conn, Error, HookFailure, Pool};

use crate::rig::{LIMIT, config_for, rig, three};
use pgsteer_testkit::Universe;

/// Covers: E-357
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_with_a_bad_statement_fails_the_checkout_with_the_servers_words() {
    let universe = rig(Universe::builder().servers(1)).await;
    let config = config_for(&universe.addresses(), "pool_size=1")
        .after_connect(|client| Box::pin(async { Ok(client.batch_execute("SELECT no_such_column").await?) }));
    let pool = Pool::start(config).unwrap();
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert_eq!(error.code(), Some("42703"), "{error}");
    assert!(matches!(&error, Error::AfterConnect(failed) if matches!(failed.failure, HookFailure::Error(_))));
    let status = pool.status();
    assert_eq!((status.idle, status.leased), (0, 0));
    assert!(pool.snapshot().failures.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_is_as_its_hook_has_left_it() {
    let universe = three().await;
    let config = config_for(&universe.addresses(), "pool_size=6&load_balance=any").after_connect(|client| {
        Box::pin(async {
            client.batch_execute("SET search_path = prepared, public").await?;
            client.query_one("SELECT $1::int4 + 1", &[&1]).await?;
            Ok(())
        })
    });
    let pool = Pool::start(config).unwrap();
    pool.ready(6, LIMIT).await.unwrap();
    let mut all: Vec<Conn> = Vec::new();
    for _ in 0..6 {
        let conn = pool.get_timeout(LIMIT).await.unwrap();
        let path: String = conn.query_one("SHOW search_path", &[]).await.unwrap().get(0);
        assert_eq!(path, "prepared, public");
        all.push(conn);
    }
    assert_eq!(pool.status().totals.hook_failures, 0);
}
