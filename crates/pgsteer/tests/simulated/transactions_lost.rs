//! Transactions whose connection, server or time is gone before COMMIT, or that get no connection: what is run again, and
//! what their callers are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::config::TargetSessionAttrs;
use pgsteer::{Attempt, AttemptEnd, Error};
use pgsteer_sim::{Death, Effect, Scope, Script, ServerSpec};

use crate::rig::*;
use crate::roles::ordered;
use crate::transactions::{backend, ids, insert, one, options, script, sized};

#[tokio::test(start_paused = true)]
async fn a_begin_refused_for_a_conflict_is_run_again_and_for_another_reason_is_not() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("begin", Effect::error("40001")).once());
    let (runs, result) = insert(&pool, options()).await;
    assert_eq!((runs, result.is_ok()), (1, true));
    script(&sim, Script::on("begin", Effect::error("42501")));
    let (runs, result) = insert(&pool, options()).await;
    assert_eq!((runs, result.unwrap_err().code()), (0, Some("42501")));
}

/// Whatever way the connection goes, at BEGIN, at a statement or at both ends of it, it is run again on another.
#[tokio::test(start_paused = true)]
async fn a_connection_lost_before_commit_is_run_again_on_another_and_its_host_is_not_marked() {
    let effects = [
        Effect::DieBefore(Death::Fin, Scope::Session),
        Effect::DieBefore(Death::Rst, Scope::Session),
        Effect::DieAfter(Death::Fin, Scope::Session),
        Effect::DieAfter(Death::Rst, Scope::Session),
        Effect::fatal("57P01"),
        Effect::fatal("08P01"),
    ];
    for statement in ["begin", "insert"] {
        for effect in &effects {
            let (sim, pool) = one().await;
            script(&sim, Script::on(statement, effect.clone()).once());
            let (runs, result) = insert(&pool, options()).await;
            let told = format!("{statement} {effect:?}");
            assert_eq!(result.unwrap(), 1, "{told}");
            assert_eq!(runs, if statement == "begin" { 1 } else { 2 }, "{told}");
            assert_eq!(ids(&sim), [1], "{told}");
            assert!(pool.snapshot().failed().is_empty(), "{told}");
            until("the pool is whole", || pool.status().idle == 2).await;
        }
    }
}

/// The connection has gone while the closure was busy with something else, so COMMIT is never sent.
#[tokio::test(start_paused = true)]
async fn a_connection_lost_between_the_last_statement_and_commit_is_run_again() {
    let (sim, pool) = one().await;
    let mut runs = 0;
    let result = pool
        .transaction(|tx| {
            runs += 1;
            let (first, sim) = (runs == 1, sim.clone());
            async move {
                tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
                if first {
                    sim.server("a").terminate_all();
                    pass(millis(10)).await;
                }
                Ok(())
            }
        })
        .await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(runs, 2);
    assert_eq!(ids(&sim), [1]);
}

/// Covers: E-307
#[tokio::test(start_paused = true)]
async fn without_a_connection_the_closure_never_runs() {
    let (sim, pool) = sized(1).await;
    let held = pool.get().await.unwrap();
    let quick = options().checkout_timeout(millis(100));
    let ((runs, result), took) = timed(insert(&pool, quick)).await;
    assert_eq!(runs, 0);
    assert!(matches!(result, Err(Error::CheckoutTimeout(_))), "{result:?}");
    assert!((millis(100)..millis(200)).contains(&took), "{took:?}");
    drop(held);
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_for_another_attempt_the_error_behind_it_is_returned() {
    let (sim, pool) = sized(1).await;
    script(&sim, Script::on("insert", Effect::error("40001")));
    // The first rest lasts a millisecond at least: somebody else has the only connection by then, for good.
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move {
            until("the transaction has the connection", || pool.status().leased == 1).await;
            let held = pool.get_timeout(None).await.unwrap();
            pass(seconds(60)).await;
            drop(held);
        }
    });
    let mut runs = 0;
    let result = pool
        .transaction_with(options().checkout_timeout(seconds(1)), |tx| {
            runs += 1;
            async move {
                pass(millis(100)).await;
                tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await
            }
        })
        .await;
    assert_eq!(runs, 1);
    assert_eq!(result.unwrap_err().code(), Some("40001"));
    waiting.abort();
}

/// With one connection, only one that is back in the pool can serve somebody during the rest.
#[tokio::test(start_paused = true)]
async fn the_connection_is_back_in_the_pool_during_the_rest() {
    let (sim, pool) = sized(1).await;
    script(&sim, Script::on("commit", Effect::error("40001")).once());
    let served = Arc::new(Mutex::new(None));
    let hook = options().on_attempt({
        let (served, pool) = (served.clone(), pool.clone());
        move |attempt: &Attempt| {
            if attempt.number == 1 {
                assert_eq!(attempt.end, AttemptEnd::Conflict);
                let rest = attempt.retry_after.unwrap();
                assert!((millis(1)..=millis(20)).contains(&rest), "{rest:?}");
                let (served, pool) = (served.clone(), pool.clone());
                tokio::spawn(async move {
                    let (conn, waited) = timed(pool.get()).await;
                    *served.lock().unwrap() = Some((conn.is_ok(), waited));
                });
            }
        }
    });
    let (runs, _) = insert(&pool, hook).await;
    assert_eq!(runs, 2);
    assert_eq!(*served.lock().unwrap(), Some((true, Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_out_of_time_loses_its_connection_at_once_and_is_made_again() {
    let (sim, pool) = one().await;
    for statement in ["begin", "insert"] {
        script(
            &sim,
            Script::on(statement, Effect::Hang { cancellable: false }).once(),
        );
        let limited = options().attempt_timeout(millis(300)).max_backoff(Duration::ZERO);
        let ((_, result), took) = timed(insert(&pool, limited)).await;
        result.unwrap();
        assert!(
            (millis(300)..millis(600)).contains(&took),
            "{statement}: {took:?}"
        );
        until("the pool is whole", || pool.status().idle == 2).await;
        assert!(pool.snapshot().failed().is_empty());
        pool.transaction(|tx| async move { tx.execute("DELETE FROM ledger WHERE id = 1", &[]).await })
            .await
            .unwrap();
    }
    script(&sim, Script::on("insert", Effect::Hang { cancellable: false }));
    let limited = options().attempt_timeout(millis(300)).attempts(2);
    let (runs, result) = insert(&pool, limited).await;
    assert_eq!(runs, 2);
    assert!(
        matches!(result, Err(Error::TransactionTimeout(limit)) if limit == millis(300)),
        "{result:?}"
    );
}

/// A server that says nothing any more holds nobody up for ever when a closure fails.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_is_not_answered_costs_the_connection_and_changes_no_error() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::on("rollback", Effect::Hang { cancellable: false }).once(),
    );
    let (result, took) = timed(pool.transaction(|tx| async move {
        tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
        Err::<(), _>(Error::rollback("mine"))
    }))
    .await;
    assert!(matches!(result, Err(Error::Rollback(_))), "{result:?}");
    assert!(took <= seconds(6), "{took:?}");
    until("the pool is whole", || pool.status().idle == 2).await;
    assert!(sim.ledger().is_empty());
}

/// The server was demoted under its connections: what was to write is run again where it can.
#[tokio::test(start_paused = true)]
async fn a_write_refused_by_a_server_that_is_no_longer_the_primary_is_run_again_on_the_new_one() {
    let sim = plain([ServerSpec::new("a"), ServerSpec::new("b")]);
    sim.server("b").demote();
    let writes = ordered(&["a", "b"], TargetSessionAttrs::ReadWrite);
    let pool = full(&sim, writes.pool_size(1)).await;
    sim.server("a").demote();
    sim.server("b").promote();
    let mut hosts = Vec::new();
    let result = pool
        .transaction(|tx| {
            hosts.push(tx.host().name().to_owned());
            async move { tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await }
        })
        .await;
    assert_eq!(result.unwrap(), 1);
    assert_eq!(hosts, ["a", "b"]);
    // One that said it only reads was wrong to write, wherever it is.
    let (runs, result) = insert(&pool, options().read_only(true)).await;
    assert_eq!((runs, result.unwrap_err().code()), (1, Some("25006")));
}

/// Covers: E-321
#[tokio::test(start_paused = true)]
async fn a_transaction_that_meets_silence_before_its_commit_runs_again_on_another_connection() {
    for statement in ["begin", "insert"] {
        let sim = plain([ServerSpec::new("a")]);
        let pool = full(&sim, config(&["a"]).pool_size(1).socket_timeout(millis(300))).await;
        let before = backend(&pool).await;
        script(
            &sim,
            Script::on(statement, Effect::Hang { cancellable: false }).once(),
        );
        let ((runs, result), took) = timed(insert(&pool, options().max_backoff(Duration::ZERO))).await;
        assert_eq!(result.unwrap(), 1, "{statement}");
        assert_eq!(runs, if statement == "begin" { 1 } else { 2 });
        assert!((millis(300)..millis(1000)).contains(&took), "{took:?}");
        assert_ne!(backend(&pool).await, before);
        assert!(pool.snapshot().failed().is_empty());
    }
}

/// ROLLBACK comes behind a statement whose future was dropped, which may take for ever.
#[tokio::test(start_paused = true)]
async fn what_a_rollback_would_have_to_wait_for_is_cancelled() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("SELECT 9", Effect::Hang { cancellable: true }));
    let (result, took) = timed(pool.transaction(|tx| async move {
        tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
        match tokio::time::timeout(millis(100), tx.query("SELECT 9", &[])).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::rollback("too slow")),
        }
    }))
    .await;
    assert!(matches!(result, Err(Error::Rollback(_))), "{result:?}");
    // 100 ms of its own, and return_cancel_after.
    assert!(took < millis(700), "{took:?}");
    assert_eq!(pool.status().totals.cancelled, 1);
    until("the pool is whole", || pool.status().idle == 2).await;
    assert!(sim.ledger().is_empty());
}
