//! `resolve_commit` on a real server that crashes between a COMMIT and its answer, and gives the id of work that was lost to
//! somebody else's transaction.

use std::time::Duration;

use pgsteer::{CommitDoubt, Error};
use pgsteer_testkit::Server;

use crate::cutting::{At, Cutter};
use crate::resolve::{cut_bank, doubt, resolving, tell};
use crate::rig::{Bank, LIMIT, soon};

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
        let life = "SELECT pg_stat_get_bgwriter_stat_reset_time()";
        let before = server.sql(life);
        // The pool may be about to open its connections.
        wait_until("a backend has crashed", || {
            let backends = server.backends("pgsteer");
            backends.first().is_some_and(|backend| server.crash(*backend))
        });
        // It goes on for a moment as if nothing had happened.
        wait_until("it has recovered", || {
            server.try_sql(life).is_ok_and(|now| now != before)
        });
    });
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !so() {
        assert!(std::time::Instant::now() < deadline, "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
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

/// How often a server may write out by itself what it was to lose, before a test gives up.
const TRIES: i32 = 10;

/// Work is lost by a crash, and somebody else commits with its id before anybody asks. What came of the transaction whose
/// work it was: how often its closure ran, and the result; `None` if the work was written out in time after all.
async fn lose_and_give_again(
    bank: &Bank,
    cutter: &Cutter,
    id: i32,
    also: impl FnOnce(&Server),
) -> Option<(u32, Result<u64, Error>)> {
    cutter.cut(At::Commit);
    let losing = async {
        soon(cutter.silent()).await;
        let lost = tokio::task::block_in_place(|| open_id(bank));
        crash_a_backend(bank);
        let mut again = false;
        bank.server(|server| {
            let given = number(server, "INSERT INTO told VALUES (1000) RETURNING txid_current()");
            again = given == lost;
            if again {
                assert_eq!(plain_word(bank, lost), "committed");
                also(server);
            }
        });
        cutter.break_off();
        again
    };
    let (told, again) = tokio::join!(tell(&bank.pool, id, resolving()), losing);
    again.then_some(told)
}

/// A client that asked for the id alone would be told that its lost work is committed.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_given_again_after_a_crash_does_not_make_lost_work_committed() {
    let (bank, cutter) = cut_bank(&[LAZY, REPLICA]).await;
    let mut lost = 0;
    for id in 1..=TRIES {
        if let Some((runs, result)) = lose_and_give_again(&bank, &cutter, id, |_| ()).await {
            assert_eq!((runs, result.unwrap()), (2, 1));
            lost += 1;
        }
        assert_eq!(bank.told(id), 1);
        if lost == 3 {
            return;
        }
    }
    panic!("of {TRIES} ids only {lost} were given again");
}

const MUCH: &str = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 100000))";

/// Lost work whose id was given again, where nothing tells any more that it was lost.
async fn stays_unknown(settings: &[(&str, &str)], also: fn(&Server)) {
    let (bank, cutter) = cut_bank(settings).await;
    for id in 1..=TRIES {
        let Some((runs, result)) = lose_and_give_again(&bank, &cutter, id, also).await else {
            continue;
        };
        assert_eq!(
            (runs, doubt(result)),
            (1, CommitDoubt::MayBeAnother),
            "{settings:?}"
        );
        assert_eq!(bank.told(id), 0);
        return;
    }
    panic!("of {TRIES} ids none was given again");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_work_whose_id_was_given_again_is_unknown_after_a_checkpoint() {
    stays_unknown(&[LAZY, REPLICA], |server| {
        server.sql(MUCH);
        server.sql("CHECKPOINT");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_work_whose_id_was_given_again_is_unknown_where_checkpoints_tell_nothing() {
    stays_unknown(&[LAZY, ("wal_level", "minimal")], |_| ()).await;
}

/// The second crash hides where the first one cut the log off: what is there now looks as if it had been there all along.
#[tokio::test(flavor = "multi_thread")]
async fn lost_work_whose_id_was_given_again_is_unknown_after_another_crash() {
    stays_unknown(&[LAZY, REPLICA], |server| {
        server.sql(MUCH);
        server.sql("INSERT INTO told VALUES (1001)");
        server.kill();
        server.start();
    })
    .await;
}

/// With `synchronous_commit=off` a server may lose what it has said to be committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_server_was_allowed_to_lose_is_done_again_if_it_was_lost() {
    let (bank, cutter) = cut_bank(&[LAZY, REPLICA]).await;
    let mut lost = false;
    for id in 1..=TRIES {
        let crashes = id > 1;
        cutter.cut(At::Answer(0));
        let crashing = async {
            soon(cutter.silent()).await;
            bank.is_told(id).await;
            if crashes {
                crash_a_backend(&bank);
            }
            let kept = bank.told(id) == 1;
            cutter.break_off();
            kept
        };
        let mut runs = 0;
        let work = bank.pool.transaction_with(resolving(), |tx| {
            runs += 1;
            async move {
                tx.batch_execute("SET LOCAL synchronous_commit = off").await?;
                tx.execute("INSERT INTO told VALUES ($1)", &[&id]).await
            }
        });
        let (result, kept) = tokio::join!(soon(work), crashing);
        match (crashes, kept) {
            (false, _) => assert_eq!((runs, result.unwrap()), (1, 1)),
            (true, true) => assert_eq!(doubt(result), CommitDoubt::MayBeAnother),
            (true, false) => assert_eq!((runs, result.unwrap()), (2, 1)),
        }
        assert_eq!(bank.told(id), 1);
        lost = !kept;
        if lost {
            break;
        }
    }
    assert!(lost, "nothing was lost in {TRIES} tries");
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
    let options = resolving().resolve_commit_timeout(Duration::from_secs(3));
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

/// What a server says of its past: where its last checkpoint is, whether its redo begins there, and since when its
/// statistics count.
fn past(server: &Server) -> (String, bool, String) {
    let sql = "SELECT checkpoint_lsn, redo_lsn, date_part('epoch', pg_stat_get_bgwriter_stat_reset_time()) \
               FROM pg_control_checkpoint()";
    let row = server.sql(sql).remove(0);
    let [Some(at), Some(redo), Some(statistics)] = &row[..] else {
        panic!("{row:?}");
    };
    (at.clone(), at == redo, statistics.clone())
}

/// What the rule relies on, as this server has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_begins_statistics_anew_and_ends_with_a_checkpoint_of_its_own_kind() {
    let (bank, _) = cut_bank(&[REPLICA]).await;
    bank.server(|server| {
        let nothing: fn(&Bank) = |_| ();
        let checkpoint: fn(&Bank) = |bank| drop(bank.server.server(0).sql("CHECKPOINT"));
        let restart: fn(&Bank) = |bank| bank.server.server(0).restart();
        let rest = [
            ("nothing", nothing, false, None),
            ("a checkpoint amid work", checkpoint, false, Some(false)),
            ("an orderly restart", restart, false, Some(true)),
        ];
        let crashes = CRASHES.map(|(what, crash)| (what, crash, true, Some(true)));
        for (what, act, new_statistics, checkpoint) in rest.into_iter().chain(crashes) {
            let (at, _, statistics) = past(server);
            act(&bank);
            let (now_at, at_redo, now_statistics) = past(server);
            assert_eq!(now_statistics != statistics, new_statistics, "{what}");
            assert_eq!((now_at != at).then_some(at_redo), checkpoint, "{what}");
        }
    });
}
