//! The statements that connections keep prepared: how often the server is asked to prepare, and what becomes of
//! statements that it has lost.

use pgsteer::config::LoadBalance;
use pgsteer::{Config, Error, GenericClient, Pool};
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

/// A function of an application that is given any of them, spawned as such functions are.
async fn twice(client: &impl GenericClient) -> Result<(i32, u64), Error> {
    let statement = client.prepare_typed("SELECT 7::int", &[]).await?;
    let row = client.query_one(&statement, &[]).await?;
    client.batch_execute("SELECT 1").await?;
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
