//! What a holder leaves on a connection never reaches the next holder. One real server, a pool of one connection, so
//! that the next holder gets the very same slot.

use std::time::Duration;

use futures_util::{FutureExt, SinkExt, TryStreamExt, pin_mut};
use pgsteer::{Conn, Pool, TransactionStatus};
use pgsteer_testkit::Universe;

use crate::rig::{Rig, full_pool, rig};

struct One {
    pool: Pool,
    _universe: Rig,
}

async fn pool_of_one(parameters: &str) -> One {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = full_pool(
        &universe,
        &format!("pool_size=1&application_name=one&load_balance=false&{parameters}"),
    )
    .await;
    One {
        pool,
        _universe: universe,
    }
}

async fn backend(pool: &Pool) -> i32 {
    let conn = pool.get().await.unwrap();
    assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
    conn.query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0)
}

/// Covers: E-340
#[tokio::test(flavor = "multi_thread")]
async fn a_query_takes_parameters_and_gives_typed_values() {
    let one = pool_of_one("").await;
    let row = one.pool.query_one("SELECT $1::int4 + 1", &[&41]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 42);
}

/// Covers: E-349
#[tokio::test(flavor = "multi_thread")]
async fn the_status_follows_begin_and_commit_and_the_next_holder_gets_the_same_connection() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    {
        let conn = one.pool.get().await.unwrap();
        let mut seen = vec![Conn::transaction_status(&conn)];
        for statement in ["BEGIN", "COMMIT"] {
            conn.batch_execute(statement).await.unwrap();
            seen.push(Conn::transaction_status(&conn));
        }
        let (idle, inside) = (
            Some(TransactionStatus::Idle),
            Some(TransactionStatus::InTransaction),
        );
        assert_eq!(seen, [idle, inside, idle]);
    }
    assert_eq!(backend(&one.pool).await, first);
}

/// Covers: E-352
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_end_in_whatever_way_keep_the_connection() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    for end in ["COMMIT", "ROLLBACK"] {
        let conn = one.pool.get().await.unwrap();
        conn.batch_execute("BEGIN; SELECT 1").await.unwrap();
        conn.batch_execute(end).await.unwrap();
    }
    {
        let conn = one.pool.get().await.unwrap();
        let failed = conn.batch_execute("BEGIN; SELECT 1/0").await.unwrap_err();
        assert_eq!(failed.code(), Some("22012"));
        conn.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_eq!(backend(&one.pool).await, first);
    assert_eq!(
        one.pool.status().totals.rolled_back,
        0,
        "none had to be ended by the pool"
    );
}

/// Covers: E-350
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_rolled_back_before_the_next_holder() {
    let one = pool_of_one("").await;
    one.pool.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let first = backend(&one.pool).await;
    {
        let conn = one.pool.get().await.unwrap();
        conn.batch_execute("BEGIN; INSERT INTO t VALUES (1)")
            .await
            .unwrap();
    }
    assert_eq!(
        backend(&one.pool).await,
        first,
        "a rollback makes it fit for use again"
    );
    assert_eq!(
        one.pool
            .query_one("SELECT count(*) FROM t", &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        0
    );
    assert_eq!(one.pool.status().totals.rolled_back, 1);
}

/// Covers: E-351
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transaction_is_rolled_back_before_the_next_holder() {
    let one = pool_of_one("").await;
    {
        let conn = one.pool.get().await.unwrap();
        assert!(conn.batch_execute("BEGIN; SELECT 1/0").await.is_err());
    }
    backend(&one.pool).await;
    assert_eq!(one.pool.status().totals.rolled_back, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_begin_whose_future_was_dropped_unsent_is_rolled_back_too() {
    let one = pool_of_one("").await;
    for _ in 0..50 {
        {
            let conn = one.pool.get().await.unwrap();
            // Polled once: queued in the driver's channel, as a rule not even written yet.
            let begin = conn.batch_execute("BEGIN");
            pin_mut!(begin);
            let _ = begin.as_mut().now_or_never();
        }
        backend(&one.pool).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_statement_whose_future_was_dropped_is_cancelled() {
    let one = pool_of_one("return_cancel_after=50ms").await;
    let first = backend(&one.pool).await;
    {
        let conn = one.pool.get().await.unwrap();
        let sleep = conn.batch_execute("SELECT pg_sleep(1000)");
        pin_mut!(sleep);
        assert!(sleep.as_mut().now_or_never().is_none());
    }
    assert_eq!(backend(&one.pool).await, first);
    assert_eq!(one.pool.status().totals.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_in_left_open_is_ended() {
    let one = pool_of_one("").await;
    one.pool.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    {
        let conn = one.pool.get().await.unwrap();
        let sink = conn.copy_in("COPY t FROM STDIN").await.unwrap();
        pin_mut!(sink);
        sink.send(&b"1\n"[..]).await.unwrap();
    }
    backend(&one.pool).await;
    assert_eq!(
        one.pool
            .query_one("SELECT count(*) FROM t", &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_in_whose_sink_is_kept_is_cut_at_the_deadline() {
    let one = pool_of_one("return_cancel_after=50ms&return_timeout=300ms").await;
    one.pool.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let first = backend(&one.pool).await;
    let conn = one.pool.get().await.unwrap();
    let sink = conn.copy_in::<_, &[u8]>("COPY t FROM STDIN").await.unwrap();
    drop(conn);
    assert_ne!(backend(&one.pool).await, first);
    drop(sink);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_read_by_half_holds_the_connection_back_until_it_is_dropped() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    let rows = {
        let conn = one.pool.get().await.unwrap();
        let rows = conn
            .query_raw("SELECT generate_series(1, 200000)", Vec::<i32>::new())
            .await
            .unwrap();
        let mut rows = Box::pin(rows);
        assert!(rows.try_next().await.unwrap().is_some());
        rows
    };
    assert!(
        one.pool.get_timeout(Duration::from_millis(100)).await.is_err(),
        "its answers are still coming"
    );
    drop(rows);
    assert_eq!(backend(&one.pool).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_read_by_half_is_rolled_back_with_its_transaction() {
    let one = pool_of_one("").await;
    {
        let mut conn = one.pool.get().await.unwrap();
        let transaction = conn.transaction().await.unwrap();
        let portal = transaction
            .bind("SELECT generate_series(1, 100)", &[])
            .await
            .unwrap();
        assert_eq!(transaction.query_portal(&portal, 10).await.unwrap().len(), 10);
    }
    backend(&one.pool).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_panics_has_its_connection_closed() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    let pool = one.pool.clone();
    let panicked = tokio::spawn(async move {
        let _conn = pool.get().await.unwrap();
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    assert_ne!(backend(&one.pool).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_connection_is_replaced() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    Conn::discard(one.pool.get().await.unwrap());
    assert_ne!(backend(&one.pool).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_connection_lives_on_beside_the_pool() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    let client = Conn::detach(one.pool.get().await.unwrap());
    assert_ne!(backend(&one.pool).await, first);
    assert_eq!(
        client
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        first
    );
    assert_eq!(
        one.pool.cluster().snapshot().counts.values().sum::<u32>(),
        2,
        "it still counts as load"
    );
    drop(client);
    let gone = async {
        while one.pool.cluster().snapshot().counts.values().sum::<u32>() != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone)
        .await
        .expect("the count falls when the connection is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_may_be_dropped_on_a_thread_without_a_runtime() {
    let one = pool_of_one("").await;
    let first = backend(&one.pool).await;
    let conn = one.pool.get().await.unwrap();
    std::thread::spawn(move || drop(conn)).join().unwrap();
    assert_eq!(backend(&one.pool).await, first);
}
