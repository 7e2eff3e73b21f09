//! What outlives a transaction, ends it early or runs within it: transactions kept past their end, panics, dropped
//! futures, savepoints, and closures that end what is not theirs to end.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use pgsteer::{Error, Tx};
use pgsteer_sim::{Effect, Script};

use crate::rig::*;
use crate::transactions::{backend, ids, one, options, script, sized};

const INSERT: &str = "INSERT INTO ledger VALUES (1, 'x')";

#[tokio::test(start_paused = true)]
async fn one_kept_past_its_end_fails_and_never_reaches_the_next_holder() {
    let (sim, pool) = sized(1).await;
    let kept: Arc<Mutex<Option<Tx>>> = Arc::default();
    for fails in [false, true] {
        let result = pool
            .transaction(|tx| {
                let kept = kept.clone();
                async move {
                    tx.batch_execute("SELECT 1").await?;
                    *kept.lock().unwrap() = Some(tx);
                    if fails { Err(Error::rollback("no")) } else { Ok(()) }
                }
            })
            .await;
        assert_eq!(result.is_err(), fails);
        let tx = kept.lock().unwrap().take().unwrap();
        // The connection is back though the transaction is still held, and somebody else has it.
        let next = pool.get().await.unwrap();
        next.batch_execute("BEGIN").await.unwrap();
        assert!(matches!(
            tx.execute(INSERT, &[]).await,
            Err(Error::TransactionOver)
        ));
        assert!(matches!(tx.client().map(drop), Err(Error::TransactionOver)));
        let nested = tx.savepoint(|_| async { Ok::<_, Error>(()) }).await;
        assert!(matches!(nested, Err(Error::TransactionOver)));
        next.batch_execute("COMMIT").await.unwrap();
        assert!(sim.ledger().is_empty());
    }
}

/// The statement of another task belongs to the transaction, which therefore waits for it.
#[tokio::test(start_paused = true)]
async fn a_statement_still_running_elsewhere_is_part_of_the_transaction_and_awaited() {
    let (sim, pool) = one().await;
    let (result, took) = timed(pool.transaction(|tx| async move {
        let tx = Arc::new(tx);
        tokio::spawn({
            let tx = tx.clone();
            async move {
                tx.batch_execute("SELECT pg_sleep(2)").await.unwrap();
                // By now the closure has ended.
                let late = tx.execute(INSERT, &[]).await;
                assert!(matches!(late, Err(Error::TransactionOver)), "{late:?}");
            }
        });
        pass(millis(10)).await;
        Ok(())
    }))
    .await;
    result.unwrap();
    assert!((seconds(2)..seconds(3)).contains(&took), "{took:?}");
    pass(seconds(1)).await;
    assert!(sim.ledger().is_empty());
}

/// Covers: E-304
#[tokio::test(start_paused = true)]
async fn a_panic_inside_goes_on_to_the_caller_and_costs_the_connection() {
    let (sim, pool) = sized(1).await;
    let before = backend(&pool).await;
    let panics = pool.transaction(|tx| async move {
        tx.execute(INSERT, &[]).await?;
        assert!(tx.attempt() > 1, "the closure breaks down");
        Ok(())
    });
    let panicked = AssertUnwindSafe(panics).catch_unwind().await;
    let payload = panicked.unwrap_err();
    assert!(
        payload
            .downcast_ref::<&str>()
            .is_some_and(|text| text.contains("breaks down"))
    );
    until("the pool is whole", || pool.status().idle == 1).await;
    assert_ne!(backend(&pool).await, before);
    assert!(sim.ledger().is_empty());
}

/// Dropped after any number of polls, at BEGIN, at a statement, within a savepoint, at COMMIT: the connection is closed
/// and nothing is half done.
#[tokio::test(start_paused = true)]
async fn a_future_dropped_anywhere_closes_the_connection_and_leaves_nothing_half_done() {
    let (sim, pool) = sized(1).await;
    sim.server("a").set_answer_latency(millis(10));
    let mut told = Vec::new();
    for after in (1..150).step_by(7) {
        let before = backend(&pool).await;
        sim.clear_log();
        let transaction = pool.transaction(|tx| async move {
            tx.execute(INSERT, &[]).await?;
            tx.savepoint(|tx| async move { tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await })
                .await
        });
        let ended = tokio::time::timeout(millis(after), transaction).await;
        let had_a_connection = sim.log_text().contains("BEGIN");
        until("the pool is whole", || pool.status().idle == 1).await;
        pass(millis(50)).await;
        let done = match ids(&sim)[..] {
            [] => false,
            [1, 2] => true,
            ref half => panic!("{after}: {half:?}"),
        };
        if ended.is_ok() {
            assert!(done, "{after}");
        } else {
            let another = backend(&pool).await != before;
            assert_eq!(another, had_a_connection, "{after}");
        }
        told.push((ended.is_ok(), done));
        let conn = pool.get().await.unwrap();
        conn.batch_execute("DELETE FROM ledger").await.unwrap();
    }
    assert!(
        told.contains(&(false, false)) && told.contains(&(true, true)),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_transaction_is_over_for_whoever_has_it_still() {
    let (_sim, pool) = sized(1).await;
    let kept: Arc<Mutex<Option<Tx>>> = Arc::default();
    let transaction = pool.transaction(|tx| {
        let kept = kept.clone();
        async move {
            *kept.lock().unwrap() = Some(tx);
            std::future::pending::<Result<(), Error>>().await
        }
    });
    let dropped = tokio::time::timeout(millis(100), transaction).await;
    assert!(dropped.is_err());
    let tx = kept.lock().unwrap().take().unwrap();
    assert!(matches!(
        tx.batch_execute("SELECT 1").await,
        Err(Error::TransactionOver)
    ));
    until("the pool is whole", || pool.status().idle == 1).await;
}

/// A statement that runs elsewhere when the transaction is dropped does not hold the connection open.
#[tokio::test(start_paused = true)]
async fn a_transaction_dropped_while_another_task_uses_it_cuts_that_short() {
    let (sim, pool) = sized(1).await;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    let transaction = pool.transaction(|tx| {
        let sender = sender.take();
        async move {
            let running = tokio::spawn(async move {
                tx.execute(INSERT, &[]).await?;
                tx.batch_execute("SELECT pg_sleep(60)").await
            });
            sender.unwrap().send(running).unwrap();
            std::future::pending::<Result<(), Error>>().await
        }
    });
    let (_, took) = timed(tokio::time::timeout(millis(100), transaction)).await;
    assert!(took < millis(200));
    let (result, took) = timed(receiver.await.unwrap()).await;
    assert!(matches!(result.unwrap(), Err(Error::ConnectionLost(_))));
    assert!(took < millis(100), "{took:?}");
    until("the pool is whole", || pool.status().idle == 1).await;
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_savepoint_that_fails_undoes_its_part_and_no_more() {
    let (sim, pool) = one().await;
    let result = pool
        .transaction(|tx| async move {
            tx.execute(INSERT, &[]).await?;
            let failed = tx
                .savepoint(|tx| async move {
                    tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await?;
                    tx.execute(INSERT, &[]).await
                })
                .await;
            assert_eq!(failed.unwrap_err().code(), Some("23505"));
            tx.savepoint(|tx| async move {
                let inner = tx
                    .savepoint(|tx| async move {
                        tx.execute("INSERT INTO ledger VALUES (3, 'z')", &[]).await?;
                        Err::<(), _>(Error::rollback("inner"))
                    })
                    .await;
                assert!(matches!(inner, Err(Error::Rollback(_))));
                tx.execute("INSERT INTO ledger VALUES (4, 'w')", &[]).await
            })
            .await
        })
        .await;
    assert_eq!(result.unwrap(), 1);
    assert_eq!(ids(&sim), [1, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_within_a_savepoint_that_fails_the_transaction_is_run_again() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("values (2", Effect::error("40001")).once());
    let mut runs = 0;
    let result = pool
        .transaction(|tx| {
            runs += 1;
            async move {
                tx.execute(INSERT, &[]).await?;
                tx.savepoint(|tx| async move { tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await })
                    .await
            }
        })
        .await;
    assert_eq!((runs, result.unwrap()), (2, 1));
    assert_eq!(ids(&sim), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_savepoint_whose_closure_passes_over_an_error_fails_and_is_undone() {
    let (sim, pool) = one().await;
    let result = pool
        .transaction(|tx| async move {
            tx.execute(INSERT, &[]).await?;
            let failed = tx
                .savepoint(|tx| async move {
                    let _ = tx.batch_execute("SELECT 1/0").await;
                    Ok::<_, Error>(())
                })
                .await;
            assert_eq!(failed.unwrap_err().code(), Some("25P02"));
            Ok(())
        })
        .await;
    result.unwrap();
    assert_eq!(ids(&sim), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_savepoint_that_is_dropped_or_panics_is_undone() {
    let (sim, pool) = one().await;
    let result = pool
        .transaction(|tx| async move {
            tx.execute(INSERT, &[]).await?;
            let hangs = tx.savepoint(|tx| async move {
                tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await?;
                std::future::pending::<Result<(), Error>>().await
            });
            assert!(tokio::time::timeout(millis(100), hangs).await.is_err());
            let panics = tx.savepoint(|tx| async move {
                tx.execute("INSERT INTO ledger VALUES (3, 'z')", &[]).await?;
                assert!(tx.attempt() > 1, "on purpose");
                Ok::<_, Error>(())
            });
            assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
            tx.execute("INSERT INTO ledger VALUES (4, 'w')", &[]).await
        })
        .await;
    result.unwrap();
    assert_eq!(ids(&sim), [1, 4]);
}

#[tokio::test(start_paused = true)]
async fn one_of_a_savepoint_kept_past_its_end_fails_while_the_transaction_goes_on() {
    let (sim, pool) = one().await;
    let kept: Arc<Mutex<Option<Tx>>> = Arc::default();
    pool.transaction(|tx| {
        let kept = kept.clone();
        async move {
            tx.savepoint(|inner| {
                let kept = kept.clone();
                async move {
                    *kept.lock().unwrap() = Some(inner);
                    Ok::<_, Error>(())
                }
            })
            .await?;
            let inner = kept.lock().unwrap().take().unwrap();
            let late = inner.execute(INSERT, &[]).await;
            assert!(matches!(late, Err(Error::TransactionOver)));
            tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await
        }
    })
    .await
    .unwrap();
    assert_eq!(ids(&sim), [2]);
}

/// What the closure committed by itself is never done again, and the pool does not claim to have committed the rest.
#[tokio::test(start_paused = true)]
async fn a_closure_that_ends_its_transaction_itself_is_told_so_and_not_run_again() {
    for by_hand in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"] {
        let (sim, pool) = sized(1).await;
        let mut runs = 0;
        let result = pool
            .transaction_with(options(), |tx| {
                runs += 1;
                async move {
                    tx.execute(INSERT, &[]).await?;
                    tx.batch_execute(by_hand).await
                }
            })
            .await;
        assert!(
            matches!(result, Err(Error::TransactionEndedInside)),
            "{by_hand}: {result:?}"
        );
        assert_eq!(runs, 1);
        // Not even when it loses its connection after that.
        runs = 0;
        let result = pool
            .transaction_with(options(), |tx| {
                runs += 1;
                let sim = sim.clone();
                async move {
                    tx.batch_execute(by_hand).await?;
                    sim.server("a").terminate_all();
                    tx.batch_execute("SELECT 1").await
                }
            })
            .await;
        assert!(result.is_err());
        assert_eq!(runs, 1, "{by_hand}");
        let conn = pool.get().await.unwrap();
        assert_eq!(
            pgsteer::Conn::transaction_status(&conn),
            Some(pgsteer::TransactionStatus::Idle)
        );
    }
}

/// Everything of the driver's is there through the client.
#[tokio::test(start_paused = true)]
async fn the_client_of_a_transaction_runs_within_it() {
    let (sim, pool) = one().await;
    let result = pool
        .transaction(|tx| async move {
            let client = tx.client()?;
            client
                .execute("INSERT INTO ledger VALUES ($1, $2)", &[&7_i64, &"x"])
                .await?;
            let statement = tx.prepare("SELECT note FROM ledger WHERE id = $1").await?;
            let row = tx.query_one(&statement, &[&7_i64]).await?;
            assert_eq!(row.get::<_, &str>(0), "x");
            drop(client);
            Err::<(), _>(Error::rollback("no"))
        })
        .await;
    assert!(matches!(result, Err(Error::Rollback(_))), "{result:?}");
    assert!(sim.ledger().is_empty());
}

/// A task that the savepoint's closure has spawned goes on when the savepoint is dropped: what it sends comes behind the
/// undoing of the savepoint, and must not become a part of the transaction.
#[tokio::test(start_paused = true)]
async fn a_savepoint_that_is_dropped_while_another_task_uses_it_takes_the_transaction_with_it() {
    let (sim, pool) = one().await;
    pool.transaction(|tx| async move {
        if tx.attempt() > 1 {
            return tx.execute("INSERT INTO ledger VALUES (2, 'y')", &[]).await;
        }
        let gate = Arc::new(tokio::sync::Notify::new());
        let opens = gate.clone();
        let straggler = Arc::new(Mutex::new(None));
        let started = straggler.clone();
        let hangs = tx.savepoint(|inner| async move {
            *started.lock().unwrap() = Some(tokio::spawn(async move {
                let client = inner.client().unwrap();
                opens.notified().await;
                client.execute(INSERT, &[]).await
            }));
            std::future::pending::<Result<(), Error>>().await
        });
        assert!(tokio::time::timeout(millis(100), hangs).await.is_err());
        gate.notify_one();
        let straggler = straggler.lock().unwrap().take().unwrap();
        assert!(straggler.await.unwrap().is_err());
        tx.execute("INSERT INTO ledger VALUES (3, 'z')", &[]).await
    })
    .await
    .unwrap();
    assert_eq!(ids(&sim), [2]);
}
