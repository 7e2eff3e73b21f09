//! A pool belongs to the runtime it was started in; its guards may be used in any, and outlive it. In real time, since
//! clocks are a runtime's own.

use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::{Config, Conn, EndCause, Error, Pool};
use pgsteer_sim::{ServerSpec, Sim};
use tokio::runtime::{Builder, Runtime};

use crate::rig::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
}

/// A pool of two in a runtime of its own, a guard of it, and another runtime.
fn apart(configure: impl FnOnce(Config) -> Config) -> (Sim, Runtime, Pool, Conn, Runtime) {
    let sim = plain([ServerSpec::new("a")]);
    let (own, other) = (runtime(), runtime());
    let config = configure(config(&["a"]).load_balance(LoadBalance::Off).pool_size(2));
    let (pool, conn) = own.block_on(async {
        let pool = full(&sim, config).await;
        let conn = pool.get().await.unwrap();
        (pool, conn)
    });
    (sim, own, pool, conn, other)
}

#[test]
fn a_guard_is_used_and_given_back_in_another_runtime() {
    let (_sim, own, pool, conn, other) = apart(|config| config.socket_timeout(seconds(60)));
    other.block_on(async {
        let row = conn.query_one_cached("SELECT $1::int + 1", &[&1]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 2);
        conn.batch_execute("BEGIN").await.unwrap();
        drop(conn);
        // It is made clean where the pool lives.
        let both = [pool.get().await.unwrap(), pool.get().await.unwrap()];
        for conn in &both {
            conn.batch_execute("SELECT 1").await.unwrap();
        }
        let done = pool.transaction(|tx| async move { tx.query_one("SELECT 7::int", &[]).await });
        drop(both);
        assert_eq!(done.await.unwrap().get::<_, i32>(0), 7);
    });
    drop(own);
}

#[test]
fn a_call_runs_out_of_time_in_another_runtime_and_its_connection_is_dead() {
    let (sim, own, _pool, conn, other) = apart(|config| config.socket_timeout(millis(50)));
    sim.server("a").freeze();
    other.block_on(async {
        let error = conn.batch_execute("SELECT 1").await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLost(_)), "{error}");
        assert!(conn.is_closed());
    });
    drop(own);
}

/// With the runtime go the tasks that move the connections' messages.
#[test]
fn when_the_pools_runtime_goes_its_guards_fail_and_so_do_checkouts() {
    for limit in [None, Some(Duration::from_secs(60))] {
        let (_sim, own, pool, conn, other) = apart(|config| config.socket_timeout(limit));
        own.shutdown_timeout(seconds(10));
        other.block_on(async {
            let error = conn.query("SELECT 1", &[]).await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost(_)), "{error}");
            assert_eq!(Conn::end(&conn).map(|end| end.cause), Some(EndCause::TaskGone));
            assert_eq!(Conn::transaction_status(&conn), None);
            drop(conn);
            assert!(matches!(pool.get().await, Err(Error::Closed)));
            let transaction = pool.transaction(|tx| async move { tx.batch_execute("SELECT 1").await });
            assert!(matches!(transaction.await, Err(Error::Closed)));
            pool.close(seconds(1)).await;
        });
    }
}

/// What is out is told then as well, and what has come back is not taken to be out.
#[test]
fn when_the_pools_runtime_has_gone_only_what_has_not_come_back_is_told_to_be_out() {
    let (_sim, own, pool, conn, other) = apart(|config| config);
    own.shutdown_timeout(seconds(10));
    let out = || other.block_on(async { (pool.status().leased, pool.close(seconds(1)).await.still_out) });
    assert_eq!(out(), (1, 1));
    drop(conn);
    assert_eq!(out(), (0, 0));
}
