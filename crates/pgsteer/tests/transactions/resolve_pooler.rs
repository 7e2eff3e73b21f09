//! `resolve_commit` through PgBouncer in transaction mode, where each transaction and each question may be on another session
//! of the server.

use pgsteer::{CommitDoubt, Error, Pool, TransactionOptions};
use pgsteer_testkit::{PgBouncer, Server};

use crate::cutting::{At, Cutter};
use crate::resolve::{cut_bank, doubt, resolving};
use crate::rig::{Bank, LIMIT, soon, url};

/// A bank with a pooler in front of it, a pool through that, and a cutter between the two.
async fn behind_a_pooler() -> (Bank, PgBouncer, Pool, Cutter) {
    let (bank, cutter) = cut_bank(&[("wal_level", "replica")]).await;
    let bouncer = PgBouncer::configured(
        bank.server.server(0),
        &[("pool_mode", "transaction"), ("server_login_retry", "0.1")],
    );
    let config = url(&bouncer.address(), 2).parse().unwrap();
    let pool = Pool::start_in(config, cutter.world()).unwrap();
    pool.ready(2, LIMIT).await.unwrap();
    (bank, bouncer, pool, cutter)
}

/// As in `resolve`, without prepared statements.
async fn tell(pool: &Pool, id: i32, options: TransactionOptions) -> (u32, Result<u64, Error>) {
    let mut runs = 0;
    let insert = format!("INSERT INTO told VALUES ({id})");
    let insert = insert.as_str();
    let told = pool.transaction_with(options, |tx| {
        runs += 1;
        async move { tx.batch_execute(insert).await.map(|()| 1) }
    });
    let told = soon(told).await;
    (runs, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_pooler_what_was_done_is_a_success_and_what_was_not_is_run_again() {
    let (bank, _bouncer, pool, cutter) = behind_a_pooler().await;
    for (id, (at, runs)) in (1..).zip([(At::Answer(0), 1), (At::Commit, 2)]) {
        cutter.cut(at);
        let breaking = async {
            soon(cutter.silent()).await;
            if runs == 1 {
                bank.is_told(id).await;
            }
            cutter.break_off();
        };
        let (told, ()) = tokio::join!(tell(&pool, id, resolving()), breaking);
        assert_eq!((told.0, told.1.unwrap()), (runs, 1), "{at:?}");
        assert_eq!(bank.told(id), 1);
    }
}

/// The pooler itself dies with the answer, or with the COMMIT.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_is_killed_and_comes_back_is_asked_about_its_server() {
    let (bank, bouncer, pool, cutter) = behind_a_pooler().await;
    for (id, (at, runs)) in (1..).zip([(At::Answer(0), 1), (At::Commit, 2)]) {
        cutter.cut(at);
        let killing = async {
            soon(cutter.silent()).await;
            if runs == 1 {
                bank.is_told(id).await;
            }
            tokio::task::block_in_place(|| bouncer.kill());
            cutter.break_off();
            tokio::task::block_in_place(|| bouncer.start());
        };
        let (told, ()) = tokio::join!(tell(&pool, id, resolving()), killing);
        assert_eq!((told.0, told.1.unwrap()), (runs, 1), "{at:?}");
        assert_eq!(bank.told(id), 1);
    }
}

/// The server behind the pooler crashes, and the pooler gives its clients sessions of the next life.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_behind_a_pooler_is_believed_no_more_than_without() {
    let (bank, _bouncer, pool, cutter) = behind_a_pooler().await;
    for (id, (at, runs)) in (1..).zip([(At::Answer(0), 1), (At::Commit, 2)]) {
        cutter.cut(at);
        let crashing = async {
            soon(cutter.silent()).await;
            if runs == 1 {
                bank.is_told(id).await;
            }
            bank.server(Server::kill);
            bank.server(Server::start);
            cutter.break_off();
        };
        let (told, ()) = tokio::join!(tell(&pool, id, resolving()), crashing);
        match at {
            At::Commit => assert_eq!(told.1.unwrap(), 1),
            _ => assert_eq!(doubt(told.1), CommitDoubt::MayBeAnother),
        }
        assert_eq!((told.0, bank.told(id)), (runs, 1), "{at:?}");
    }
}
