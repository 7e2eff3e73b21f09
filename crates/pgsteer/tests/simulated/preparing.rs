//! The statements that connections keep prepared: how often the server is asked to prepare, and what becomes of
//! statements that it has lost.

use std::sync::{Arc, Mutex};

use pgsteer::config::LoadBalance;
use pgsteer::{AttemptEnd, Config, Error, GenericClient, Pool, TransactionOptions};
use pgsteer_sim::{Effect, Event, Script, Sim};

use crate::rig::*;

fn one() -> Config {
    config(&["a"]).load_balance(LoadBalance::Off).pool_size(1)
}

async fn pool_of_one(config: Config) -> (Sim, Pool) {
    let sim = three().build();
    let pool = full(&sim, config).await;
    sim.clear_log();
    (sim, pool)
}

/// What the server was asked to prepare since the log was cleared.
fn prepared(sim: &Sim) -> Vec<String> {
    sim.log()
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::Parse(text) => Some(text),
            _ => None,
        })
        .collect()
}

async fn ask(pool: &Pool, sql: &str) -> Result<i32, Error> {
    let conn = pool.get().await?;
    Ok(conn.query_one_cached(sql, &[]).await?.get(0))
}

#[tokio::test(start_paused = true)]
async fn a_kept_statement_is_prepared_once_for_all_holders_of_a_connection() {
    let (sim, pool) = pool_of_one(one()).await;
    for _ in 0..3 {
        assert_eq!(ask(&pool, "SELECT 1::int").await.unwrap(), 1);
    }
    let conn = pool.get().await.unwrap();
    assert_eq!(conn.query_cached("SELECT 1::int", &[]).await.unwrap().len(), 1);
    assert!(
        conn.query_opt_cached("SELECT 1::int", &[])
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(conn.execute_cached("SELECT 1::int", &[]).await.unwrap(), 1);
    conn.prepare_cached("SELECT 1::int").await.unwrap();
    assert_eq!(prepared(&sim), ["SELECT 1::int"]);
}

#[tokio::test(start_paused = true)]
async fn the_statement_used_longest_ago_makes_room() {
    let (sim, pool) = pool_of_one(one().statement_cache_size(2)).await;
    for number in [1, 2, 1, 3, 1, 2] {
        ask(&pool, &format!("SELECT {number}::int")).await.unwrap();
    }
    let expected = [1, 2, 3, 2].map(|number| format!("SELECT {number}::int"));
    assert_eq!(prepared(&sim), expected);
}

#[tokio::test(start_paused = true)]
async fn a_statement_the_server_has_lost_is_prepared_again_once() {
    let (sim, pool) = pool_of_one(one()).await;
    ask(&pool, "SELECT 7::int").await.unwrap();
    pool.batch_execute("DEALLOCATE ALL").await.unwrap();
    assert_eq!(ask(&pool, "SELECT 7::int").await.unwrap(), 7);
    assert_eq!(prepared(&sim).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_statement_whose_result_has_changed_is_prepared_again_once() {
    let (sim, pool) = pool_of_one(one()).await;
    ask(&pool, "SELECT 7::int").await.unwrap();
    let changed = Effect::Error {
        sqlstate: "0A000".to_owned(),
        message: "cached plan must not change result type".to_owned(),
    };
    sim.server("a")
        .script(Script::on("SELECT 7", changed.clone()).once());
    assert_eq!(ask(&pool, "SELECT 7::int").await.unwrap(), 7);
    assert_eq!(prepared(&sim).len(), 2);
    // Once and no more.
    sim.server("a").script(Script::on("SELECT 7", changed).times(2));
    assert_eq!(
        ask(&pool, "SELECT 7::int").await.unwrap_err().code(),
        Some("0A000")
    );
}

#[tokio::test(start_paused = true)]
async fn inside_a_transaction_an_outdated_statement_is_forgotten_and_its_error_told() {
    let (sim, pool) = pool_of_one(one()).await;
    let conn = pool.get().await.unwrap();
    conn.query_cached("SELECT 7::int", &[]).await.unwrap();
    conn.batch_execute("BEGIN; DEALLOCATE ALL").await.unwrap();
    let error = conn.query_cached("SELECT 7::int", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some("26000"));
    assert_eq!(prepared(&sim).len(), 1);
    conn.batch_execute("ROLLBACK").await.unwrap();
    conn.query_cached("SELECT 7::int", &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_of_other_kinds_cost_no_statement() {
    let (sim, pool) = pool_of_one(one()).await;
    ask(&pool, "SELECT 7::int").await.unwrap();
    sim.server("a")
        .script(Script::on("SELECT 7", Effect::error("0A000")).once());
    assert_eq!(
        ask(&pool, "SELECT 7::int").await.unwrap_err().code(),
        Some("0A000")
    );
    ask(&pool, "SELECT 7::int").await.unwrap();
    assert_eq!(prepared(&sim).len(), 1);
}

/// The ends of a transaction's attempts, each of which asks by `closure`'s text.
async fn attempts(pool: &Pool, sql: &'static str) -> (Result<i32, Error>, Vec<AttemptEnd>) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let seen = ends.clone();
    let options = TransactionOptions::new().on_attempt(move |attempt| seen.lock().unwrap().push(attempt.end));
    let result = pool
        .transaction_with(options, |tx| async move {
            Ok::<i32, Error>(tx.query_one_cached(sql, &[]).await?.get(0))
        })
        .await;
    let ends = ends.lock().unwrap().clone();
    (result, ends)
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_run_again_when_a_kept_statement_had_become_outdated() {
    let (sim, pool) = pool_of_one(one()).await;
    let both = [AttemptEnd::StatementOutdated, AttemptEnd::Committed];
    ask(&pool, "SELECT 7::int").await.unwrap();
    pool.batch_execute("DEALLOCATE ALL").await.unwrap();
    let (result, ends) = attempts(&pool, "SELECT 7::int").await;
    assert_eq!((result.unwrap(), &ends[..]), (7, &both[..]));

    let changed = Effect::Error {
        sqlstate: "0A000".to_owned(),
        message: "cached plan must not change result type".to_owned(),
    };
    sim.server("a").script(Script::on("SELECT 7", changed).once());
    let (result, ends) = attempts(&pool, "SELECT 7::int").await;
    assert_eq!((result.unwrap(), &ends[..]), (7, &both[..]));
}

/// The codes are not enough: they say other things besides, which would be no better the next time.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_fails_with_such_a_code_by_itself_is_not_run_again() {
    let (sim, pool) = pool_of_one(one()).await;
    sim.server("a")
        .script(Script::on("SELECT 7", Effect::error("0A000")).once());
    let (result, ends) = attempts(&pool, "SELECT 7::int").await;
    assert_eq!(result.unwrap_err().code(), Some("0A000"));
    assert_eq!(ends, [AttemptEnd::RolledBack]);

    // Found within a transaction that the caller began by hand, and none of the next one's.
    ask(&pool, "SELECT 8::int").await.unwrap();
    let conn = pool.get().await.unwrap();
    conn.batch_execute("BEGIN; DEALLOCATE ALL").await.unwrap();
    conn.query_cached("SELECT 8::int", &[]).await.unwrap_err();
    conn.batch_execute("ROLLBACK").await.unwrap();
    drop(conn);
    sim.server("a")
        .script(Script::on("SELECT 8", Effect::error("26000")).once());
    let failed = pool
        .transaction(|tx| async move { tx.query("SELECT 8::int", &[]).await })
        .await;
    assert_eq!(failed.unwrap_err().code(), Some("26000"));
}

#[tokio::test(start_paused = true)]
async fn a_savepoint_undoes_what_an_outdated_statement_has_done_to_its_transaction() {
    let (_sim, pool) = pool_of_one(one()).await;
    ask(&pool, "SELECT 7::int").await.unwrap();
    pool.batch_execute("DEALLOCATE ALL").await.unwrap();
    let found = pool
        .transaction(|tx| async move {
            let within = tx
                .savepoint(|tx| async move { tx.query_cached("SELECT 7::int", &[]).await })
                .await;
            assert_eq!(within.unwrap_err().code(), Some("26000"));
            tx.query_one_cached("SELECT 7::int", &[]).await
        })
        .await;
    assert_eq!(found.unwrap().get::<_, i32>(0), 7);
}

#[tokio::test(start_paused = true)]
async fn the_pool_transactions_and_savepoints_use_what_the_connection_keeps() {
    let (sim, pool) = pool_of_one(one()).await;
    let sql = "SELECT 1::int";
    assert_eq!(pool.query_cached(sql, &[]).await.unwrap().len(), 1);
    assert_eq!(pool.query_one_cached(sql, &[]).await.unwrap().get::<_, i32>(0), 1);
    assert!(pool.query_opt_cached(sql, &[]).await.unwrap().is_some());
    assert_eq!(pool.execute_cached(sql, &[]).await.unwrap(), 1);
    pool.transaction(|tx| async move {
        cached(&tx).await?;
        tx.savepoint(|tx| async move { cached(&tx).await }).await
    })
    .await
    .unwrap();
    assert_eq!(prepared(&sim), [sql]);
}

/// Asked for once, then sent with each run; nothing but the runs is sent from then on.
#[tokio::test(start_paused = true)]
async fn where_none_is_kept_each_use_but_the_first_is_one_statement_without_a_name() {
    let (sim, pool) = pool_of_one(one().statement_cache_size(0)).await;
    let sql = "SELECT $1::int + 1";
    let statements = || sim.server("a").counts().statements;
    for turn in 1..4 {
        let before = statements();
        let row = pool.query_one_cached(sql, &[&turn]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), turn + 1);
        // The first time in a transaction of its own, begun and rolled back.
        assert_eq!(statements() - before, if turn == 1 { 3 } else { 1 });
        assert_eq!(prepared(&sim).len(), usize::try_from(turn + 1).unwrap());
    }
    pool.clear_statement_caches();
    pool.query_one_cached(sql, &[&1]).await.unwrap();
    assert_eq!(prepared(&sim).len(), 6);
}

/// Every cached call there is.
async fn cached(client: &impl GenericClient) -> Result<(i32, u64), Error> {
    let sql = "SELECT 1::int";
    client.prepare_cached(sql).await?;
    client.query_cached(sql, &[]).await?;
    assert!(client.query_opt_cached(sql, &[]).await?.is_some());
    let row = client.query_one_cached(sql, &[]).await?;
    Ok((row.get(0), client.execute_cached(sql, &[]).await?))
}

/// A function of an application that is given any of them, spawned as such functions are.
async fn twice(client: &impl GenericClient) -> Result<(i32, u64), Error> {
    let statement = client.prepare_typed("SELECT 7::int", &[]).await?;
    let row = client.query_one(&statement, &[]).await?;
    client.batch_execute("SELECT 1").await?;
    assert_eq!(cached(client).await?, (1, 1));
    Ok((row.get(0), client.execute("SELECT 7::int", &[]).await?))
}

#[tokio::test(start_paused = true)]
async fn guards_and_transactions_can_be_used_by_one_function() {
    let (_sim, pool) = pool_of_one(one()).await;
    let used = tokio::spawn(async move {
        let owned = twice(&pool.get().await?).await?;
        let borrowed = twice(&pool.get_ref().await?).await?;
        let inside = pool.transaction(|tx| async move { twice(&tx).await }).await?;
        Ok::<_, Error>([owned, borrowed, inside])
    });
    assert_eq!(used.await.unwrap().unwrap(), [(7, 1); 3]);
}

#[tokio::test(start_paused = true)]
async fn all_connections_of_a_pool_can_be_told_to_forget_their_statements() {
    let (sim, pool) = pool_of_one(one()).await;
    ask(&pool, "SELECT 7::int").await.unwrap();
    pool.clear_statement_caches();
    ask(&pool, "SELECT 7::int").await.unwrap();
    ask(&pool, "SELECT 7::int").await.unwrap();
    assert_eq!(prepared(&sim).len(), 2);
}

/// Where none is kept, another connection is asked for the types: one on a host that does not answer holds nobody up for
/// long.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_to_a_frozen_host_does_not_hold_up_the_first_use_of_a_statement() {
    let sim = three().build();
    let config = abc().pool_size(3).statement_cache_size(0);
    let pool = full(&sim, config).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.get().await.unwrap());
    }
    let at = held
        .iter()
        .position(|conn| pgsteer::Conn::host(conn) == &key("b"))
        .unwrap();
    drop(held.swap_remove(at));
    sim.server("b").freeze();
    let (row, took) = timed(held[0].query_one_cached("SELECT $1::int", &[&7])).await;
    assert_eq!(row.unwrap().get::<_, i32>(0), 7);
    assert!(took <= millis(1100), "{took:?}");
}
