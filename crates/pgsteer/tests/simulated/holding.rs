//! What a holder leaves behind decides what becomes of its connection, and nobody has to ask the server for that.

use std::time::Duration;

use futures_util::{SinkExt, pin_mut};
use pgsteer::config::LoadBalance;
use pgsteer::{Conn, EndCause, Error, Pool, TransactionStatus};
use pgsteer_sim::{Death, Effect, Script, Sim};

use crate::rig::*;

async fn pool_of_one() -> (Sim, Pool) {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).load_balance(LoadBalance::Off).pool_size(1)).await;
    (sim, pool)
}

/// The back-end the next holder gets, which must find it as good as new, and how long that took.
async fn next(pool: &Pool) -> (i32, Duration) {
    let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
    let conn = conn.unwrap();
    assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
    (whoami(&conn).await.1, took)
}

/// Covers: E-311
#[tokio::test(start_paused = true)]
async fn an_untouched_connection_goes_back_as_it_is() {
    let (sim, pool) = pool_of_one().await;
    let before = sim.server("a").counts().received;
    let pid = {
        let conn = pool.get().await.unwrap();
        Conn::uses(&conn);
        sim.sessions()[0].pid
    };
    pass(seconds(10)).await;
    assert_eq!(
        sim.server("a").counts().received,
        before,
        "nothing is sent for it"
    );
    assert_eq!(next(&pool).await.0, pid);
}

/// Covers: E-312
#[tokio::test(start_paused = true)]
async fn what_is_known_from_the_wire_decides_without_delay() {
    let (_sim, pool) = pool_of_one().await;
    let pid = {
        let conn = pool.get().await.unwrap();
        conn.batch_execute("BEGIN").await.unwrap();
        assert_eq!(
            Conn::transaction_status(&conn),
            Some(TransactionStatus::InTransaction)
        );
        conn.batch_execute("COMMIT").await.unwrap();
        assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
        whoami(&conn).await.1
    };
    assert_eq!(next(&pool).await, (pid, Duration::ZERO));
    assert_eq!(pool.status().totals.rolled_back, 0);

    let conn = pool.get().await.unwrap();
    let query = tokio::time::timeout(millis(1), conn.batch_execute("SELECT pg_sleep(1000)")).await;
    assert!(query.is_err());
    assert_eq!(Conn::transaction_status(&conn), None, "it owes an answer");
    drop(conn);
    let (same, took) = next(&pool).await;
    assert!(
        same == pid && took < millis(600),
        "cancelled after 500 ms: {took:?}"
    );
}

/// Covers: E-313
#[tokio::test(start_paused = true)]
async fn an_open_transaction_is_ended_before_the_next_holder() {
    let (sim, pool) = pool_of_one().await;
    {
        let conn = pool.get().await.unwrap();
        conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (1, 'lost')")
            .await
            .unwrap();
    }
    next(&pool).await;
    assert!(sim.ledger().is_empty());
    assert_eq!(pool.status().totals.rolled_back, 1);
}

/// Covers: E-314
#[tokio::test(start_paused = true)]
async fn a_failed_transaction_is_ended_before_the_next_holder() {
    let (_sim, pool) = pool_of_one().await;
    {
        let conn = pool.get().await.unwrap();
        assert!(conn.batch_execute("BEGIN; SELECT 1/0").await.is_err());
        pass(millis(1)).await;
        assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Failed));
    }
    next(&pool).await;
    assert_eq!(pool.status().totals.rolled_back, 1);
}

/// If the server does not end the transaction in time, the connection goes instead.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_cannot_be_ended_costs_the_connection() {
    for effect in [
        Effect::Hang { cancellable: false },
        Effect::error("XX000"),
        Effect::DieBefore(Death::Rst, pgsteer_sim::Scope::Session),
    ] {
        let (sim, pool) = pool_of_one().await;
        let pid = {
            let conn = pool.get().await.unwrap();
            conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (1, 'lost')")
                .await
                .unwrap();
            whoami(&conn).await.1
        };
        sim.server("a")
            .script(Script::on("rollback", effect.clone()).once());
        let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
        let conn = conn.unwrap();
        assert!(took <= millis(5010), "{effect:?}: {took:?}");
        assert_ne!(whoami(&conn).await.1, pid, "{effect:?}");
        assert!(sim.ledger().is_empty(), "{effect:?}");
    }
}

/// A statement nobody waits for is cancelled; where that does not help its connection is cut, in bounded time.
#[tokio::test(start_paused = true)]
async fn a_statement_that_no_cancel_ends_costs_the_connection_after_the_return_timeout() {
    let (sim, pool) = pool_of_one().await;
    sim.server("a")
        .script(Script::on("select 1", Effect::Hang { cancellable: false }).once());
    {
        let conn = pool.get().await.unwrap();
        let query = tokio::time::timeout(millis(10), conn.batch_execute("SELECT 1")).await;
        assert!(query.is_err());
    }
    let (_, took) = next(&pool).await;
    assert!((seconds(4)..=millis(5010)).contains(&took), "{took:?}");
    let totals = pool.status().totals;
    assert_eq!((totals.cancelled, totals.cut), (1, 1));
    assert_eq!(sim.server("a").counts().cancel_requests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_given_up_is_over_before_the_next_holder() {
    let (sim, pool) = pool_of_one().await;
    for finished in [false, true] {
        {
            let conn = pool.get().await.unwrap();
            let sink = conn
                .copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN")
                .await
                .unwrap();
            pin_mut!(sink);
            sink.send("1\tone\n".into()).await.unwrap();
            if finished {
                sink.finish().await.unwrap();
            }
        }
        next(&pool).await;
        assert_eq!(sim.ledger().len(), usize::from(finished));
    }
    assert_eq!(pool.status().totals.opened, 1);
}

/// The sink of a COPY outlives the guard; the connection does not outlive the return timeout.
#[tokio::test(start_paused = true)]
async fn a_copy_that_goes_on_after_the_return_costs_the_connection() {
    let (sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    let sink = conn
        .copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN")
        .await
        .unwrap();
    pin_mut!(sink);
    sink.send("1\tone\n".into()).await.unwrap();
    drop(conn);
    let (_, took) = next(&pool).await;
    assert!(took <= millis(5010), "{took:?}");
    assert!(sink.send("2\ttwo\n".into()).await.is_err() || sink.finish().await.is_err());
    assert!(sim.ledger().is_empty());
}

/// Covers: E-317
#[tokio::test(start_paused = true)]
async fn a_holder_may_close_the_pool_and_still_finish() {
    let (sim, pool) = pool_of_one().await;
    let done = {
        let conn = pool.get().await.unwrap();
        let closing = tokio::spawn({
            let pool = pool.clone();
            async move { pool.close(seconds(60)).await }
        });
        pass(seconds(1)).await;
        let row = conn.query_one("SELECT 'done'", &[]).await.unwrap();
        drop(conn);
        assert_eq!(closing.await.unwrap().still_out, 0);
        row.get::<_, String>(0)
    };
    assert_eq!(done, "done");
    assert_eq!(sim.live(), 0);
}

/// Covers: E-325
#[tokio::test(start_paused = true)]
async fn on_a_dead_connection_queries_fail_as_closed_and_the_status_is_unknown() {
    let (sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    sim.server("a").kill(Death::Fin);
    until("it is noticed", || conn.is_closed()).await;
    assert_eq!(Conn::transaction_status(&conn), None);
    for _ in 0..3 {
        assert!(matches!(
            conn.batch_execute("COMMIT").await,
            Err(Error::ConnectionLost(lost)) if lost.end.cause == EndCause::Silent
        ));
    }
    drop(conn);
    sim.server("a").start();
    next(&pool).await;
}

/// Covers: E-327, E-328
#[tokio::test(start_paused = true)]
async fn the_status_follows_the_wire_through_every_state() {
    let (_sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    let status = || Conn::transaction_status(&conn);
    assert_eq!(status(), Some(TransactionStatus::Idle));
    conn.batch_execute("BEGIN").await.unwrap();
    assert_eq!(status(), Some(TransactionStatus::InTransaction));
    assert!(conn.batch_execute("SELECT nonsense").await.is_err());
    pass(millis(1)).await;
    assert_eq!(status(), Some(TransactionStatus::Failed));
    conn.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(status(), Some(TransactionStatus::Idle));
    {
        let sink = conn
            .copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN")
            .await
            .unwrap();
        pin_mut!(sink);
        assert_eq!(status(), None, "in a COPY");
        sink.finish().await.unwrap();
    }
    assert_eq!(status(), Some(TransactionStatus::Idle));
}

/// Covers: E-329, E-330
#[tokio::test(start_paused = true)]
async fn reading_the_status_asks_nothing_and_changes_nothing_whatever_the_connection_holds() {
    let (sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    let mut statements = Vec::new();
    for number in 0..200 {
        statements.push(
            conn.prepare(&format!("SELECT {number}::int, $1::int"))
                .await
                .unwrap(),
        );
    }
    conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (1, 'kept')")
        .await
        .unwrap();
    let received = sim.server("a").counts().received;
    let (_, took) = timed(async {
        for _ in 0..10_000 {
            assert_eq!(
                Conn::transaction_status(&conn),
                Some(TransactionStatus::InTransaction)
            );
        }
    })
    .await;
    pass(seconds(1)).await;
    assert_eq!(
        (took, sim.server("a").counts().received),
        (Duration::ZERO, received)
    );
    conn.batch_execute("COMMIT").await.unwrap();
    assert_eq!(sim.ledger().len(), 1);
    let row = conn.query_one(&statements[7], &[&1i32]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);
}

/// Covers: E-331
#[tokio::test(start_paused = true)]
async fn while_the_server_does_not_answer_the_status_is_unknown_and_then_it_is_known_again() {
    let (_sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    let query = tokio::time::timeout(seconds(1), conn.batch_execute("SELECT pg_sleep(3)")).await;
    assert!(query.is_err());
    assert_eq!(Conn::transaction_status(&conn), None);
    pass(millis(2100)).await;
    assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
    let row = conn.query_one("SELECT 5::int", &[]).await.unwrap();
    assert_eq!(
        row.get::<_, i32>(0),
        5,
        "a late answer does not reach a later caller"
    );
}

/// A row keeps its statement, which is closed on the server when the row goes. That may be long after the connection
/// went back, and the next holder notices nothing but that its status is unknown for a moment.
#[tokio::test(start_paused = true)]
async fn rows_kept_beyond_the_return_do_not_disturb_the_next_holder() {
    let (_sim, pool) = pool_of_one().await;
    let row = pool.query_one("SELECT 1::int", &[]).await.unwrap();
    let conn = pool.get().await.unwrap();
    conn.batch_execute("BEGIN").await.unwrap();
    drop(row);
    let answer = conn.query_one("SELECT 2::int", &[]).await.unwrap();
    assert_eq!(answer.get::<_, i32>(0), 2);
    assert_eq!(
        Conn::transaction_status(&conn),
        Some(TransactionStatus::InTransaction)
    );
    conn.batch_execute("COMMIT").await.unwrap();
    drop((answer, conn));
    next(&pool).await;
    assert_eq!(pool.status().totals.opened, 1);
}

/// What came clean by itself, what was rolled back, cancelled, cut, and what is gone for it.
fn outcomes(pool: &Pool) -> [u64; 5] {
    let totals = pool.status().totals;
    [
        totals.came_clean,
        totals.rolled_back,
        totals.cancelled,
        totals.cut,
        totals.closes.unclean + totals.closes.cut,
    ]
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_queries_that_were_given_up_is_counted() {
    let late = Effect::Delay(millis(100));
    let table = [
        ("SELECT 1", late.clone(), [1, 0, 0, 0, 0]),
        ("BEGIN; SELECT 1", late, [0, 1, 0, 0, 0]),
        ("SELECT 1", Effect::Hang { cancellable: true }, [0, 0, 1, 0, 0]),
        ("SELECT 1", Effect::Hang { cancellable: false }, [0, 0, 1, 1, 1]),
    ];
    for (sql, effect, expected) in table {
        let (sim, pool) = pool_of_one().await;
        sim.server("a")
            .script(Script::on("SELECT 1", effect.clone()).once());
        {
            let conn = pool.get().await.unwrap();
            let mut call = std::pin::pin!(conn.batch_execute(sql));
            assert!(futures_util::poll!(call.as_mut()).is_pending());
        }
        drop(pool.get_timeout(seconds(20)).await.unwrap());
        assert_eq!(outcomes(&pool), expected, "{sql} {effect:?}");
    }
}
