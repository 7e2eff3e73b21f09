//! Real conflicts: serialization failures at a statement and at COMMIT, deadlocks, and back-ends that are terminated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pgsteer::tokio_postgres::IsolationLevel;
use pgsteer::{AttemptEnd, Error, TransactionOptions};
use tokio::sync::Barrier;

use crate::rig::bank;

/// Many tasks move money both ways at once, under the strictest isolation: every conflict is run again until it is done.
#[tokio::test(flavor = "multi_thread")]
async fn serializable_transfers_against_each_other_all_come_through() {
    let bank = bank(4).await;
    let conflicts = Arc::new(AtomicU32::new(0));
    let options = TransactionOptions::new()
        .isolation(IsolationLevel::Serializable)
        .attempts(1000)
        .max_backoff(Duration::from_millis(20))
        .on_attempt({
            let conflicts = conflicts.clone();
            move |attempt| {
                if attempt.end == AttemptEnd::Conflict {
                    conflicts.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (pool, options) = (bank.pool.clone(), options.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    let (from, to) = if task % 2 == 0 { (1, 2) } else { (2, 1) };
                    pool.transaction_with(options.clone(), |tx| async move {
                        let row = tx
                            .query_one("SELECT sum(balance)::int4 FROM accounts", &[])
                            .await?;
                        assert_eq!(row.get::<_, i32>(0), 200);
                        let take = "UPDATE accounts SET balance = balance - 1 WHERE id = $1";
                        tx.execute(take, &[&from]).await?;
                        let give = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";
                        tx.execute(give, &[&to]).await?;
                        Ok::<_, Error>(())
                    })
                    .await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(bank.accounts().await, [(1, 100), (2, 100)]);
    assert!(
        conflicts.load(Ordering::Relaxed) > 0,
        "nothing was put to the test"
    );
}

/// Two lock the same rows in opposite order, at the same moment: one is the victim, and is run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_run_again() {
    let bank = bank(2).await;
    let both_hold_one = Arc::new(Barrier::new(2));
    let transfer = |first: i32, second: i32| {
        let (pool, both_hold_one) = (bank.pool.clone(), both_hold_one.clone());
        tokio::spawn(async move {
            pool.transaction(|tx| {
                let both_hold_one = both_hold_one.clone();
                async move {
                    let spend = "UPDATE accounts SET balance = balance - 1 WHERE id = $1";
                    tx.execute(spend, &[&first]).await?;
                    if tx.attempt() == 1 {
                        both_hold_one.wait().await;
                    }
                    tx.execute(spend, &[&second]).await?;
                    Ok(tx.attempt())
                }
            })
            .await
        })
    };
    let (one, other) = (transfer(1, 2), transfer(2, 1));
    let mut attempts = [one.await.unwrap().unwrap(), other.await.unwrap().unwrap()];
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(bank.accounts().await, [(1, 98), (2, 98)]);
}

/// The back-end is terminated within the transaction, before or after its last statement: it is run again on another, and
/// done once.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_terminated_before_commit_costs_an_attempt_and_does_nothing_twice() {
    let bank = bank(2).await;
    for before_the_statement in [true, false] {
        let attempts = bank
            .pool
            .transaction(|tx| {
                let pool = bank.pool.clone();
                async move {
                    let kill = async {
                        if tx.attempt() == 1 {
                            let row = tx.query_one("SELECT pg_backend_pid()", &[]).await?;
                            let kill = "SELECT pg_terminate_backend($1, 60000)";
                            let gone = pool.query_one(kill, &[&row.get::<_, i32>(0)]).await?;
                            assert!(gone.get::<_, bool>(0));
                        }
                        Ok::<_, Error>(())
                    };
                    let spend = "UPDATE accounts SET balance = balance - 1 WHERE id = 1";
                    if before_the_statement {
                        kill.await?;
                        tx.execute(spend, &[]).await?;
                    } else {
                        tx.execute(spend, &[]).await?;
                        kill.await?;
                    }
                    Ok(tx.attempt())
                }
            })
            .await
            .unwrap();
        assert_eq!(attempts, 2, "before the statement: {before_the_statement}");
    }
    assert_eq!(bank.accounts().await, [(1, 98), (2, 100)]);
}

/// Everything of a transaction that was dropped at some moment is there, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_dropped_at_any_moment_is_done_whole_or_not_at_all() {
    let bank = bank(2).await;
    let mut dropped = 0;
    for round in 0..60_u64 {
        let transfer = bank.pool.transaction(|tx| async move {
            tx.execute("UPDATE accounts SET balance = balance - 1 WHERE id = 1", &[])
                .await?;
            tx.execute("UPDATE accounts SET balance = balance + 1 WHERE id = 2", &[])
                .await
        });
        let limit = Duration::from_micros(round * 100);
        dropped += u32::from(tokio::time::timeout(limit, transfer).await.is_err());
        let sum: i32 = bank.accounts().await.iter().map(|(_, balance)| balance).sum();
        assert_eq!(sum, 200);
    }
    assert!(dropped > 0);
}
