//! Sessions over TLS behave as those in clear text: cancelled, cut, closed, and hung in the handshake.

use std::time::{Duration, Instant};

use pgsteer_testkit::{Fake, FakePg, Tls};

use crate::rig::{LIMIT, becomes, config, one, pool, trusting};

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_nobody_waits_for_is_cancelled_over_tls() {
    let universe = one(Tls::new().required()).await;
    let options = format!("return_cancel_after=50ms&{}", trusting(&universe, "verify-full"));
    let pool = pool(&universe, &options);
    let conn = pool.get().await.unwrap();
    let slow = conn.simple_query("SELECT pg_sleep(600)");
    assert!(
        tokio::time::timeout(Duration::from_millis(200), slow)
            .await
            .is_err()
    );
    drop(conn);
    becomes(1, || pool.status().totals.cancelled).await;
    becomes(2, || pool.status().idle).await;
    pool.close(LIMIT).await;
}

/// The server takes nothing in clear text, so the request was heard only if it came by TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_runs_out_of_time_is_cancelled_over_tls() {
    let universe = one(Tls::new().required()).await;
    let trusting = trusting(&universe, "verify-full");
    let options = format!("socket_timeout=300ms&cancel_on_timeout=1min&{trusting}");
    let pool = pool(&universe, &options);
    let conn = pool.get().await.unwrap();
    let began = Instant::now();
    let error = conn.batch_execute("SELECT pg_sleep(600)").await.unwrap_err();
    assert!(matches!(error, pgsteer::Error::ConnectionLost(_)), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "the grace has not run out"
    );
    assert!(conn.is_closed());
    drop(conn);
    pool.close(LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_over_tls_survives_a_killed_server_and_leaves_no_session_behind() {
    let universe = one(Tls::new().required()).await;
    let server = universe.server(0);
    let options = format!(
        "application_name=over-tls&{}&{}",
        crate::rig::QUICK,
        trusting(&universe, "verify-full")
    );
    let pool = pool(&universe, &options);
    pool.ready(2, LIMIT).await.unwrap();
    assert_eq!(server.sessions("over-tls"), 2);
    server.kill();
    server.start();
    becomes(2, || server.sessions("over-tls")).await;
    let conn = tokio::time::timeout(LIMIT, pool.get()).await.unwrap().unwrap();
    let long = conn.query_one("SELECT repeat('x', 1000000)", &[]).await.unwrap();
    assert_eq!(long.get::<_, String>(0).len(), 1_000_000);
    drop(conn);
    pool.close(LIMIT).await;
    assert_eq!(server.sessions("over-tls"), 0);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_in_the_handshake_costs_one_connect_timeout() {
    for (fake, words) in [
        (Fake::Silent, "did not answer the request for TLS"),
        (Fake::TlsThenSilent, "did not finish the TLS handshake"),
    ] {
        let server = FakePg::start(fake);
        let options = "sslmode=require".to_owned();
        let config = config(&server.address(), &options).connect_timeout(Duration::from_secs(1));
        let cluster = pgsteer::Cluster::start(config).unwrap();
        let began = Instant::now();
        let error = cluster.connect().await.err().unwrap().to_string();
        assert!(began.elapsed() >= Duration::from_secs(1), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
