//! `resolve_commit` on a real server that does not crash: connections that break, sessions that are ended, orderly stops.
//! Crashes are in `resolve_crash`.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use pgsteer::{AttemptEnd, CommitDoubt, Error, Pool, TransactionOptions};

use crate::cutting::{ANSWER, At, Cutter};
use crate::rig::{Bank, bank_of, becomes, soon};

pub(crate) fn resolving() -> TransactionOptions {
    TransactionOptions::new()
        .resolve_commit(true)
        .resolve_commit_timeout(Duration::from_secs(50))
}

/// A bank whose network has a cutter in it, and a table `told` for the ids of what was done.
pub(crate) async fn cut_bank(settings: &[(&str, &str)]) -> (Bank, Cutter) {
    let cutter = Cutter::new();
    let bank = bank_of(2, settings, cutter.world()).await;
    bank.pool
        .batch_execute("CREATE TABLE told (id int)")
        .await
        .unwrap();
    (bank, cutter)
}

/// Runs a transaction that inserts an id; how often its closure ran, and what came of it.
pub(crate) async fn tell(pool: &Pool, id: i32, options: TransactionOptions) -> (u32, Result<u64, Error>) {
    let mut runs = 0;
    let told = pool.transaction_with(options, |tx| {
        runs += 1;
        async move { tx.execute("INSERT INTO told VALUES ($1)", &[&id]).await }
    });
    let told = soon(told).await;
    (runs, told)
}

impl Bank {
    /// How often an id is there.
    pub(crate) fn told(&self, id: i32) -> usize {
        let sql = format!("SELECT id FROM told WHERE id = {id}");
        self.server.server(0).sql(&sql).len()
    }

    /// Waits until it is there, committed.
    pub(crate) async fn is_told(&self, id: i32) {
        becomes("the row is there", || self.told(id) == 1).await;
    }

    /// Does something to the server, which may take its time.
    pub(crate) fn server(&self, act: impl FnOnce(&pgsteer_testkit::Server)) {
        tokio::task::block_in_place(|| act(self.server.server(0)));
    }
}

/// The reason for which nobody knows.
pub(crate) fn doubt(result: Result<u64, Error>) -> CommitDoubt {
    match result {
        Err(Error::CommitOutcomeUnknown(unknown)) => unknown.doubt.clone().expect("there is a reason"),
        other => panic!("{other:?}"),
    }
}

/// The answer of a server that has committed arrives up to any byte and the connection breaks.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_at_any_byte_is_a_success() {
    let (bank, cutter) = cut_bank(&[]).await;
    for bytes in 0..=ANSWER {
        let id = i32::try_from(bytes).unwrap();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let told = ends.clone();
        let options = resolving().on_attempt(move |attempt| told.lock().unwrap().push(attempt.end));
        cutter.cut(At::Answer(bytes));
        let breaking = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            cutter.break_off();
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, options), breaking);
        assert_eq!((runs, result.unwrap()), (1, 1), "{bytes}");
        let found = ends.lock().unwrap()[0] == AttemptEnd::FoundCommitted;
        assert_eq!(found, bytes < crate::cutting::TAG, "{bytes}");
    }
}

/// COMMIT was sent, as far as its client can see, and never comes to the server, which learns that the client is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_run_again() {
    let (bank, cutter) = cut_bank(&[]).await;
    cutter.cut(At::Commit);
    let breaking = async {
        soon(cutter.silent()).await;
        cutter.break_off();
    };
    let ((runs, result), ()) = tokio::join!(tell(&bank.pool, 1, resolving()), breaking);
    assert_eq!((runs, result.unwrap(), bank.told(1)), (2, 1, 1));
}

/// The server does not learn for a while that the client is gone: until then the transaction is in progress.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_still_has_open_is_asked_about_until_it_is_over_or_the_time_is() {
    let (bank, cutter) = cut_bank(&[]).await;
    for (id, patient) in [(1, true), (2, false)] {
        cutter.cut(At::CommitUnnoticed);
        let breaking = async {
            soon(cutter.silent()).await;
            cutter.break_off();
            if patient {
                tokio::time::sleep(Duration::from_millis(500)).await;
                cutter.let_go();
            }
        };
        let options = match patient {
            true => resolving(),
            false => resolving().resolve_commit_timeout(Duration::from_secs(3)),
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, options), breaking);
        match patient {
            true => assert_eq!((runs, result.unwrap()), (2, 1)),
            false => assert_eq!((runs, doubt(result)), (1, CommitDoubt::InProgress)),
        }
        assert_eq!(bank.told(id), usize::from(patient));
    }
}

/// An operator ends the session, or stops and starts the server, while it commits or has just done so.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_and_an_orderly_stop_leave_nothing_unknown() {
    let (bank, cutter) = cut_bank(&[]).await;
    let mut id = 0;
    for stops in [false, true] {
        for (at, runs) in [(At::Answer(0), 1), (At::Commit, 2)] {
            id += 1;
            cutter.cut(at);
            let ending = async {
                soon(cutter.silent()).await;
                if runs == 1 {
                    bank.is_told(id).await;
                }
                bank.server(|server| match stops {
                    true => server.restart(),
                    false => {
                        server.sql(
                            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                             WHERE application_name = 'pgsteer'",
                        );
                    }
                });
                cutter.break_off();
            };
            let (told, ()) = tokio::join!(tell(&bank.pool, id, resolving()), ending);
            assert_eq!((told.0, told.1.unwrap()), (runs, 1), "stops {stops}, {at:?}");
            assert_eq!(bank.told(id), 1);
        }
    }
}

/// Checkpoints, and statistics that somebody resets.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_on_a_server_that_has_not_crashed_changes_nothing_but_a_reset_of_statistics() {
    let (bank, cutter) = cut_bank(&[]).await;
    let rows = [
        ("CHECKPOINT", None),
        ("SELECT pg_switch_wal()", None),
        ("SELECT txid_current()", None),
        (
            "SELECT pg_stat_reset_shared('bgwriter')",
            Some(CommitDoubt::MayBeAnother),
        ),
    ];
    for (id, (sql, expected)) in (1..).zip(rows) {
        cutter.cut(At::Answer(0));
        let meanwhile = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            bank.server(|server| drop(server.sql(sql)));
            cutter.break_off();
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, resolving()), meanwhile);
        match expected {
            None => assert_eq!(result.unwrap(), 1, "{sql}"),
            Some(expected) => assert_eq!(doubt(result), expected, "{sql}"),
        }
        assert_eq!((runs, bank.told(id)), (1, 1), "{sql}");
    }
}

/// A session's own settings, and savepoints, prepared statements and cursors, are no hindrance.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_writes_times_differently_and_has_savepoints_is_found_out_about() {
    let (bank, cutter) = cut_bank(&[]).await;
    cutter.cut(At::Answer(0));
    let breaking = async {
        soon(cutter.silent()).await;
        bank.is_told(1).await;
        cutter.break_off();
    };
    let work = bank.pool.transaction_with(resolving(), |tx| async move {
        tx.batch_execute(
            "SET LOCAL TimeZone = 'Asia/Tokyo'; SET LOCAL DateStyle = 'German'; SET LOCAL search_path = nowhere; \
             SET LOCAL synchronous_commit = off",
        )
        .await?;
        let inner = tx.savepoint(|tx| async move {
            tx.execute("INSERT INTO public.told VALUES (2)", &[]).await?;
            Err::<(), _>(Error::rollback("not this"))
        });
        let _ = inner.await;
        tx.execute("INSERT INTO public.told VALUES (1)", &[]).await
    });
    let (result, ()) = tokio::join!(soon(work), breaking);
    assert_eq!(result.unwrap(), 1);
    assert_eq!((bank.told(1), bank.told(2)), (1, 0));
}

/// Reads are made again, and what has written nothing is found out about like everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_only_reads_is_run_again_and_one_that_wrote_nothing_is_found_out_about() {
    let (bank, cutter) = cut_bank(&[]).await;
    for (read_only, expected) in [(true, 2), (false, 1)] {
        cutter.cut(At::Answer(0));
        let breaking = async {
            soon(cutter.silent()).await;
            cutter.break_off();
        };
        let mut runs = 0;
        let options = match read_only {
            true => resolving().read_only(true),
            false => resolving(),
        };
        let reading = bank.pool.transaction_with(options, |tx| {
            runs += 1;
            async move {
                let row = tx.query_one("SELECT balance FROM accounts WHERE id = 1", &[]);
                Ok::<i32, Error>(row.await?.get(0))
            }
        });
        let (read, ()) = tokio::join!(soon(reading), breaking);
        assert_eq!((runs, read.unwrap()), (expected, 100));
    }
}

/// Where a role may not ask, or a function is not there, transactions commit as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_ask_commits_all_the_same() {
    let (bank, cutter) = cut_bank(&[]).await;
    bank.server(|server| drop(server.sql("REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM PUBLIC")));
    assert_eq!(tell(&bank.pool, 1, resolving()).await.1.unwrap(), 1);
    cutter.cut(At::Answer(0));
    let breaking = async {
        soon(cutter.silent()).await;
        bank.is_told(2).await;
        cutter.break_off();
    };
    let ((runs, result), ()) = tokio::join!(tell(&bank.pool, 2, resolving()), breaking);
    let said = doubt(result);
    assert!(
        matches!(&said, CommitDoubt::NotMarked(why) if why.contains("42501")),
        "{said:?}"
    );
    assert_eq!((runs, bank.told(1), bank.told(2)), (1, 1, 1));
}

/// A frozen server answers nobody. Thawed, it says what it did.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_is_asked_until_it_answers_or_the_time_is_over() {
    let (bank, cutter) = cut_bank(&[]).await;
    for (id, thaws) in [(1, true), (2, false)] {
        cutter.cut(At::Answer(0));
        let breaking = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            bank.server(pgsteer_testkit::Server::freeze);
            cutter.break_off();
            if thaws {
                tokio::time::sleep(Duration::from_millis(300)).await;
                bank.server(pgsteer_testkit::Server::thaw);
            }
        };
        let options = match thaws {
            true => resolving(),
            false => resolving().resolve_commit_timeout(Duration::from_secs(1)),
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, options), breaking);
        match thaws {
            true => assert_eq!(result.unwrap(), 1),
            false => {
                let said = doubt(result);
                assert!(matches!(said, CommitDoubt::NoAnswer(_)), "{said:?}");
                bank.server(pgsteer_testkit::Server::thaw);
            }
        }
        assert_eq!((runs, bank.told(id)), (1, 1));
    }
}

/// A transaction that was begun to read and has made itself writable is not taken for one that only reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_transaction_that_has_made_itself_writable_is_not_run_again_once_it_is_done() {
    let (bank, cutter) = cut_bank(&[]).await;
    let ways = [
        "SET TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "BEGIN READ WRITE",
        "START TRANSACTION READ WRITE",
    ];
    for (id, way) in (1..).zip(ways) {
        for awaited in [true, false] {
            let id = if awaited { id } else { id + 100 };
            cutter.cut(At::Answer(0));
            let breaking = async {
                soon(cutter.silent()).await;
                bank.is_told(id).await;
                cutter.break_off();
            };
            let mut runs = 0;
            let work = bank.pool.transaction_with(resolving().read_only(true), |tx| {
                runs += 1;
                async move {
                    let insert = format!("{way}; INSERT INTO told VALUES ({id})");
                    let mut insert = Box::pin(tx.batch_execute(&insert));
                    match awaited {
                        true => insert.await,
                        // It is on its way, and nobody waits for its answer.
                        false => drop_after_a_poll(&mut insert).await,
                    }
                }
            });
            let (result, ()) = tokio::join!(soon(work), breaking);
            match result {
                Ok(()) => {}
                Err(Error::CommitOutcomeUnknown(unknown)) if !awaited => {
                    assert!(unknown.to_string().contains("made writable"), "{unknown}");
                }
                other => panic!("{way}, awaited {awaited}: {other:?}"),
            }
            assert_eq!((runs, bank.told(id)), (1, 1), "{way}, awaited {awaited}");
        }
    }
}

async fn drop_after_a_poll(
    work: &mut (impl Future<Output = Result<(), Error>> + Unpin),
) -> Result<(), Error> {
    match futures_util::poll!(work) {
        Poll::Ready(result) => result,
        Poll::Pending => Ok(()),
    }
}
