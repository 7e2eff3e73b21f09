//! Commits, rollbacks, failures and savepoints on a real server, and which connection the next holder gets after them.

use pgsteer::tokio_postgres::IsolationLevel;
use pgsteer::world::World;
use pgsteer::{Error, TransactionOptions};

use crate::rig::{bank, bank_of};

/// Covers: E-341
#[tokio::test(flavor = "multi_thread")]
async fn transactions_commit_roll_back_and_fail() {
    let bank = bank(3).await;
    let insert = |id: i32| {
        bank.pool.transaction(move |tx| async move {
            tx.execute("INSERT INTO accounts VALUES ($1, 7)", &[&id]).await
        })
    };
    assert_eq!(insert(3).await.unwrap(), 1);
    let undone = bank
        .pool
        .transaction(|tx| async move {
            tx.execute("INSERT INTO accounts VALUES (4, 7)", &[]).await?;
            Err::<(), _>(Error::rollback("on purpose"))
        })
        .await;
    assert!(matches!(undone, Err(Error::Rollback(_))), "{undone:?}");
    assert_eq!(insert(3).await.unwrap_err().code(), Some("23505"));
    assert_eq!(bank.accounts().await, [(1, 100), (2, 100), (3, 7)]);
}

/// Covers: E-352
#[tokio::test(flavor = "multi_thread")]
async fn after_a_commit_a_rollback_and_a_failure_the_next_holder_gets_the_same_connection() {
    let bank = bank(1).await;
    let first = bank.backend().await;
    let run = |sql: &'static str, fails: bool| {
        bank.pool.transaction(move |tx| async move {
            tx.batch_execute(sql).await?;
            if fails { Err(Error::rollback("no")) } else { Ok(()) }
        })
    };
    run("SELECT 1", false).await.unwrap();
    assert_eq!(bank.backend().await, first);
    run("SELECT 1", true).await.unwrap_err();
    assert_eq!(bank.backend().await, first);
    assert_eq!(run("SELECT 1/0", false).await.unwrap_err().code(), Some("22012"));
    assert_eq!(bank.backend().await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_runs_as_its_options_say_and_leaves_nothing_of_them_behind() {
    let bank = bank(1).await;
    let settings = "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), \
                    current_setting('transaction_deferrable')";
    let options = TransactionOptions::new()
        .isolation(IsolationLevel::Serializable)
        .read_only(true)
        .deferrable(true);
    let read = |options| {
        bank.pool.transaction_with(options, |tx| async move {
            let row = tx.query_one(settings, &[]).await?;
            Ok::<[String; 3], Error>([row.get(0), row.get(1), row.get(2)])
        })
    };
    assert_eq!(read(options.clone()).await.unwrap(), ["serializable", "on", "on"]);
    let plain = ["read committed", "off", "off"];
    assert_eq!(read(TransactionOptions::new()).await.unwrap(), plain);
    let refused = bank
        .pool
        .transaction_with(options, |tx| async move {
            tx.execute("UPDATE accounts SET balance = 0", &[]).await
        })
        .await;
    assert_eq!(refused.unwrap_err().code(), Some("25006"));
    assert_eq!(bank.accounts().await, [(1, 100), (2, 100)]);
}

/// A constraint that is checked at the end: COMMIT itself is what fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_breaks_a_deferred_constraint_fails_with_its_error_and_is_not_done() {
    let bank = bank(1).await;
    bank.pool
        .batch_execute("CREATE TABLE owners (account int REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)")
        .await
        .unwrap();
    let mut runs = 0;
    let error = bank
        .pool
        .transaction(|tx| {
            runs += 1;
            async move { tx.execute("INSERT INTO owners VALUES (99)", &[]).await }
        })
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Postgres(_)), "{error:?}");
    assert_eq!((error.code(), runs), (Some("23503"), 1));
    let row = bank
        .pool
        .query_one("SELECT count(*) FROM owners", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_is_passed_over_aborts_the_commit_unless_a_savepoint_was_round_it() {
    let bank = bank(1).await;
    let aborted = bank
        .pool
        .transaction(|tx| async move {
            tx.execute("UPDATE accounts SET balance = 1 WHERE id = 1", &[])
                .await?;
            let _ = tx.execute("INSERT INTO accounts VALUES (1, 0)", &[]).await;
            Ok(())
        })
        .await
        .unwrap_err();
    assert!(matches!(aborted, Error::TransactionAborted { .. }), "{aborted:?}");
    assert_eq!(aborted.code(), Some("23505"));
    assert_eq!(bank.accounts().await, [(1, 100), (2, 100)]);
    bank.pool
        .transaction(|tx| async move {
            tx.execute("UPDATE accounts SET balance = 1 WHERE id = 1", &[])
                .await?;
            let twice = tx
                .savepoint(|tx| async move {
                    tx.execute("UPDATE accounts SET balance = 2 WHERE id = 2", &[])
                        .await?;
                    tx.execute("INSERT INTO accounts VALUES (1, 0)", &[]).await
                })
                .await;
            assert_eq!(twice.unwrap_err().code(), Some("23505"));
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(bank.accounts().await, [(1, 1), (2, 100)]);
}

/// Whatever ends it, and whether another is begun by hand in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_ended_by_hand_is_never_told_to_be_done() {
    let bank = bank_of(1, &[("max_prepared_transactions", "1")], World::real()).await;
    let ways = [
        ("COMMIT", 1),
        ("COMMIT; BEGIN", 1),
        ("COMMIT AND CHAIN", 1),
        ("END; START TRANSACTION", 1),
        ("ROLLBACK", 0),
        ("ROLLBACK; BEGIN", 0),
        ("ROLLBACK AND CHAIN", 0),
        ("ABORT; BEGIN", 0),
        ("PREPARE TRANSACTION 'by hand'", 0),
        ("PREPARE TRANSACTION 'by hand'; BEGIN", 0),
    ];
    for (sql, done) in ways {
        let before = bank.accounts().await[0].1;
        let result = bank
            .pool
            .transaction(|tx| async move {
                tx.execute("UPDATE accounts SET balance = balance - 1 WHERE id = 1", &[])
                    .await?;
                tx.batch_execute(sql).await
            })
            .await;
        assert!(
            matches!(result, Err(Error::TransactionEndedInside)),
            "{sql}: {result:?}"
        );
        assert_eq!(before - bank.accounts().await[0].1, done, "{sql}");
        if sql.starts_with("PREPARE") {
            bank.pool
                .batch_execute("ROLLBACK PREPARED 'by hand'")
                .await
                .unwrap();
        }
    }
}
