//! How TLS is begun: what may come back to the request for it, and how long everything may take.

use pgsteer_core::hosts::FailureKind;
use tokio::time::Instant;

use super::*;

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);
const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);

/// Settings that make TLS be asked for, with the feature or without.
fn asks_for_tls() -> Settings {
    with_tls(SslMode::Require, |tls| {
        tls.connector = Some(connector::any_certificate())
    })
}

/// A server that answers the request for TLS with this and then says no more.
fn answers_request(said: &'static [u8]) -> Host {
    serves(move |mut peer| async move {
        peer.answer_tls(said).await;
        let mut rest = Vec::new();
        let _ = peer.stream.read_to_end(&mut rest).await;
    })
}

#[tokio::test(start_paused = true)]
async fn only_one_byte_that_means_yes_or_no_is_taken_for_an_answer() {
    let cases: [(&[u8], Evidence<'_>, &str); 8] = [
        (b"N", Evidence::Tls, "does not offer TLS"),
        (b"E", Evidence::BadServer, "with an error"),
        (
            b"EFATAL\0pretend to be the server",
            Evidence::BadServer,
            "with an error",
        ),
        (b"X", Evidence::BadServer, "not PostgreSQL's protocol"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            Evidence::BadServer,
            "not PostgreSQL's protocol",
        ),
        (b"SS", Evidence::BadServer, "tampering"),
        (b"S\x16\x03\x03", Evidence::BadServer, "tampering"),
        (b"NR\0\0\0\x08\0\0\0\0", Evidence::BadServer, "tampering"),
    ];
    for (said, evidence, words) in cases {
        let error = dial_by(answers_request(said), asks_for_tls()).await.unwrap_err();
        assert_eq!(
            (error.stage(), error.evidence()),
            (Stage::Tls, evidence),
            "{said:?}: {error}"
        );
        assert_eq!(error.host_effect(), REJECTED, "{said:?}");
        assert!(error.to_string().contains(words), "{said:?}: {error}");
        assert!(!error.to_string().contains("pretend"), "{error}");
    }
}

/// What comes later than the answer but before the handshake reaches nobody but the TLS library.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn clear_text_in_place_of_the_handshake_ends_the_attempt() {
    let host = serves(|mut peer| async move {
        peer.answer_tls(b"S").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        peer.send(&[accepted(), ready(b'I')].concat()).await;
        peer.end().await;
    });
    let error = dial_by(host, with_tls(SslMode::Require, |_| ()))
        .await
        .unwrap_err();
    assert_eq!((error.stage(), error.evidence()), (Stage::Tls, Evidence::Tls));
    assert!(error.to_string().contains("not TLS"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_before_it_answers_is_down() {
    let closes = serves(|mut peer| async move {
        let mut request = [0; 8];
        peer.stream.read_exact(&mut request).await.unwrap();
    });
    let error = dial_by(closes, asks_for_tls()).await.unwrap_err();
    assert_eq!(
        (error.stage(), error.evidence()),
        (Stage::Connect, Evidence::Closed)
    );
    assert_eq!(error.host_effect(), DOWN);
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_server_that_goes_within_the_handshake_is_rejected() {
    let closes = serves(|mut peer| async move {
        peer.answer_tls(b"S").await;
        let mut hello = [0; 5];
        peer.stream.read_exact(&mut hello).await.unwrap();
    });
    let error = dial_by(closes, with_tls(SslMode::Prefer, |_| ()))
        .await
        .unwrap_err();
    assert_eq!(error.stage(), Stage::Tls);
    assert_eq!(error.host_effect(), REJECTED, "{error}");
    assert!(error.to_string().contains("broke the handshake off"), "{error}");
}

/// A server that says this, then nothing, and tells when its socket is closed.
fn falls_silent(said: &'static [u8]) -> (Host, tokio::sync::oneshot::Receiver<()>) {
    let (closed, on_close) = tokio::sync::oneshot::channel();
    let closed = Arc::new(Mutex::new(Some(closed)));
    let host = serves(move |mut peer| {
        let closed = Arc::clone(&closed);
        async move {
            peer.answer_tls(said).await;
            let mut rest = Vec::new();
            let _ = peer.stream.read_to_end(&mut rest).await;
            closed.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    });
    (host, on_close)
}

///
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_before_or_within_the_handshake_costs_one_deadline_and_its_socket() {
    for (case, said, stage) in [
        ("never answers the request", &b""[..], Stage::Connect),
        ("never answers the hello", b"S", Stage::Tls),
    ] {
        let (host, closed) = falls_silent(said);
        let began = Instant::now();
        let error = dial_by(host, asks_for_tls()).await.unwrap_err();
        assert_eq!(began.elapsed(), CONNECT_TIMEOUT, "{case}");
        assert_eq!(
            (error.stage(), error.evidence()),
            (stage, Evidence::Deadline),
            "{case}"
        );
        assert_eq!(error.host_effect(), DOWN, "{case}");
        assert!(error.to_string().contains("within 10s"), "{case}: {error}");
        closed.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dial_dropped_within_the_handshake_closes_its_socket_at_once() {
    let (host, closed) = falls_silent(b"S");
    let began = Instant::now();
    let dropped = tokio::time::timeout(Duration::from_secs(1), dial_by(host, asks_for_tls())).await;
    assert!(dropped.is_err());
    closed.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

/// Each address of a name has its share of the deadline, the handshake included.
#[tokio::test(start_paused = true)]
async fn an_address_that_hangs_in_the_handshake_leaves_the_next_its_share() {
    let world = Scripted::default();
    let ca = Authority::new("ours");
    world
        .name("db", &["10.0.0.1", "10.0.0.2"])
        .host("10.0.0.1:5432", falls_silent(b"S").0)
        .host("10.0.0.2:5432", accepts_over_tls(ca.signs(&["db"]).server()));
    let began = Instant::now();
    let dialled = world
        .dialler_by(asks_for_tls())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    assert_eq!(dialled.peer.to_string(), "10.0.0.2:5432");
    assert_eq!(began.elapsed(), CONNECT_TIMEOUT / 2);
}
