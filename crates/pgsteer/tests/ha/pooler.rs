//! PgBouncer in between: it lets clients in while its server is down, tells them roles of long ago, and moves them to
//! other servers behind their backs.

use std::time::{Duration, Instant};

use pgsteer::{Conn, HostKey};
use pgsteer_testkit::{PgBouncer, Server};

use crate::rig::{
    LONGEST_STEP, QUICK, SLACK, becomes, full_pool, get, get_in_the_end, key, pool, primary_with, refused,
    soon, states, write,
};

fn of(bouncer: &PgBouncer) -> HostKey {
    HostKey::new(bouncer.host(), bouncer.port())
}

/// Has the pooler make and keep its welcome packet.
async fn welcomed(bouncer: &PgBouncer) {
    get(&pool(&bouncer.address(), "pool_size=1"))
        .await
        .batch_execute("SELECT 1")
        .await
        .unwrap();
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_found_behind_a_pooler_that_still_tells_that_it_is_a_standby() {
    let set = primary_with(1).await;
    let bouncer = PgBouncer::before(set.node(1));
    welcomed(&bouncer).await;
    set.node(0).stop_fast();
    set.promote(1);

    for target in ["read-write", "primary"] {
        let pool = pool(
            &bouncer.address(),
            &format!("pool_size=2&target_session_attrs={target}"),
        );
        write(&get(&pool).await).await.unwrap();
    }
    let standby = pool(&bouncer.address(), "pool_size=1&target_session_attrs=standby");
    let error = refused(&standby, SLACK).await;
    assert_eq!(states(&error), [(of(&bouncer), "is a primary")], "{error}");
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_behind_a_pooler_that_still_tells_that_it_is_a_primary_gets_no_writer() {
    let set = primary_with(1).await;
    let bouncer = PgBouncer::before(set.node(0));
    welcomed(&bouncer).await;
    bouncer.repoint(set.node(1));

    for target in ["read-write", "primary"] {
        let pool = pool(
            &bouncer.address(),
            &format!("pool_size=2&target_session_attrs={target}"),
        );
        let error = refused(&pool, SLACK).await;
        assert_eq!(states(&error), [(of(&bouncer), "is a standby")], "{error}");
    }
}

/// Covers: F-21, V-06, Q-25
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_whose_server_is_down_is_passed_over_though_it_lets_clients_in() {
    let set = primary_with(1).await;
    let bouncer = PgBouncer::configured(set.node(0), &[("server_login_retry", "60")]);
    welcomed(&bouncer).await;
    set.node(0).kill();
    set.promote(1);
    let addresses = format!("{},{}", bouncer.address(), set.node(1).address());
    let parameters = "target_session_attrs=read-write&pool_size=2&connect_timeout=2s";

    let asked = Instant::now();
    let pool = pool(&addresses, parameters);
    let conn = get(&pool).await;

    assert!(asked.elapsed() < Duration::from_secs(2) + SLACK);
    assert_eq!(*Conn::host(&conn), key(set.node(1)));
    write(&conn).await.unwrap();
    assert!(pool.cluster().snapshot().failures.contains_key(&of(&bouncer)));
    // The next ones do not wait for it again.
    Conn::discard(conn);
    let asked = Instant::now();
    write(&get(&pool).await).await.unwrap();
    assert!(asked.elapsed() < SLACK);
}

/// Covers: V-06, V-09, Q-25
#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_server_dies_behind_a_pooler_is_lost_and_the_pooler_asked_anew() {
    let set = primary_with(0).await;
    let bouncer = PgBouncer::configured(
        set.node(0),
        &[("server_login_retry", "1"), ("query_wait_timeout", "1")],
    );
    let parameters = format!("target_session_attrs=read-write&pool_size=2&{QUICK}");
    let pool = full_pool(&bouncer.address(), &parameters).await;
    let conn = get(&pool).await;
    let sleep = tokio::spawn(async move { (conn.batch_execute("SELECT pg_sleep(1000)").await, conn) });
    is_asleep(set.node(0)).await;
    set.node(0).kill();
    let (slept, conn) = soon(sleep).await.unwrap();
    assert!(slept.is_err());
    becomes(true, || conn.is_closed()).await;
    assert_eq!(Conn::end(&conn).unwrap().code.as_deref(), Some("08P01"));
    drop(conn);
    set.node(0).start();
    let conn = soon(async {
        loop {
            let conn = get_in_the_end(&pool).await;
            if write(&conn).await.is_ok() {
                break conn;
            }
        }
    })
    .await;
    assert_eq!(*Conn::host(&conn), of(&bouncer));
}

async fn is_asleep(server: &Server) {
    let sql = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(1000)' AND state = 'active'";
    becomes(1, || server.sql(sql).len()).await;
}

///
#[tokio::test(flavor = "multi_thread")]
async fn writers_follow_a_promotion_that_happens_behind_their_pooler() {
    let set = primary_with(1).await;
    let bouncer = PgBouncer::configured(set.node(0), &[("server_login_retry", "1")]);
    let parameters = format!("target_session_attrs=read-write&pool_size=2&connect_timeout=2s&{QUICK}");
    let pool = full_pool(&bouncer.address(), &parameters).await;
    set.node(0).stop_fast();
    set.promote(1);
    bouncer.repoint(set.node(1));
    let repointed = Instant::now();
    soon(async { while write(&get_in_the_end(&pool).await).await.is_err() {} }).await;
    let took = repointed.elapsed();
    assert!(
        took < LONGEST_STEP + Duration::from_secs(2) + SLACK,
        "it took {took:?}"
    );
}

/// In transaction pooling an open connection is on whatever server the pooler has at the moment.
///
/// Covers: F-18, V-08, Q-24, Q-28
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_moves_to_a_standby_costs_one_refused_write_for_each_connection_and_the_writers_leave_it()
 {
    let set = primary_with(1).await;
    // With one connection to the server none is being opened when the pooler moves, which it would take for a failure.
    let settings = [("pool_mode", "transaction"), ("default_pool_size", "1")];
    let bouncer = PgBouncer::configured(set.node(0), &settings);
    let addresses = format!("{},{}", bouncer.address(), set.node(0).address());
    let parameters = format!("target_session_attrs=read-write&pool_size=3&{QUICK}");
    let pool = full_pool(&addresses, &parameters).await;
    assert_eq!(pool.status().by_host.get(&of(&bouncer)), Some(&3));

    bouncer.repoint(set.node(1));
    bouncer.console("RECONNECT");
    bouncer.console("WAIT_CLOSE");
    let mut refused = 0;
    soon(async {
        loop {
            let conn = get(&pool).await;
            match write(&conn).await {
                Ok(()) => break,
                Err(error) => assert_eq!(error.code(), Some("25006"), "{error}: {}", bouncer.log()),
            }
            refused += 1;
        }
    })
    .await;

    assert!((1..=3).contains(&refused), "{refused} writes were refused");
    becomes(Some(3), || pool.status().by_host.get(&key(set.node(0))).copied()).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
    for _ in 0..6 {
        write(&get(&pool).await).await.unwrap();
    }
}
