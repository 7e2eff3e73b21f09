//! `on_return` runs on each connection that comes back, before anybody else gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgsteer::config::{HookError, LoadBalance};
use pgsteer::{Config, Conn, Pool, TransactionStatus};
use pgsteer_sim::{Effect, Script, Sim};

use crate::log_lines::Lines;
use crate::rig::*;

async fn pool_of_one(config: Config) -> (Sim, Pool) {
    let sim = three().build();
    let pool = full(&sim, config.load_balance(LoadBalance::Off).pool_size(1)).await;
    (sim, pool)
}

/// The configuration with an `on_return` that counts its runs and undoes a setting.
fn counting(runs: &Arc<AtomicUsize>) -> Config {
    let runs = runs.clone();
    abc().on_return(move |client| {
        let runs = runs.clone();
        Box::pin(async move {
            client.batch_execute("RESET app.tenant").await?;
            runs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    })
}

/// The back-end the next holder gets, which must find it as good as new.
async fn next(pool: &Pool) -> i32 {
    let conn = pool.get_timeout(seconds(60)).await.unwrap();
    assert_eq!(Conn::transaction_status(&conn), Some(TransactionStatus::Idle));
    whoami(&conn).await.1
}

#[tokio::test(start_paused = true)]
async fn it_runs_once_for_each_return_and_the_next_holder_gets_the_connection_after_it() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (_sim, pool) = pool_of_one(counting(&runs)).await;
    assert_eq!(
        runs.load(Ordering::Relaxed),
        0,
        "nobody has had the new connection"
    );
    let mut pids = Vec::new();
    for round in 0..5 {
        let conn = pool.get().await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), round);
        let shown = conn.query_one("SHOW app.tenant", &[]).await;
        assert!(
            shown.is_err() || shown.unwrap().get::<_, String>(0).is_empty(),
            "the setting is gone"
        );
        conn.batch_execute("SET app.tenant = 'acme'").await.unwrap();
        pids.push(whoami(&conn).await.1);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "it is the same connection each time");
    pool.query_one("SELECT 1::int", &[]).await.unwrap();
    until("the pool's own query was a use as well", || {
        runs.load(Ordering::Relaxed) == 6
    })
    .await;
    let totals = pool.status().totals;
    assert_eq!(
        (totals.rolled_back, totals.cancelled, totals.hook_failures),
        (0, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_gets_the_connection_only_after_it() {
    let config =
        abc().on_return(|client| Box::pin(async { Ok(client.batch_execute("SELECT pg_sleep(2)").await?) }));
    let (_sim, pool) = pool_of_one(config).await;
    let conn = pool.get().await.unwrap();
    let waiter = tokio::spawn({
        let pool = pool.clone();
        async move { timed(pool.get_timeout(seconds(20))).await.1 }
    });
    pass(millis(10)).await;
    drop(conn);
    pass(millis(10)).await;
    assert_eq!((pool.status().settling, pool.status().leased), (1, 0));
    let took = waiter.await.unwrap();
    assert!(took >= seconds(2) && took < millis(2100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn it_finds_the_connection_out_of_its_transaction_and_with_nothing_unanswered() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (sim, pool) = pool_of_one(counting(&runs)).await;
    let pid = next(&pool).await;
    {
        let conn = pool.get().await.unwrap();
        conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (1, 'lost')")
            .await
            .unwrap();
    }
    assert_eq!(next(&pool).await, pid);
    assert!(sim.ledger().is_empty());
    {
        let conn = pool.get().await.unwrap();
        conn.batch_execute("BEGIN").await.unwrap();
        let query = tokio::time::timeout(millis(1), conn.batch_execute("SELECT pg_sleep(1000)")).await;
        assert!(query.is_err());
    }
    let (same, took) = timed(next(&pool)).await;
    assert_eq!(same, pid);
    assert!(took < millis(600), "cancelled after 500 ms: {took:?}");
    let totals = pool.status().totals;
    assert_eq!((totals.rolled_back, totals.cancelled), (2, 1));
    until("each return is counted", || runs.load(Ordering::Relaxed) == 5).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_discarded_or_closed_is_not_seen_to() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (sim, pool) = pool_of_one(counting(&runs)).await;
    Conn::discard(pool.get().await.unwrap());
    let conn = pool.get().await.unwrap();
    sim.server("a").terminate_all();
    until("it is noticed", || conn.is_closed()).await;
    drop(conn);
    let conn = pool.get().await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    drop(conn);
    until("the third is", || runs.load(Ordering::Relaxed) == 1).await;
}

/// However it fails, the next holder gets another connection.
#[tokio::test(start_paused = true)]
async fn a_failure_costs_the_connection_and_is_told_once_per_run() {
    type Fails = fn() -> Result<&'static str, HookError>;
    let rows: [(Fails, &str); 3] = [
        (|| Err("nope".into()), "nope"),
        (|| panic!("boom"), "it panicked: boom"),
        (|| Ok("SELECT nonsense"), "SQLSTATE"),
    ];
    for (fails, reason) in rows {
        let lines = Lines::listen();
        let runs = Arc::new(AtomicUsize::new(0));
        let config = abc().on_return({
            let runs = runs.clone();
            move |client| {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move {
                    match run {
                        0 | 1 => Ok(client.batch_execute(fails()?).await?),
                        _ => Ok(()),
                    }
                })
            }
        });
        let (_sim, pool) = pool_of_one(config).await;
        let first = next(&pool).await;
        let second = next(&pool).await;
        let third = next(&pool).await;
        assert!(first != second && second != third, "{reason}");
        assert_eq!(next(&pool).await, third, "{reason}");
        assert_eq!(pool.status().totals.hook_failures, 2, "{reason}");
        let mut told = lines.seen();
        told.retain(|line| line.contains("on_return"));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].starts_with("WARN") && told[0].contains(reason),
            "{told:?}"
        );
        assert!(told[1].starts_with("INFO"), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_it_leaves_open_costs_the_connection() {
    let config = abc().on_return(|client| Box::pin(async { Ok(client.batch_execute("BEGIN").await?) }));
    let (_sim, pool) = pool_of_one(config).await;
    let first = next(&pool).await;
    let (second, took) = timed(next(&pool)).await;
    assert_ne!(first, second);
    assert!(took < millis(100), "at once: {took:?}");
}

/// The deadline of a return holds for it too, and nothing of it is left.
#[tokio::test(start_paused = true)]
async fn one_that_never_ends_costs_the_connection_after_the_return_timeout() {
    let config = abc()
        .return_timeout(seconds(3))
        .on_return(|_| Box::pin(std::future::pending()));
    let (sim, pool) = pool_of_one(config).await;
    let before = tasks();
    let first = next(&pool).await;
    let (second, took) = timed(next(&pool)).await;
    assert_ne!(first, second);
    assert!((seconds(3)..millis(3100)).contains(&took), "{took:?}");
    pass(seconds(10)).await;
    assert_eq!(tasks(), before);
    assert_eq!(pool.status().totals.cut, 2);
    assert_eq!(sim.live(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_during_it_costs_the_connection_after_the_return_timeout() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (sim, pool) = pool_of_one(counting(&runs)).await;
    sim.server("a")
        .script(Script::on("reset app.tenant", Effect::Hang { cancellable: false }).once());
    let first = next(&pool).await;
    let (second, took) = timed(next(&pool)).await;
    assert_ne!(first, second);
    assert!((seconds(5)..millis(5100)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_the_pool_waits_for_it_until_its_deadline() {
    let config =
        abc().on_return(|client| Box::pin(async { Ok(client.batch_execute("SELECT pg_sleep(2)").await?) }));
    let (sim, pool) = pool_of_one(config).await;
    next(&pool).await;
    let (closed, took) = timed(pool.close(seconds(30))).await;
    assert_eq!(closed.still_out, 0);
    assert!(took < millis(2100), "{took:?}");
    assert_eq!(sim.live(), 0);
}
