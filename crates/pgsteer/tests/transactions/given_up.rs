//! What goes on, on a real server, of work that was given up: a server that is busy with a statement does not notice that its
//! client has gone, and keeps the transaction's locks.

use std::time::Duration;

use pgsteer::{Conn, Error, Pool, TransactionOptions};

use crate::rig::{Bank, bank, becomes, soon};

const SPEND: &str = "UPDATE accounts SET balance = balance - 1 WHERE id = 1";

/// Longer than anything may take here.
const ENDLESS: &str = "SELECT pg_sleep(600)";

impl Bank {
    /// Backends that are at the endless statement.
    fn at_it(&self) -> usize {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = '{ENDLESS}'");
        self.server.server(0).sql(&sql).len()
    }
}

async fn lock_and_sleep(pool: &Pool) -> Result<u64, Error> {
    pool.transaction(|tx| async move {
        tx.execute(SPEND, &[]).await?;
        tx.execute(ENDLESS, &[]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dropped_transaction_is_at_is_cancelled_and_its_locks_are_free() {
    let bank = bank(2).await;
    tokio::select! {
        done = lock_and_sleep(&bank.pool) => panic!("{done:?}"),
        () = becomes("it is at it", || bank.at_it() == 1) => {}
    }
    soon(bank.pool.execute(SPEND, &[])).await.unwrap();
    becomes("nobody is at it", || bank.at_it() == 0).await;
    assert_eq!(bank.accounts().await[0], (1, 99));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_out_of_time_does_not_stand_in_the_way_of_the_next_one() {
    let bank = bank(2).await;
    let options = TransactionOptions::new()
        .attempts(20)
        .attempt_timeout(Duration::from_secs(2));
    let work = bank.pool.transaction_with(options, |tx| async move {
        tx.execute(SPEND, &[]).await?;
        if tx.attempt() == 1 {
            tx.execute(ENDLESS, &[]).await?;
        }
        Ok::<_, Error>(())
    });
    soon(work).await.unwrap();
    becomes("nobody is at it", || bank.at_it() == 0).await;
    assert_eq!(bank.accounts().await[0], (1, 99));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_on_a_discarded_connection_is_cancelled() {
    let bank = bank(2).await;
    let conn = bank.pool.get().await.unwrap();
    tokio::select! {
        done = conn.batch_execute(ENDLESS) => panic!("{done:?}"),
        () = becomes("it is at it", || bank.at_it() == 1) => {}
    }
    Conn::discard(conn);
    becomes("nobody is at it", || bank.at_it() == 0).await;
}
