//! One host: crashes, restarts, phases of coming up, and logins that are refused.

use std::time::{Duration, Instant};

use pgsteer::{Conn, Error};
use pgsteer_testkit::{DATABASE, Fake, FakePg, HaSet, USER};

use crate::rig::{
    LIMIT, SLACK, backend, becomes, full_pool, get, pool, primary_with, refused, rig, soon, spread, write,
};

/// Covers: R-06, V-06, Q-34
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_one_backend_a_single_host_serves_again_within_the_callers_limit() {
    let set = primary_with(0).await;
    let pool = full_pool(&set.addresses(), "pool_size=4&checkout_timeout=3s").await;
    let conn = get(&pool).await;
    let victim = backend(&conn).await;

    assert!(set.node(0).crash(victim));
    let crashed = Instant::now();

    // The checkout of a connection that is being cut off may still work; what it is used for does not.
    soon(async {
        loop {
            let conn = pool.get().await.unwrap();
            if write(&conn).await.is_ok() {
                break;
            }
        }
    })
    .await;
    let took = crashed.elapsed();
    assert!(took < Duration::from_secs(3), "a hole of {took:?}");
    assert!(write(&conn).await.is_err());
    let end = Conn::end(&conn).unwrap();
    assert!(
        matches!(end.code.as_deref(), None | Some("57P02")),
        "the connection whose process died ended with {end}"
    );
    drop(conn);
    becomes(vec![4], || spread(&pool, &set)).await;
}

/// Covers: R-08, F-09, Q-07
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_tried_once_in_each_delay_and_named() {
    let set = rig(HaSet::builder().standbys(1)).await;
    let url = format!(
        "postgresql://{USER}:wrong-secret@{}/{DATABASE}?pool_size=10",
        set.addresses()
    );
    let started = Instant::now();
    let pool = pgsteer::Pool::start(url.parse().unwrap()).unwrap();
    let error = refused(&pool, LIMIT).await;
    assert!(matches!(error, Error::Login(_)), "{error}");
    assert_eq!(error.code(), Some("28P01"));
    for node in set.nodes() {
        assert!(error.to_string().contains(&node.address()), "{error}");
    }
    assert!(!error.to_string().contains("wrong-secret"), "{error}");

    // Ten connections are wanted and everybody asks for one. Rests of 1, 2 and 4 s lie between the attempts.
    let refusals = || set.node(0).log().failed_logins(USER);
    becomes(true, || refusals() >= 3).await;
    let took = started.elapsed();
    let (first, second) = (set.node(0).log(), set.node(1).log());
    assert!(
        took >= Duration::from_millis(2900),
        "three attempts within {took:?}"
    );
    assert_eq!(first.failed_logins(USER), 3);
    assert!(second.failed_logins(USER) <= 3);
    assert!(pool.cluster().snapshot().failures.is_empty());
}

/// Covers: F-01, Q-26, Q-34
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_does_not_spin_while_its_only_host_is_down_and_fills_when_it_is_back() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let pool = full_pool(&set.addresses(), "pool_size=10").await;
    let address = set.node(0).address();
    set.node(0).kill();
    let fake = FakePg::start_on(&address, Fake::Close);
    let waited = Instant::now();
    becomes(true, || waited.elapsed() > Duration::from_secs(3)).await;
    let attempts = fake.connections();
    drop(fake);
    // A first round of up to ten, and one opener a second after that.
    assert!(
        (1..=16).contains(&attempts),
        "{attempts} connects in three seconds"
    );
    set.node(0).start();
    becomes(vec![10], || spread(&pool, &set)).await;
}

/// Refused, then not ready, then the wrong role, then right: one address goes through all of it.
///
/// Covers: F-01, F-06, F-12, F-13, Q-12, Q-22, Q-30
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_comes_up_through_every_phase_serves_when_it_is_a_primary() {
    let set = primary_with(1).await;
    let host = set.node(1).address();
    set.set_hot_standby(1, false);
    set.node(1).stop_fast();
    let pool = pool(
        &host,
        "target_session_attrs=read-write&pool_size=1&failed_host_reconnect_delay_secs=1",
    );
    let phase = async |state: &str| {
        soon(async {
            loop {
                let error = refused(&pool, Duration::from_millis(300)).await;
                if error.hosts_tried().iter().any(|tried| tried.state == state) {
                    break;
                }
            }
        })
        .await;
    };

    phase("down").await;
    set.node(1).start();
    phase("is not ready").await;
    set.set_hot_standby(1, true);
    phase("is a standby").await;
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
}

/// Covers: F-08, V-04, Q-09, Q-18
#[tokio::test(flavor = "multi_thread")]
async fn a_full_host_keeps_its_connections_and_is_told_when_all_are_full() {
    let builder = HaSet::builder().standbys(1);
    let set = rig(builder.configure_all(|spec| spec.max_connections(2))).await;
    let held = full_pool(&set.node(0).address(), "pool_size=2").await;
    let pool = full_pool(&set.addresses(), "pool_size=2").await;
    assert_eq!(spread(&pool, &set), [0, 2]);
    let third = crate::rig::pool(&set.addresses(), "pool_size=1");

    let error = refused(&third, SLACK).await;

    let states: Vec<&str> = error.hosts_tried().iter().map(|tried| tried.state).collect();
    assert_eq!(states, ["takes no more connections"; 2], "{error}");
    assert!(error.to_string().contains("53300"), "{error}");
    assert_eq!(
        (spread(&held, &set), spread(&pool, &set)),
        (vec![2, 0], vec![0, 2])
    );
    let waiting = tokio::spawn({
        let third = third.clone();
        async move { crate::rig::get_in_the_end(&third).await }
    });
    held.close(LIMIT).await;
    soon(waiting)
        .await
        .unwrap()
        .batch_execute("SELECT 1")
        .await
        .unwrap();
}

/// Only a standby ends sessions with 57P04: when it replays that their database is dropped.
///
/// Covers: V-05, V-07
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_database_ends_its_connections_and_marks_no_host() {
    let set = rig(HaSet::builder().standbys(1)).await;
    set.node(0)
        .sql("CREATE DATABASE dropped TEMPLATE template1 OWNER yugabyte");
    set.wait_caught_up(1, 0);
    let config = crate::rig::config(&set.node(1).address(), "pool_size=2").database("dropped");
    let pool = crate::rig::full(pgsteer::Pool::start(config).unwrap()).await;
    let conn = get(&pool).await;

    set.node(0).sql("DROP DATABASE dropped");

    becomes(true, || conn.is_closed()).await;
    assert_eq!(Conn::end(&conn).unwrap().code.as_deref(), Some("57P04"));
    drop(conn);
    let error = soon(async {
        loop {
            match pool.get().await {
                Err(error @ Error::Login(_)) => break error,
                // While the database is half gone the standby refuses it by another code.
                Err(error) => assert_eq!(error.code(), Some("55000"), "{error}"),
                Ok(_) => {}
            }
        }
    })
    .await;
    assert_eq!(error.code(), Some("3D000"));
    for failure in pool.cluster().snapshot().failures.values() {
        assert!(failure.reason.contains("55000"), "{}", failure.reason);
    }
}
