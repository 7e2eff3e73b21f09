//! A connector that is not ours: a small one on tokio-rustls, which takes any certificate.

use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::ReadBuf;
use tokio_postgres::tls::{
    ChannelBinding as Binding, MakeTlsConnect, TlsConnect, TlsStream as TlsStreamTrait,
};

use super::*;
use crate::config::TlsConnector;

/// The connector as the dialler takes it.
pub(super) fn any_certificate() -> TlsConnector {
    let config = Config::new().tls_connector(Small::default());
    config.settings().unwrap().tls.connector.unwrap()
}

/// Makes connectors and notes for which names.
#[derive(Clone, Default)]
struct Small {
    names: Arc<Mutex<Vec<String>>>,
}

struct Connect(String);

struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Small {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<Connect> {
        self.names.lock().unwrap().push(name.to_owned());
        match name {
            "refused" => Err(io::Error::other("no TLS for this name today")),
            name => Ok(Connect(name.to_owned())),
        }
    }
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anything))
                .with_no_client_auth();
            let name = ServerName::try_from(self.0).unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            connector.connect(name, socket).await.map(Stream)
        })
    }
}

impl TlsStreamTrait for Stream {
    fn channel_binding(&self) -> Binding {
        Binding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn by(small: &Small, mode: SslMode) -> Settings {
    let connector = Config::new()
        .tls_connector(small.clone())
        .settings()
        .unwrap()
        .tls
        .connector;
    with_tls(mode, |tls| tls.connector = connector)
}

#[tokio::test(start_paused = true)]
async fn a_connector_of_the_applications_does_the_handshake_for_the_host_dialled() {
    let server = Authority::new("anybody").signs(&["elsewhere"]);
    for (mode, server_name, told) in [
        (SslMode::Prefer, None, "db"),
        (SslMode::Require, None, "db"),
        (SslMode::VerifyFull, Some("db.test"), "db.test"),
    ] {
        let small = Small::default();
        let mut settings = by(&small, mode);
        settings.tls.server_name = server_name.map(str::to_owned);
        let dialled = dial_by(accepts_over_tls(server.server()), settings)
            .await
            .unwrap();
        assert!(dialled.session.is_quiet(), "{mode:?}");
        assert_eq!(*small.names.lock().unwrap(), [told], "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_disable_a_connector_is_not_asked() {
    let small = Small::default();
    let clear = serves(|mut peer| async move {
        peer.accept().await;
        peer.end().await;
    });
    dial_by(clear, by(&small, SslMode::Disable)).await.unwrap();
    assert!(small.names.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_connector_fails_with_is_a_failure_of_tls_in_its_words() {
    let mut settings = by(&Small::default(), SslMode::Require);
    settings.tls.server_name = Some("refused".to_owned());
    let host = accepts_over_tls(Authority::new("anybody").signs(&["db"]).server());
    let error = dial_by(host, settings).await.unwrap_err();
    assert_eq!((error.stage(), error.evidence()), (Stage::Tls, Evidence::Tls));
    assert!(
        error.to_string().contains("no TLS for this name today"),
        "{error}"
    );
}

#[test]
fn certificates_beside_a_connector_are_refused() {
    let pem = || Pem::Bytes(b"-".as_slice().into());
    type Give = fn(&mut TlsOptions, Pem);
    let cases: [(&str, Give); 3] = [
        ("sslrootcert", |tls, pem| tls.roots = RootCerts::Given(pem)),
        ("sslcert", |tls, pem| tls.client_cert = Some(pem)),
        ("sslkey", |tls, pem| tls.client_key = Some(pem)),
    ];
    for (name, give) in cases {
        let mut settings = by(&Small::default(), SslMode::Require);
        give(&mut settings.tls, pem());
        let error = Dialler::new(Arc::new(settings), Scripted::default().world())
            .err()
            .unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
}
