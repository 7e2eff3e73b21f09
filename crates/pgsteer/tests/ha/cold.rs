//! Standbys that take no sessions: PostgreSQL's, which answer 57P03, and Greenplum's, which answer 57M02.

use std::time::{Duration, Instant};

use pgsteer::{Conn, FailureKind, HostKey, Pool, Role};
use pgsteer_testkit::{DATABASE, Fake, FakePg, PASSWORD, Refusal, USER};

use crate::relay::Relay;
use crate::rig::{
    LIMIT, LONGEST_STEP, SLACK, becomes, full_pool, key, primary_with, refused, spread, states, write,
};

/// How a Greenplum standby coordinator answers every login.
fn mirror() -> Fake {
    let refusal = Refusal::fatal("57M02", "the database system is in recovery mode");
    Fake::Refuse(refusal.detail("last replayed record at 0/C000158"))
}

/// Covers: R-05, F-06, V-02, Q-32
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_standby_is_not_ready_named_beside_a_lost_primary_and_found_when_it_is_activated() {
    let set = primary_with(1).await;
    set.set_hot_standby(1, false);
    // The standby comes first, so that each open goes to it.
    let addresses = format!("{},{}", set.node(1).address(), set.node(0).address());
    let pool = full_pool(&addresses, "target_session_attrs=read-write&pool_size=2").await;
    assert_eq!(spread(&pool, &set), [2, 0]);
    let snapshot = pool.cluster().snapshot();
    assert_eq!(snapshot.failed(), []);
    assert_eq!(snapshot.failures[&key(set.node(1))].kind, FailureKind::NotReady);

    set.node(0).kill();
    becomes(vec![0, 0], || spread(&pool, &set)).await;
    let error = refused(&pool, SLACK).await;
    let mut seen = states(&error);
    seen.sort();
    assert_eq!(
        seen,
        [(key(set.node(0)), "down"), (key(set.node(1)), "is not ready")],
        "{error}"
    );
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { get_in_spite_of_errors(&pool).await }
    });

    set.promote(1);
    let promoted = Instant::now();
    let conn = waiting.await.unwrap();

    let took = promoted.elapsed();
    // Not ready is asked again from 100 ms on, doubling up to the delay of failed hosts.
    assert!(took < Duration::from_secs(5) + SLACK, "it took {took:?}");
    assert_eq!(*Conn::host(&conn), key(set.node(1)));
    write(&conn).await.unwrap();
}

async fn get_in_spite_of_errors(pool: &Pool) -> Conn {
    crate::rig::get_in_the_end(pool).await
}

/// Covers: R-05, F-07, V-03, Q-31
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_of_greenplum_is_never_a_failure() {
    let set = primary_with(0).await;
    let standby = FakePg::start(mirror());
    let addresses = format!("{},{}", standby.address(), set.addresses());
    for target in ["any", "read-write", "primary", "prefer-standby"] {
        let pool = full_pool(&addresses, &format!("target_session_attrs={target}&pool_size=2")).await;
        let snapshot = pool.cluster().snapshot();
        assert!(snapshot.failures.is_empty(), "{target}: {:?}", snapshot.failures);
        let seen = snapshot.roles[&HostKey::new(standby.host(), standby.port())];
        assert_eq!(seen.role, Role::ColdStandby, "{target}");
        assert_eq!(spread(&pool, &set), [2], "{target}");
    }
}

/// The connection string of a client that knows coordinator and standby, as libpq has it.
fn coordinators(ports: [u16; 2], target: &str) -> String {
    let [first, second] = ports;
    format!(
        "hostaddr=127.0.0.1,127.0.0.1 port={first},{second} user={USER} password={PASSWORD} dbname={DATABASE} \
         connect_timeout=2 target_session_attrs={target}"
    )
}

/// The coordinator fails for a moment while its standby takes no sessions.
///
/// Covers: R-09, F-07, Q-31
#[tokio::test(flavor = "multi_thread")]
async fn a_greenplum_coordinator_that_fails_for_a_moment_is_used_again_at_once() {
    for target in ["any", "read-write"] {
        let set = primary_with(0).await;
        let standby = FakePg::start(mirror());
        let string = coordinators([set.node(0).port(), standby.port()], target);
        let pool = crate::rig::full(Pool::start(string.parse().unwrap()).unwrap()).await;
        set.node(0).kill();
        becomes(0, || pool.status().idle).await;

        let error = refused(&pool, SLACK).await;
        let said = error.to_string();
        let parts = [&set.node(0).address(), "refused", &standby.address(), "57M02"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        let states = states(&error);
        assert!(
            states.contains(&(
                HostKey::new("127.0.0.1", standby.port()),
                "is a standby that takes no sessions"
            )),
            "{said}"
        );
        assert_eq!(
            pool.cluster().snapshot().failures.len(),
            1,
            "only the coordinator has failed"
        );
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { get_in_spite_of_errors(&pool).await }
        });
        set.node(0).start();
        let started = Instant::now();

        let conn = waiting.await.unwrap();

        let took = started.elapsed();
        assert!(
            took < LONGEST_STEP + SLACK,
            "{target}: the delay of failed hosts was waited out: {took:?}"
        );
        write(&conn).await.unwrap();
    }
}

/// The coordinator is lost for good, and after a while its standby is activated.
///
/// Covers: R-10, F-07, Q-31
#[tokio::test(flavor = "multi_thread")]
async fn a_greenplum_standby_that_is_activated_is_found_within_a_polling_step() {
    for target in ["any", "read-write"] {
        let set = primary_with(1).await;
        let refusing = FakePg::start(mirror());
        let standby = Relay::to(&refusing.address()).await;
        let coordinator = Relay::to(&set.node(0).address()).await;
        let string = coordinators([coordinator.port(), standby.port()], target);
        let pool = crate::rig::full(Pool::start(string.parse().unwrap()).unwrap()).await;
        let of = |relay: &Relay| HostKey::new("127.0.0.1", relay.port());
        assert_eq!(pool.status().by_host.get(&of(&coordinator)), Some(&10));
        let (second, waiter) = (of(&standby), pool.clone());

        drop(coordinator);
        set.node(0).kill();
        becomes(0, || pool.status().idle).await;
        let waiting = tokio::spawn(async move { waiter.get_timeout(LIMIT).await });
        let asked = refusing.connections();
        becomes(true, || refusing.connections() >= asked + 2).await;
        set.promote(1);
        standby.point_at(&set.node(1).address());
        let activated = Instant::now();

        let conn = waiting.await.unwrap().unwrap();

        let took = activated.elapsed();
        assert!(took < LONGEST_STEP + SLACK, "{target}: it took {took:?}");
        assert_eq!(*Conn::host(&conn), second);
        write(&conn).await.unwrap();
    }
}
