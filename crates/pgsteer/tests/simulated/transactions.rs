//! Transactions that are run again: which errors that is done for, how often, after which rest, and what the caller
//! gets. Lost connections are in `transactions_lost`, a lost COMMIT in `transactions_commit`, what outlives a transaction in
//! `transactions_kept`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::tokio_postgres::IsolationLevel;
use pgsteer::{Attempt, AttemptEnd, Error, Pool, TransactionOptions, Tx};
use pgsteer_sim::{Effect, Script, ServerSpec, Sim};

use crate::rig::*;

/// One server and a full pool of two connections on it.
pub async fn one() -> (Sim, Pool) {
    sized(2).await
}

pub async fn sized(size: u32) -> (Sim, Pool) {
    let sim = plain([ServerSpec::new("a")]);
    let pool = full(&sim, config(&["a"]).pool_size(size)).await;
    (sim, pool)
}

pub fn script(sim: &Sim, script: Script) {
    sim.server("a").script(script);
}

pub fn options() -> TransactionOptions {
    TransactionOptions::new()
}

/// Runs a transaction that inserts id 1; how often its closure ran, and what came of it.
pub async fn insert(pool: &Pool, options: TransactionOptions) -> (u32, Result<u64, Error>) {
    let mut runs = 0;
    let result = pool
        .transaction_with(options, |tx| {
            runs += 1;
            async move { tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await }
        })
        .await;
    (runs, result)
}

/// The process that serves whoever checks out now.
pub async fn backend(pool: &Pool) -> i32 {
    whoami(&pool.get().await.unwrap()).await.1
}

pub fn ids(sim: &Sim) -> Vec<i64> {
    sim.ledger().into_keys().collect()
}

/// The error of an application.
#[derive(Debug)]
enum Failed {
    Nope,
    Database(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Database(error)
    }
}

/// Covers: E-293
#[tokio::test(start_paused = true)]
async fn a_transaction_gives_what_its_closure_gives_and_is_committed() {
    let (sim, pool) = one().await;
    let given = pool
        .transaction(|tx| async move {
            tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
            Ok(42)
        })
        .await;
    assert_eq!(given.unwrap(), 42);
    assert_eq!(ids(&sim), [1]);
    assert_eq!(pool.status().idle, 2);
}

/// Covers: E-294
#[tokio::test(start_paused = true)]
async fn a_rollback_asked_for_is_an_error_that_says_so_and_nothing_is_done() {
    let (sim, pool) = one().await;
    let mut runs = 0;
    let error = pool
        .transaction(|tx| {
            runs += 1;
            async move {
                tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
                Err::<(), _>(Error::rollback("nope"))
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::Rollback(reason) if reason.to_string() == "nope"));
    assert_eq!(error.to_string(), "the transaction was rolled back: nope");
    assert_eq!(runs, 1);
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_closure_may_fail_with_an_error_of_its_own_kind() {
    let (sim, pool) = one().await;
    let own = pool
        .transaction_with(options(), |tx| async move {
            tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
            Err::<(), _>(Failed::Nope)
        })
        .await;
    assert!(matches!(own, Err(Failed::Nope)));
    let other = pool
        .transaction_with(options(), |tx| async move {
            tx.batch_execute("SELECT nonsense").await?;
            Ok::<_, Failed>(())
        })
        .await;
    assert!(matches!(other, Err(Failed::Database(Error::Postgres(_)))));
    // An error that says nothing of the conflict behind it is run again all the same.
    script(&sim, Script::on("insert", Effect::error("40001")).once());
    let mut runs = 0;
    let opaque = pool
        .transaction_with(options(), |tx| {
            runs += 1;
            async move {
                match tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await {
                    Ok(_) => Ok(()),
                    Err(_) => Err(Failed::Nope),
                }
            }
        })
        .await;
    assert!(opaque.is_ok());
    assert_eq!(runs, 2);
}

/// Covers: E-295, E-305
#[tokio::test(start_paused = true)]
async fn a_commit_refused_for_a_conflict_is_run_again() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("commit", Effect::error("40001")).once());
    let (runs, result) = insert(&pool, options()).await;
    assert_eq!((runs, result.unwrap()), (2, 1));
    assert_eq!(ids(&sim), [1]);
}

/// Covers: E-296
#[tokio::test(start_paused = true)]
async fn it_is_run_as_often_as_allowed_and_then_fails_with_the_last_error() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("commit", Effect::error("40001")));
    for attempts in [2, 1] {
        let (runs, result) = insert(&pool, options().attempts(attempts)).await;
        assert_eq!(runs, attempts);
        assert_eq!(result.unwrap_err().code(), Some("40001"));
    }
    let (runs, _) = insert(&pool, options()).await;
    assert_eq!(runs, 3);
}

/// Covers: E-297
#[tokio::test(start_paused = true)]
async fn thirty_attempts_with_a_small_back_off_are_quick() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("commit", Effect::error("40001")));
    let often = options().attempts(30).max_backoff(millis(5));
    let ((runs, result), took) = timed(insert(&pool, often)).await;
    assert_eq!(runs, 30);
    assert_eq!(result.unwrap_err().code(), Some("40001"));
    assert!(took < seconds(3), "{took:?}");
}

/// Covers: E-298
#[tokio::test(start_paused = true)]
async fn without_a_back_off_there_is_no_rest_and_options_that_cannot_be_are_refused_unrun() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("commit", Effect::error("40001")));
    let at_once = options().attempts(5).max_backoff(Duration::ZERO);
    let ((runs, _), took) = timed(insert(&pool, at_once)).await;
    assert_eq!((runs, took), (5, Duration::ZERO));
    let refused = [
        (options().attempts(0), "attempts"),
        (options().attempt_timeout(Duration::ZERO), "attempt_timeout"),
        (options().deferrable(true), "deferrable"),
        (options().deferrable(true).read_only(true), "deferrable"),
    ];
    for (options, name) in refused {
        let (runs, result) = insert(&pool, options).await;
        assert_eq!(runs, 0, "{name}");
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Covers: E-299
#[tokio::test(start_paused = true)]
async fn a_deadlock_or_conflict_inside_is_run_again() {
    for code in ["40P01", "40001"] {
        let (sim, pool) = one().await;
        script(&sim, Script::on("insert", Effect::error(code)).once());
        let (runs, result) = insert(&pool, options()).await;
        assert_eq!((runs, result.unwrap()), (2, 1), "{code}");
        assert_eq!(ids(&sim), [1]);
    }
}

/// What follows a conflict in a failed transaction is refused with 25P02; that is not what it failed with.
#[tokio::test(start_paused = true)]
async fn a_conflict_counts_though_other_statements_were_refused_after_it() {
    let (sim, pool) = one().await;
    script(&sim, Script::on("insert", Effect::error("40001")).once());
    let mut runs = 0;
    let result = pool
        .transaction(|tx| {
            runs += 1;
            async move {
                let _ = tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await;
                tx.execute("UPDATE ledger SET note = 'y' WHERE id = 1", &[]).await
            }
        })
        .await;
    assert_eq!((runs, result.unwrap()), (2, 1));
}

/// Covers: E-300
#[tokio::test(start_paused = true)]
async fn other_errors_are_not_run_again_and_arrive_untouched() {
    for code in ["23505", "57014", "42P01", "53300"] {
        let (sim, pool) = one().await;
        script(&sim, Script::on("insert", Effect::error(code)));
        let (runs, result) = insert(&pool, options()).await;
        assert_eq!(runs, 1, "{code}");
        assert_eq!(result.unwrap_err().code(), Some(code));
        // A commit refused for such a reason is not done, and said to be so.
        sim.server("a").clear_scripts();
        script(&sim, Script::on("commit", Effect::error(code)));
        let (runs, result) = insert(&pool, options()).await;
        assert_eq!(runs, 1, "{code}");
        assert_eq!(result.unwrap_err().code(), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_is_told_how_each_attempt_ended_where_and_with_which_code() {
    let rows = [
        (
            Script::on("insert", Effect::error("40P01")),
            AttemptEnd::Conflict,
            Some("40P01"),
        ),
        (
            Script::on("insert", Effect::error("23505")),
            AttemptEnd::RolledBack,
            Some("23505"),
        ),
        (
            Script::on("insert", Effect::fatal("57P01")),
            AttemptEnd::ConnectionLost,
            Some("57P01"),
        ),
        (
            Script::on("begin", Effect::error("42501")),
            AttemptEnd::Refused,
            Some("42501"),
        ),
        (
            Script::on("commit", Effect::error("23503")),
            AttemptEnd::Refused,
            Some("23503"),
        ),
        (
            Script::on("commit", Effect::Tag("ROLLBACK".into())),
            AttemptEnd::Aborted,
            None,
        ),
        (
            Script::on("commit", Effect::fatal("57P01")),
            AttemptEnd::OutcomeUnknown,
            Some("57P01"),
        ),
    ];
    for (failing, end, code) in rows {
        let (sim, pool) = one().await;
        script(&sim, failing);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = options().attempts(1).on_attempt({
            let seen = seen.clone();
            move |attempt: &Attempt| seen.lock().unwrap().push(attempt.clone())
        });
        let (_, result) = insert(&pool, hook).await;
        let seen = seen.lock().unwrap();
        let [attempt] = &seen[..] else {
            panic!("{end:?}: {seen:?}");
        };
        assert_eq!((attempt.end, attempt.code.as_deref()), (end, code));
        assert_eq!(attempt.host, key("a"));
        assert_eq!(attempt.retry_after, None);
        assert!(result.is_err(), "{end:?}");
    }
}

/// Covers: E-305
#[tokio::test(start_paused = true)]
async fn a_commit_answered_with_rollback_is_no_success() {
    let (sim, pool) = one().await;
    // The closure passes over an error, which leaves the transaction failed.
    let mut runs = 0;
    let error = pool
        .transaction(|tx| {
            runs += 1;
            async move {
                tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
                let _ = tx.batch_execute("SELECT 1/0").await;
                Ok(())
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TransactionAborted { .. }), "{error:?}");
    assert_eq!(error.code(), Some("22012"));
    assert_eq!(runs, 1);
    assert!(sim.ledger().is_empty());
    assert_eq!(pool.status().idle, 2);
    // The same where the server says so for reasons of its own.
    script(&sim, Script::on("commit", Effect::Tag("ROLLBACK".into())).once());
    let (runs, result) = insert(&pool, options()).await;
    assert!(
        matches!(result, Err(Error::TransactionAborted { code: None })),
        "{result:?}"
    );
    assert_eq!(runs, 1);
}

/// Covers: E-309
#[tokio::test(start_paused = true)]
async fn a_closure_may_close_the_pool_it_runs_in() {
    let (_sim, pool) = one().await;
    let result = pool
        .transaction(|tx| {
            let pool = pool.clone();
            async move {
                tx.batch_execute("SELECT 1").await?;
                let closed = pool.close(millis(50)).await;
                assert_eq!(closed.still_out, 1);
                Err::<(), _>(Error::rollback("r"))
            }
        })
        .await;
    assert!(
        matches!(&result, Err(Error::Rollback(reason)) if reason.to_string() == "r"),
        "{result:?}"
    );
    let (runs, result) = insert(&pool, options()).await;
    assert_eq!(runs, 0);
    assert!(matches!(result, Err(Error::Closed)));
}

/// A round trip takes ten milliseconds here, and nothing else takes any time.
#[tokio::test(start_paused = true)]
async fn a_transaction_costs_the_round_trips_of_begin_commit_and_its_work() {
    let (sim, pool) = one().await;
    sim.server("a").set_answer_latency(millis(10));
    let work = |tx: Tx| async move {
        for id in 1..=3 {
            tx.batch_execute(&format!("INSERT INTO ledger VALUES ({id}, 'x')"))
                .await?;
        }
        Ok::<_, Error>(())
    };
    let everything = options()
        .isolation(IsolationLevel::Serializable)
        .read_only(false)
        .attempt_timeout(seconds(1));
    let (result, took) = timed(pool.transaction_with(everything, work)).await;
    result.unwrap();
    let conn = pool.get().await.unwrap();
    let (_, by_hand) = timed(async {
        for sql in ["BEGIN", "SELECT 1", "SELECT 1", "SELECT 1", "COMMIT"] {
            conn.batch_execute(sql).await.unwrap();
        }
    })
    .await;
    assert_eq!(took, by_hand);
    assert_eq!(took.as_millis() / 10, 5);
    drop(conn);
    let failing = |tx: Tx| async move {
        tx.batch_execute("SELECT 1").await?;
        Err::<(), _>(Error::rollback("no"))
    };
    let (_, took) = timed(pool.transaction(failing)).await;
    assert_eq!(took.as_millis() / 10, 3);
}

#[tokio::test(start_paused = true)]
async fn transactions_run_on_spawned_tasks_and_conflicts_between_them_are_settled() {
    let (sim, pool) = sized(4).await;
    let tasks: Vec<_> = (0..20_i64)
        .map(|id| {
            let pool = pool.clone();
            tokio::spawn(async move {
                pool.transaction(|tx| async move {
                    tx.execute("INSERT INTO ledger VALUES ($1, 'x')", &[&id]).await?;
                    Ok(tx.attempt())
                })
                .await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
    assert_eq!(ids(&sim), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_keeps_nobody_from_learning_what_became_of_the_transaction() {
    let (sim, pool) = one().await;
    script(&sim, Script::at("commit", Effect::error("40001")).once());
    let options = options().on_attempt(|_| panic!("on purpose"));
    let (runs, result) = insert(&pool, options).await;
    assert_eq!((runs, result.unwrap()), (2, 1));
    assert_eq!(ids(&sim), [1]);
}
