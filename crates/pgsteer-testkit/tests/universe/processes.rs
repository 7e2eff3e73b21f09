//! Killing, stopping, freezing, starting.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pgsteer_testkit::{Server, Universe};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{log_in, sqlstate};

/// Starts a session that is busy until the server ends it, and gives what it was told then.
async fn end_of_a_busy_session(server: &Server, how: impl FnOnce(&Server)) -> tokio_postgres::Error {
    let client = log_in(server, "busy").await.unwrap();
    let query = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(60)").await });
    let is_asleep = "SELECT FROM pg_stat_activity WHERE application_name = 'busy' AND wait_event = 'PgSleep'";
    while server.sql(is_asleep).is_empty() {
        tokio::task::yield_now().await;
    }
    how(server);
    query.await.unwrap().unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_says_no_goodbye_and_refuses_connections() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);

    let error = end_of_a_busy_session(server, Server::kill).await;

    assert!(
        error.as_db_error().is_none(),
        "the server said something: {error:?}"
    );
    assert!(!server.is_running());
    let refused = TcpStream::connect(server.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_comes_back_on_its_address_with_its_committed_data() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    server.sql("CREATE TABLE kept AS SELECT 7 AS n; GRANT SELECT ON kept TO PUBLIC");
    for down in [
        Server::kill as fn(&Server),
        Server::stop_fast,
        Server::stop_immediate,
    ] {
        down(server);
        server.start();
        let client = log_in(server, "again").await.unwrap();
        let n: i32 = client.query_one("SELECT n FROM kept", &[]).await.unwrap().get(0);
        assert_eq!(n, 7);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fast_stop_tells_its_sessions() {
    let universe = Universe::builder().servers(1).start();
    let error = end_of_a_busy_session(universe.server(0), Server::stop_fast).await;
    assert_eq!(sqlstate(&error), Some("57P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_immediate_stop_only_warns_its_sessions() {
    let universe = Universe::builder().servers(1).start();
    let error = end_of_a_busy_session(universe.server(0), Server::stop_immediate).await;
    assert!(error.as_db_error().is_none(), "more than a warning: {error:?}");
    assert!(!universe.server(0).is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_accepts_connections_but_answers_only_when_it_thaws() {
    let universe = Universe::builder().servers(2).start();
    let server = universe.server(0);
    let client = log_in(server, "patient").await.unwrap();

    server.freeze();

    TcpStream::connect(server.address()).await.unwrap();
    let mut query = Box::pin(client.query_one("SELECT 1", &[]));
    assert!(
        timeout(Duration::from_millis(100), &mut query).await.is_err(),
        "a frozen server answered"
    );
    universe.set(1, "zone", "seen-after-the-thaw");

    server.thaw();

    timeout(Duration::from_secs(10), query).await.unwrap().unwrap();
    let zones = server.sql("SELECT zone FROM yb_servers() ORDER BY host");
    assert_eq!(zones[1], [Some("seen-after-the-thaw".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_can_be_killed_or_stopped() {
    let universe = Universe::builder().servers(2).start();
    let _session = log_in(universe.server(0), "frozen").await.unwrap();
    universe.servers().iter().for_each(Server::freeze);

    universe.server(0).kill();
    universe.server(1).stop_fast();

    assert!(!universe.server(0).is_running() && !universe.server(1).is_running());
}

#[test]
#[should_panic(expected = "is not running")]
fn killing_a_server_that_is_down_fails_the_test() {
    let universe = Universe::builder().servers(1).start();
    universe.server(0).kill();
    universe.server(0).kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_can_be_terminated() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let client = log_in(server, "ended").await.unwrap();
    let other = log_in(server, "other").await.unwrap();
    let backends = server.backends("ended");
    assert_eq!((backends.len(), server.sessions("other")), (1, 1));

    assert!(server.terminate(backends[0]));

    assert_eq!(server.sessions("ended"), 0);
    assert!(client.batch_execute("SELECT 1").await.is_err());
    other.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_one_backend_ends_all_sessions_and_the_server_recovers() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let crashed = log_in(server, "crashed").await.unwrap();
    let other = log_in(server, "other").await.unwrap();

    assert!(server.crash(server.backends("crashed")[0]));

    // The server notices in its own time that the backend has crashed, and ends the others then.
    let end = Instant::now() + Duration::from_secs(20);
    for client in [crashed, other] {
        while client.batch_execute("SELECT 1").await.is_ok() {
            assert!(Instant::now() < end, "a session outlives the crash");
        }
    }
    while log_in(server, "again").await.is_err() {
        assert!(Instant::now() < end, "the server does not recover");
    }
    assert!(!server.crash(i32::MAX));
}
