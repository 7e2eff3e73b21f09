//! What an application has run on its connections, on real servers.

use pgsteer::config::Recycle;
use pgsteer::{Conn, Error, HookFailure, Pool};

use crate::rig::{LIMIT, Rig, config_for, rig, three};
use pgsteer_testkit::{USER, Universe};

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

/// What a holder can change in its session, and what each shows afterwards.
const CHANGES: &[(&str, &str, &str)] = &[
    (
        "SET search_path = elsewhere",
        "SHOW search_path",
        "\"$user\", public",
    ),
    (
        "SET app.tenant = 'acme'",
        "SELECT coalesce(current_setting('app.tenant', true), '')",
        "",
    ),
    ("SET statement_timeout = 0", "SHOW statement_timeout", "30s"),
    (
        "SET ROLE clerk",
        "SELECT (current_user = session_user)::text",
        "true",
    ),
    (
        "CREATE TEMP TABLE mine (n int)",
        "SELECT coalesce(to_regclass('mine')::text, '')",
        "",
    ),
    (
        "SELECT pg_advisory_lock(7)",
        "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'",
        "0",
    ),
    (
        "LISTEN news",
        "SELECT count(*)::text FROM pg_listening_channels()",
        "0",
    ),
    (
        "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
        "SELECT count(*)::text FROM pg_cursors WHERE name = 'mine'",
        "0",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn with_recycle_clean_the_next_holder_finds_the_session_as_it_began() {
    let universe = with_a_role().await;
    let config =
        config_for(&universe.addresses(), "pool_size=1&statement_timeout=30s").recycle(Recycle::Clean);
    let pool = Pool::start(config).unwrap();
    let pid = backend(&pool).await;
    for (change, look, expected) in CHANGES {
        {
            let conn = pool.get_timeout(LIMIT).await.unwrap();
            conn.batch_execute(change).await.unwrap();
        }
        let found: String = pool.query_one(*look, &[]).await.unwrap().get(0);
        assert_eq!(found, *expected, "{change}");
        assert_eq!(backend(&pool).await, pid, "{change}: it is the same connection");
    }
    assert_eq!(pool.status().totals.rolled_back, 0);
}

/// The same changes stay where nothing else is asked for, so that the test above shows something.
#[tokio::test(flavor = "multi_thread")]
async fn with_recycle_fast_the_session_stays_as_the_last_holder_left_it() {
    let universe = with_a_role().await;
    let pool = Pool::start(config_for(
        &universe.addresses(),
        "pool_size=1&statement_timeout=30s",
    ))
    .unwrap();
    for (change, look, expected) in CHANGES {
        pool.batch_execute(change).await.unwrap();
        let found: String = pool.query_one(*look, &[]).await.unwrap().get(0);
        assert_ne!(found, *expected, "{change}");
    }
}

/// A client knows statements and types that live on the server; the reset leaves them alone.
#[tokio::test(flavor = "multi_thread")]
async fn with_recycle_clean_the_clients_own_statements_stay() {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = Pool::start(config_for(&universe.addresses(), "pool_size=1&recycle=clean")).unwrap();
    pool.batch_execute("CREATE TYPE mood AS ENUM ('calm', 'wild'); CREATE TYPE tone AS ENUM ('low', 'high')")
        .await
        .unwrap();
    let conn = pool.get_timeout(LIMIT).await.unwrap();
    let statement = conn.prepare("SELECT $1::int4 + 1, 'calm'::mood").await.unwrap();
    drop(conn);
    for n in 0..3 {
        let row = pool.query_one(&statement, &[&n]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), n + 1);
    }
    // Looking up another type uses a statement that the first look-up prepared.
    pool.query_one("SELECT 'low'::tone", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn recycle_clean_works_in_sessions_that_take_no_writes_and_after_failed_transactions() {
    let universe = rig(Universe::builder().servers(1)).await;
    let parameters = "pool_size=1&recycle=clean&options=-c%20default_transaction_read_only=on";
    let pool = Pool::start(config_for(&universe.addresses(), parameters)).unwrap();
    let pid = backend(&pool).await;
    {
        let conn = pool.get_timeout(LIMIT).await.unwrap();
        assert!(conn.batch_execute("BEGIN; SELECT 1/0").await.is_err());
    }
    assert_eq!(backend(&pool).await, pid);
    let read_only: String = pool
        .query_one("SHOW default_transaction_read_only", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(read_only, "on", "what the session began with stays");
}

/// One server with a role that its user may take.
async fn with_a_role() -> Rig {
    let universe = rig(Universe::builder().servers(1)).await;
    universe
        .server(0)
        .sql(&format!("CREATE ROLE clerk; GRANT clerk TO {USER}"));
    universe
}

async fn backend(pool: &Pool) -> i32 {
    let row = pool.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
    row.get(0)
}
