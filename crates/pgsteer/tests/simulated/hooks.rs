//! `after_connect` runs on each connection of the pool before anybody gets it, and where connections go when it fails. The
//! ways in which it may fail are in `hooks_failing.rs`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pgsteer::config::{HookError, LoadBalance, TargetSessionAttrs};
use pgsteer::tokio_postgres::Client;
use pgsteer::{Cluster, Config, Conn, Error, HookFailure};
use pgsteer_sim::Death;
use tokio::sync::Notify;

use crate::log_lines::Lines;
use crate::rig::*;

/// Which connections a hook ran on, by server and back-end, in order.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(String, i32)>>>);

impl Runs {
    async fn record(&self, client: &Client) -> Result<String, HookError> {
        let row = client
            .query_one("SELECT rig_whoami(), pg_backend_pid()", &[])
            .await?;
        let (server, pid): (String, i32) = (row.get(0), row.get(1));
        self.0.lock().unwrap().push((server.clone(), pid));
        Ok(server)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.0.lock().unwrap().iter().map(|(_, pid)| *pid).collect();
        pids.sort_unstable();
        pids
    }
}

/// The configuration with a hook that records where it ran.
fn recorded(config: Config, runs: &Runs) -> Config {
    let runs = runs.clone();
    config.after_connect(move |client| {
        let runs = runs.clone();
        Box::pin(async move { runs.record(client).await.map(drop) })
    })
}

/// The configuration with a hook that records where it ran and fails on these servers while the switch is on.
fn failing_on(config: Config, runs: &Runs, servers: &'static [&'static str], on: &Arc<AtomicBool>) -> Config {
    let (runs, on) = (runs.clone(), on.clone());
    config.after_connect(move |client| {
        let (runs, on) = (runs.clone(), on.clone());
        Box::pin(async move {
            let server = runs.record(client).await?;
            match on.load(Ordering::Relaxed) && servers.contains(&server.as_str()) {
                true => Err("nope".into()),
                false => Ok(()),
            }
        })
    })
}

pub fn one(config: Config) -> Config {
    config.load_balance(LoadBalance::Off).pool_size(1)
}

pub fn failure(error: &Error) -> &HookFailure {
    match error {
        Error::AfterConnect(failed) => &failed.failure,
        other => panic!("a failed hook was expected, not {other:?}"),
    }
}

/// Covers: E-273
#[tokio::test(start_paused = true)]
async fn the_hook_runs_once_on_each_connection_of_the_pool_and_on_no_other() {
    let sim = three().build();
    let runs = Runs::default();
    let pool = full(&sim, recorded(abc().pool_size(3), &runs)).await;
    sim.server("c").kill(Death::Rst);
    until("c is known to be down", || {
        pool.snapshot().failures.contains_key(&key("c"))
    })
    .await;
    let before = runs.count();
    let discoveries = sim.server("a").counts().discovery_queries + sim.server("b").counts().discovery_queries;
    pool.cluster().refresh();
    pass(seconds(3)).await;
    let after = sim.server("a").counts().discovery_queries + sim.server("b").counts().discovery_queries;
    assert!(after > discoveries, "a discovery ran");
    assert!(sim.server("c").counts().attempts > 1, "c was probed");
    assert_eq!(runs.count(), before, "neither was hooked");
    assert_eq!(before, 4, "the first three, and the one in place of c's");
    let mut pids = runs.pids();
    pids.dedup();
    assert_eq!(pids.len(), 4, "each once");
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_cluster_are_not_hooked() {
    let sim = three().build();
    let runs = Runs::default();
    let cluster: Cluster = cluster(&sim, recorded(abc(), &runs)).await;
    open(&cluster, 3).await;
    assert_eq!(runs.count(), 0);
}

/// Covers: E-274
#[tokio::test(start_paused = true)]
async fn a_connection_is_handed_out_only_after_its_hook() {
    let sim = three().build();
    let go = Arc::new(Notify::new());
    let runs = Runs::default();
    let config = abc().pool_size(1).after_connect({
        let (go, runs) = (go.clone(), runs.clone());
        move |client| {
            let (go, runs) = (go.clone(), runs.clone());
            Box::pin(async move {
                runs.record(client).await?;
                go.notified().await;
                Ok(())
            })
        }
    });
    let pool = start(&sim, config);
    until("the hook runs", || runs.count() == 1).await;
    let status = pool.status();
    assert_eq!((status.idle, status.opening, status.leased), (0, 1, 0));
    assert_eq!(counted(&pool.snapshot()), "a:1", "to the cluster it is open");

    let (error, took) = timed(pool.get_timeout(millis(200))).await;
    assert!(matches!(error, Err(Error::CheckoutTimeout(_))), "{error:?}");
    assert_eq!(took, millis(200));

    let waiter = tokio::spawn({
        let pool = pool.clone();
        async move { whoami(&pool.get_timeout(seconds(50)).await.unwrap()).await }
    });
    pass(seconds(10)).await;
    assert!(!waiter.is_finished());
    go.notify_one();
    let (_, pid) = waiter.await.unwrap();
    assert_eq!(runs.pids(), [pid]);
}

/// Covers: E-275
#[tokio::test(start_paused = true)]
async fn closing_the_pool_ends_a_running_hook_and_its_connection_at_once() {
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let sim = three().build();
    let before = tasks();
    let ended = Arc::new(AtomicUsize::new(0));
    let config = abc().pool_size(1).after_connect({
        let ended = ended.clone();
        move |_| {
            let ended = Ended(ended.clone());
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop(ended);
                Ok(())
            })
        }
    });
    let pool = start(&sim, config);
    until("the hook runs", || sim.live() == 1 && pool.status().opening == 1).await;
    pass(seconds(1)).await;
    let (_, took) = timed(pool.close(seconds(30))).await;
    assert!(took < millis(10), "{took:?}");
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    drop(pool);
    until("the server has noticed", || sim.live() == 0).await;
    until("no task is left", || tasks() == before).await;
}

/// Covers: E-276
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_everywhere_fails_checkouts_and_marks_no_host() {
    let sim = three().build();
    let (runs, on) = (Runs::default(), Arc::new(AtomicBool::new(true)));
    let pool = start(&sim, failing_on(abc().pool_size(2), &runs, &["a", "b", "c"], &on));
    let (error, took) = timed(pool.get_timeout(seconds(30))).await;
    let error = error.unwrap_err();
    assert!(took < seconds(3), "{took:?}");
    assert!(matches!(failure(&error), HookFailure::Error(error) if error.to_string() == "nope"));
    assert!(
        error.to_string().starts_with("after_connect failed on "),
        "{error}"
    );
    assert!(runs.count() >= 2);
    let status = pool.status();
    assert_eq!((status.idle, status.leased, status.opening), (0, 0, 0));
    assert_eq!(status.totals.hook_failures as usize, runs.count());
    assert_eq!(
        sim.live(),
        0,
        "each is closed on its server before the next is opened"
    );
    let snapshot = pool.snapshot();
    assert!(snapshot.failures.is_empty(), "{:?}", snapshot.failures);
    assert_eq!(sorted(&snapshot.placement), ["a", "b", "c"]);
    assert_eq!(counted(&snapshot), "");

    on.store(false, Ordering::Relaxed);
    let failed = runs.count();
    pool.ready(2, seconds(30)).await.unwrap();
    assert_eq!(runs.count(), failed + 2);
}

/// With one host to choose from, the first failure of a run is tried again at once; each later one costs a second.
#[tokio::test(start_paused = true)]
async fn where_there_is_no_other_host_failures_come_a_second_apart_and_no_server_sees_more_than_the_pool_has()
{
    let sim = three().build();
    let (runs, on) = (Runs::default(), Arc::new(AtomicBool::new(true)));
    let pool = start(&sim, one(failing_on(abc(), &runs, &["a"], &on)));
    pass(millis(500)).await;
    assert_eq!(runs.count(), 2);
    pass(seconds(10)).await;
    assert!((11..=13).contains(&runs.count()), "{}", runs.count());
    assert_eq!(sim.server("a").counts().most_live, 1);
    assert_eq!(sim.server("b").counts().attempts, 0, "the order of hosts is kept");
    on.store(false, Ordering::Relaxed);
    pool.ready(1, seconds(5)).await.unwrap();
}

/// A prepared statement that the hook drops is closed by a request that nobody waits for.
#[tokio::test(start_paused = true)]
async fn a_hook_may_prepare_statements_and_use_transactions() {
    let sim = three().build();
    let config = abc().pool_size(3).after_connect(|client| {
        Box::pin(async {
            let statement = client.prepare("SELECT $1::int").await?;
            client.query_one(&statement, &[&1i32]).await?;
            drop(statement);
            let transaction = client.transaction().await?;
            transaction.query_one("SELECT 2::int", &[]).await?;
            transaction.commit().await?;
            Ok(())
        })
    });
    let pool = full(&sim, config).await;
    assert_eq!(pool.status().totals.hook_failures, 0);
}

/// Covers: E-282
#[tokio::test(start_paused = true)]
async fn replacements_are_hooked_too_each_once() {
    let sim = three().build();
    let runs = Runs::default();
    let _pool = full(
        &sim,
        recorded(abc().pool_size(3).max_lifetime(millis(200)), &runs),
    )
    .await;
    until("replacements were hooked", || runs.count() > 9).await;
    let logins: u64 = ["a", "b", "c"]
        .iter()
        .filter_map(|name| {
            sim.server(name)
                .counts()
                .logins_by_application
                .get("pgsteer")
                .copied()
        })
        .sum();
    let mut pids = runs.pids();
    let all = pids.len();
    pids.dedup();
    assert_eq!(pids.len(), all, "none twice");
    assert!(all as u64 <= logins);
}

/// Covers: E-283
#[tokio::test(start_paused = true)]
async fn connections_moved_home_are_hooked() {
    let sim = three().build();
    let runs = Runs::default();
    sim.server("a").kill(Death::Rst);
    let config = abc().pool_size(6).yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, recorded(config, &runs)).await;
    assert_eq!(placed(&pool.status()), "b:3 c:3");
    sim.server("a").start();
    until("all are home", || placed(&pool.status()) == "a:2 b:2 c:2").await;
    assert!(runs.count() >= 8, "{}", runs.count());
    let mut pids = runs.pids();
    pids.dedup();
    assert_eq!(pids.len(), runs.count(), "none twice");
}

/// While there is another host, no checkout fails for one on which the hook does, and the failing host is met again
/// only after its delay, a batch at a time.
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_on_one_host_sends_its_connections_elsewhere_and_fails_no_checkout() {
    let sim = three().build();
    let (runs, on) = (Runs::default(), Arc::new(AtomicBool::new(true)));
    let config = abc().pool_size(6).failed_host_reconnect_delay_secs(5);
    let pool = full(&sim, failing_on(config, &runs, &["c"], &on)).await;
    assert_eq!(placed(&pool.status()), "a:3 b:3");
    let failures = pool.status().totals.hook_failures;
    pass(seconds(4)).await;
    assert_eq!(
        pool.status().totals.hook_failures,
        failures,
        "c is left alone for its delay"
    );
    let conn = pool.get_timeout(millis(100)).await;
    assert!(conn.is_ok());
    drop(conn);
    on.store(false, Ordering::Relaxed);
    until("c has its share", || placed(&pool.status()) == "a:2 b:2 c:2").await;
}

/// Covers: E-286
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_on_one_host_is_told_once_per_run() {
    let sim = three().build();
    let lines = Lines::listen();
    let told = |part: &str| {
        let mut told = lines.seen();
        told.retain(|line| line.contains(part));
        told
    };
    let (runs, on) = (Runs::default(), Arc::new(AtomicBool::new(true)));
    let pool = full(&sim, failing_on(abc().pool_size(3), &runs, &["c"], &on)).await;
    let warnings = told("after_connect");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("WARN") && warnings[0].contains("c:5433") && warnings[0].contains("nope")
    );
    let failures = pool.status().totals.hook_failures;
    pool.retire_all();
    within("c was tried in vain again", seconds(60), || {
        pool.retire_all();
        pool.status().totals.hook_failures >= failures + 2
    })
    .await;
    assert_eq!(told("after_connect"), [""; 0], "the run goes on");

    on.store(false, Ordering::Relaxed);
    within("c has a connection", seconds(60), || {
        placed(&pool.status()).contains("c:")
    })
    .await;
    pass(seconds(61)).await;
    let over = told("after_connect");
    assert_eq!(over.len(), 1, "{over:?}");
    assert!(
        over[0].starts_with("INFO") && over[0].contains("c:5433"),
        "{over:?}"
    );

    on.store(true, Ordering::Relaxed);
    pool.retire_all();
    within("it fails again", seconds(60), || {
        !told("after_connect").is_empty()
    })
    .await;
}

/// A host that is no primary any more may be met by the hook first: its refusal is heard like any other's.
#[tokio::test(start_paused = true)]
async fn a_write_refused_inside_the_hook_makes_the_cluster_ask_the_host_what_it_is() {
    let sim = plain([in_zone("a", "us-east1-b"), in_zone("b", "us-east1-c").standby()]);
    let (moved, tries) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let config = config(&["a", "b"])
        .load_balance(LoadBalance::Off)
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .pool_size(1)
        .after_connect({
            let (sim, moved) = (sim.clone(), moved.clone());
            move |client| {
                // The servers change places after the pool has asked and before the hook writes.
                if !moved.swap(true, Ordering::Relaxed) {
                    sim.server("a").demote();
                    sim.server("b").promote();
                }
                let insert = format!(
                    "INSERT INTO ledger VALUES ({}, 'hook')",
                    tries.fetch_add(1, Ordering::Relaxed)
                );
                Box::pin(async move { Ok(client.batch_execute(&insert).await?) })
            }
        });
    let pool = start(&sim, config);
    let conn = pool.get_timeout(seconds(20)).await.unwrap();
    assert_eq!(Conn::host(&conn).name(), "b");
}

/// Covers: E-292
#[tokio::test(start_paused = true)]
async fn what_a_hook_captured_reaches_it_and_is_shown_nowhere() {
    let sim = three().build();
    let lines = Lines::listen();
    let seen = Arc::new(Mutex::new(String::new()));
    let (key, into) = ("s3cret-arg".to_owned(), seen.clone());
    let config = one(abc()).after_connect(move |client| {
        let (key, into) = (key.clone(), into.clone());
        Box::pin(async move {
            let row = client.query_one("SELECT $1::text", &[&key]).await?;
            *into.lock().unwrap() = row.get(0);
            Ok(())
        })
    });
    let shown = format!("{config:?}");
    let pool = full(&sim, config).await;
    assert_eq!(*seen.lock().unwrap(), "s3cret-arg");
    let shown = format!("{shown} {pool:?} {:?} {:?}", pool.status(), lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}
