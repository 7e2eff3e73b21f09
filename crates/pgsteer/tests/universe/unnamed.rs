//! `statement_cache_size=0`: statements that leave no name on the server, as a pooler needs that gives every transaction
//! another session. PgBouncer stands before one real server, in transaction mode, its sessions handed out in turn.

use std::future::Future;
use std::pin::pin;

use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use pgsteer::{Conn, Error, GenericClient, Pool, TransactionStatus};
use pgsteer_testkit::{PgBouncer, Universe};

use crate::rig::{LIMIT, Rig, config_for, full_pool, rig, soon};

/// The server's sessions that clients share.
const SESSIONS: usize = 3;

/// Every transaction gets the session that was used longest ago.
const IN_TURN: [(&str, &str); 3] = [
    ("pool_mode", "transaction"),
    ("default_pool_size", "3"),
    ("server_round_robin", "1"),
];

struct Pooled {
    // Dropped before the server is.
    bouncer: PgBouncer,
    universe: Rig,
}

async fn pooled() -> Pooled {
    let universe = rig(Universe::builder().servers(1)).await;
    universe
        .server(0)
        .sql("CREATE TABLE seen (id int8 PRIMARY KEY, note text)");
    universe.server(0).sql("GRANT ALL ON seen TO PUBLIC");
    let pooled = Pooled {
        bouncer: PgBouncer::configured(universe.server(0), &IN_TURN),
        universe,
    };
    // It opens one only when the others are all within transactions.
    let clients = pooled.pool("pool_size=3").await;
    let mut within = Vec::new();
    for _ in 0..SESSIONS {
        let conn = clients.get().await.unwrap();
        conn.batch_execute("BEGIN").await.unwrap();
        within.push(conn);
    }
    for conn in within {
        conn.batch_execute("COMMIT").await.unwrap();
    }
    pooled
}

impl Pooled {
    async fn pool(&self, parameters: &str) -> Pool {
        let config = config_for(&self.bouncer.address(), parameters);
        let pool = Pool::start(config).unwrap();
        pool.ready(u32::MAX, LIMIT).await.unwrap();
        pool
    }

    /// How many statements are prepared under names, over all sessions, each seen at least once.
    async fn named(&self) -> i64 {
        let pool = self.pool("pool_size=1&statement_cache_size=0").await;
        let conn = pool.get().await.unwrap();
        let mut by_session = std::collections::BTreeMap::new();
        for _ in 0..4 * SESSIONS {
            let sql = "SELECT pg_backend_pid()::text, count(*)::text FROM pg_prepared_statements";
            let rows = conn.simple_query(sql).await.unwrap();
            for row in rows {
                if let pgsteer::tokio_postgres::SimpleQueryMessage::Row(row) = row {
                    let count: i64 = row.get(1).unwrap().parse().unwrap();
                    by_session.insert(row.get(0).unwrap().to_owned(), count);
                }
            }
        }
        assert_eq!(by_session.len(), SESSIONS);
        by_session.values().sum()
    }
}

/// Every kind of cached call, with an answer that says whether it was this one's. The ids are the task's own.
async fn work(client: &impl GenericClient, id: i64) -> Result<(), Error> {
    let note = format!("note {id}");
    let insert = "INSERT INTO seen VALUES ($1, $2)";
    assert_eq!(client.execute_cached(insert, &[&id, &note]).await?, 1);
    let select = "SELECT note FROM seen WHERE id = $1";
    let row = client.query_one_cached(select, &[&id]).await?;
    assert_eq!(row.get::<_, &str>(0), note);
    let none = client.query_opt_cached(select, &[&-id]).await?;
    assert!(none.is_none());
    let both = "SELECT $1::int8 + 1 AS next, $2::text WHERE true";
    let rows = client.query_cached(both, &[&id, &note]).await?;
    assert_eq!(
        (rows[0].get::<_, i64>(0), rows[0].get::<_, &str>(1)),
        (id + 1, &*note)
    );
    client.execute_cached("SELECT 1", &[]).await.map(drop)
}

/// Works through the pool itself, a guard, a borrowed guard, a transaction and a savepoint in turn.
async fn works(pool: &Pool, first: i64) -> Result<(), Error> {
    for id in first..first + 10 {
        match id % 5 {
            0 => {
                let sql = "SELECT $1::int8 * 2";
                let twice: i64 = pool.query_one_cached(sql, &[&id]).await?.get(0);
                assert_eq!(twice, id * 2);
                let insert = "INSERT INTO seen VALUES ($1, NULL)";
                assert_eq!(pool.execute_cached(insert, &[&id]).await?, 1);
                assert_eq!(pool.query_cached(sql, &[&id]).await?.len(), 1);
                assert!(pool.query_opt_cached(sql, &[&id]).await?.is_some());
            }
            1 => work(&pool.get().await?, id).await?,
            2 => work(&pool.get_ref().await?, id).await?,
            3 => pool.transaction(|tx| async move { work(&tx, id).await }).await?,
            _ => {
                pool.transaction(
                    |tx| async move { tx.savepoint(|tx| async move { work(&tx, id).await }).await },
                )
                .await?;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn several_clients_share_a_pooler_in_transaction_mode() {
    let pooled = pooled().await;
    let one = pooled.pool("pool_size=4&statement_cache_size=0").await;
    let two = pooled.pool("pool_size=4&statement_cache_size=0").await;
    let tasks = (0..16).map(|task| {
        let pool = if task % 2 == 0 { one.clone() } else { two.clone() };
        tokio::spawn(async move { works(&pool, 1 + task * 10).await })
    });
    for ended in soon(join_all(tasks)).await {
        ended.unwrap().unwrap();
    }
    let rows = pooled.universe.server(0).sql("SELECT count(*) FROM seen");
    assert_eq!(rows[0][0].as_deref(), Some("160"));
}

/// The same with statements that are kept under names, which shows that sessions really change under the clients.
#[tokio::test(flavor = "multi_thread")]
async fn with_kept_statements_the_same_fails() {
    let pooled = pooled().await;
    let pool = pooled.pool("pool_size=4").await;
    let mut missing = 0;
    for id in 0..20_i64 {
        let answer = pool.query_one_cached("SELECT $1::int8", &[&id]).await;
        missing += usize::from(answer.is_err_and(|error| error.code() == Some("26000")));
    }
    assert!(missing > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_on_the_sessions() {
    let pooled = pooled().await;
    let pool = pooled.pool("pool_size=4&statement_cache_size=0").await;
    for first in [1, 11, 21] {
        works(&pool, first).await.unwrap();
    }
    assert_eq!(pooled.named().await, 0);
}

/// A pool on the server itself, with one connection more than is held.
async fn direct() -> (Rig, Pool) {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = full_pool(&universe, "pool_size=2&load_balance=false&statement_cache_size=0").await;
    (universe, pool)
}

/// A holder's own session counts, whatever it has made of it: another connection knows nothing of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_may_need_what_is_there_in_its_own_session_alone() {
    let (_universe, pool) = direct().await;
    let conn = pool.get().await.unwrap();
    conn.batch_execute("CREATE TEMP TABLE mine (n int8); CREATE TYPE pg_temp.mood AS ENUM ('glad', 'sad')")
        .await
        .unwrap();
    let insert = "INSERT INTO mine VALUES ($1)";
    assert_eq!(conn.execute_cached(insert, &[&1_i64]).await.unwrap(), 1);
    let cast = "SELECT $1::text::pg_temp.mood::text";
    let row = conn.query_one_cached(cast, &[&"glad"]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "glad");
}

/// What types are asked for in is no transaction that others' statements can get into.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_beside_the_first_use_of_a_statement_is_done() {
    let (_universe, pool) = direct().await;
    pool.batch_execute("CREATE TABLE beside (n int)").await.unwrap();
    let conn = pool.get().await.unwrap();
    for turn in 0..50 {
        let sql = format!("SELECT $1::int + {turn}");
        let (first, second) = join(
            conn.query_one_cached(&sql, &[&1]),
            conn.batch_execute("INSERT INTO beside VALUES (1)"),
        )
        .await;
        assert_eq!(first.unwrap().get::<_, i32>(0), 1 + turn);
        second.unwrap();
    }
    let count = pool.query_one_cached("SELECT count(*) FROM beside", &[]).await;
    assert_eq!(count.unwrap().get::<_, i64>(0), 50);
}

/// Polled so often, each time at the scheduler's next turn, and dropped.
async fn give_up_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if future.as_mut().now_or_never().is_some() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_micros(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_use_that_is_dropped_leaves_no_transaction() {
    let (_universe, pool) = direct().await;
    pool.batch_execute("CREATE TABLE kept (n int)").await.unwrap();
    for turn in 0..200_usize {
        let sql = format!("SELECT $1::int + {turn}");
        let params: &[&(dyn pgsteer::tokio_postgres::types::ToSql + Sync)] = &[&1];
        match turn % 3 {
            0 => give_up_after(turn / 3 % 20, pool.query_cached(&sql, params)).await,
            1 => {
                let conn = pool.get().await.unwrap();
                give_up_after(turn / 3 % 20, conn.query_cached(&sql, params)).await;
                // The holder goes on with it.
                conn.batch_execute("INSERT INTO kept VALUES (1)").await.unwrap();
                assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
            }
            _ => {
                let given_up = pool.transaction(|tx| {
                    let sql = sql.clone();
                    async move { tx.query_cached(&sql, &[&1]).await }
                });
                give_up_after(turn / 3 % 20, given_up).await;
            }
        }
        let conn = pool.get().await.unwrap();
        assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
        conn.batch_execute("SELECT 1").await.unwrap();
    }
    let count = pool.query_one("SELECT count(*) FROM kept", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 67);
}

/// Another process counts its statements' names from the same number.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_others_have_left_behind_are_passed_over() {
    let (_universe, pool) = direct().await;
    // Whichever of the two is asked, and however many names the tests beside this one take meanwhile.
    let held = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    for conn in &held {
        let statement = conn.prepare("SELECT 1").await.unwrap();
        let debug = format!("{statement:?}");
        let number: usize = debug
            .split_once("name: \"s")
            .and_then(|(_, rest)| rest.split_once('"'))
            .and_then(|(number, _)| number.parse().ok())
            .expect("names are numbered");
        let taken: Vec<_> = (number + 1..number + 41)
            .map(|taken| format!("PREPARE s{taken} AS SELECT 1"))
            .collect();
        conn.batch_execute(&taken.join("; ")).await.unwrap();
    }
    drop(held);
    let row = pool.query_one_cached("SELECT $1::int", &[&7]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_number_of_values_is_told_as_it_is_of_other_statements() {
    let (_universe, pool) = direct().await;
    let sql = "SELECT $1::int + $2::int";
    for params in [
        &[&1_i32 as &(dyn pgsteer::tokio_postgres::types::ToSql + Sync)][..],
        &[],
        &[&1, &2, &3],
    ] {
        let told = pool.query_cached(sql, params).await.unwrap_err().to_string();
        assert_eq!(told, pool.query(sql, params).await.unwrap_err().to_string());
    }
    let row = pool.query_one_cached(sql, &[&1, &2]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_do_not_suit_any_more_are_asked_for_again() {
    let (_universe, pool) = direct().await;
    let conn = pool.get().await.unwrap();
    conn.batch_execute("CREATE TABLE changed (id int)").await.unwrap();
    let sql = "SELECT count(*) FROM changed WHERE id = $1";
    conn.query_one_cached(sql, &[&1]).await.unwrap();
    conn.batch_execute("ALTER TABLE changed ALTER id TYPE text")
        .await
        .unwrap();
    let error = conn.query_one_cached(sql, &[&1]).await.unwrap_err();
    assert_eq!(error.code(), Some("42883"));
    conn.query_one_cached(sql, &[&"one"]).await.unwrap();
}
