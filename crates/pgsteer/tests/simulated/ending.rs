//! The end of a pool: what it lets go on, what it cuts, and that nothing of it is left.

use pgsteer::{Cluster, EndCause, Error};
use pgsteer_sim::{Accept, End, Event};

use crate::rig::*;

/// Covers: E-254
#[tokio::test(start_paused = true)]
async fn the_end_of_a_pool_is_the_end_of_its_cluster_and_of_a_hanging_probe() {
    let sim = three().build();
    let before = tasks();
    let pool = full(&sim, config(&["a"]).pool_size(3).connect_timeout(seconds(60))).await;
    refuse(&sim.server("b"));
    sim.server("b").terminate_all();
    until("b is marked", || {
        names(&pool.cluster().snapshot().failed()) == ["b"]
    })
    .await;
    sim.server("b").set_accept(Accept::Hang);
    pass(millis(1100)).await;
    let connected = |sim: &pgsteer_sim::Sim| {
        let log = sim.log();
        let of_b = |event: fn(&Event) -> bool| {
            log.iter()
                .filter(|entry| &*entry.server == "b" && event(&entry.event))
                .count()
        };
        of_b(|event| *event == Event::Connected) - of_b(|event| matches!(event, Event::Ended(_)))
    };
    pool.cluster().refresh();
    until("the probe hangs", || connected(&sim) == 1).await;
    let cluster: Cluster = pool.cluster().clone();
    let closed = pool.close(seconds(5)).await;
    assert_eq!(closed.still_out, 0);
    until("the probe's socket is closed", || connected(&sim) == 0).await;
    assert!(matches!(cluster.connect().await, Err(Error::Closed)));
    assert_eq!(sim.live(), 0);
    drop((pool, cluster));
    until("no task is left", || tasks() == before).await;
}

/// The facts are there without the keeper's help: nothing runs on this runtime while they are read.
///
/// Covers: E-255
#[test]
fn the_facts_of_a_pool_can_be_read_while_nothing_of_it_runs() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let sim = runtime.block_on(async { three().build() });
    let pool = runtime.block_on(full(&sim, abc().pool_size(3)));
    let status = pool.status();
    assert_eq!(
        (status.size, status.idle, placed(&status).as_str()),
        (3, 3, "a:1 b:1 c:1")
    );
    assert_eq!(pool.cluster().snapshot().servers.len(), 3);
    assert!(!pool.is_closed());
    let conn = pool.try_get().unwrap();
    assert_eq!(pool.status().leased, 1);
    drop(conn);
    assert_eq!(pool.status().idle, 3);
}

/// A pool lives on the runtime it was started on. Used after that has gone, it says so at once.
#[test]
fn a_pool_whose_runtime_has_gone_fails_its_callers_instead_of_keeping_them() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let first = runtime();
    let sim = first.block_on(async { three().build() });
    let pool = first.block_on(full(&sim, abc().pool_size(2)));
    drop(first);
    let get = runtime().block_on(async { tokio::time::timeout(seconds(60), pool.get_timeout(None)).await });
    assert!(matches!(get, Ok(Err(Error::Closed))), "{get:?}");
    assert!(pool.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_fails_waiting_and_later_callers_and_closes_what_comes_back() {
    let sim = three().build();
    let before = tasks();
    let pool = full(&sim, abc().pool_size(1)).await;
    let held = pool.get().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get_timeout(None).await.map(drop) }
    });
    until("somebody waits", || pool.status().waiting == 1).await;
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(seconds(60)).await }
    });
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(pool.get().await, Err(Error::Closed)));
    assert!(pool.try_get().is_none());
    assert!(matches!(pool.ready(1, seconds(1)).await, Err(Error::Closed)));
    // The holder's work goes on until it is done.
    held.batch_execute("SELECT pg_sleep(10)").await.unwrap();
    drop(held);
    let closed = closing.await.unwrap();
    assert_eq!(closed.still_out, 0);
    assert!((seconds(10)..seconds(11)).contains(&closed.took), "{closed:?}");
    assert_eq!(sim.live(), 0);
    drop(pool);
    until("no task is left", || tasks() == before).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_out_at_the_end_of_the_time_for_closing_is_cut() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(2)).await;
    let held = pool.get().await.unwrap();
    let query = tokio::spawn(async move { held.batch_execute("SELECT pg_sleep(20)").await });
    until("it runs", || {
        sim.sessions().iter().any(|session| session.running.is_some())
    })
    .await;
    let closed = pool.close(seconds(3)).await;
    assert_eq!((closed.still_out, closed.took), (1, seconds(3)));
    assert!(matches!(
        query.await.unwrap(),
        Err(Error::ConnectionLost(lost)) if lost.end.cause == EndCause::Cut
    ));
    // The server goes on with a statement whose client has gone, to its end.
    until("nothing is left", || sim.live() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_dropped_ends_the_pool() {
    let sim = three().build();
    let before = tasks();
    let pool = full(&sim, abc().pool_size(4)).await;
    let conn = pool.get().await.unwrap();
    drop(pool.clone());
    pass(seconds(1)).await;
    assert_eq!(sim.live(), 4);
    drop(pool);
    until("the idle ones are closed", || sim.live() == 1).await;
    conn.batch_execute("SELECT 1")
        .await
        .expect("a guard outlives the pool");
    drop(conn);
    until("nothing is left", || sim.live() == 0 && tasks() == before).await;
    let ends: Vec<End> = sim
        .log()
        .into_iter()
        .filter_map(|entry| {
            if let Event::Ended(end) = entry.event {
                Some(end)
            } else {
                None
            }
        })
        .collect();
    assert!(
        ends.iter().all(|end| *end == End::Terminated),
        "all said goodbye: {ends:?}"
    );
}

/// Whatever has been begun of it so far, or not yet.
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_closed_as_soon_as_it_is_started_ends() {
    let sim = three().build();
    let before = tasks();
    for turns in 0..40 {
        let pool = start(&sim, abc().pool_size(5));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let closed = pool.close(seconds(5)).await;
        assert!(
            closed.still_out == 0 && closed.took < seconds(1),
            "after {turns} turns: {closed:?}"
        );
        drop(pool);
        until("nothing is left", || sim.live() == 0 && tasks() == before).await;
    }
}
