//! Logins and sessions over TLS: client certificates, direct negotiation, channel binding, cancel requests, and ends.

use pgsteer_core::hosts::FailureKind;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};

use super::*;
use crate::config::{ChannelBinding, SslNegotiation};

/// A server that wants a certificate of this authority from its clients.
fn wants_certificate(
    server: &Certified,
    clients: &Authority,
    version: &'static rustls::SupportedProtocolVersion,
) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(clients.0.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .unwrap();
    ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.der.clone()], server.key_der())
        .unwrap()
}

fn shows(tls: &mut TlsOptions, client: &Certified) {
    tls.client_cert = Some(Pem::Bytes(client.pem.clone().into_bytes().into()));
    tls.client_key = Some(Pem::Bytes(client.key.serialize_pem().into_bytes().into()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_a_client_certificate_gets_it_or_says_so() {
    let (ca, other) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ca.signs(&["db"]);
    let (good, bad) = (ca.signs(&["app"]), other.signs(&["app"]));
    for version in [&TLS12, &TLS13] {
        for (case, client, words) in [
            ("good", Some(&good), None),
            ("none", None, Some("client certificate")),
            (
                "another CA's",
                Some(&bad),
                Some("does not take the client's certificate"),
            ),
        ] {
            let settings = with_tls(SslMode::VerifyFull, |tls| {
                trusting(&ca)(tls);
                if let Some(client) = client {
                    shows(tls, client);
                }
            });
            let host = accepts_over_tls(wants_certificate(&server, &ca, version));
            let failure = dial_by(host, settings).await.err();
            let Some(words) = words else {
                assert!(failure.is_none(), "{version:?} {case}: {failure:?}");
                continue;
            };
            let error = failure.unwrap();
            assert_eq!(
                (error.stage(), error.evidence()),
                (Stage::Tls, Evidence::Tls),
                "{version:?} {case}: {error}"
            );
            assert_eq!(error.host_effect(), HostEffect::Failed(FailureKind::Rejected));
            assert!(error.to_string().contains(words), "{version:?} {case}: {error}");
        }
    }
}

/// A server that does the handshake at once, without being asked for TLS.
fn direct(alpn: &[&[u8]], server: &Certified) -> Host {
    let mut config = server.server();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let config = Arc::new(config);
    serves(move |peer| {
        let config = Arc::clone(&config);
        async move {
            if let Ok(mut peer) = peer.handshake(&config).await {
                peer.accept().await;
                peer.end().await;
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn direct_negotiation_begins_with_the_handshake_and_insists_on_the_protocol() {
    let ca = Authority::new("ours");
    let server = ca.signs(&["db"]);
    let settings = || {
        with_tls(SslMode::VerifyFull, |tls| {
            trusting(&ca)(tls);
            tls.negotiation = SslNegotiation::Direct;
        })
    };
    dial_by(direct(&[b"postgresql"], &server), settings())
        .await
        .unwrap();
    let older = serves(|mut peer| async move {
        let mut hello = [0; 8];
        peer.stream.read_exact(&mut hello).await.unwrap();
    });
    for (case, host, words) in [
        (
            "no ALPN",
            direct(&[], &server),
            "does not say that it speaks PostgreSQL's protocol",
        ),
        (
            "another protocol",
            direct(&[b"h2"], &server),
            "not for PostgreSQL's protocol",
        ),
        ("an older server", older, "needs PostgreSQL 17"),
    ] {
        let error = dial_by(host, settings()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Tls, "{case}");
        assert!(error.to_string().contains(words), "{case}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn required_channel_binding_needs_tls_a_hash_and_scram() {
    let ca = Authority::new("ours");
    let binding = |mode| {
        with_tls(mode, |tls| {
            trusting(&ca)(tls);
            tls.channel_binding = ChannelBinding::Require;
        })
    };
    let signed_by_ed25519 = {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let wanted = CertificateParams::new(["db".to_owned()]).unwrap();
        let certificate = wanted.self_signed(&key).unwrap();
        Certified {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    };
    let ed25519 = {
        let roots = RootCerts::Given(Pem::Bytes(signed_by_ed25519.pem.clone().into_bytes().into()));
        let mut settings = binding(SslMode::Require);
        settings.tls.roots = roots;
        settings
    };
    let has_none = serves(|mut peer| async move {
        peer.answer_tls(b"N").await;
        peer.startup().await;
        panic!("a login in clear text");
    });
    let scram = |mechanism: &[u8]| message(b'R', &[&10_i32.to_be_bytes()[..], mechanism, b"\0\0"].concat());
    let asks = |said: Vec<u8>| {
        serves_tls(ca.signs(&["db"]).server(), move |mut peer| {
            let said = said.clone();
            async move {
                peer.startup().await;
                peer.send(&said).await;
                assert_eq!(peer.next().await, None, "nothing of the password is sent");
            }
        })
    };
    let unused = "server did not use channel binding";
    for (case, host, settings, words) in [
        (
            "no TLS",
            has_none,
            binding(SslMode::Prefer),
            "channel_binding=require needs TLS",
        ),
        (
            "Ed25519",
            accepts_over_tls(signed_by_ed25519.server()),
            ed25519,
            "no channel binding is defined",
        ),
        (
            "trust",
            asks([accepted(), ready(b'I')].concat()),
            binding(SslMode::Require),
            unused,
        ),
        (
            "clear password",
            asks(message(b'R', &3_i32.to_be_bytes())),
            binding(SslMode::Require),
            unused,
        ),
        (
            "MD5",
            asks(message(b'R', b"\0\0\0\x05salt")),
            binding(SslMode::Require),
            unused,
        ),
        (
            "plain SCRAM",
            asks(scram(b"SCRAM-SHA-256")),
            binding(SslMode::Require),
            unused,
        ),
    ] {
        let error = dial_by(host, settings).await.unwrap_err();
        assert!(error.to_string().contains(words), "{case}: {error}");
        assert_eq!(
            error.host_effect(),
            HostEffect::Failed(FailureKind::Rejected),
            "{case}"
        );
    }
}

fn key_data() -> Vec<u8> {
    message(b'K', &[7_i32.to_be_bytes(), 99_i32.to_be_bytes()].concat())
}

/// A server whose first connection is a session over TLS and whose later ones are asked for TLS with this answer.
fn cancellable(server: &Certified, later: &'static [u8], got: Arc<Mutex<Vec<u8>>>) -> Host {
    let config = Arc::new(server.server());
    let begun = Arc::new(Mutex::new(false));
    serves(move |mut peer| {
        let (config, got) = (Arc::clone(&config), Arc::clone(&got));
        let first = !std::mem::replace(&mut *begun.lock().unwrap(), true);
        async move {
            peer.answer_tls(if first { b"S" } else { later }).await;
            if !first && later != b"S" {
                let mut rest = Vec::new();
                peer.stream.read_to_end(&mut rest).await.unwrap();
                got.lock().unwrap().extend(rest);
                return;
            }
            let mut peer = peer.handshake(&config).await.unwrap();
            if first {
                peer.startup().await;
                peer.send(&[accepted(), key_data(), ready(b'I')].concat()).await;
                peer.end().await;
            } else {
                let mut request = [0; 16];
                peer.stream.read_exact(&mut request).await.unwrap();
                got.lock().unwrap().extend(request);
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_goes_by_tls_where_the_session_has_it_and_never_in_clear_text() {
    let ca = Authority::new("ours");
    let server = ca.signs(&["db"]);
    let request = [0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 7, 0, 0, 0, 99];
    for mode in [SslMode::Prefer, SslMode::VerifyFull] {
        for (later, expected) in [(&b"S"[..], &request[..]), (b"N", &[])] {
            let got = Arc::default();
            let host = cancellable(&server, later, Arc::clone(&got));
            let dialled = dial_by(host, with_tls(mode, trusting(&ca))).await.unwrap();
            let cancelled = dialled.canceller.cancel(Duration::from_secs(5)).await;
            assert_eq!(cancelled.is_ok(), later == b"S", "{mode:?}: {cancelled:?}");
            tokio::task::yield_now().await;
            assert_eq!(*got.lock().unwrap(), expected, "{mode:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_that_hangs_in_the_handshake_ends_in_time() {
    let ca = Authority::new("ours");
    let got = Arc::default();
    let host = cancellable(&ca.signs(&["db"]), b"", got);
    let dialled = dial_by(host, with_tls(SslMode::Require, trusting(&ca)))
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    let cancelled = dialled.canceller.cancel(Duration::from_secs(5)).await;
    assert_eq!(cancelled.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

/// A killed server closes its socket without TLS' goodbye.
#[tokio::test(start_paused = true)]
async fn a_server_that_goes_without_a_goodbye_has_closed_the_connection() {
    let ca = Authority::new("ours");
    let host = serves_tls(ca.signs(&["db"]).server(), |mut peer| async move {
        peer.accept().await;
        peer.query().await;
        // Takes the socket from under the session.
        drop(peer.stream.into_inner().0);
    });
    let dialled = dial_by(host, with_tls(SslMode::VerifyFull, trusting(&ca)))
        .await
        .unwrap();
    let (client, driver) = (dialled.client, dialled.driver);
    let reason = tokio::spawn(driver);
    let error = client.simple_query("SELECT 1").await.unwrap_err();
    assert!(error.is_closed(), "{error}");
    assert_eq!(reason.await.unwrap(), EndReason::Eof);
}

#[tokio::test(start_paused = true)]
async fn a_session_over_tls_is_quiet_busy_and_closed_like_any_other() {
    let ca = Authority::new("ours");
    let host = serves_tls(ca.signs(&["db"]).server(), |mut peer| async move {
        peer.accept().await;
        while let Some(query) = peer.query().await {
            let long = "x".repeat(100_000);
            peer.send(
                &[
                    columns(&["x"]),
                    row(&[Some(&long)]),
                    completed("SELECT 1"),
                    ready(b'I'),
                ]
                .concat(),
            )
            .await;
            assert_eq!(query.len(), 70_000);
        }
    });
    let mut dialled = dial_by(host, with_tls(SslMode::VerifyFull, trusting(&ca)))
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(dialled.session.is_quiet() && !dialled.session.is_dirty());
        let query = "y".repeat(70_000);
        let answer = dialled
            .driver
            .drive_while(dialled.client.simple_query(&query))
            .await
            .unwrap();
        assert_eq!(answer.len(), 3);
        assert_eq!(dialled.wire.status(), TransactionStatus::Idle);
    }
    drop(dialled.client);
    assert_eq!(dialled.driver.await, EndReason::ClosedByUs);
}
