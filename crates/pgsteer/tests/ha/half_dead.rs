//! Servers that are there and do not answer: frozen ones, and ones whose packets are lost.

use std::time::{Duration, Instant};

use pgsteer::{Conn, FailureKind, Pool};
use pgsteer_testkit::{Blackhole, Fake, FakePg, HaSet, Tls, Universe};

use crate::rig::{
    LIMIT, QUICK, SLACK, becomes, full_pool, get, key, pool, primary_with, refused, rig, soon, spread,
    spread_becomes, states, write,
};

/// Covers: R-02, F-04, F-13, Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_holds_no_checkout_beyond_its_limit_and_leaves_nothing_hanging() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=6&connect_timeout=1s&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let (out, asking) = (get(&pool).await, get(&pool).await);
    let (first, second) = (get(&pool).await, get(&pool).await);

    // Two connections idle, one out, one asking, and two being opened.
    set.node(0).freeze();
    let asking = tokio::spawn(async move { write(&asking).await });
    Conn::discard(first);
    Conn::discard(second);
    let mut idle = Vec::new();
    let error = loop {
        let limit = Duration::from_secs(1);
        let asked = Instant::now();
        let got = pool.get_timeout(limit).await;
        let took = asked.elapsed();
        assert!(took < limit + SLACK, "a checkout took {took:?}");
        match got {
            Ok(conn) => idle.push(conn),
            // Once an opener has given up on the frozen one, and asked the other.
            Err(error) if error.hosts_tried().len() == 2 => break error,
            Err(error) => assert!(idle.len() <= 2, "{error}"),
        }
    };
    assert_eq!(idle.len(), 2);
    let mut seen = states(&error);
    seen.sort();
    assert_eq!(
        seen,
        [(key(set.node(0)), "down"), (key(set.node(1)), "is a standby")],
        "{error}"
    );
    assert!(error.to_string().contains("did not answer"), "{error}");
    assert!(!asking.is_finished());

    set.node(0).thaw();

    soon(asking).await.unwrap().unwrap();
    for conn in idle.iter().chain([&out]) {
        soon(write(conn)).await.unwrap();
    }
    drop((idle, out));
    spread_becomes(&pool, &set, &[6, 0]).await;
    becomes((6, 0), || (pool.status().idle, pool.status().closing)).await;
}

/// Opens a connection and gives it up again, and says how long it took to get it.
async fn open_another(pool: &Pool) -> Duration {
    let asked = Instant::now();
    Conn::discard(get(pool).await);
    asked.elapsed()
}

/// Covers: R-03, F-03, Q-08, Q-15
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_swallows_packets_is_paid_for_once_in_each_delay() {
    let set = rig(HaSet::builder()).await;
    let parameters =
        "load_balance_hosts=random&pool_size=1&connect_timeout=1s&failed_host_reconnect_delay_secs=60";
    let pool = full_pool(&set.addresses(), parameters).await;
    let swallowed = key(set.node(1));
    // One to the host itself would hold its place in the pool until its close is given up.
    while pool.status().by_host.contains_key(&swallowed) {
        open_another(&pool).await;
        drop(get(&pool).await);
    }
    let hole = Blackhole::over(&[&set.node(1).address()]);

    let mut paid = Vec::new();
    soon(async {
        while !pool.cluster().snapshot().failures.contains_key(&swallowed) {
            paid.push(open_another(&pool).await);
        }
    })
    .await;
    for _ in 0..20 {
        paid.push(open_another(&pool).await);
    }

    let slow = paid.iter().filter(|took| **took >= Duration::from_millis(900));
    assert_eq!(slow.count(), 1, "{paid:?}");
    let failure = pool.cluster().snapshot().failures[&swallowed].clone();
    assert_eq!((failure.kind, failure.consecutive), (FailureKind::Down, 1));
    drop(hole);
}

/// A lost old primary must not hold up each round of asking by `connect_timeout`.
///
/// Covers: F-03, F-13, Q-08, Q-21
#[tokio::test(flavor = "multi_thread")]
async fn while_the_old_primary_swallows_packets_the_promotion_is_found_within_a_polling_step() {
    let set = primary_with(1).await;
    let parameters = "target_session_attrs=read-write&pool_size=4&connect_timeout=3s";
    let pool = full_pool(&set.addresses(), parameters).await;
    let hole = Blackhole::over(&[&set.node(0).address()]);
    for _ in 0..4 {
        Conn::discard(get(&pool).await);
    }
    // The first round has gone past the lost host and met the standby.
    becomes(true, || {
        let snapshot = pool.cluster().snapshot();
        snapshot.failures.contains_key(&key(set.node(0))) && snapshot.roles.contains_key(&key(set.node(1)))
    })
    .await;
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { get(&pool).await }
    });

    set.promote(1);
    let promoted = Instant::now();
    let conn = soon(waiting).await.unwrap();

    let took = promoted.elapsed();
    assert!(took < crate::rig::LONGEST_STEP + SLACK, "it took {took:?}");
    write(&conn).await.unwrap();
    assert_eq!(*Conn::host(&conn), key(set.node(1)));
    drop(hole);
}

/// Covers: F-20, Q-20, Q-27, Q-34
#[tokio::test(flavor = "multi_thread")]
async fn connections_whose_packets_are_lost_end_by_keepalive_and_user_timeout_and_are_replaced_elsewhere() {
    let set = rig(HaSet::builder().standbys(1)).await;
    let parameters = "pool_size=4&connect_timeout=2s&keepalives_idle=1&keepalives_interval=1\
                      &keepalives_count=2&tcp_user_timeout=2000";
    let pool = full_pool(&set.addresses(), parameters).await;
    assert_eq!(spread(&pool, &set), [4, 0]);
    let (waiting, asking) = (get(&pool).await, get(&pool).await);
    let waiting = tokio::spawn(async move { waiting.batch_execute("SELECT pg_sleep(1000)").await });
    becomes(1, || {
        set.node(0)
            .sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1000)' AND pid <> pg_backend_pid()")
            .len()
    })
    .await;

    let hole = Blackhole::over(&[&set.node(0).address()]);
    let cut = Instant::now();

    // One query waits for its answer, one is sent into the hole, two connections are idle.
    let ends = tokio::time::timeout(Duration::from_secs(20), async {
        assert!(asking.batch_execute("SELECT 1").await.is_err());
        assert!(waiting.await.unwrap().is_err());
    });
    ends.await
        .unwrap_or_else(|_| panic!("still hanging {:?} after the cut", cut.elapsed()));
    drop(asking);
    spread_becomes(&pool, &set, &[0, 4]).await;
    assert_eq!(pool.status().totals.lost, 4);
    drop(hole);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_hangs_in_the_handshake_of_tls_costs_connect_timeout_and_no_more() {
    let set = rig(HaSet::builder()
        .standbys(0)
        .configure(0, |spec| spec.tls(Tls::new())))
    .await;
    let ca = set.tls_files().ca.display().to_string();
    let fake = FakePg::start(Fake::TlsThenSilent);
    let addresses = format!("{},{}", fake.address(), set.addresses());
    let parameters = format!("pool_size=1&connect_timeout=1s&sslmode=verify-ca&sslrootcert={ca}");
    let asked = Instant::now();
    let pool = pool(&addresses, &parameters);
    let conn = get(&pool).await;
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(900) && took < Duration::from_secs(1) + SLACK,
        "{took:?}"
    );
    assert_eq!(*Conn::host(&conn), key(set.node(0)));
}

/// Each host has a time limit of its own.
///
/// Covers: F-04, Q-08, Q-16
#[tokio::test(flavor = "multi_thread")]
async fn two_silent_hosts_before_a_good_one_cost_a_time_limit_each() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let silent = [
        FakePg::start(Fake::Silent),
        FakePg::start(Fake::StartupThenSilent),
    ];
    let addresses = format!(
        "{},{},{}",
        silent[0].address(),
        silent[1].address(),
        set.addresses()
    );
    let asked = Instant::now();
    let pool = pool(&addresses, "pool_size=1&connect_timeout=700ms");
    let conn = get(&pool).await;
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(1300) && took < Duration::from_millis(1400) + SLACK,
        "{took:?}"
    );
    assert_eq!(*Conn::host(&conn), key(set.node(0)));
}

///
#[tokio::test(flavor = "multi_thread")]
async fn with_a_race_a_silent_first_host_costs_the_delay_of_the_race_only() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let silent = FakePg::start(Fake::Silent);
    let addresses = format!("{},{}", silent.address(), set.addresses());
    let asked = Instant::now();
    let pool = pool(
        &addresses,
        "pool_size=1&connect_timeout=30s&connect_race_delay=200ms",
    );
    let conn = get(&pool).await;
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(190) && took < Duration::from_millis(200) + SLACK,
        "{took:?}"
    );
    assert_eq!(*Conn::host(&conn), key(set.node(0)));
    // The loser is closed, not left to its time limit.
    silent.wait_open(0);
}

/// Covers: F-04, Q-10
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_only_host_is_named_when_a_checkout_runs_out() {
    let silent = FakePg::start(Fake::StartupThenSilent);
    let pool = pool(&silent.address(), "pool_size=1&connect_timeout=300ms");
    let error = soon(refused(&pool, LIMIT)).await;
    assert!(error.to_string().contains(&silent.address()), "{error}");
    assert_eq!(error.hosts_tried()[0].state, "down");
    drop(silent);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_discovered_through_the_next_host_when_the_first_hangs() {
    let universe = Universe::builder().servers(2).start();
    let silent = FakePg::start(Fake::StartupThenSilent);
    let addresses = format!("{},{}", silent.address(), universe.server(0).address());
    let parameters = "load_balance=any&pool_size=4&connect_timeout=1s&rebalance_interval=100ms";
    let pool = full_pool(&addresses, parameters).await;
    let spread = || {
        let by_host = pool.status().by_host;
        let servers = universe.servers().iter();
        servers
            .map(|server| by_host.get(&key(server)).copied().unwrap_or(0))
            .collect()
    };
    becomes(vec![2, 2], spread).await;
    assert!(pool.cluster().snapshot().discovered);
}
