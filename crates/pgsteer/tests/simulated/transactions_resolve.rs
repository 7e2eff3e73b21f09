//! `resolve_commit`: what is found out about a COMMIT whose answer was lost, and what is made of it. The rule itself is
//! tested as tables in `pgsteer-core`, real servers in `transactions` and `ha`.

use std::sync::{Arc, Mutex};

use pgsteer::{AttemptEnd, CommitDoubt, CommitUnknown, Error, Pool, TransactionOptions};
use pgsteer_sim::{Accept, Death, Effect, Login, Scope, Script, ServerSpec, Shutdown, Sim};

use crate::rig::*;
use crate::transactions::{ids, insert, one, script};

fn resolving() -> TransactionOptions {
    TransactionOptions::new().resolve_commit(true)
}

/// The same, and the ends of the attempts.
fn told() -> (TransactionOptions, Arc<Mutex<Vec<AttemptEnd>>>) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = ends.clone();
    let options = resolving().on_attempt(move |attempt| told.lock().unwrap().push(attempt.end));
    (options, ends)
}

fn unknown(result: Result<u64, Error>) -> Arc<CommitUnknown> {
    match result {
        Err(Error::CommitOutcomeUnknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    }
}

fn doubt(result: Result<u64, Error>) -> CommitDoubt {
    unknown(result).doubt.clone().expect("there is a reason")
}

/// Commits a row of somebody else's, and so gives an id to another transaction.
async fn another(pool: &Pool, id: i64) {
    let insert = format!("INSERT INTO ledger VALUES ({id}, 'another')");
    pool.batch_execute(&insert).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_done_and_not_answered_succeeds() {
    for death in [Death::Fin, Death::Rst] {
        let (sim, pool) = one().await;
        script(
            &sim,
            Script::at("commit", Effect::DieAfter(death, Scope::Session)).once(),
        );
        let (options, ends) = told();
        let (runs, result) = insert(&pool, options).await;
        assert_eq!((runs, result.unwrap()), (1, 1));
        assert_eq!(ids(&sim), [1]);
        assert_eq!(*ends.lock().unwrap(), [AttemptEnd::FoundCommitted]);
        assert_eq!(pool.status().totals.commits_found_committed, 1);
        until("the pool is whole", || pool.status().idle == 2).await;
        until("nothing is left", || sim.live() == 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_not_done_is_run_again() {
    let effects = [
        Effect::DieBefore(Death::Fin, Scope::Session),
        Effect::DieBefore(Death::Rst, Scope::Session),
        Effect::fatal("57P01"),
        Effect::error("08006"),
        Effect::error("40003"),
        Effect::error("XX000"),
    ];
    for effect in effects {
        let (sim, pool) = one().await;
        script(&sim, Script::at("commit", effect.clone()).once());
        let (options, ends) = told();
        let (runs, result) = insert(&pool, options).await;
        assert_eq!((runs, result.unwrap()), (2, 1), "{effect:?}");
        assert_eq!(ids(&sim), [1]);
        assert_eq!(
            *ends.lock().unwrap(),
            [AttemptEnd::FoundAborted, AttemptEnd::Committed]
        );
        assert_eq!(pool.status().totals.commits_found_aborted, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_not_done_in_the_last_attempt_fails_with_an_error_that_says_so() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::at("commit", Effect::DieBefore(Death::Rst, Scope::Session)),
    );
    let (runs, result) = insert(&pool, resolving().attempts(2)).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::CommitAborted(aborted) if !aborted.only_reads));
    assert!(error.to_string().contains("and not done"), "{error}");
    assert_eq!(runs, 2);
    assert!(ids(&sim).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pool_can_want_it_for_all_its_transactions_and_one_can_do_without() {
    let (sim, _) = one().await;
    let pool = full(&sim, config(&["a"]).pool_size(2).resolve_commit(true)).await;
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).times(2),
    );
    let result = insert(&pool, TransactionOptions::new()).await.1;
    assert_eq!(result.unwrap(), 1);
    pool.batch_execute("DELETE FROM ledger").await.unwrap();
    let unresolved = TransactionOptions::new().resolve_commit(false);
    let unknown = unknown(insert(&pool, unresolved).await.1);
    assert_eq!((&unknown.doubt, ids(&sim)), (&None, vec![1]));
    assert_eq!(pool.status().totals.commits_unknown, 1);
}

/// The server dies with the answer. What was committed may, for all it says, be another's work by now.
#[tokio::test(start_paused = true)]
async fn after_a_crash_a_transaction_that_is_said_to_be_committed_is_unknown() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Server)).once(),
    );
    let mending = tokio::spawn(start_later(sim.clone()));
    let (runs, result) = insert(&pool, resolving()).await;
    assert_eq!((runs, doubt(result)), (1, CommitDoubt::MayBeAnother));
    assert_eq!(ids(&sim), [1]);
    mending.await.unwrap();
}

async fn start_later(sim: Sim) {
    pass(seconds(2)).await;
    sim.server("a").start();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_a_transaction_that_is_not_committed_is_run_again() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::at("commit", Effect::DieBefore(Death::Rst, Scope::Server)).once(),
    );
    let mending = tokio::spawn(start_later(sim.clone()));
    let (options, ends) = told();
    let (runs, result) = insert(&pool, options).await;
    assert_eq!((runs, result.unwrap()), (2, 1));
    assert_eq!(ids(&sim), [1]);
    assert_eq!(
        *ends.lock().unwrap(),
        [AttemptEnd::FoundAborted, AttemptEnd::Committed]
    );
    mending.await.unwrap();
}

/// The id of work that was lost is given to a transaction of somebody else's, which commits it, or has it still.
#[tokio::test(start_paused = true)]
async fn an_id_that_is_given_again_after_a_crash_does_not_make_lost_work_committed() {
    for (commits, checkpointed) in [(true, false), (false, false), (true, true)] {
        let (sim, pool) = one().await;
        let server = sim.server("a");
        script(
            &sim,
            Script::at("commit", Effect::DieBefore(Death::Rst, Scope::Server)).once(),
        );
        server.set_login(Login::fatal("57P03"));
        let other = full(&sim, config(&["a"]).pool_size(1).application_name("other"));
        let reuse = async {
            until("it has died", || !server.is_up()).await;
            server.start();
            // Only those who come with this have their way in before the pool, which is turned away meanwhile.
            pass(seconds(1)).await;
            server.set_login(Login::Work);
            let other = other.await;
            let conn = other.get().await.unwrap();
            conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (100, 'another')")
                .await
                .unwrap();
            if commits {
                conn.batch_execute("COMMIT").await.unwrap();
            }
            if checkpointed {
                server.checkpoint();
            }
            pass(seconds(2)).await;
            conn.batch_execute("ROLLBACK").await.unwrap();
        };
        let ((runs, result), ()) = tokio::join!(insert(&pool, resolving()), reuse);
        let others = if commits { vec![100] } else { vec![] };
        if checkpointed {
            // The trace of where the log ended is gone.
            assert_eq!((runs, doubt(result)), (1, CommitDoubt::MayBeAnother));
            assert_eq!(ids(&sim), others);
        } else {
            assert_eq!((runs, result.unwrap()), (2, 1), "commits {commits}");
            assert_eq!(ids(&sim), [vec![1], others].concat());
        }
    }
}

/// An orderly stop lets nobody lose an id.
#[tokio::test(start_paused = true)]
async fn an_orderly_restart_and_checkpoints_leave_nothing_unknown() {
    let (sim, pool) = one().await;
    let server = sim.server("a");
    for round in 1..=2 {
        script(&sim, Script::at("commit", Effect::RunThenHang).once());
        let restart = async {
            until("it is committed", || ids(&sim).len() == 1).await;
            match round {
                1 => server.restart(Shutdown::Fast),
                _ => {
                    server.checkpoint();
                    server.terminate_all();
                }
            }
        };
        let ((runs, result), ()) = tokio::join!(insert(&pool, resolving()), restart);
        assert_eq!((runs, result.unwrap()), (1, 1), "round {round}");
        pool.batch_execute("DELETE FROM ledger").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_promoted_meanwhile_is_not_believed() {
    let (sim, pool) = one().await;
    let server = sim.server("a");
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
    );
    server.set_login(Login::fatal("57P03"));
    let promoting = async {
        until("the connection is gone", || pool.status().totals.lost == 1).await;
        server.demote();
        server.set_login(Login::Work);
        pass(seconds(3)).await;
        server.promote();
    };
    let ((runs, result), ()) = tokio::join!(insert(&pool, resolving()), promoting);
    let timelines = CommitDoubt::OtherTimeline { before: 1, now: 2 };
    assert_eq!((runs, doubt(result)), (1, timelines));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_asked_in_time_leaves_it_unknown() {
    let refusing: fn(&Sim) = |sim| sim.server("a").set_accept(Accept::Refuse);
    let silent: fn(&Sim) = |sim| sim.server("a").set_accept(Accept::Blackhole);
    let deaf: fn(&Sim) = |sim| sim.server("a").freeze();
    let standby: fn(&Sim) = |sim| sim.server("a").demote();
    let rows = [
        (refusing, "the server could not be asked: connecting to"),
        (silent, "the server could not be asked: "),
        (deaf, "the server could not be asked: "),
        (standby, "the server is in recovery now"),
    ];
    for (breaks, words) in rows {
        let (sim, pool) = one().await;
        script(
            &sim,
            Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
        );
        sim.server("a").set_login(Login::fatal("57P03"));
        let breaking = async {
            until("the connection is gone", || pool.status().totals.lost == 1).await;
            breaks(&sim);
            sim.server("a").set_login(Login::Work);
        };
        let limit = seconds(10);
        let work = insert(&pool, resolving().resolve_commit_timeout(limit));
        let (((runs, result), took), ()) = tokio::join!(timed(work), breaking);
        let said = result.as_ref().unwrap_err().to_string();
        assert!(said.contains("may have been done: "), "{said}");
        assert!(said.contains(words), "{said}");
        unknown(result);
        assert_eq!(runs, 1);
        assert!((seconds(8)..=seconds(11)).contains(&took), "{took:?}: {said}");
    }
}

/// The session that has the COMMIT hangs, and its client has gone.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_still_under_way_is_asked_about_until_it_is_over() {
    for (ends_well, doubtful) in [(true, false), (false, false), (false, true)] {
        let (sim, pool) = one().await;
        let effect = if ends_well {
            Effect::Delay(seconds(5))
        } else {
            Effect::Hang { cancellable: false }
        };
        script(&sim, Script::at("commit", effect).once());
        let limit = seconds(20);
        let options = resolving()
            .attempt_timeout(seconds(1))
            .resolve_commit_timeout(limit);
        let ending = async {
            pass(seconds(8)).await;
            if !doubtful {
                sim.server("a").terminate_all();
            }
        };
        let (((runs, result), took), ()) = tokio::join!(timed(insert(&pool, options)), ending);
        if doubtful {
            assert_eq!((runs, doubt(result)), (1, CommitDoubt::InProgress));
            assert!((seconds(20)..seconds(22)).contains(&took), "{took:?}");
            continue;
        }
        let expected = if ends_well { 1 } else { 2 };
        assert_eq!((runs, result.unwrap()), (expected, 1));
        assert_eq!(ids(&sim), [1]);
    }
}

/// Reading again changes nothing, at any level of isolation.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_only_reads_is_not_asked_about_and_run_again() {
    let (sim, pool) = one().await;
    for effect in [
        Effect::DieAfter(Death::Rst, Scope::Session),
        Effect::DieBefore(Death::Rst, Scope::Session),
    ] {
        script(&sim, Script::at("commit", effect).times(1));
        let mut runs = 0;
        let read = pool
            .transaction_with(resolving().read_only(true), |tx| {
                runs += 1;
                async move { Ok::<i32, Error>(tx.query_one("SELECT 7", &[]).await?.get(0)) }
            })
            .await;
        assert_eq!((runs, read.unwrap()), (2, 7));
    }
    assert_eq!(asked(&sim, "txid"), 0);
}

#[tokio::test(start_paused = true)]
async fn on_a_standby_there_is_nothing_to_commit_and_it_is_run_again() {
    let sim = plain([ServerSpec::new("a").standby()]);
    let pool = full(&sim, config(&["a"]).pool_size(2)).await;
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).times(2),
    );
    let mut runs = 0;
    let options = resolving().attempts(2);
    let error = pool
        .transaction_with(options, |tx| {
            runs += 1;
            async move { tx.execute("SELECT 1", &[]).await }
        })
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::CommitAborted(aborted) if aborted.only_reads));
    assert!(error.to_string().contains("only reads"), "{error}");
    assert_eq!(runs, 2);
}

/// How often a statement with this in it has been run.
fn asked(sim: &Sim, part: &str) -> usize {
    let log = sim.log();
    let queries = log.iter().filter_map(|entry| match &entry.event {
        pgsteer_sim::Event::Query(sql) => Some(sql),
        _ => None,
    });
    queries.filter(|sql| sql.contains(part)).count()
}

#[tokio::test(start_paused = true)]
async fn it_costs_one_round_trip_before_commit_and_none_where_it_is_off() {
    let (sim, pool) = one().await;
    for (options, messages) in [(TransactionOptions::new(), 3), (resolving(), 4)] {
        sim.clear_log();
        insert(&pool, options).await.1.unwrap();
        let log = sim.log();
        let ready = log
            .iter()
            .filter(|entry| matches!(entry.event, pgsteer_sim::Event::Query(_)))
            .count();
        assert_eq!(ready, messages - 1, "{log:?}");
        pool.batch_execute("DELETE FROM ledger").await.unwrap();
    }
}

/// The question fails: not the transaction, which is only not to be found out about.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_the_question_commits_all_the_same_and_is_not_asked_again() {
    // SQLSTATE, whether it is asked again
    for (sqlstate, again) in [("42883", false), ("42501", false), ("57014", true)] {
        let sim = plain([ServerSpec::new("a")]);
        let pool = full(&sim, config(&["a"]).pool_size(1)).await;
        script(&sim, Script::on("txid_current", Effect::error(sqlstate)));
        assert_eq!(insert(&pool, resolving()).await.1.unwrap(), 1, "{sqlstate}");
        assert_eq!(asked(&sim, "txid_current"), 1);
        script(
            &sim,
            Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
        );
        pool.batch_execute("DELETE FROM ledger").await.unwrap();
        let unknown = unknown(insert(&pool, resolving()).await.1);
        assert!(
            matches!(&unknown.doubt, Some(CommitDoubt::NotMarked(why)) if why.contains(sqlstate)),
            "{unknown:?}"
        );
        assert_eq!(asked(&sim, "txid_current") == 2, again, "{sqlstate}");
        assert_eq!(asked(&sim, "txid_status"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_while_it_is_asked_is_run_again_since_commit_was_not_sent() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::on("txid_current", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
    );
    let (options, ends) = told();
    let (runs, result) = insert(&pool, options).await;
    assert_eq!((runs, result.unwrap()), (2, 1));
    assert_eq!(
        *ends.lock().unwrap(),
        [AttemptEnd::ConnectionLost, AttemptEnd::Committed]
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_has_failed_unnoticed_is_not_asked_about_and_told_to_be_aborted() {
    let (sim, pool) = one().await;
    let error = pool
        .transaction_with(resolving(), |tx| async move {
            let _ = tx.execute("SELECT 1/0", &[]).await;
            Ok::<_, Error>(())
        })
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("22012"));
    assert!(matches!(error, Error::TransactionAborted { .. }));
    assert_eq!(asked(&sim, "txid"), 0);
}

/// The answer of a server that has committed is cut at every byte.
#[tokio::test(start_paused = true)]
async fn an_answer_cut_at_any_byte_is_a_success() {
    for death in [Death::Fin, Death::Rst] {
        for bytes in 0..=18 {
            let (sim, pool) = one().await;
            script(
                &sim,
                Script::at("commit", Effect::CutAnswer { bytes, death }).once(),
            );
            let (runs, result) = insert(&pool, resolving()).await;
            assert_eq!((runs, result.unwrap()), (1, 1), "{death} {bytes}");
            assert_eq!(ids(&sim), [1]);
        }
    }
}

/// However many are in doubt at once, few log in beside the pool.
#[tokio::test(start_paused = true)]
async fn few_ask_at_a_time_and_all_find_out() {
    const TASKS: u32 = 20;
    let sim = plain([ServerSpec::new("a")]);
    let config = config(&["a"]).pool_size(TASKS).application_name("pool");
    let pool = full(&sim, config).await;
    let server = sim.server("a");
    script(&sim, Script::at("commit", Effect::RunThenHang).times(TASKS));
    let mut tasks = Vec::new();
    for id in 0..TASKS {
        let pool = pool.clone();
        tasks.push(tokio::spawn(async move {
            let sql = format!("INSERT INTO ledger VALUES ({id}, 'x')");
            let sql = sql.as_str();
            pool.transaction_with(resolving(), |tx| async move { tx.execute(sql, &[]).await })
                .await
        }));
    }
    until("all are committed", || ids(&sim).len() == TASKS as usize).await;
    server.set_answer_latency(millis(100));
    server.terminate_all();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
    assert_eq!(pool.status().totals.commits_found_committed, u64::from(TASKS));
    let beside = sim.most_live_of("pool") - TASKS as usize;
    assert!((1..=4).contains(&beside), "{beside}");
}

#[tokio::test(start_paused = true)]
async fn a_future_dropped_while_it_finds_out_leaves_nothing_behind() {
    let (sim, pool) = one().await;
    let server = sim.server("a");
    let tasks_before = tasks();
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
    );
    script(&sim, Script::on("txid_status", Effect::Delay(seconds(20))).once());
    let finding = tokio::time::timeout(seconds(5), insert(&pool, resolving())).await;
    assert!(finding.is_err(), "{finding:?}");
    assert_eq!(asked(&sim, "txid_status"), 1);
    until("the pool is whole", || pool.status().idle == 2).await;
    until("nothing else is connected", || server.sessions().len() == 2).await;
    until("no task is left", || tasks() == tasks_before).await;
    another(&pool, 2).await;
    assert_eq!(ids(&sim), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_time_to_find_out_is_refused_where_nothing_is_found_out_or_it_is_none() {
    let (sim, pool) = one().await;
    let (on, off) = (resolving(), TransactionOptions::new());
    for (options, allowed) in [
        (on.resolve_commit_timeout(seconds(0)), "a duration above zero"),
        (
            off.resolve_commit_timeout(seconds(1)),
            "only with resolve_commit true",
        ),
    ] {
        let (runs, result) = insert(&pool, options).await;
        let said = result.unwrap_err().to_string();
        assert!(said.contains("resolve_commit_timeout"), "{said}");
        assert!(said.contains(allowed), "{said}");
        assert_eq!(runs, 0);
    }
    assert!(ids(&sim).is_empty());
}

/// A transaction has an id after all, though it has written nothing.
#[tokio::test(start_paused = true)]
async fn one_that_has_written_nothing_is_found_out_about_as_well() {
    let (sim, pool) = one().await;
    for (effect, expected) in [
        (Effect::DieAfter(Death::Rst, Scope::Session), 1),
        (Effect::DieBefore(Death::Rst, Scope::Session), 2),
    ] {
        script(&sim, Script::at("commit", effect).once());
        let mut runs = 0;
        let result = pool
            .transaction_with(resolving(), |tx| {
                runs += 1;
                async move { tx.execute("SELECT 1", &[]).await }
            })
            .await;
        result.unwrap();
        assert_eq!(runs, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_to_find_out_may_be_without_end() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)).once(),
    );
    let options = resolving().resolve_commit_timeout(std::time::Duration::MAX);
    let (runs, result) = insert(&pool, options).await;
    assert_eq!((runs, result.unwrap()), (1, 1));
}
