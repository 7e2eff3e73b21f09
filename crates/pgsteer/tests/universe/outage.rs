//! No server at all for a while: what the circuit breaker makes of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pgsteer::health::State;
use pgsteer::{BreakerStatus, Cluster, Error, Pool};
use pgsteer_testkit::Universe;
use tokio::task::JoinSet;

use crate::rig::{LIMIT, backends, becomes, full_pool, rig};

/// Callers at a time.
const CALLERS: usize = 50;

fn breaker(pool: &Pool) -> BreakerStatus {
    pool.status().breaker.unwrap()
}

/// How a checkout ended, and what it took.
type Outcome = (Result<(), Error>, Duration);

/// Tasks that check out again and again until they are aborted, and what became of each checkout.
fn callers(pool: &Pool) -> (JoinSet<()>, Arc<Mutex<Vec<Outcome>>>) {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..CALLERS {
        let (pool, outcomes) = (pool.clone(), outcomes.clone());
        tasks.spawn(async move {
            loop {
                let asked = Instant::now();
                let result = pool.get().await.map(drop);
                outcomes.lock().unwrap().push((result, asked.elapsed()));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    (tasks, outcomes)
}

/// Covers: B-18
#[tokio::test(flavor = "multi_thread")]
async fn callers_of_servers_that_are_all_stopped_get_real_errors_then_fast_ones_and_are_served_within_a_window()
 {
    let universe = rig(Universe::builder().servers(3).configure_all(|spec| spec.plain())).await;
    let options = "pool_size=6&breaker_cap=2s&application_name=outage&load_balance=false";
    let pool = full_pool(&universe, options).await;
    let (mut tasks, outcomes) = callers(&pool);
    for server in universe.servers() {
        server.stop_immediate();
    }
    becomes(State::Open, || breaker(&pool).state).await;
    outcomes.lock().unwrap().clear();
    let passes = |pool: &Pool| (pool.status().totals.open_failures, breaker(pool).trips);
    let (failed_before, trips_before) = passes(&pool);
    becomes(true, || breaker(&pool).trips >= trips_before + 3).await;
    let (failed, trips) = passes(&pool);
    assert!(
        failed - failed_before <= u64::from(trips - trips_before) + 1,
        "{} passes in {} windows",
        failed - failed_before,
        trips - trips_before
    );

    let mut away = Vec::new();
    let mut others = 0;
    for (result, took) in outcomes.lock().unwrap().drain(..) {
        match result {
            Err(Error::CircuitOpen {
                retry_after,
                last_error,
            }) => {
                assert!(retry_after <= Duration::from_millis(2400), "{retry_after:?}");
                assert_eq!(last_error.hosts_tried().len(), 3, "{last_error}");
                away.push(took);
            }
            Err(Error::Connect(_)) => others += 1,
            other => panic!("{other:?}"),
        }
    }
    away.sort_unstable();
    // A caller that meets the probe waits for it; the machine's own hiccups are left out.
    let usual = away[away.len() * 9 / 10];
    assert!(away.len() > 1000 && usual < Duration::from_millis(1), "{usual:?}");
    assert!(
        others < away.len() / 10,
        "{others} waited for a probe that failed"
    );

    universe.server(1).start();
    let started = Instant::now();
    becomes(true, || {
        outcomes.lock().unwrap().iter().any(|(result, _)| result.is_ok())
    })
    .await;
    let took = started.elapsed();
    // The window is 2.4 s at most; the rest is for a machine that is busy.
    assert!(
        took < Duration::from_millis(2400) + Duration::from_secs(3),
        "{took:?}"
    );
    pool.ready(6, LIMIT).await.unwrap();
    assert_eq!(breaker(&pool).state, State::Closed);
    tasks.shutdown().await;
    pool.close(LIMIT).await;
    becomes(0, || backends(&universe, "outage").len()).await;
}

/// Covers: B-19
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_only_server_opens_it_after_five_attempts_of_full_length_and_checkout_timeout_bounds_callers_meanwhile()
 {
    let universe = rig(Universe::builder().servers(1).configure_all(|spec| spec.plain())).await;
    let options = "pool_size=1&connect_timeout=1s&checkout_timeout=300ms&load_balance=false&breaker_cap=2s";
    let pool = full_pool(&universe, options).await;
    let conn = pool.get().await.unwrap();
    universe.server(0).freeze();
    pgsteer::Conn::discard(conn);
    let frozen = Instant::now();
    while breaker(&pool).state == State::Closed {
        let asked = Instant::now();
        let error = pool.get().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::CheckoutTimeout(_) | Error::Connect(_) | Error::CircuitOpen { .. }
            ),
            "{error}"
        );
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
    let took = frozen.elapsed();
    assert!(
        took >= Duration::from_millis(4_990),
        "five attempts of a second: {took:?}"
    );
    assert!(matches!(pool.get().await, Err(Error::CircuitOpen { .. })));

    universe.server(0).thaw();
    becomes(true, || pool.status().idle == 1).await;
    assert_eq!(breaker(&pool).state, State::Closed);
}

/// A cluster on these servers in their order.
fn in_order(universe: &Universe, options: &str) -> Cluster {
    crate::rig::cluster(
        universe,
        &format!("load_balance=false&breaker_jitter=0&{options}"),
    )
}

/// Covers: B-09
#[tokio::test(flavor = "multi_thread")]
async fn one_stopped_server_of_three_never_opens_it() {
    let universe = rig(Universe::builder().servers(3).configure_all(|spec| spec.plain())).await;
    let cluster = in_order(
        &universe,
        "breaker_threshold=1&failed_host_reconnect_delay_secs=0",
    );
    universe.server(0).stop_immediate();
    for _ in 0..100 {
        cluster.connect().await.expect("two servers work");
        let now = cluster.breaker().unwrap();
        assert_eq!((now.state, now.outages), (State::Closed, 0));
    }
}

/// Covers: B-10
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_refuse_the_login_never_open_it() {
    let universe = rig(Universe::builder().servers(2).configure_all(|spec| spec.plain())).await;
    for wrong in ["password=wrong", "dbname=nowhere", "user=nobody"] {
        let cluster = in_order(&universe, &format!("breaker_threshold=1&{wrong}"));
        for _ in 0..20 {
            let error = cluster.connect().await.unwrap_err();
            assert!(matches!(error, Error::Login(_)), "{wrong}: {error}");
            let now = cluster.breaker().unwrap();
            assert_eq!((now.state, now.streak), (State::Closed, 0), "{wrong}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_finds_a_server_back_closes_it_long_before_its_window_is_over() {
    let universe = rig(Universe::builder().servers(2).configure_all(|spec| spec.plain())).await;
    let options = "pool_size=2&load_balance=false&breaker_threshold=2&breaker_base=24h&breaker_cap=24h\
                   &failed_host_reconnect_delay_secs=0&yb_servers_refresh_interval=1";
    let pool = full_pool(&universe, options).await;
    let reads = pool
        .with_target(pgsteer::TargetSessionAttrs::PreferStandby)
        .unwrap();
    reads.ready(2, LIMIT).await.unwrap();
    for server in universe.servers() {
        server.stop_immediate();
    }
    becomes(State::Open, || breaker(&pool).state).await;
    for pool in [&pool, &reads] {
        becomes(true, || {
            pool.status().size > 0 && pool.status().by_host.is_empty()
        })
        .await;
        let error = pool.get().await.unwrap_err();
        assert!(matches!(error, Error::CircuitOpen { .. }), "{error}");
    }
    universe.server(1).start();
    pool.ready(2, LIMIT).await.unwrap();
    reads.ready(2, LIMIT).await.unwrap();
    assert_eq!(breaker(&reads).state, State::Closed);
}

/// Covers: B-17
#[tokio::test(flavor = "multi_thread")]
async fn with_a_threshold_of_zero_callers_of_stopped_servers_get_the_real_error_each_time() {
    let universe = rig(Universe::builder().servers(1).configure_all(|spec| spec.plain())).await;
    let options = "pool_size=1&load_balance=false&breaker_threshold=0";
    let pool = full_pool(&universe, options).await;
    universe.server(0).stop_immediate();
    becomes(true, || pool.status().by_host.is_empty()).await;
    for _ in 0..8 {
        let error = pool.get().await.unwrap_err();
        assert!(matches!(error, Error::Connect(_)), "{error}");
    }
    assert!(pool.status().breaker.is_none());
    assert_eq!(pool.status().totals.circuit_open, 0);
}
