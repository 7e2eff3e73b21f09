//! The same against a real PostgreSQL: what the tap and the session claim is what the server means.

use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use pgsteer_core::hosts::{FailureKind, Role};
use pgsteer_core::pool::GiveBack;
use pgsteer_testkit::{DATABASE, PASSWORD, Server, USER, Universe};

use super::session::{Open, Told};
use super::*;

const APPLICATION: &str = "dial-tests";

fn real_config() -> Config {
    Config::new()
        .hosts(["unused"])
        .user(USER)
        .password(PASSWORD)
        .database(DATABASE)
        .application_name(APPLICATION)
        .connect_timeout(CONNECT_TIMEOUT)
}

fn key(server: &Server) -> HostKey {
    HostKey::new(server.host(), server.port())
}

fn dialler(config: Config) -> Dialler {
    Dialler::new(Arc::new(config.settings().unwrap()), World::real()).unwrap()
}

async fn open(server: &Server) -> Open {
    let dialled = dialler(real_config())
        .dial(&key(server), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    Open::from(dialled).await
}

async fn start_and_drop<T>(work: impl Future<Output = T>) {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        assert!(work.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Waits until `done`, which must come true by itself.
async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen in five seconds");
}

#[tokio::test]
async fn a_connection_is_set_up_as_configured() {
    let universe = Universe::builder().servers(1).start();
    let config = real_config()
        .statement_timeout(Duration::from_millis(1234))
        .options("-c geqo=off");
    let ask = Ask {
        role: true,
        timeline: true,
        target: pgsteer_core::hosts::TargetSessionAttrs::Any,
    };
    let dialled = dialler(config)
        .dial(&key(universe.server(0)), Purpose::Pool, ask)
        .await
        .unwrap();
    assert_eq!((dialled.role, dialled.timeline), (Some(Role::Primary), Some(1)));
    assert!(dialled.session.is_quiet() && !dialled.session.is_dirty());
    assert_eq!(dialled.wire.said().in_hot_standby, Some(false));
    let open = Open::from(dialled).await;
    for (name, expected) in [
        ("statement_timeout", "1234ms"),
        ("geqo", "off"),
        ("application_name", APPLICATION),
    ] {
        let row = open.client.query_one(&format!("SHOW {name}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected, "{name}");
    }
}

#[tokio::test]
async fn every_kind_of_login_works_and_a_wrong_password_is_the_servers_to_refuse() {
    let methods = ["scram-sha-256", "md5", "password"];
    for method in methods {
        let universe = Universe::builder()
            .servers(1)
            .configure(0, |server| server.auth(method))
            .start();
        let key = key(universe.server(0));
        dialler(real_config())
            .dial(&key, Purpose::Pool, Ask::default())
            .await
            .unwrap();
        for wrong in ["wrong", ""] {
            let error = dialler(real_config().password(wrong))
                .dial(&key, Purpose::Pool, Ask::default())
                .await
                .unwrap_err();
            assert_eq!(error.sqlstate(), Some("28P01"), "{method} {wrong:?}: {error}");
            assert_eq!(error.host_effect(), HostEffect::JudgeAtEndOfPass);
        }
    }
}

#[tokio::test]
async fn a_server_is_reached_by_its_socket_directory() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let key = HostKey::new(server.socket_folder().to_str().unwrap(), server.port());
    let dialled = dialler(real_config())
        .dial(&key, Purpose::Cluster, Ask::default())
        .await
        .unwrap();
    let client = dialled.run_detached((), |_| ());
    client.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_frozen_server_costs_one_deadline() {
    let universe = Universe::builder().servers(1).start();
    universe.server(0).freeze();
    let config = real_config().connect_timeout(Duration::from_millis(300));
    let error = dialler(config)
        .dial(&key(universe.server(0)), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(error.host_effect(), HostEffect::Failed(FailureKind::Down));
    assert!(error.took() < Duration::from_secs(3));
    universe.server(0).thaw();
}

#[tokio::test]
async fn transactions_by_hand_are_seen() {
    let universe = Universe::builder().servers(1).start();
    let mut open = open(universe.server(0)).await;
    open.client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(open.wire.status(), TransactionStatus::InTransaction);
    open.client.batch_execute("SELECT 1/0").await.unwrap_err();
    open.settle().await;
    assert_eq!(open.wire.status(), TransactionStatus::Failed);
    assert_eq!(open.session.give_back(), GiveBack::Keeper);
    open.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(open.wire.last_tag().unwrap().as_str(), "ROLLBACK");
    open.settle().await;
    assert_eq!(open.session.give_back(), GiveBack::Clean);
    drop(open.client.transaction().await.unwrap());
    assert_ne!(open.session.outlook(), GiveBack::Clean);
    open.settle().await;
    assert_eq!(open.session.give_back(), GiveBack::Clean);
}

#[tokio::test]
async fn every_way_of_asking_leaves_the_books_even() {
    let universe = Universe::builder().servers(1).start();
    let open = open(universe.server(0)).await;
    let client = &open.client;
    client
        .batch_execute("CREATE TEMP TABLE t (x int); INSERT INTO t SELECT generate_series(1, 2000)")
        .await
        .unwrap();
    client
        .simple_query("SELECT 1; SELECT x FROM t; SELECT 2")
        .await
        .unwrap();
    client.simple_query("").await.unwrap();
    client
        .simple_query("SELECT 1; SELECT 1/0; SELECT 2")
        .await
        .unwrap_err();
    let statement = client.prepare("SELECT x FROM t WHERE x > $1").await.unwrap();
    assert_eq!(client.query(&statement, &[&1000]).await.unwrap().len(), 1000);
    drop(statement);
    client.query("SELECT 1/$1::int", &[&0]).await.unwrap_err();
    client.query("SELECT nonsense", &[]).await.unwrap_err();
    client.query_one("SELECT 'a'::regtype", &[]).await.unwrap_err();
    client.check_connection().await.unwrap();
    let (first, second, third) = tokio::join!(
        client.query("SELECT x FROM t", &[]),
        client.query("SELECT 1/0", &[]),
        client.simple_query("SELECT 3"),
    );
    assert!(first.is_ok() && second.is_err() && third.is_ok());
    let out: Vec<Bytes> = client
        .copy_out("COPY t TO STDOUT")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(out.len(), 2000);
    drop(client.copy_out("COPY t TO STDOUT").await.unwrap());
    client.execute("NOTIFY nobody", &[]).await.unwrap();
    open.settle().await;
    assert_eq!(open.wire.unanswered(), 0);
    assert!(!open.wire.said().answered_unasked);
    assert_eq!(open.session.give_back(), GiveBack::Clean);
}

#[tokio::test]
async fn a_query_nobody_waits_for_keeps_the_session_parked_until_it_is_cancelled() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let dialled = dialler(real_config())
        .dial(&key(server), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    let canceller = dialled.canceller.clone();
    let mut open = Open::from(dialled).await;
    start_and_drop(open.client.batch_execute("SELECT pg_sleep(600)")).await;
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    until("the query", || {
        !server
            .sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            .is_empty()
    })
    .await;
    canceller.cancel(Duration::from_secs(5)).await.unwrap();
    assert_eq!(open.told().await, Told::Release);
    assert_eq!(open.wire.last_error().unwrap().sqlstate.as_str(), "57014");
    open.client.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_copy_in_left_open_keeps_the_session_parked_until_its_sink_is_gone() {
    let universe = Universe::builder().servers(1).start();
    let mut open = open(universe.server(0)).await;
    open.client
        .batch_execute("CREATE TEMP TABLE t (x int)")
        .await
        .unwrap();
    let mut sink = Box::pin(
        open.client
            .copy_in::<_, Bytes>("COPY t FROM STDIN")
            .await
            .unwrap(),
    );
    sink.send(Bytes::from_static(b"1\n")).await.unwrap();
    sink.flush().await.unwrap();
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert_eq!(open.wire.said().copy, CopyState::In);
    drop(sink);
    assert_eq!(open.told().await, Told::Release);
    open.client.simple_query("SELECT 1").await.unwrap();
    open.settle().await;
    assert_eq!(
        (open.wire.unanswered(), open.session.outlook()),
        (0, GiveBack::Clean)
    );
}

#[tokio::test]
async fn copies_that_finish_fail_or_are_given_up_leave_the_books_even() {
    let universe = Universe::builder().servers(1).start();
    let open = open(universe.server(0)).await;
    let client = &open.client;
    client.batch_execute("CREATE TEMP TABLE t (x int)").await.unwrap();

    let mut sink = Box::pin(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap());
    sink.send(Bytes::from_static(b"1\n2\n")).await.unwrap();
    assert_eq!(sink.as_mut().finish().await.unwrap(), 2);
    open.settle().await;
    assert_eq!(
        (open.wire.unanswered(), open.wire.last_tag().unwrap().as_str()),
        (0, "COPY 2")
    );

    let mut sink = Box::pin(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap());
    sink.send(Bytes::from_static(b"x\n")).await.unwrap();
    sink.as_mut().finish().await.unwrap_err();
    open.settle().await;
    assert_eq!(
        (open.wire.unanswered(), open.session.outlook()),
        (0, GiveBack::Clean)
    );

    for _ in 0..20 {
        let statement = client.prepare("COPY t FROM STDIN").await.unwrap();
        start_and_drop(client.copy_in::<_, Bytes>(&statement)).await;
        open.settle().await;
        assert_eq!(
            (open.wire.unanswered(), open.session.outlook()),
            (0, GiveBack::Clean)
        );
        client.simple_query("SELECT 1").await.unwrap();
    }
    assert!(!open.wire.said().answered_unasked);
}

/// tokio-postgres sends the end of a copy that the server never began, and takes the second answer for nonsense.
#[tokio::test]
async fn a_copy_the_server_refuses_ends_the_connection_and_is_never_clean_before() {
    let universe = Universe::builder().servers(1).start();
    let mut open = open(universe.server(0)).await;
    let statement = open.client.prepare("COPY missing FROM STDIN").await.unwrap();
    let error = open.client.copy_in::<_, Bytes>(&statement).await.err().unwrap();
    assert_eq!(error.code().unwrap().code(), "42P01");
    assert_ne!(open.session.give_back(), GiveBack::Clean);
    match open.told().await {
        Told::Ended(EndReason::OutOfStep(_), _) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_simple_copy_in_that_nobody_feeds_is_never_clean() {
    let universe = Universe::builder().servers(1).start();
    let open = open(universe.server(0)).await;
    open.client
        .batch_execute("CREATE TEMP TABLE t (x int)")
        .await
        .unwrap();
    open.client.simple_query("COPY t FROM STDIN").await.unwrap_err();
    assert_eq!(open.session.outlook(), GiveBack::Parked);
    assert_eq!(
        (open.wire.unanswered(), open.wire.said().copy),
        (1, CopyState::In)
    );
}

#[tokio::test]
async fn a_row_stream_kept_after_the_guard_keeps_the_session_parked() {
    let universe = Universe::builder().servers(1).start();
    let mut open = open(universe.server(0)).await;
    let rows = open.client.query_raw(
        "SELECT repeat('x', 1000) FROM generate_series(1, 100000)",
        [] as [i32; 0],
    );
    let rows = rows.await.unwrap();
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert!(
        tokio::time::timeout(Duration::from_millis(200), open.told.recv())
            .await
            .is_err()
    );
    drop(rows);
    assert_eq!(open.told().await, Told::Release);
    assert_eq!(open.wire.unanswered(), 0);
}

/// The promise that everything else rests on, with the driver on another thread: at no moment does a session look
/// clean while its one user has a request queued or unanswered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_looks_clean_has_nothing_queued_or_unanswered() {
    let universe = Universe::builder().servers(1).start();
    let open = open(universe.server(0)).await;
    let mut clean = 0;
    for round in 0..3000_u32 {
        // As many rows as tell this round from the one before, so that the tag shows whose answer came last.
        let rows = round % 40 + 1;
        {
            let text = format!("SELECT generate_series(1, {rows})");
            let mut query = pin!(open.client.simple_query(&text));
            let mut answered = false;
            for _ in 0..=round % 7 {
                std::future::poll_fn(|cx| {
                    answered = answered || query.as_mut().poll(cx).is_ready();
                    Poll::Ready(())
                })
                .await;
                for _ in 0..(round % 13) * 100 {
                    std::hint::spin_loop();
                }
            }
        }
        if open.session.outlook() == GiveBack::Clean {
            clean += 1;
            assert_eq!(open.wire.unanswered(), 0, "round {round}");
            assert_eq!(
                open.wire.last_tag().unwrap().as_str(),
                format!("SELECT {rows}"),
                "round {round}"
            );
        } else {
            open.settle().await;
        }
    }
    assert!(
        clean > 0,
        "the test never saw a clean session, so it shows nothing"
    );
}

#[tokio::test]
async fn once_a_polite_close_is_reported_the_session_is_gone_from_the_server() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    for _ in 0..10 {
        let Open { client, mut told, .. } = open(server).await;
        assert_eq!(server.sessions(APPLICATION), 1);
        drop(client);
        assert_eq!(told.recv().await, Some(Told::Ended(EndReason::ClosedByUs, false)));
        assert_eq!(server.sessions(APPLICATION), 0);
    }
}

#[tokio::test]
async fn what_the_server_does_to_a_connection_is_remembered_as_the_reason() {
    type Blow = fn(&Server);
    let terminate: Blow = |server| {
        for backend in server.backends(APPLICATION) {
            server.terminate(backend);
        }
    };
    let blows: [(&str, Blow, Option<&str>); 3] = [
        ("terminated", terminate, Some("57P01")),
        ("stopped fast", Server::stop_fast, Some("57P01")),
        ("killed", Server::kill, None),
    ];
    for in_flight in [false, true] {
        for (name, blow, expected) in blows {
            let universe = Universe::builder().servers(1).start();
            let mut open = open(universe.server(0)).await;
            if in_flight {
                start_and_drop(open.client.batch_execute("SELECT pg_sleep(600)")).await;
                tokio::task::yield_now().await;
                until("sending", || open.wire.unanswered() == 1).await;
            }
            blow(universe.server(0));
            let Told::Ended(reason, _) = open.told().await else {
                panic!("{name}: not told of the end")
            };
            match (expected, reason) {
                (Some(code), EndReason::ServerError { sqlstate, .. }) => assert_eq!(sqlstate, code, "{name}"),
                (None, EndReason::Eof | EndReason::Io(io::ErrorKind::ConnectionReset)) => {}
                (_, reason) => panic!("{name}, in flight {in_flight}: {reason:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_real_cluster_lists_its_servers_and_a_plain_server_says_it_is_none() {
    let universe = Universe::builder()
        .servers(3)
        .configure(2, |server| server.plain())
        .start();
    let dialler = dialler(real_config());
    let first = key(universe.server(0));
    let dialled = dialler
        .dial(&first, Purpose::Discovery, Ask::default())
        .await
        .unwrap();
    match dialler.discover(&first, dialled).await {
        Discovered::Servers {
            rows,
            addresses,
            oddities,
        } => {
            let hosts: Vec<_> = rows
                .iter()
                .map(|row| HostKey::new(&*row.host, row.port))
                .collect();
            assert!(
                hosts.contains(&first) && hosts.contains(&key(universe.server(1))),
                "{hosts:?}"
            );
            assert_eq!(addresses.answered, Some(first.name().parse().unwrap()));
            assert!(oddities.is_empty(), "{oddities:?}");
        }
        other => panic!("{other:?}"),
    }
    let plain = key(universe.server(2));
    let dialled = dialler
        .dial(&plain, Purpose::Discovery, Ask::default())
        .await
        .unwrap();
    assert!(matches!(
        dialler.discover(&plain, dialled).await,
        Discovered::NoFunction
    ));
    until("closing", || {
        universe
            .servers()
            .iter()
            .all(|server| server.sessions(APPLICATION) == 0)
    })
    .await;
}
