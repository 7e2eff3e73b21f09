//! What can be wrong before a session exists: names, connects, logins, limits.

use std::io::ErrorKind;
use std::time::Duration;

use crate::common::{PORT, Raw, client, config, field, never, sqlstate, try_client, try_with};
use bytes::Bytes;
use pgsteer_sim::{Accept, Auth, End, Event, Login, LoginStage, Resolution, ServerSpec, Sim};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn names_resolve_as_they_are_told() {
    let sim = Sim::new(1);
    assert_eq!(
        sim.resolve("b").await.unwrap(),
        ["10.0.0.2".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(
        sim.resolve("192.168.0.9").await.unwrap().len(),
        1,
        "a literal is its own address"
    );
    assert_eq!(
        sim.resolve("nowhere").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let both = vec!["10.0.0.3".parse().unwrap(), "10.0.0.1".parse().unwrap()];
    sim.set_name("lb", Resolution::Addresses(both.clone()));
    assert_eq!(sim.resolve("lb").await.unwrap(), both);
    sim.set_name("lb", Resolution::Fail(ErrorKind::TimedOut));
    assert_eq!(sim.resolve("lb").await.unwrap_err().kind(), ErrorKind::TimedOut);
    sim.set_name("lb", Resolution::Hang);
    never(sim.resolve("lb")).await;
    assert_eq!(sim.look_ups("lb"), 3);
    sim.set_resolve_latency(Duration::from_millis(30));
    let start = Instant::now();
    sim.resolve("a").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(30));
}

#[tokio::test(start_paused = true)]
async fn a_server_is_reached_at_its_public_address_too() {
    let named = ServerSpec::new("a").public_ip("pub-a");
    let literal = ServerSpec::new("b").public_ip("34.9.9.9");
    let sim = Sim::builder(1).server(named).server(literal).build();
    for (host, server) in [
        ("pub-a", "a"),
        ("34.0.0.1", "a"),
        ("34.9.9.9", "b"),
        ("10.0.0.2", "b"),
    ] {
        let row = client(&sim, host)
            .await
            .query_one("SELECT rig_whoami()", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), server, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn connects_fail_as_they_are_told() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let kind = async || {
        sim.connect("a", PORT)
            .await
            .map(|_| ())
            .map_err(|error| error.kind())
    };
    server.set_accept(Accept::Refuse);
    assert_eq!(kind().await, Err(ErrorKind::ConnectionRefused));
    server.set_accept(Accept::Fail(ErrorKind::NetworkUnreachable));
    assert_eq!(kind().await, Err(ErrorKind::NetworkUnreachable));
    server.set_accept(Accept::Blackhole);
    never(kind()).await;
    assert_eq!(server.counts().attempts, 3);
    assert_eq!(
        sim.connect("a", 1).await.unwrap_err().kind(),
        ErrorKind::ConnectionRefused,
        "another port"
    );
    assert_eq!(
        sim.connect("10.9.9.9", PORT).await.unwrap_err().kind(),
        ErrorKind::HostUnreachable
    );
}

#[tokio::test(start_paused = true)]
async fn a_connect_into_a_black_hole_completes_when_it_ends() {
    let sim = Sim::new(1);
    sim.server("a").set_accept(Accept::Blackhole);
    let waiting = tokio::spawn({
        let sim = sim.clone();
        async move { client(&sim, "a").await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    sim.server("a").set_accept(Accept::Serve);
    waiting.await.unwrap().simple_query("SELECT 1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn accepted_connections_meet_silence_a_close_or_babble() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    server.set_accept(Accept::Hang);
    never(try_client(&sim, "a")).await;
    server.set_accept(Accept::Close);
    let error = try_client(&sim, "a").await.map(|_| ()).unwrap_err();
    assert!(error.code().is_none(), "{error:?}");
    server.set_accept(Accept::Babble(Bytes::from_static(b"?\0\0\0\x04")));
    let error = try_client(&sim, "a").await.map(|_| ()).unwrap_err();
    assert!(error.code().is_none(), "{error:?}");
    // Read as a message this has a length of more than a gigabyte, which the driver waits for.
    server.set_accept(Accept::Babble(Bytes::from_static(
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    )));
    never(try_client(&sim, "a")).await;
    assert_eq!((server.counts().logins, sim.live()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn logins_are_refused_with_any_sqlstate() {
    let sim = Sim::new(1);
    for code in ["57P03", "53300", "28P01", "28000", "3D000", "57M02", "XX000"] {
        sim.server("a").set_login(Login::fatal(code));
        let error = try_client(&sim, "a").await.map(|_| ()).unwrap_err();
        assert_eq!(sqlstate(&error), code);
        assert_eq!(error.as_db_error().unwrap().severity(), "FATAL");
    }
    sim.server("a").set_login(Login::Work);
    client(&sim, "a").await;
    let refused = sim
        .log()
        .into_iter()
        .filter(|entry| matches!(entry.event, Event::LoginRefused { .. }));
    assert_eq!(refused.count(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_login_can_stop_or_hang_at_each_stage() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    for stage in [LoginStage::StartupRead, LoginStage::Authenticated] {
        server.set_login(Login::CloseAt(stage));
        let error = try_client(&sim, "a").await.map(|_| ()).unwrap_err();
        assert!(error.code().is_none(), "{stage:?}: {error:?}");
        server.set_login(Login::HangAt(stage));
        never(try_client(&sim, "a")).await;
    }
    server.set_login(Login::CloseAt(LoginStage::TlsAsked));
    let mut raw = Raw::connect(&sim, "a").await;
    raw.send(postgres_protocol::message::frontend::ssl_request).await;
    assert_eq!(raw.next().await, None);
    client(&sim, "a").await;
    assert_eq!(
        server.counts().logins,
        1,
        "who asks for no TLS does not meet that"
    );
}

#[tokio::test(start_paused = true)]
async fn passwords_are_checked_in_each_of_the_ways() {
    for auth in [Auth::Cleartext, Auth::Md5, Auth::Scram] {
        let sim = Sim::builder(1)
            .server(ServerSpec::new("a"))
            .login(auth, "app", "secret")
            .build();
        client(&sim, "a").await.simple_query("SELECT 1").await.unwrap();
        let mut wrong = config();
        wrong.password("wrong");
        let error = try_with(&sim, "a", &wrong).await.map(|_| ()).unwrap_err();
        assert_eq!(sqlstate(&error), "28P01", "{auth:?}");
        let mut stranger = config();
        stranger.user("stranger");
        let error = try_with(&sim, "a", &stranger).await.map(|_| ()).unwrap_err();
        assert_eq!(sqlstate(&error), "28P01", "{auth:?}");
    }
    let sim = Sim::builder(1)
        .server(ServerSpec::new("a"))
        .login(Auth::Trust, "app", "")
        .build();
    client(&sim, "a").await;
    let mut stranger = config();
    stranger.user("stranger");
    assert_eq!(
        sqlstate(&try_with(&sim, "a", &stranger).await.map(|_| ()).unwrap_err()),
        "28000"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_one_database_is_there_if_one_is_named() {
    let sim = Sim::builder(1)
        .server(ServerSpec::new("a"))
        .database("app")
        .build();
    client(&sim, "a").await;
    let mut other = config();
    other.dbname("other");
    assert_eq!(
        sqlstate(&try_with(&sim, "a", &other).await.map(|_| ()).unwrap_err()),
        "3D000"
    );
}

#[tokio::test(start_paused = true)]
async fn beyond_max_connections_logins_are_refused_until_somebody_leaves() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    server.set_max_connections(Some(2));
    let (one, _two) = (client(&sim, "a").await, client(&sim, "a").await);
    assert_eq!(
        sqlstate(&try_client(&sim, "a").await.map(|_| ()).unwrap_err()),
        "53300"
    );
    drop(one);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let _three = client(&sim, "a").await;
    let counts = server.counts();
    assert_eq!((counts.live, counts.most_live, counts.logins), (2, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn connects_and_answers_take_as_long_as_they_are_told() {
    let sim = Sim::new(1);
    sim.server("a").set_connect_latency(Duration::from_millis(70));
    let start = Instant::now();
    let client = client(&sim, "a").await;
    assert_eq!(start.elapsed(), Duration::from_millis(70));
    sim.server("a").set_answer_latency(Duration::from_millis(250));
    let start = Instant::now();
    client.simple_query("SELECT 1; SELECT 2").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn startup_settings_hold_and_unknown_ones_refuse_the_login() {
    let sim = Sim::new(1);
    let mut with_options = config();
    with_options.options("-c statement_timeout=5s");
    let client = try_with(&sim, "a", &with_options).await.unwrap();
    let row = client
        .query_one("SELECT current_setting('statement_timeout')", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "5s");
    with_options.options("-c no_such_setting=1");
    assert_eq!(
        sqlstate(&try_with(&sim, "a", &with_options).await.map(|_| ()).unwrap_err()),
        "42704"
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_protocol_version_is_negotiated_down_and_an_old_one_refused() {
    let sim = Sim::new(1);
    let startup = |major: u16, minor: u16| {
        let mut body = [major.to_be_bytes(), minor.to_be_bytes()].concat();
        body.extend_from_slice(b"user\0app\0_pq_.new\0on\0\0");
        [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
    };
    let mut raw = Raw::connect(&sim, "a").await;
    raw.send(|out| out.extend_from_slice(&startup(3, 2))).await;
    assert_eq!(
        raw.next().await.unwrap(),
        ('v', b"\0\0\0\0\0\0\0\x01_pq_.new\0".to_vec())
    );
    raw.until('Z').await;
    let mut raw = Raw::connect(&sim, "a").await;
    raw.send(|out| out.extend_from_slice(&startup(2, 0))).await;
    assert_eq!(field(&raw.next().await.unwrap(), b'C'), "0A000");
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_who_connected_for_what_and_how_it_ended() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    client.simple_query("SELECT 1").await.unwrap();
    drop(client);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let events: Vec<_> = sim.log().into_iter().map(|entry| entry.event).collect();
    let login = Event::Login {
        user: "app".into(),
        database: "app".into(),
        application_name: "test".into(),
    };
    let expected = [
        Event::Attempt,
        Event::Connected,
        login,
        Event::Query("SELECT 1".into()),
        Event::Done("SELECT 1".into()),
        Event::Ended(End::Terminated),
    ];
    assert_eq!(events, expected);
    let counts = sim.server("a").counts();
    assert_eq!((counts.logins_by_application["test"], counts.statements), (1, 1));
    assert!(counts.received > 0);
    assert_eq!((sim.live(), sim.most_live(), sim.most_live_of("test")), (0, 1, 1));
}
