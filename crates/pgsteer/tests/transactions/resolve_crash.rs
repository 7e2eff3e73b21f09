//! `resolve_commit` on a real server that crashes between a COMMIT and its answer, and gives the id of work that was lost to
//! somebody else's transaction.

use std::time::Duration;

use pgsteer::CommitDoubt;
use pgsteer_testkit::Server;

use crate::cutting::{At, Cutter};
use crate::resolve::{cut_bank, doubt, resolving, tell};
use crate::rig::{Bank, becomes, soon};

/// Nothing is written out before somebody waits for it, so that a crash loses ids.
const LAZY: (&str, &str) = ("wal_writer_delay", "10s");
const REPLICA: (&str, &str) = ("wal_level", "replica");

/// A way for a server to crash, after which it is up again.
type Crash = (&'static str, fn(&Bank));

const CRASHES: [Crash; 3] = [
    ("a backend", crash_a_backend),
    ("kill -9 of all its processes", |bank| {
        bank.server(Server::kill);
        bank.server(Server::start);
    }),
    ("stopped in immediate mode", |bank| {
        bank.server(Server::stop_immediate);
        bank.server(Server::start);
    }),
];

/// Kills a backend, for which the server throws all the others out too and starts its memory anew.
fn crash_a_backend(bank: &Bank) {
    bank.server(|server| {
        let backend = server.backends("pgsteer")[0];
        assert!(server.crash(backend));
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while server.try_sql("SELECT 1").is_err() {
            assert!(std::time::Instant::now() < deadline, "it does not recover");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn number(server: &Server, sql: &str) -> i64 {
    server.sql(sql)[0][0].as_deref().unwrap().parse().unwrap()
}

/// The id of the transaction whose COMMIT does not arrive.
fn open_id(bank: &Bank) -> i64 {
    let sql = "SELECT backend_xid FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL";
    number(bank.server.server(0), sql)
}

/// What the server says became of a transaction, as a client would that asks for no more than that.
fn plain_word(bank: &Bank, id: i64) -> String {
    let rows = bank.server.server(0).sql(&format!("SELECT txid_status({id})"));
    rows[0][0].clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_was_not_committed_is_run_again() {
    // The testkit writes to a server that it starts, so that ids are given again here too.
    let (bank, cutter) = cut_bank(&[REPLICA]).await;
    for (id, (how, crash)) in (1..).zip(CRASHES) {
        cutter.cut(At::Commit);
        let crashing = async {
            soon(cutter.silent()).await;
            crash(&bank);
            cutter.break_off();
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, resolving()), crashing);
        assert_eq!((runs, result.unwrap(), bank.told(id)), (2, 1, 1), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_was_committed_is_unknown_and_not_done_twice() {
    let (bank, cutter) = cut_bank(&[]).await;
    for (id, (how, crash)) in (1..).zip(CRASHES) {
        cutter.cut(At::Answer(0));
        let crashing = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            crash(&bank);
            cutter.break_off();
        };
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, resolving()), crashing);
        assert_eq!(doubt(result), CommitDoubt::MayBeAnother, "{how}");
        assert_eq!((runs, bank.told(id)), (1, 1), "{how}");
    }
}

/// What somebody does between a crash that lost an id and the question after it.
async fn lose_and_give_again(bank: &Bank, cutter: &Cutter, also: impl FnOnce(&Server)) {
    soon(cutter.silent()).await;
    let lost = tokio::task::block_in_place(|| open_id(bank));
    crash_a_backend(bank);
    bank.server(|server| {
        let given = number(server, "INSERT INTO told VALUES (1000) RETURNING txid_current()");
        assert_eq!(given, lost, "the id is given again");
        assert_eq!(plain_word(bank, lost), "committed");
        also(server);
    });
    cutter.break_off();
}

/// A client that asked for the id alone would be told that its lost work is committed.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_given_again_after_a_crash_does_not_make_lost_work_committed() {
    let (bank, cutter) = cut_bank(&[LAZY, REPLICA]).await;
    for id in 1..=3 {
        cutter.cut(At::Commit);
        let losing = lose_and_give_again(&bank, &cutter, |_| ());
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, id, resolving()), losing);
        assert_eq!((runs, result.unwrap(), bank.told(id)), (2, 1, 1));
    }
    assert_eq!(bank.told(1000), 3);
}

/// Where the log ended at the crash can no longer be seen, or was never to be told.
#[tokio::test(flavor = "multi_thread")]
async fn lost_work_whose_id_was_given_again_is_unknown_where_the_crash_left_no_trace() {
    let much = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 100000))";
    for (setting, checkpoints) in [(REPLICA, true), (("wal_level", "minimal"), false)] {
        let (bank, cutter) = cut_bank(&[LAZY, setting]).await;
        cutter.cut(At::Commit);
        let losing = lose_and_give_again(&bank, &cutter, |server| {
            if checkpoints {
                server.sql(much);
                server.sql("CHECKPOINT");
            }
        });
        let ((runs, result), ()) = tokio::join!(tell(&bank.pool, 1, resolving()), losing);
        assert_eq!(
            (runs, doubt(result)),
            (1, CommitDoubt::MayBeAnother),
            "{setting:?}"
        );
        assert_eq!((bank.told(1), bank.told(1000)), (0, 1));
    }
}

/// A second crash hides where the first one cut the log off: what is there now looks as if it had been there all along.
#[tokio::test(flavor = "multi_thread")]
async fn lost_work_whose_id_was_given_again_is_unknown_after_another_crash() {
    let (bank, cutter) = cut_bank(&[LAZY, REPLICA]).await;
    cutter.cut(At::Commit);
    let much = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 100000))";
    let losing = async {
        lose_and_give_again(&bank, &cutter, |server| {
            server.sql(much);
            server.sql("INSERT INTO told VALUES (1001)");
            server.kill();
            server.start();
        })
        .await;
    };
    let ((runs, result), ()) = tokio::join!(tell(&bank.pool, 1, resolving()), losing);
    assert_eq!((runs, doubt(result)), (1, CommitDoubt::MayBeAnother));
    assert_eq!((bank.told(1), bank.told(1000)), (0, 1));
}

/// With `synchronous_commit=off` a server may lose what it has said to be committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_server_was_allowed_to_lose_is_done_again_if_it_was_lost() {
    let (bank, cutter) = cut_bank(&[LAZY, REPLICA]).await;
    for (id, crashes) in [(1, true), (2, false)] {
        cutter.cut(At::Answer(0));
        let crashing = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            if crashes {
                crash_a_backend(&bank);
                becomes("it is lost", || bank.told(id) == 0).await;
            }
            cutter.break_off();
        };
        let mut runs = 0;
        let work = bank.pool.transaction_with(resolving(), |tx| {
            runs += 1;
            async move {
                tx.batch_execute("SET LOCAL synchronous_commit = off").await?;
                tx.execute("INSERT INTO told VALUES ($1)", &[&id]).await
            }
        });
        let (result, ()) = tokio::join!(soon(work), crashing);
        result.unwrap();
        assert_eq!((runs, bank.told(id)), (if crashes { 2 } else { 1 }, 1));
    }
}

/// The server is gone for longer than anybody wants to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_come_back_in_time_leaves_it_unknown() {
    let (bank, cutter) = cut_bank(&[]).await;
    cutter.cut(At::Answer(0));
    let killing = async {
        soon(cutter.silent()).await;
        bank.is_told(1).await;
        bank.server(Server::kill);
        cutter.break_off();
    };
    let options = resolving().resolve_commit_timeout(Duration::from_secs(1));
    let ((runs, result), ()) = tokio::join!(tell(&bank.pool, 1, options), killing);
    let said = doubt(result);
    assert!(
        matches!(&said, CommitDoubt::NoAnswer(why) if why.contains("refused")),
        "{said:?}"
    );
    assert_eq!(runs, 1);
    bank.server(Server::start);
    assert_eq!(bank.told(1), 1);
}
