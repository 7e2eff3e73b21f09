//! Servers that die, freeze, fill up or lock the door while work goes on, and that come back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgsteer::{Conn, Error, FailureKind, HostKey, Pool, Refused};
use pgsteer_testkit::Universe;
use tokio::task::JoinSet;

use crate::rig::{
    LIMIT, QUICK, backend, backends, becomes, cluster, config_for, counts, full_pool, get_in_the_end,
    is_lost, key, keys, logged, pool, rig, soon, spread, spread_becomes, stays, three,
};

/// Tasks that check out, run a short statement and give back, until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    /// The longest checkout so far, in microseconds.
    longest: Arc<AtomicU64>,
    tasks: JoinSet<BTreeMap<HostKey, u64>>,
}

impl Load {
    /// No checkout may fail, and no statement for another reason than a lost connection.
    fn start(pool: &Pool, tasks: usize) -> Self {
        let mut load = Load {
            stop: Arc::default(),
            done: Arc::default(),
            longest: Arc::default(),
            tasks: JoinSet::new(),
        };
        for _ in 0..tasks {
            let (pool, stop) = (pool.clone(), load.stop.clone());
            let (done, longest) = (load.done.clone(), load.longest.clone());
            load.tasks.spawn(async move {
                let mut lost = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let conn = pool.get_timeout(LIMIT).await.expect("no checkout fails");
                    longest.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
                    let host = Conn::host(&conn).clone();
                    match conn
                        .batch_execute("SELECT pg_sleep(0.002)")
                        .await
                        .map_err(Error::from)
                    {
                        Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                        Err(error) if is_lost(&error) => {
                            *lost.entry(host).or_default() += 1;
                            0
                        }
                        Err(other) => panic!("an error other than a query lost in flight: {other}"),
                    };
                }
                lost
            });
        }
        load
    }

    /// Waits until this many more statements have been run.
    async fn goes_on(&self, more: u64) {
        let before = self.done.load(Ordering::Relaxed);
        becomes(true, || self.done.load(Ordering::Relaxed) >= before + more).await;
    }

    fn longest_checkout(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }

    /// Ends it and gives the lost statements by host.
    async fn end(self) -> BTreeMap<HostKey, u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for lost in self.tasks.join_all().await {
            for (host, count) in lost {
                *all.entry(host).or_default() += count;
            }
        }
        all
    }
}

/// Covers: E-348
#[tokio::test(flavor = "multi_thread")]
async fn killing_a_server_under_load_costs_only_the_statements_in_flight_on_it() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=12&{QUICK}")).await;
    let load = Load::start(&pool, 32);
    load.goes_on(100).await;
    universe.server(1).kill();
    spread_becomes(&pool, &universe, &[6, 0, 6]).await;
    load.goes_on(100).await;
    universe.server(1).start();
    spread_becomes(&pool, &universe, &[4, 4, 4]).await;
    load.goes_on(100).await;
    let lost = load.end().await;
    assert!(
        lost.keys().all(|host| *host == key(universe.server(1))),
        "{lost:?}"
    );
    assert!(
        lost.values().all(|&count| count <= 4),
        "at most one per connection there: {lost:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_fails_no_checkout() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    let load = Load::start(&pool, 16);
    for server in universe.servers() {
        server.stop_fast();
        becomes(6, || spread(&pool, &universe).iter().sum()).await;
        load.goes_on(50).await;
        server.start();
        spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    }
    let lost = load.end().await;
    assert!(
        lost.values().sum::<u64>() <= 9,
        "at most one per connection that was there: {lost:?}"
    );
}

/// Covers: E-260
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_back_gets_its_share_a_batch_at_a_time_and_nobody_is_disturbed() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=12&rebalance_batch=1&{QUICK}")).await;
    universe.server(1).stop_fast();
    spread_becomes(&pool, &universe, &[6, 0, 6]).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let conn = pool.get().await.unwrap();
        let process = backend(&conn).await;
        held.push((conn, process));
    }
    let before = pool.status().totals;

    universe.server(1).start();
    let mut most = 0;
    becomes(vec![4, 4, 4], || {
        let status = pool.status();
        most = most.max(status.opening + status.closing);
        spread(&pool, &universe)
    })
    .await;

    assert!(most <= 2, "one at a time closes and opens anew, not {most}");
    assert_eq!(
        pool.status().totals.moved - before.moved,
        4,
        "no more than it takes"
    );
    assert_eq!(pool.status().totals.lost, before.lost);
    for (conn, process) in &held {
        assert_eq!(backend(conn).await, *process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_in_full_use_evens_out_as_connections_come_back() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    universe.server(2).kill();
    spread_becomes(&pool, &universe, &[3, 3, 0]).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.get().await.unwrap());
    }
    universe.server(2).start();
    // Half the difference between three and none.
    becomes(1, || pool.status().draining).await;
    for conn in &held {
        conn.batch_execute("SELECT 1").await.unwrap();
    }
    drop(held);
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_holds_up_each_open_for_connect_timeout_and_no_checkout() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&connect_timeout=2s&{QUICK}")).await;
    let frozen = key(universe.server(1));
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.get().await.unwrap());
    }
    universe.server(1).freeze();
    let (there, others): (Vec<Conn>, Vec<Conn>) =
        held.into_iter().partition(|conn| *Conn::host(conn) == frozen);
    there.into_iter().for_each(Conn::discard);
    drop(others);

    let load = Load::start(&pool, 8);
    spread_becomes(&pool, &universe, &[3, 0, 3]).await;
    load.goes_on(100).await;
    let failure = pool.cluster().snapshot().failures[&frozen].clone();
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(
        failure.reason.contains("did not finish the login"),
        "{}",
        failure.reason
    );

    universe.server(1).thaw();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    let longest = load.longest_checkout();
    assert!(longest < Duration::from_secs(5), "a checkout took {longest:?}");
    assert_eq!(load.end().await, BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_left_busy_on_a_frozen_server_is_cut_and_replaced_elsewhere() {
    let universe = rig(Universe::builder().servers(2)).await;
    let options = "pool_size=2&connect_timeout=2s&return_cancel_after=100ms&return_timeout=1s";
    let pool = full_pool(&universe, options).await;
    let frozen = key(universe.server(1));
    let (first, second) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let conn = if *Conn::host(&first) == frozen {
        first
    } else {
        second
    };
    universe.server(1).freeze();
    let asked = tokio::time::timeout(Duration::from_millis(50), conn.batch_execute("SELECT 1"));
    assert!(asked.await.is_err());
    drop(conn);
    spread_becomes(&pool, &universe, &[2, 0]).await;
    assert_eq!(pool.status().totals.cut, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_a_frozen_server_closes_by_its_deadline() {
    let universe = rig(Universe::builder().servers(2)).await;
    let pool = full_pool(&universe, "pool_size=4").await;
    universe.server(1).freeze();
    let closed = pool.close(Duration::from_millis(500)).await;
    assert_eq!(closed.still_out, 0, "nobody held any");
    assert!(closed.took < Duration::from_secs(5), "{closed:?}");
    becomes((0, 0), || (pool.status().idle, pool.status().closing)).await;
    becomes(0, || pool.cluster().snapshot().counts.values().sum::<u32>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_on_a_frozen_server_ends_within_connect_timeout() {
    let universe = rig(Universe::builder().servers(2)).await;
    universe.server(0).freeze();
    universe.server(1).freeze();
    let cluster = cluster(&universe, "load_balance=false&connect_timeout=700ms");
    let started = Instant::now();
    let Err(Error::Connect(failed)) = soon(cluster.connect()).await else {
        panic!("frozen servers were connected to")
    };
    let took = started.elapsed();
    assert_eq!(failed.tried.len(), 2, "{failed}");
    for tried in &failed.tried {
        assert!(
            tried.age >= Duration::from_millis(690),
            "{tried} gave up after {:?}",
            tried.age
        );
    }
    let both = failed.tried.iter().map(|tried| tried.age).sum::<Duration>();
    assert!(both <= took && both < Duration::from_secs(7), "{failed}");
}

/// Covers: E-252
#[tokio::test(flavor = "multi_thread")]
async fn with_every_server_down_the_error_names_each_and_with_them_up_it_works_again() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    universe.servers().iter().for_each(pgsteer_testkit::Server::kill);
    becomes(0, || pool.status().idle).await;
    // An open that was under way when its server died tells another story, so the first errors may differ.
    soon(async {
        loop {
            let error = pool.get_timeout(LIMIT).await.unwrap_err();
            assert!(matches!(error, Error::Connect(_)), "{error}");
            let said = error.to_string();
            for server in universe.servers() {
                assert!(
                    said.contains(&server.address()),
                    "{} is not in: {said}",
                    server.address()
                );
            }
            assert!(
                error.hosts_tried().iter().all(|tried| tried.state == "down"),
                "{said}"
            );
            if error
                .hosts_tried()
                .iter()
                .all(|tried| tried.reason.contains("refused"))
            {
                break;
            }
        }
    })
    .await;
    assert!(!logged(&["WARN", "could not connect to", &universe.server(0).address()]).is_empty());
    universe.servers().iter().for_each(pgsteer_testkit::Server::start);
    get_in_the_end(&pool)
        .await
        .batch_execute("SELECT 1")
        .await
        .unwrap();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    becomes(true, || pool.cluster().snapshot().failures.is_empty()).await;
}

/// Covers: E-249, E-256
#[tokio::test(flavor = "multi_thread")]
async fn connections_terminated_in_bulk_are_replaced_where_they_were_and_no_host_is_marked() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=12&application_name=terminated").await;
    let before = backends(&universe, "terminated");
    assert_eq!(before.len(), 12);
    for server in universe.servers() {
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terminated'",
        );
    }
    becomes(true, || {
        let now = backends(&universe, "terminated");
        now.len() == 12 && now.iter().all(|process| !before.contains(process))
    })
    .await;
    spread_becomes(&pool, &universe, &[4, 4, 4]).await;
    let status = pool.status();
    assert_eq!(
        (
            status.totals.lost,
            status.totals.opened,
            status.totals.open_failures
        ),
        (12, 24, 0)
    );
    assert!(pool.cluster().snapshot().failures.is_empty());
    pool.query_one("SELECT 1", &[]).await.unwrap();
}

/// Covers: E-259
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_terminated_under_a_statement_fails_that_statement_only() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let conn = pool.get().await.unwrap();
    let process = backend(&conn).await;
    let sleep = tokio::spawn(async move { conn.batch_execute("SELECT pg_sleep(1000)").await });
    becomes(true, || {
        let sql = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND query LIKE '%pg_sleep%'");
        !universe.server(0).sql(&sql).is_empty()
    })
    .await;
    universe.server(0).terminate(process);
    let error = Error::from(soon(sleep).await.unwrap().unwrap_err());
    assert!(is_lost(&error), "{error}");
    let conn = pool.get_timeout(LIMIT).await.unwrap();
    assert_eq!(*Conn::host(&conn), key(universe.server(0)));
    assert_ne!(backend(&conn).await, process);
    assert!(pool.cluster().snapshot().failures.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_no_room_for_more_is_left_out_and_the_pool_is_full_elsewhere() {
    let universe = rig(Universe::builder()
        .servers(3)
        .configure(1, |spec| spec.max_connections(2)))
    .await;
    let pool = full_pool(&universe, &format!("pool_size=12&{QUICK}")).await;
    let full = key(universe.server(1));
    let load = Load::start(&pool, 12);
    becomes(vec![full.clone()], || pool.cluster().snapshot().rejected()).await;
    let failure = pool.cluster().snapshot().failures[&full].clone();
    assert!(failure.reason.contains("53300"), "{}", failure.reason);
    becomes(12, || spread(&pool, &universe).iter().sum()).await;
    assert!(spread(&pool, &universe)[1] <= 2, "{:?}", spread(&pool, &universe));
    load.goes_on(100).await;
    assert_eq!(load.end().await, BTreeMap::new());
    assert!(!logged(&["WARN", &full.to_string(), "53300"]).is_empty());
}

/// Covers: E-230
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_login_others_take_is_rejected_and_found_back() {
    let universe = three().await;
    universe.server(1).set_hba(&["host all all all reject"]);
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    spread_becomes(&pool, &universe, &[3, 0, 3]).await;
    let refusing = key(universe.server(1));
    let snapshot = pool.cluster().snapshot();
    assert_eq!(
        (snapshot.rejected(), snapshot.failed()),
        (vec![refusing.clone()], vec![])
    );
    assert!(
        snapshot.failures[&refusing].reason.contains("28000"),
        "{:?}",
        snapshot.failures
    );
    assert!(!snapshot.placement.contains(&refusing) && snapshot.allowed.contains(&refusing));
    let warnings = logged(&["WARN", &refusing.to_string(), "28000"]);
    assert_eq!(
        warnings.len(),
        1,
        "one for the whole run of failures: {warnings:?}"
    );
    assert!(!warnings[0].contains("could not connect to"), "{warnings:?}");

    universe.server(1).reset_hba();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
}

/// Covers: E-233
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_hosts_that_are_down_or_refuse_are_passed_over_in_order() {
    let universe = three().await;
    universe.server(0).kill();
    universe.server(1).set_hba(&["host all all all reject"]);
    let cluster = cluster(&universe, &format!("load_balance=false&{QUICK}"));
    let first = cluster.connect().await.unwrap();
    let second = cluster.connect().await.unwrap();
    assert_eq!(counts(&cluster, &universe), [0, 0, 2]);
    let snapshot = cluster.snapshot();
    assert_eq!(
        (snapshot.failed(), snapshot.rejected()),
        (keys(&universe, &[0]), keys(&universe, &[1]))
    );
    universe.server(1).reset_hba();
    becomes(keys(&universe, &[1]), || cluster.snapshot().placement).await;
    let third = cluster.connect().await.unwrap();
    assert_eq!(counts(&cluster, &universe), [0, 1, 2]);
    drop((first, second, third));
}

/// Covers: E-216
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_the_first_host_that_works_is_used() {
    let universe = three().await;
    let cluster = cluster(&universe, &format!("load_balance=false&{QUICK}"));
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(cluster.connect().await.unwrap());
    }
    assert_eq!(counts(&cluster, &universe), [4, 0, 0]);
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0]));
    open.clear();
    universe.server(0).kill();
    open.push(cluster.connect().await.unwrap());
    open.push(cluster.connect().await.unwrap());
    becomes(vec![0, 2, 0], || counts(&cluster, &universe)).await;
    let snapshot = cluster.snapshot();
    assert_eq!(
        (snapshot.failed(), snapshot.placement),
        (keys(&universe, &[0]), keys(&universe, &[1]))
    );
    assert_eq!(snapshot.allowed, keys(&universe, &[0, 1]));
    universe.server(1).kill();
    open.push(cluster.connect().await.unwrap());
    becomes(vec![0, 0, 1], || counts(&cluster, &universe)).await;
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0, 2]));
    universe.server(0).start();
    becomes(keys(&universe, &[0]), || cluster.snapshot().placement).await;
    assert_eq!(cluster.snapshot().allowed, keys(&universe, &[0]));
    assert_eq!(cluster.snapshot().failed(), keys(&universe, &[1]));
    open.push(cluster.connect().await.unwrap());
    assert_eq!(counts(&cluster, &universe), [1, 0, 1]);
}

/// Covers: E-267
#[tokio::test(flavor = "multi_thread")]
async fn without_load_balancing_a_pool_gathers_on_the_first_host_a_batch_per_look() {
    let universe = three().await;
    let options = "pool_size=4&load_balance=false&rebalance_batch=2&rebalance_interval=1h\
                   &failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1";
    let pool = full_pool(&universe, options).await;
    assert_eq!(spread(&pool, &universe), [4, 0, 0]);
    universe.server(0).kill();
    spread_becomes(&pool, &universe, &[0, 4, 0]).await;
    for _ in 0..3 {
        pool.rebalance();
        stays(vec![0, 4, 0], Duration::from_millis(100), || {
            spread(&pool, &universe)
        })
        .await;
    }
    universe.server(0).start();
    becomes(keys(&universe, &[0]), || pool.cluster().snapshot().placement).await;
    stays(vec![0, 4, 0], Duration::from_millis(100), || {
        spread(&pool, &universe)
    })
    .await;
    pool.rebalance();
    spread_becomes(&pool, &universe, &[2, 2, 0]).await;
    stays(vec![2, 2, 0], Duration::from_millis(200), || {
        spread(&pool, &universe)
    })
    .await;
    pool.rebalance();
    spread_becomes(&pool, &universe, &[4, 0, 0]).await;
    assert_eq!(
        universe.server(2).log().logins(pgsteer_testkit::USER),
        0,
        "the third was never dialled"
    );
}

/// The fourth server is in no list and serves as a load balancer that leads to the cluster would.
///
/// Covers: E-212, E-213
#[tokio::test(flavor = "multi_thread")]
async fn when_every_listed_server_is_down_the_seed_serves_unless_the_mode_refuses() {
    let universe = rig(Universe::builder().servers(4)).await;
    universe.forget(3);
    for server in 0..3 {
        universe.server(server).kill();
    }
    let only_keys = "topology_keys=gcp.us-east1.*&fallback_to_topology_keys_only=true";
    let rows = [
        ("load_balance=any".to_owned(), None),
        ("load_balance=prefer-primary".to_owned(), None),
        ("load_balance=prefer-rr".to_owned(), None),
        (
            "load_balance=any&fallback_to_topology_keys_only=true".to_owned(),
            None,
        ),
        (format!("load_balance=prefer-primary&{only_keys}"), None),
        ("load_balance=only-primary".to_owned(), Some(Refused::Primary)),
        ("load_balance=only-rr".to_owned(), Some(Refused::ReadReplica)),
        (format!("load_balance=any&{only_keys}"), Some(Refused::Cluster)),
        (format!("load_balance=true&{only_keys}"), Some(Refused::Cluster)),
    ];
    let seed = key(universe.server(3));
    for (options, refused) in rows {
        let config = config_for(&universe.server(3).address(), &options);
        let cluster = pgsteer::Cluster::start(config).unwrap();
        for _ in 0..2 {
            match (refused, cluster.connect().await) {
                (None, connected) => {
                    assert_eq!(
                        *pgsteer::ClusterConnection::host(&connected.unwrap()),
                        seed,
                        "{options}"
                    );
                    assert_eq!(cluster.snapshot().placement, [seed.clone()], "{options}");
                }
                (Some(refused), Err(Error::NoNode(seen))) => {
                    assert_eq!(seen, refused, "{options}");
                    let snapshot = cluster.snapshot();
                    assert!(
                        snapshot.placement.is_empty() && !snapshot.allowed.contains(&seed),
                        "{options}"
                    );
                }
                (Some(_), other) => panic!("{options}: {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_started_while_every_server_is_down_fills_when_they_come_up() {
    let universe = three().await;
    universe.servers().iter().for_each(pgsteer_testkit::Server::kill);
    let pool = pool(&universe, &format!("pool_size=3&{QUICK}"));
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
    universe.servers().iter().for_each(pgsteer_testkit::Server::start);
    spread_becomes(&pool, &universe, &[1, 1, 1]).await;
}
