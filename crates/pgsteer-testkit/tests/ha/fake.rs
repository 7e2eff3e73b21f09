//! Each point at which a fake server stops, as a bare socket sees it, and what the driver makes of some of them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pgsteer_testkit::{Fake, FakePg, Refusal, Severity, USER};
use tokio_postgres::{Config, NoTls};

use crate::{log_in_at, sqlstate};

const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
const STARTUP: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0somebody\0\0";
const QUERY: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";
const WELCOME: &[u8] =
    b"R\0\0\0\x08\0\0\0\0S\0\0\0\x19client_encoding\0UTF8\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
const READY: &[u8] = b"Z\0\0\0\x05I";

/// How a conversation ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed,
    Silent,
}
use End::{Closed, Silent};

/// Connects, sends these bytes, and gives the answer and how it ended. An answer of the expected length is waited for;
/// after it, silence is what lasts a moment.
fn talk(fake: &FakePg, request: &[u8], expected: usize) -> (Vec<u8>, End) {
    let mut stream = TcpStream::connect(fake.address()).unwrap();
    stream.write_all(request).unwrap();
    read_on(&mut stream, expected)
}

fn read_on(stream: &mut TcpStream, expected: usize) -> (Vec<u8>, End) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 512]);
    loop {
        let patience = if bytes.len() < expected { 10_000 } else { 60 };
        stream
            .set_read_timeout(Some(Duration::from_millis(patience)))
            .unwrap();
        match stream.read(&mut chunk) {
            Ok(0) => return (bytes, Closed),
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (bytes, Silent),
            Err(_) => return (bytes, Closed),
        }
    }
}

/// Waits for the end of a conversation that is to be closed.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, End) {
    read_on(stream, usize::MAX)
}

#[test]
fn a_fake_stops_at_the_point_it_was_told_to() {
    let refusal = Refusal::fatal("57P03", "starting up");
    let fatal = b"E\0\0\0\x27SFATAL\0VFATAL\0C57P03\0Mstarting up\0\0".to_vec();
    let tls = SSL_REQUEST;
    let handshake = &[tls, b"\x16\x03\x01"].concat()[..];
    let login = STARTUP;
    let query = &[STARTUP, QUERY].concat()[..];
    let garbage = || b"garbage".to_vec();
    let welcomed = |answer: &[u8]| [WELCOME, answer].concat();
    let row_less = [b"C\0\0\0\x0dSELECT 0\0".as_slice(), READY].concat();
    for (fake, request, answer, end) in [
        (Fake::Close, [].as_slice(), vec![], Closed),
        (Fake::Silent, login, vec![], Silent),
        (Fake::SslRequestThenClose, tls, vec![], Closed),
        (Fake::SslRequestThenClose, login, vec![], Closed),
        (Fake::SslRequestThenBytes(garbage()), tls, garbage(), Silent),
        (Fake::TlsThenSilent, tls, b"S".to_vec(), Silent),
        (Fake::TlsThenSilent, handshake, b"S".to_vec(), Silent),
        (Fake::TlsThenClose, tls, b"S".to_vec(), Silent),
        (Fake::TlsThenClose, handshake, b"S".to_vec(), Closed),
        (Fake::StartupThenClose, tls, b"N".to_vec(), Silent),
        (Fake::StartupThenClose, login, vec![], Closed),
        (Fake::StartupThenSilent, login, vec![], Silent),
        (Fake::StartupThenBytes(garbage()), login, garbage(), Silent),
        (
            Fake::AuthenticationOkThenClose,
            login,
            WELCOME[..9].to_vec(),
            Closed,
        ),
        (
            Fake::AuthenticationOkThenSilent,
            login,
            WELCOME[..9].to_vec(),
            Silent,
        ),
        (Fake::Refuse(refusal.clone()), login, fatal.clone(), Closed),
        (Fake::Ready, query, welcomed(&row_less), Silent),
        (Fake::ReadyThenSilent, query, welcomed(b""), Silent),
        (Fake::ReadyThenClose, query, welcomed(b""), Closed),
        (Fake::ReadyThenRefuse(refusal), query, welcomed(&fatal), Closed),
        (
            Fake::ReadyThenBytes(garbage()),
            query,
            welcomed(b"garbage"),
            Silent,
        ),
    ] {
        let server = FakePg::start(fake.clone());
        let expected = if end == Closed { usize::MAX } else { answer.len() };
        assert_eq!(
            talk(&server, request, expected),
            (answer, end),
            "{fake:?} after {request:?}"
        );
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn a_ready_fake_warns_and_closes_of_its_own_accord() {
    let warning = Refusal::warning("57P01", "going");
    let notice = b"N\0\0\0\x25SWARNING\0VWARNING\0C57P01\0Mgoing\0\0";
    let fake = FakePg::start(Fake::ReadyThenNotice(warning.clone()));
    let mut stream = TcpStream::connect(fake.address()).unwrap();
    stream.write_all(STARTUP).unwrap();
    assert_eq!(read_to_end(&mut stream), ([WELCOME, notice].concat(), Closed));

    fake.set(Fake::Ready);
    let mut stream = TcpStream::connect(fake.address()).unwrap();
    stream.write_all(STARTUP).unwrap();
    assert_eq!(read_on(&mut stream, WELCOME.len()), (WELCOME.to_vec(), Silent));
    fake.warn_and_close(warning);
    assert_eq!(read_to_end(&mut stream), (notice.to_vec(), Closed));
}

#[test]
fn the_fields_of_a_refusal_are_chosen_one_by_one() {
    let refusal = Refusal::new("PANIC", "XX000", "m").translated("PANIK");
    for (refusal, fields) in [
        (refusal.clone(), "SPANIK\0VPANIC\0CXX000\0Mm\0"),
        (
            refusal.clone().severity_in(Severity::OnlyS),
            "SPANIK\0CXX000\0Mm\0",
        ),
        (
            refusal.clone().severity_in(Severity::OnlyV),
            "VPANIC\0CXX000\0Mm\0",
        ),
        (refusal.clone().severity_in(Severity::Nowhere), "CXX000\0Mm\0"),
        (
            refusal.clone().without_sqlstate().detail("d"),
            "SPANIK\0VPANIC\0Mm\0Dd\0",
        ),
    ] {
        let fake = FakePg::start(Fake::Refuse(refusal));
        let (answer, _) = talk(&fake, STARTUP, usize::MAX);
        assert_eq!(
            String::from_utf8_lossy(&answer[5..]),
            format!("{fields}\0"),
            "{answer:?}"
        );
        assert_eq!(answer[4] as usize, answer.len() - 1);
    }
}

#[test]
fn frames_can_lie_about_their_length() {
    assert_eq!(FakePg::frame(b'R', b"ab"), b"R\0\0\0\x06ab");
    assert_eq!(
        FakePg::frame_of_length(b'D', i32::MAX, b"ab"),
        b"D\x7f\xff\xff\xffab"
    );
    assert_eq!(FakePg::frame_of_length(b'D', -1, b""), b"D\xff\xff\xff\xff");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_logs_in_and_queries_until_the_fake_changes() {
    let fake = FakePg::start(Fake::Ready);
    let client = log_in_at(&fake.host(), fake.port(), "guest").await.unwrap();
    assert!(client.query("SELECT anything", &[]).await.unwrap().is_empty());
    // After the request that closes the statement.
    client.batch_execute("anything").await.unwrap();
    assert_eq!((fake.connections(), fake.open()), (1, 1));
    let startup = &fake.startups()[0];
    assert_eq!([&startup["user"], &startup["application_name"]], [USER, "guest"]);

    fake.set(Fake::ReadyThenRefuse(Refusal::fatal(
        "08P01",
        "server conn crashed?",
    )));

    let error = client.batch_execute("anything").await.unwrap_err();
    assert_eq!(sqlstate(&error), Some("08P01"));
    fake.wait_open(0);
    assert_eq!(fake.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logged_in_client_is_told_when_the_fake_refuses_it_later() {
    let fake = FakePg::start(Fake::Ready);
    let mut config = Config::new();
    config.host(fake.host()).port(fake.port()).user(USER);
    let (_client, connection) = config.connect(NoTls).await.unwrap();
    fake.refuse_and_close(Refusal::fatal("57P05", "idle"));
    assert_eq!(sqlstate(&connection.await.unwrap_err()), Some("57P05"));
}

#[test]
fn a_fake_takes_a_given_address_and_gives_it_back() {
    let fake = FakePg::start_on("127.0.0.7:0", Fake::Silent);
    let address = fake.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    fake.wait_open(1);

    drop(fake);

    assert_eq!(read_to_end(&mut stream).1, Closed);
    drop(TcpListener::bind(address).unwrap());
}
