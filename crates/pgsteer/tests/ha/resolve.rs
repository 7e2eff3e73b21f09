//! `resolve_commit` where a standby takes a primary's place, or is to confirm what it commits.

use std::time::Duration;

use pgsteer::{CommitDoubt, Error, Pool, TransactionOptions};
use pgsteer_testkit::Server;

use crate::cutting::{At, Cutter};
use crate::relay::Relay;
use crate::rig::{LIMIT, QUICK, Rig, becomes, config, key, primary_with, soon};

fn resolving() -> TransactionOptions {
    TransactionOptions::new()
        .resolve_commit(true)
        .resolve_commit_timeout(Duration::from_secs(50))
}

async fn pool_by(cutter: &Cutter, addresses: &str, parameters: &str) -> Pool {
    let pool = Pool::start_in(config(addresses, parameters), cutter.world()).unwrap();
    pool.ready(pool.status().size, LIMIT).await.unwrap();
    pool
}

/// Runs a transaction that writes a number; how often its closure ran, and what came of it.
async fn write(pool: &Pool, number: i32, options: TransactionOptions) -> (u32, Result<u64, Error>) {
    let mut runs = 0;
    let written = pool.transaction_with(options, |tx| {
        runs += 1;
        async move { tx.execute("INSERT INTO written VALUES ($1)", &[&number]).await }
    });
    let written = soon(written).await;
    (runs, written)
}

fn doubt(result: Result<u64, Error>) -> CommitDoubt {
    match result {
        Err(Error::CommitOutcomeUnknown(unknown)) => unknown.doubt.clone().expect("there is a reason"),
        other => panic!("{other:?}"),
    }
}

fn blocking<T>(act: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(act)
}

fn written(server: &Server, number: i32) -> usize {
    let sql = format!("SELECT n FROM written WHERE n = {number}");
    blocking(|| server.sql(&sql)).len()
}

async fn is_written(server: &Server, number: i32) {
    becomes(1, || written(server, number)).await;
}

/// Waits until a commit waits for a standby.
async fn waits_for_standby(server: &Server) {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    becomes(false, || blocking(|| server.sql(waiting)).is_empty()).await;
}

/// An address that goes over to whatever is the primary: one that was promoted meanwhile, or is still a standby.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_was_promoted_to_the_same_address_is_not_believed() {
    let set = primary_with(1).await;
    let relay = Relay::to(&set.node(0).address()).await;
    let cutter = Cutter::new();
    let address = format!("127.0.0.1:{}", relay.port());
    let pool = pool_by(&cutter, &address, "pool_size=1").await;
    let rows = [(At::Answer(0), 1, (0, 1)), (At::Commit, 2, (1, 0))];
    for (at, timeline, (primary, standby)) in rows {
        cutter.cut(at);
        let promoting = async {
            soon(cutter.silent()).await;
            if matches!(at, At::Answer(_)) {
                is_written(set.node(primary), 1).await;
            }
            // Until the promotion is over the standby answers, which says nothing.
            relay.point_at(&set.node(standby).address());
            cutter.break_off();
            tokio::time::sleep(Duration::from_millis(200)).await;
            blocking(|| {
                set.node(primary).kill();
                set.promote(standby);
            });
        };
        let ((runs, result), ()) = tokio::join!(write(&pool, 1, resolving()), promoting);
        let (before, now) = (timeline, timeline + 1);
        let expected = CommitDoubt::OtherTimeline { before, now };
        assert_eq!((runs, doubt(result)), (1, expected), "{at:?}");
        blocking(|| {
            let _ = set.rejoin(primary, standby);
            set.wait_caught_up(primary, standby);
        });
    }
}

/// The old primary is gone for good, and nobody else can say what it did.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_gone_leaves_it_unknown_though_another_has_its_place() {
    let set = primary_with(1).await;
    let cutter = Cutter::new();
    let parameters = format!("target_session_attrs=read-write&pool_size=1&{QUICK}");
    let pool = pool_by(&cutter, &set.addresses(), &parameters).await;
    cutter.cut(At::Answer(0));
    let failing_over = async {
        soon(cutter.silent()).await;
        is_written(set.node(0), 1).await;
        blocking(|| {
            set.node(0).kill();
            set.promote(1);
        });
        cutter.break_off();
    };
    let options = resolving().resolve_commit_timeout(Duration::from_secs(2));
    let ((runs, result), ()) = tokio::join!(write(&pool, 1, options), failing_over);
    let said = doubt(result);
    assert!(matches!(said, CommitDoubt::NoAnswer(_)), "{said:?}");
    assert_eq!(runs, 1);
    assert_eq!(write(&pool, 2, resolving()).await.1.unwrap(), 1);
}

/// The control file may be behind on the timeline after a promotion, until the next checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn right_after_a_promotion_the_new_primary_is_believed_about_its_own_transactions() {
    let set = primary_with(1).await;
    let cutter = Cutter::new();
    blocking(|| {
        // Nothing hurries the checkpoint that follows a promotion.
        set.node(1)
            .reload_settings(&[("checkpoint_completion_target", "0.9")]);
        set.node(0).stop_fast();
        set.promote(1);
    });
    let pool = pool_by(&cutter, &set.node(1).address(), "pool_size=1").await;
    for number in 1..=2 {
        cutter.cut(At::Answer(0));
        let breaking = async {
            soon(cutter.silent()).await;
            is_written(set.node(1), number).await;
            if number == 2 {
                blocking(|| set.node(1).sql("CHECKPOINT"));
            }
            cutter.break_off();
        };
        let ((runs, result), ()) = tokio::join!(write(&pool, number, resolving()), breaking);
        assert_eq!((runs, result.unwrap()), (1, 1));
    }
}

/// Two primaries after a failover that did not end the old one: what that has committed last is lost with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_another_was_promoted_over_is_not_believed_that_it_has_committed() {
    let set = primary_with(1).await;
    let cutter = Cutter::new();
    let parameters = format!("target_session_attrs=read-write&pool_size=1&{QUICK}");
    let pool = pool_by(&cutter, &set.addresses(), &parameters).await;
    cutter.cut(At::Answer(0));
    let promoting = async {
        soon(cutter.silent()).await;
        is_written(set.node(0), 1).await;
        blocking(|| set.promote(1));
        let seen = || {
            let roles = pool.cluster().snapshot().roles;
            roles.get(&key(set.node(1))).and_then(|seen| seen.timeline)
        };
        becomes(Some(2), seen).await;
        cutter.break_off();
    };
    let ((runs, result), ()) = tokio::join!(write(&pool, 1, resolving()), promoting);
    let expected = CommitDoubt::OtherTimeline { before: 1, now: 2 };
    assert_eq!((runs, doubt(result)), (1, expected));
}

/// A synchronous standby that answers or not, and a primary whose commit waits for it when its client's connection breaks.
async fn synchronous() -> (Rig, Cutter, Pool) {
    let set = primary_with(1).await;
    let cutter = Cutter::new();
    let pool = pool_by(&cutter, &set.node(0).address(), "pool_size=1").await;
    blocking(|| set.set_synchronous(0, true));
    (set, cutter, pool)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum WaitEndsBy {
    ACancelRequest,
    AnOperator,
    ARestart,
}

/// The wait is over before a standby has the commit, which is then there for everybody to see. Until a standby has it, it is
/// not told to be done, since a failover would lose it.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_no_standby_has_confirmed_is_unknown_until_one_has() {
    use WaitEndsBy::{ACancelRequest, ARestart, AnOperator};
    let (set, cutter, pool) = synchronous().await;
    let end_by = |how| {
        let waiting = |function: &str| {
            format!("SELECT {function}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        };
        match how {
            ACancelRequest => drop(set.node(0).sql(&waiting("pg_cancel_backend"))),
            AnOperator => drop(set.node(0).sql(&waiting("pg_terminate_backend"))),
            ARestart => set.node(0).restart(),
        }
    };
    let rows = [ACancelRequest, AnOperator, ARestart];
    for (how, confirmed) in rows.iter().flat_map(|how| [(*how, false), (*how, true)]) {
        let number = i32::try_from(written_at_all(&set)).unwrap() + 1;
        blocking(|| set.node(1).freeze());
        cutter.cut(At::Answer(0));
        let ending = async {
            soon(cutter.silent()).await;
            waits_for_standby(set.node(0)).await;
            blocking(|| end_by(how));
            is_written(set.node(0), number).await;
            cutter.break_off();
            if confirmed {
                tokio::time::sleep(Duration::from_millis(300)).await;
                blocking(|| set.node(1).thaw());
            }
        };
        let options = match confirmed {
            true => resolving(),
            false => resolving().resolve_commit_timeout(Duration::from_secs(5)),
        };
        let ((runs, result), ()) = tokio::join!(write(&pool, number, options), ending);
        match confirmed {
            true => assert_eq!(result.unwrap(), 1, "{how:?}"),
            false => {
                assert_eq!(doubt(result), CommitDoubt::Unconfirmed, "{how:?}");
                blocking(|| set.node(1).thaw());
            }
        }
        assert_eq!((runs, written(set.node(0), number)), (1, 1), "{how:?}");
        // Nothing of the questions waits there.
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        becomes(true, || blocking(|| set.node(0).sql(waiting)).is_empty()).await;
    }
}

fn written_at_all(set: &Rig) -> usize {
    blocking(|| set.node(0).sql("SELECT n FROM written")).len()
}

/// While it waits, the transaction is in progress; once the standby has it, it is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_for_its_standby_is_asked_about_until_that_has_it() {
    let (set, cutter, pool) = synchronous().await;
    for (number, thaws) in [(1, true), (2, false)] {
        blocking(|| set.node(1).freeze());
        cutter.cut(At::Answer(0));
        let breaking = async {
            soon(cutter.silent()).await;
            waits_for_standby(set.node(0)).await;
            cutter.break_off();
            if thaws {
                tokio::time::sleep(Duration::from_millis(300)).await;
                blocking(|| set.node(1).thaw());
            }
        };
        let options = match thaws {
            true => resolving(),
            false => resolving().resolve_commit_timeout(Duration::from_secs(4)),
        };
        let ((runs, result), ()) = tokio::join!(write(&pool, number, options), breaking);
        match thaws {
            true => assert_eq!((runs, result.unwrap()), (1, 1)),
            false => {
                assert_eq!((runs, doubt(result)), (1, CommitDoubt::InProgress));
                blocking(|| set.node(1).thaw());
            }
        }
        is_written(set.node(0), number).await;
    }
}

/// A commit that the server answered, and warned that no standby has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_answered_unconfirmed_is_a_success_once_a_standby_has_it() {
    let (set, _, pool) = synchronous().await;
    blocking(|| set.node(1).freeze());
    let cancelling = async {
        waits_for_standby(set.node(0)).await;
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        blocking(|| set.node(0).sql(cancel));
        is_written(set.node(0), 1).await;
        blocking(|| set.node(1).thaw());
    };
    let ((runs, result), ()) = tokio::join!(write(&pool, 1, resolving()), cancelling);
    assert_eq!((runs, result.unwrap()), (1, 1));
    assert_eq!(pool.status().totals.commits_found_committed, 1);
}
