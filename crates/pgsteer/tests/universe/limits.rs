//! `pool_size` is a limit on the servers, not only in the pool: whatever churns, they never see more sessions of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer::{Conn, Pool};
use pgsteer_testkit::Universe;
use tokio::task::JoinSet;

use crate::rig::{LIMIT, becomes, full_pool, sessions_at_one_moment, spread, spread_becomes, three};

/// Counts the pool's sessions again and again, on a thread of its own, while `churn` runs; gives the most there were.
/// `churn` is given the number of looks so far.
async fn most_sessions(
    universe: &Universe,
    application: &'static str,
    churn: impl AsyncFnOnce(&AtomicUsize),
) -> usize {
    let (stop, most, looks) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let (stop, most, looks) = (&stop, &most, &looks);
    let watch = move || {
        while !stop.load(Ordering::Relaxed) {
            most.fetch_max(sessions_at_one_moment(universe, application), Ordering::Relaxed);
            looks.fetch_add(1, Ordering::Relaxed);
        }
    };
    // The scope's end waits for the thread, so the churn must have ended by then.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(watch);
        scope.spawn(move || {
            let _ = ended.recv();
            stop.store(true, Ordering::Relaxed);
        });
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(churn(looks)));
        drop(end);
    });
    assert!(looks.load(Ordering::Relaxed) >= 10, "hardly looked at all");
    most.load(Ordering::Relaxed)
}

/// Tasks that use connections and give them back clean, busy, in a transaction or to be closed.
fn churn(pool: &Pool, stop: &Arc<AtomicBool>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for task in 0..12_usize {
        let (pool, stop) = (pool.clone(), stop.clone());
        tasks.spawn(async move {
            let mut round = task;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let Ok(conn) = pool.get_timeout(Duration::from_millis(500)).await else {
                    continue;
                };
                // What fails here fails because its session was terminated.
                match round % 6 {
                    0 => Conn::discard(conn),
                    1 => {
                        let sleep = conn.batch_execute("SELECT pg_sleep(0.5)");
                        let _ = tokio::time::timeout(Duration::from_millis(5), sleep).await;
                    }
                    2 => drop(conn.batch_execute("BEGIN; SELECT 1").await),
                    _ => drop(conn.batch_execute("SELECT pg_sleep(0.002)").await),
                }
            }
        });
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_discarded_and_terminated_connections_never_make_more_sessions_than_pool_size() {
    let universe = three().await;
    let pool = full_pool(
        &universe,
        "pool_size=9&application_name=limited&return_cancel_after=20ms",
    )
    .await;
    let most = most_sessions(&universe, "limited", async |_| {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = churn(&pool, &stop);
        for round in 0..16 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if round % 2 == 0 {
                pool.retire_all();
            } else {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'limited'";
                universe.server(round / 2 % 3).sql(sql);
            }
        }
        stop.store(true, Ordering::Relaxed);
        tasks.join_all().await;
    })
    .await;
    assert!((6..=9).contains(&most), "{most} sessions at one moment");
    becomes(9, || pool.status().idle).await;
    becomes(9, || sessions_at_one_moment(&universe, "limited")).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
}

/// Without load balancing there is no discovery, and within the minute no probe: every session is the pool's.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_never_makes_more_sessions_than_pool_size() {
    let universe = three().await;
    let options = "pool_size=6&load_balance=false&application_name=failing-over&failed_host_reconnect_delay_secs=60\
                   &return_cancel_after=20ms";
    let pool = full_pool(&universe, options).await;
    let most = most_sessions(&universe, "failing-over", async |looks| {
        let looked_on = async || {
            let before = looks.load(Ordering::Relaxed);
            becomes(true, || looks.load(Ordering::Relaxed) >= before + 8).await;
        };
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = churn(&pool, &stop);
        looked_on().await;
        tokio::task::block_in_place(|| universe.server(0).kill());
        becomes(true, || spread(&pool, &universe)[1] > 0).await;
        looked_on().await;
        tokio::task::block_in_place(|| universe.server(1).stop_immediate());
        becomes(true, || spread(&pool, &universe)[2] > 0).await;
        looked_on().await;
        stop.store(true, Ordering::Relaxed);
        tasks.join_all().await;
    })
    .await;
    assert!((1..=6).contains(&most), "{most} sessions at one moment");
    spread_becomes(&pool, &universe, &[0, 0, 6]).await;
    pool.ready(6, LIMIT).await.unwrap();
}
