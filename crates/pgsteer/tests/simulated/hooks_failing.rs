//! The ways in which `after_connect` may fail, and what its error says of each.

use pgsteer::tokio_postgres::Client;
use pgsteer::{Config, Conn, Error, HookFailure, Pool, TransactionStatus};
use pgsteer_sim::{Death, Effect, Scope, Script, Sim};

use crate::hooks::{failure, one};
use crate::log_lines::Lines;
use crate::rig::*;

/// The error of a checkout from a pool of one connection, and the pool with its servers.
async fn refused(config: Config) -> (Sim, Pool, Error) {
    let sim = three().build();
    let pool = start(&sim, one(config));
    let error = pool.get_timeout(seconds(20)).await.unwrap_err();
    (sim, pool, error)
}

/// Covers: E-277, E-291
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_fails_and_shows_nothing_but_a_literal_message() {
    let lines = Lines::listen();
    let (_sim, pool, error) = refused(abc().after_connect(|_| Box::pin(async { panic!("boom") }))).await;
    assert!(
        matches!(failure(&error), HookFailure::Panicked(Some("boom"))),
        "{error:?}"
    );
    assert!(error.to_string().ends_with("it panicked: boom"), "{error}");
    drop(pool);

    let secret = "s3cret".to_owned();
    let config = abc().after_connect(move |_| {
        let secret = secret.clone();
        Box::pin(async move { panic!("cannot parse {secret}") })
    });
    let (_sim, pool, error) = refused(config).await;
    assert!(
        matches!(failure(&error), HookFailure::Panicked(None)),
        "{error:?}"
    );
    let shown = format!("{error} {error:?} {pool:?} {:?}", lines.all());
    assert!(
        shown.contains("it panicked") && !shown.contains("s3cret"),
        "{shown}"
    );
}

/// The closure itself may panic before there is a future.
#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_before_its_future_is_made_fails_the_same_way() {
    let config = abc().after_connect(|_| panic!("early"));
    let (sim, _pool, error) = refused(config).await;
    assert!(
        matches!(failure(&error), HookFailure::Panicked(Some("early"))),
        "{error:?}"
    );
    assert_eq!(sim.live(), 0);
}

/// Covers: E-281
#[tokio::test(start_paused = true)]
async fn a_hook_that_never_ends_is_ended_by_its_timeout() {
    let limit = millis(200);
    let config = abc()
        .after_connect(|_| Box::pin(std::future::pending()))
        .after_connect_timeout(limit);
    let (sim, _pool, error) = refused(config).await;
    assert!(
        matches!(failure(&error), HookFailure::TimedOut(at) if *at == limit),
        "{error:?}"
    );
    assert_eq!(sim.live(), 0);
}

/// A hook's own time limit is not mistaken for the pool's.
#[tokio::test(start_paused = true)]
async fn a_hooks_own_timeout_is_its_own_error() {
    let config = abc().after_connect(|_| {
        Box::pin(async {
            tokio::time::timeout(millis(10), std::future::pending::<()>()).await?;
            Ok(())
        })
    });
    let (_sim, _pool, error) = refused(config).await;
    assert!(
        matches!(failure(&error), HookFailure::Error(error) if error.is::<tokio::time::error::Elapsed>()),
        "{error:?}"
    );
}

/// The statement of a hook that took too long does not go on beside that of the next try.
#[tokio::test(start_paused = true)]
async fn what_a_hook_that_takes_too_long_has_running_is_cancelled() {
    let config = abc()
        .after_connect(|client| Box::pin(async { Ok(client.batch_execute("SELECT pg_sleep(600)").await?) }))
        .after_connect_timeout(seconds(1));
    let (sim, _pool, error) = refused(config).await;
    assert!(matches!(failure(&error), HookFailure::TimedOut(_)), "{error:?}");
    assert_eq!(sim.server("a").counts().cancel_requests, 2);
    assert_eq!(sim.live(), 0);
}

/// A server that hangs during the hook holds the place for the hook's time and the return timeout, and no longer.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_during_the_hook_holds_the_place_for_a_bounded_time() {
    let sim = three().build();
    sim.server("a")
        .script(Script::on("select 1", Effect::Hang { cancellable: false }).once());
    let config = abc()
        .after_connect(|client| Box::pin(async { Ok(client.batch_execute("SELECT 1").await?) }))
        .after_connect_timeout(seconds(2))
        .return_timeout(seconds(3));
    let pool = start(&sim, one(config));
    let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
    assert!(conn.is_ok());
    assert!((millis(4900)..millis(5200)).contains(&took), "{took:?}");
    assert_eq!(pool.status().totals.hook_failures, 1);
}

/// Covers: E-280
#[tokio::test(start_paused = true)]
async fn a_hook_under_which_the_connection_ends_fails_with_the_reason_of_the_end() {
    let sim = three().build();
    let config = one(abc().after_connect(|client| {
        Box::pin(async {
            // It does not care, and says that all is well.
            let _ = client.batch_execute("SELECT 'the end'").await;
            Ok(())
        })
    }));
    sim.server("a")
        .script(Script::on("the end", Effect::fatal("57P01")).times(2));
    let pool = start(&sim, config);
    let error = pool.get_timeout(seconds(20)).await.unwrap_err();
    assert!(
        matches!(failure(&error), HookFailure::ConnectionLost),
        "{error:?}"
    );
    assert_eq!(error.code(), Some("57P01"));
    assert!(error.to_string().contains("57P01"), "{error}");
    assert!(pool.snapshot().failures.is_empty());
    assert!(
        pool.get_timeout(seconds(5)).await.is_ok(),
        "the third is left alone"
    );
}

/// A hook that passes on the driver's error, which says only that the connection is closed, still tells why it is.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_connection_that_has_ended_is_told_with_the_reason_of_the_end() {
    let sim = three().build();
    sim.server("a")
        .script(Script::on("select 1", Effect::DieBefore(Death::Rst, Scope::Session)).times(2));
    let config =
        abc().after_connect(|client| Box::pin(async { Ok(client.batch_execute("SELECT 1").await?) }));
    let pool = start(&sim, one(config));
    let error = pool.get_timeout(seconds(20)).await.unwrap_err();
    let Error::AfterConnect(failed) = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(failed.failure, HookFailure::Error(_)));
    assert!(failed.end.is_some());
    assert!(
        error
            .to_string()
            .contains("; the connection was lost: connection reset"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_leaves_a_transaction_open_fails() {
    for (sql, status) in [
        ("BEGIN", TransactionStatus::InTransaction),
        ("BEGIN; SELECT 1/0", TransactionStatus::Failed),
    ] {
        let config = abc().after_connect(move |client| {
            Box::pin(async move {
                let _ = client.batch_execute(sql).await;
                Ok(())
            })
        });
        let (sim, _pool, error) = refused(config).await;
        assert!(
            matches!(failure(&error), HookFailure::InTransaction(found) if *found == status),
            "{sql}: {error:?}"
        );
        assert_eq!(sim.live(), 0, "{sql}");
    }
}

/// What a hook dropped without waiting for it is waited for; what does not end fails it.
#[tokio::test(start_paused = true)]
async fn a_hook_that_leaves_a_request_unanswered_fails_unless_the_answer_comes_in_time() {
    async fn give_up(client: &Client, sql: &str) {
        let _ = tokio::time::timeout(millis(1), client.batch_execute(sql)).await;
    }
    let sim = three().build();
    let config = abc().after_connect(|client| {
        Box::pin(async {
            give_up(client, "SELECT pg_sleep(2)").await;
            Ok(())
        })
    });
    let pool = start(&sim, one(config));
    let (conn, took) = timed(pool.get_timeout(seconds(20))).await;
    assert_eq!(
        Conn::transaction_status(&conn.unwrap()),
        Some(TransactionStatus::Idle)
    );
    assert!((seconds(2)..millis(2100)).contains(&took), "{took:?}");

    let config = abc().after_connect(|client| {
        Box::pin(async {
            give_up(client, "SELECT pg_sleep(600)").await;
            Ok(())
        })
    });
    let (sim, _pool, error) = refused(config).await;
    assert!(matches!(failure(&error), HookFailure::Busy), "{error:?}");
    assert_eq!(sim.live(), 0);
}

/// Covers: E-357
#[tokio::test(start_paused = true)]
async fn a_hook_with_a_bad_statement_fails_the_checkout_with_the_servers_words() {
    let config = abc()
        .after_connect(|client| Box::pin(async { Ok(client.batch_execute("SELECT no_such_column").await?) }));
    let (_sim, pool, error) = refused(config).await;
    assert_eq!(error.code(), Some("42703"));
    assert!(error.to_string().contains("SQLSTATE 42703"), "{error}");
    let source = std::error::Error::source(&error).expect("the hook's own error");
    assert!(source.is::<pgsteer::tokio_postgres::Error>());
    assert_eq!(tried(&error), "a failed after_connect");
    let status = pool.status();
    assert_eq!((status.idle, status.leased), (0, 0));
    assert!(pool.snapshot().failures.is_empty());
}
