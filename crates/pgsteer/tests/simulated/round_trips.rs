//! How often a caller waits for the server: each answer takes a second here, so a call takes as many seconds as it has
//! answers to wait for, those to requests that were sent ahead included.

use std::future::Future;

use pgsteer::config::LoadBalance;
use pgsteer::{Config, Error, Pool, TransactionOptions};
use pgsteer_sim::Sim;

use crate::rig::*;

const SQL: &str = "SELECT $1::int";

async fn slow(config: impl FnOnce(Config) -> Config) -> (Sim, Pool) {
    let sim = three().build();
    let config = config(abc().load_balance(LoadBalance::Off).pool_size(1));
    let pool = full(&sim, config).await;
    sim.server("a").set_answer_latency(seconds(1));
    (sim, pool)
}

/// Answers waited for, statements, and bytes to the server.
async fn costs<T>(sim: &Sim, work: impl Future<Output = Result<T, Error>>) -> (u64, u64, u64) {
    let before = sim.server("a").counts();
    let (result, took) = timed(work).await;
    assert!(result.is_ok());
    // What is sent without waiting for the answer counts too.
    pass(seconds(10)).await;
    let after = sim.server("a").counts();
    (
        took.as_secs(),
        after.statements - before.statements,
        after.received - before.received,
    )
}

#[tokio::test(start_paused = true)]
async fn a_transaction_takes_what_begin_and_commit_by_hand_take() {
    let (sim, pool) = slow(|config| config).await;
    pool.query_cached(SQL, &[&1]).await.unwrap();
    let by_hand = async {
        let conn = pool.get().await?;
        conn.batch_execute("BEGIN").await?;
        conn.query_cached(SQL, &[&1]).await?;
        conn.batch_execute("COMMIT").await
    };
    let by_hand = costs(&sim, by_hand).await;
    let ours = pool.transaction(|tx| async move { tx.query_cached(SQL, &[&1]).await });
    let ours = costs(&sim, ours).await;
    assert_eq!((by_hand.0, by_hand.1), (3, 3));
    assert_eq!(ours, by_hand);

    let rolled_back = pool.transaction(|tx| async move {
        tx.query_cached(SQL, &[&1]).await?;
        Err::<(), _>(Error::rollback("as planned"))
    });
    let rolled_back = async { Ok::<_, Error>(rolled_back.await.unwrap_err()) };
    assert_eq!(costs(&sim, rolled_back).await.0, 3);
}

#[tokio::test(start_paused = true)]
async fn options_of_a_transaction_cost_nothing_and_a_savepoint_costs_two_round_trips() {
    let (sim, pool) = slow(|config| config).await;
    pool.query_cached(SQL, &[&1]).await.unwrap();
    let options = TransactionOptions::new().read_only(true);
    let work = pool.transaction_with(options, |tx| async move {
        tx.savepoint(|tx| async move { tx.query_cached(SQL, &[&1]).await })
            .await
    });
    assert_eq!(costs(&sim, work).await.0, 5);
}

#[tokio::test(start_paused = true)]
async fn a_cached_call_takes_one_round_trip_from_its_second_use_on() {
    // Statements kept, where the first use is made, and what it takes. With none kept that is BEGIN, asking, closing,
    // ROLLBACK and the run, of which the first two and the next two go out together.
    for (kept, within, first) in [(256, false, 2), (256, true, 2), (0, false, 5), (0, true, 3)] {
        let (sim, pool) = slow(|config| config.statement_cache_size(kept)).await;
        if within {
            let conn = pool.get().await.unwrap();
            conn.batch_execute("BEGIN").await.unwrap();
            for expected in [first, 1, 1] {
                let took = costs(&sim, conn.query_cached(SQL, &[&1])).await.0;
                assert_eq!(took, expected, "{kept} within a transaction");
            }
            continue;
        }
        for expected in [first, 1, 1] {
            let took = costs(&sim, pool.query_cached(SQL, &[&1])).await.0;
            assert_eq!(took, expected, "{kept}");
        }
    }
}
