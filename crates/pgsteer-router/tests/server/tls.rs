//! TLS on either side, over loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_router::server::{Router, RouterConfig, ServerOptions};
use pgsteer_router::tls::{BackendTls, ServerTls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::rig::*;

/// An authority, and the folder for its files.
struct Authority {
    name: &'static str,
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            name,
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            folder: TempDir::new().unwrap(),
        }
    }

    /// Signs a certificate for this name: itself, and its key.
    fn sign(&self, subject: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ca_file(&self) -> PathBuf {
        self.write("ca.pem", &self.pem)
    }

    /// Certificate and key for this name, as files.
    fn files(&self, subject: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.sign(subject);
        let cert = self.write(&format!("{subject}.pem"), &certificate.pem());
        (cert, self.write(&format!("{subject}.key"), &key.serialize_pem()))
    }

    fn server_tls(&self) -> ServerTls {
        let (cert, key) = self.files("localhost");
        ServerTls {
            cert,
            key,
            client_ca: None,
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// A client that trusts this authority, and shows a certificate of `identity`'s.
    fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<&Authority>,
    ) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        match identity {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.sign("a-client");
                let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                builder
                    .with_client_auth_cert(vec![certificate.der().clone()], key)
                    .unwrap()
            }
        }
    }
}

async fn router(change: impl FnOnce(&mut RouterConfig)) -> (Router, RouterConfig) {
    let mut config = Backends::one(echo()).config(ServerOptions::default());
    change(&mut config);
    let started = Router::start_over(config.clone(), Arc::new(Backends::one(echo()))).await;
    (started.unwrap(), config)
}

async fn dial(address: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

/// Covers: S-49
#[tokio::test]
async fn clients_speak_tls_1_2_or_1_3_and_are_told_properly_that_it_is_over() {
    let authority = Authority::new("authority");
    for version in [&TLS12, &TLS13] {
        let (router, _) = router(|config| config.tls = Some(authority.server_tls())).await;
        let mut client = dial(router.local_addr(), authority.client(&[version], None))
            .await
            .unwrap();
        assert_eq!(ask(&mut client, b"in secret").await.as_deref(), Some("in secret"));
        let long = payload(1_000_000);
        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let (sent, answer) = tokio::join!(send(&mut writing, &long), receive(&mut reading));
        sent.unwrap();
        assert!(answer == Some(long));

        let drained = tokio::spawn(async move { router.shutdown(Duration::from_secs(30)).await });

        // Without a close_notify rustls makes an error of the end.
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "{version:?}");
        drop(client);
        assert_eq!(drained.await.unwrap().dropped, 0);
    }
}

/// Covers: S-50
#[tokio::test]
async fn with_an_authority_for_clients_only_those_with_its_certificate_are_served() {
    let authority = Authority::new("authority");
    let stranger = Authority::new("stranger");
    let (router, _) = router(|config| {
        config.tls = Some(ServerTls {
            client_ca: Some(authority.ca_file()),
            ..authority.server_tls()
        });
    })
    .await;

    for (identity, served) in [(Some(&authority), true), (Some(&stranger), false), (None, false)] {
        let config = authority.client(&[&TLS13], identity);
        // With TLS 1.3 the client is done before it has been judged.
        let answer = match dial(router.local_addr(), config).await {
            Ok(mut client) => ask(&mut client, b"let me in").await,
            Err(_) => None,
        };
        assert_eq!(
            answer.is_some(),
            served,
            "{:?}",
            identity.map(|authority| authority.name)
        );
    }

    until(|| router.totals().errors.client_tls == 2).await;
    assert_eq!(router.totals().requests, 1);
}

/// Covers: S-19
#[tokio::test]
async fn a_client_that_does_not_finish_its_handshake_is_cut_off() {
    let authority = Authority::new("authority");
    let (router, _) = router(|config| {
        config.tls = Some(authority.server_tls());
        config.server.tls_handshake_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = TcpStream::connect(router.local_addr()).await.unwrap();

    let got = rest(&mut client).await;

    assert_eq!(got, b"");
    assert_eq!(router.totals().errors.client_tls, 1);
}

/// Covers: S-19, S-53
#[tokio::test]
async fn a_client_that_speaks_no_tls_gets_nothing_from_a_backend() {
    let authority = Authority::new("authority");
    let (router, _) = router(|config| config.tls = Some(authority.server_tls())).await;
    let mut client = TcpStream::connect(router.local_addr()).await.unwrap();

    send(&mut client, b"in clear").await.unwrap();
    rest(&mut client).await;

    until(|| router.totals().errors.client_tls == 1).await;
    assert_eq!(router.totals().requests, 0);
}

/// The certificate that the router shows.
async fn shown(address: SocketAddr, authority: &Authority) -> Option<CertificateDer<'static>> {
    let client = dial(address, authority.client(&[&TLS13], None)).await.ok()?;
    let certificates = client.get_ref().1.peer_certificates()?;
    certificates.first().cloned().map(CertificateDer::into_owned)
}

/// Covers: S-51
#[tokio::test]
async fn a_renewed_certificate_is_shown_after_a_reload_to_new_clients_and_others_go_on() {
    let authority = Authority::new("authority");
    let (router, config) = router(|config| config.tls = Some(authority.server_tls())).await;
    let address = router.local_addr();
    let before = shown(address, &authority).await.unwrap();
    let mut client = dial(address, authority.client(&[&TLS13], None)).await.unwrap();

    authority.files("localhost");
    assert_eq!(
        shown(address, &authority).await.as_ref(),
        Some(&before),
        "not before the reload"
    );
    router.reload(config).await.unwrap();

    assert_ne!(shown(address, &authority).await.unwrap(), before);
    assert_eq!(
        ask(&mut client, b"still here").await.as_deref(),
        Some("still here")
    );
}

/// Covers: S-51
#[tokio::test]
async fn files_that_cannot_be_used_are_refused_by_name_and_the_certificate_in_use_stays() {
    let authority = Authority::new("authority");
    let tls = authority.server_tls();
    let (router, config) = router(|config| config.tls = Some(tls.clone())).await;
    let address = router.local_addr();
    let before = shown(address, &authority).await.unwrap();
    let (_, other_key) = authority.files("another");
    let other_key = std::fs::read_to_string(other_key).unwrap();
    let good = [&tls.cert, &tls.key].map(|path| std::fs::read_to_string(path).unwrap());

    let cases = [
        (&tls.cert, "nonsense", "--tls-cert", "no certificate in PEM form"),
        (&tls.key, "nonsense", "--tls-key", "no private key in PEM form"),
        (
            &tls.key,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "--tls-key",
            "the key is encrypted",
        ),
        (
            &tls.key,
            other_key.as_str(),
            "--tls-key",
            "does not belong to the certificate",
        ),
    ];
    for (path, text, option, reason) in cases {
        std::fs::write(path, text).unwrap();

        let refused = router.reload(config.clone()).await.unwrap_err().to_string();

        for told in [option, reason, &path.display().to_string()] {
            assert!(refused.contains(told), "{told} is not in: {refused}");
        }
        assert_eq!(
            shown(address, &authority).await.as_ref(),
            Some(&before),
            "{refused}"
        );
        std::fs::write(&tls.cert, &good[0]).unwrap();
        std::fs::write(&tls.key, &good[1]).unwrap();
    }
    router.reload(config).await.unwrap();
}

/// An echo that speaks TLS on loopback, with a certificate for `subject`, and wants one of clients if `asks` says so.
async fn tls_backend(authority: &Authority, subject: &str, asks: bool) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = authority.sign(subject);
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match asks {
        false => builder.with_no_client_auth(),
        true => {
            let roots = Arc::new(authority.roots());
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = builder
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else {
                    return;
                };
                while let Some(payload) = receive(&mut stream).await {
                    if send(&mut stream, &payload).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Covers: S-52
#[tokio::test]
async fn a_backend_is_asked_over_tls_only_if_its_certificate_leads_to_the_authority_and_is_for_it() {
    let authority = Authority::new("authority");
    let stranger = Authority::new("stranger");
    let named = |name: &str| Some(name.to_owned());
    // Who signed the backend's certificate, for which name, which name is expected, and whether that will do.
    let cases = [
        (&authority, "127.0.0.1", None, true),
        (&authority, "a-backend", None, false),
        (&authority, "a-backend", named("a-backend"), true),
        (&authority, "127.0.0.1", named("a-backend"), false),
        (&stranger, "127.0.0.1", None, false),
    ];
    for (signer, subject, server_name, served) in cases {
        let case = (signer.name, subject, server_name.clone());
        let address = tls_backend(signer, subject, false).await;
        let config = RouterConfig {
            backends: vec![address.to_string().parse().unwrap()],
            backend_tls: Some(BackendTls {
                ca: Some(authority.ca_file()),
                server_name,
                identity: None,
            }),
            ..Backends::default().config(ServerOptions::default())
        };
        let router = Router::start(config).await.unwrap();
        let mut client = connect(&router);

        let answer = ask(&mut client, b"ping").await;

        let expected = match served {
            true => "ping",
            false => "ERR backend unavailable",
        };
        assert_eq!(answer.as_deref(), Some(expected), "{case:?}");
    }
}

/// Covers: S-52
#[tokio::test]
async fn the_router_shows_its_certificate_to_a_backend_that_asks() {
    let authority = Authority::new("authority");
    let address = tls_backend(&authority, "127.0.0.1", true).await;
    for shows in [true, false] {
        let config = RouterConfig {
            backends: vec![address.to_string().parse().unwrap()],
            backend_tls: Some(BackendTls {
                ca: Some(authority.ca_file()),
                server_name: None,
                identity: shows.then(|| authority.files("the-router")),
            }),
            ..Backends::default().config(ServerOptions::default())
        };
        let router = Router::start(config).await.unwrap();
        let mut client = connect(&router);

        let answer = ask(&mut client, b"ping").await;

        assert_eq!(answer.as_deref() == Some("ping"), shows, "{answer:?}");
    }
}

#[tokio::test]
async fn a_router_does_not_start_with_files_that_are_not_there() {
    let config = RouterConfig {
        tls: Some(ServerTls {
            cert: "/no/such/cert.pem".into(),
            key: "/no/such/key.pem".into(),
            client_ca: None,
        }),
        ..Backends::one(echo()).config(ServerOptions::default())
    };

    let refused = Router::start(config).await.unwrap_err().to_string();

    assert!(refused.starts_with("--tls-cert /no/such/cert.pem: "), "{refused}");
}
