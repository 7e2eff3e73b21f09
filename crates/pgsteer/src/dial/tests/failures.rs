//! What each way of failing is taken for: the evidence, what it says of the host, and the words for people.

use pgsteer_core::hosts::{FailureKind, Role};

use super::*;

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);
const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);

/// A server that answers the startup message with this, then closes.
fn answers(said: impl Into<Vec<u8>>) -> Host {
    let said = said.into();
    serves(move |mut peer| {
        let said = said.clone();
        async move {
            peer.startup().await;
            peer.send(&said).await;
        }
    })
}

/// A server that answers the startup message with this, then waits for the client to close.
fn answers_and_waits(said: Vec<u8>) -> Host {
    serves(move |mut peer| {
        let said = said.clone();
        async move {
            peer.startup().await;
            peer.send(&said).await;
            peer.end().await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_socket_and_the_login_are_told_apart() {
    let gss = message(b'R', &7_i32.to_be_bytes());
    let unknown_sasl = message(b'R', &[&10_i32.to_be_bytes()[..], b"SCRAM-MD4\0\0"].concat());
    let negative_length = [b"R".to_vec(), (-5_i32).to_be_bytes().to_vec()].concat();
    let scram_nonsense = message(b'R', &[&11_i32.to_be_bytes()[..], b"r=x"].concat());
    let scram = message(b'R', &[&10_i32.to_be_bytes()[..], b"SCRAM-SHA-256\0\0"].concat());
    let cases: Vec<(&str, Host, Stage, Evidence<'_>, HostEffect)> = vec![
        (
            "refused",
            Host::Fails(io::ErrorKind::ConnectionRefused),
            Stage::Connect,
            Evidence::Io(io::ErrorKind::ConnectionRefused),
            DOWN,
        ),
        (
            "unreachable",
            Host::Fails(io::ErrorKind::HostUnreachable),
            Stage::Connect,
            Evidence::Io(io::ErrorKind::HostUnreachable),
            DOWN,
        ),
        (
            "accepts and closes",
            serves(|_| async {}),
            Stage::Startup,
            Evidence::Io(io::ErrorKind::BrokenPipe),
            DOWN,
        ),
        (
            "closes after the startup message",
            answers([]),
            Stage::Startup,
            Evidence::Closed,
            DOWN,
        ),
        (
            "closes within a message",
            answers([b'R', 0]),
            Stage::Startup,
            Evidence::Closed,
            DOWN,
        ),
        (
            "closes after accepting the login",
            answers(accepted()),
            Stage::Startup,
            Evidence::Closed,
            DOWN,
        ),
        (
            "speaks HTTP",
            answers(*b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Stage::Startup,
            Evidence::Closed,
            DOWN,
        ),
        (
            "a negative length",
            answers_and_waits(negative_length),
            Stage::Startup,
            Evidence::BadServer,
            REJECTED,
        ),
        (
            "GSS",
            answers_and_waits(gss),
            Stage::Startup,
            Evidence::UnsupportedAuth,
            REJECTED,
        ),
        (
            "an unknown SASL mechanism",
            answers_and_waits(unknown_sasl),
            Stage::Startup,
            Evidence::UnsupportedAuth,
            REJECTED,
        ),
        (
            "SCRAM that does not add up",
            answers_and_waits([scram, scram_nonsense].concat()),
            Stage::Startup,
            Evidence::UnsupportedAuth,
            REJECTED,
        ),
        (
            "a row in place of the login",
            answers_and_waits(row(&[])),
            Stage::Startup,
            Evidence::BadServer,
            REJECTED,
        ),
    ];
    for (name, host, stage, evidence, effect) in cases {
        let error = dial(host, config()).await.unwrap_err();
        assert_eq!(
            (error.stage(), error.evidence()),
            (stage, evidence),
            "{name}: {error}"
        );
        assert_eq!(error.host_effect(), effect, "{name}: {error}");
        assert!(!error.to_string().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_at_login_keeps_its_code_and_its_words() {
    let cases = [
        ("28P01", HostEffect::JudgeAtEndOfPass),
        ("28000", HostEffect::JudgeAtEndOfPass),
        ("3D000", HostEffect::JudgeAtEndOfPass),
        ("42501", HostEffect::JudgeAtEndOfPass),
        ("53300", HostEffect::Failed(FailureKind::Full)),
        ("57P03", HostEffect::Failed(FailureKind::NotReady)),
        ("57P01", REJECTED),
        ("57M02", HostEffect::Role(Role::ColdStandby)),
        ("08004", REJECTED),
        ("08006", REJECTED),
        ("08001", DOWN),
        ("XX000", REJECTED),
    ];
    for (code, effect) in cases {
        for said in [fatal(code), [accepted(), fatal(code)].concat()] {
            let error = dial(answers(said), config()).await.unwrap_err();
            assert_eq!(
                error.evidence(),
                Evidence::Server {
                    fatal: true,
                    sqlstate: code
                },
                "{code}"
            );
            assert_eq!(error.sqlstate(), Some(code));
            assert_eq!(error.host_effect(), effect, "{code}");
            assert_eq!(error.to_string(), format!("no (SQLSTATE {code})"));
            assert_eq!(error.driver_error().unwrap().code().unwrap().code(), code);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_without_addresses_does_not_resolve() {
    for world in [Scripted::default(), Scripted::default().name("db", &[]).clone()] {
        let error = world
            .dialler(config())
            .dial(&db(), Purpose::Pool, Ask::default())
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage(), error.evidence()),
            (Stage::Resolve, Evidence::NoSuchName)
        );
        assert_eq!(error.host_effect(), DOWN);
    }
}

#[tokio::test(start_paused = true)]
async fn the_address_that_came_furthest_names_the_failure() {
    let world = Scripted::default();
    world.name("db", &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    world.host("10.0.0.2:5432", answers(fatal("57P03")));
    let error = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), Some("57P03"));
    assert_eq!(
        world.dialled(),
        ["10.0.0.1:5432", "10.0.0.2:5432", "10.0.0.3:5432"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_is_not_tried_at_the_other_addresses() {
    let world = Scripted::default();
    world
        .name("db", &["10.0.0.1", "10.0.0.2"])
        .host("10.0.0.1:5432", answers(fatal("28P01")));
    let error = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), Some("28P01"));
    assert_eq!(world.dialled(), ["10.0.0.1:5432"]);
}

#[tokio::test(start_paused = true)]
async fn addresses_are_dialled_once_each_and_mapped_ones_as_ipv4() {
    let world = Scripted::default();
    world.name("db", &["::ffff:10.0.0.1", "10.0.0.1", "fd00::1"]);
    world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(world.dialled(), ["10.0.0.1:5432", "[fd00::1]:5432"]);
}

#[tokio::test(start_paused = true)]
async fn literals_and_socket_directories_are_dialled_without_a_look_up() {
    let world = Scripted::default();
    let dialler = world.dialler(config());
    for host in ["192.0.2.7", "fd00::7", "/run/postgresql"] {
        dialler
            .dial(&HostKey::new(host, 6000), Purpose::Pool, Ask::default())
            .await
            .unwrap_err();
    }
    assert_eq!(
        world.dialled(),
        [
            "192.0.2.7:6000",
            "[fd00::7]:6000",
            "/run/postgresql/.s.PGSQL.6000"
        ]
    );
}

/// Covers: E-326
#[tokio::test]
async fn a_port_where_nothing_listens_is_an_error() {
    // Bound and closed again, so nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let settings = Arc::new(config().settings().unwrap());
    let error = Dialler::new(settings, World::real())
        .unwrap()
        .dial(&HostKey::new("127.0.0.1", port), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(error.evidence(), Evidence::Io(io::ErrorKind::ConnectionRefused));
}

#[tokio::test(start_paused = true)]
async fn a_failing_password_source_blames_no_host_and_opens_no_socket() {
    let world = Scripted::with(answers([]));
    let source = || async { Err::<String, _>(io::Error::other("vault is sealed")) };
    let error = world
        .dialler(config().password_source(source))
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the password source failed: vault is sealed");
    assert_eq!(error.host_effect(), HostEffect::Nothing);
    assert!(world.dialled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_password_source_is_an_error_that_does_not_repeat_the_panic() {
    let source = || async { panic!("s3cret") as Result<String, io::Error> };
    let error = dial(answers([]), config().password_source(source))
        .await
        .unwrap_err();
    assert_eq!(error.evidence(), Evidence::Panicked);
    assert!(!error.to_string().contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn no_failure_shows_the_password() {
    let cleartext = message(b'R', &3_i32.to_be_bytes());
    for said in [vec![], cleartext.clone(), [cleartext, fatal("28P01")].concat()] {
        let error = dial(answers(said), config()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}

/// Without a password the server is the one to refuse, so that the failure is that of a login.
#[tokio::test(start_paused = true)]
async fn a_missing_password_is_sent_empty() {
    let host = serves(|mut peer| async move {
        peer.startup().await;
        peer.send(&message(b'R', &3_i32.to_be_bytes())).await;
        assert_eq!(peer.next().await, Some((b'p', b"\0".to_vec())));
        peer.send(&fatal("28P01")).await;
    });
    let config = Config::new()
        .hosts(["db"])
        .ssl_mode(SslMode::Disable)
        .user("app")
        .connect_timeout(CONNECT_TIMEOUT);
    let error = dial(host, config).await.unwrap_err();
    assert_eq!(error.host_effect(), HostEffect::JudgeAtEndOfPass);
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_during_setup_is_a_host_down() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
    });
    let error = dial(host, config().statement_timeout(Duration::ZERO))
        .await
        .unwrap_err();
    assert_eq!((error.stage(), error.host_effect()), (Stage::SessionSetup, DOWN));
}
