//! TLS against servers in memory that do real handshakes. This file holds what the tests share: authorities,
//! certificates, and a server that answers the request for TLS and then serves over it.

#![cfg_attr(
    not(feature = "tls"),
    allow(
        dead_code,
        unused_imports,
        reason = "without rustls only connectors and clear text are left to test"
    )
)]

#[cfg(feature = "tls")]
mod checks;
mod connector;
#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod logins;
mod modes;
mod request;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::config::{Pem, RootCerts, Tls as TlsOptions};

/// The server's end of a connection with TLS.
type TlsPeer = Peer<TlsStream<DuplexStream>>;

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut wanted = CertificateParams::new([]).unwrap();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(wanted, KeyPair::generate().unwrap()).unwrap())
    }

    /// As the client is given it.
    fn pem(&self) -> Pem {
        Pem::Bytes(self.0.pem().into_bytes().into())
    }

    /// A certificate for these names and addresses.
    fn signs(&self, names: &[&str]) -> Certified {
        self.signs_as(names, |_| ())
    }

    fn signs_as(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut wanted = CertificateParams::new(names).unwrap();
        wanted.distinguished_name.push(DnType::CommonName, "a server");
        change(&mut wanted);
        let key = KeyPair::generate().unwrap();
        let certificate = wanted.signed_by(&key, &self.0).unwrap();
        Certified {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    }
}

/// A certificate and its key.
struct Certified {
    der: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Certified {
    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    /// A server that shows it.
    fn server(&self) -> ServerConfig {
        server_side()
            .with_no_client_auth()
            .with_single_cert(vec![self.der.clone()], self.key_der())
            .unwrap()
    }
}

fn server_side() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Reads the request for TLS and answers it with these bytes.
    async fn answer_tls(&mut self, answer: &[u8]) {
        let mut request = [0; 8];
        self.stream.read_exact(&mut request).await.unwrap();
        assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
        self.send(answer).await;
    }
}

impl Peer {
    /// Does the handshake.
    async fn handshake(self, config: &Arc<ServerConfig>) -> io::Result<TlsPeer> {
        let acceptor = TlsAcceptor::from(Arc::clone(config));
        let stream = acceptor.accept(self.stream).await?;
        Ok(Peer { stream })
    }
}

/// A server that offers TLS and, once it is established, does this.
fn serves_tls<F: Future<Output = ()> + Send + 'static>(
    config: ServerConfig,
    serve: impl Fn(TlsPeer) -> F + Clone + Send + Sync + 'static,
) -> Host {
    let config = Arc::new(config);
    serves(move |mut peer| {
        let (config, serve) = (Arc::clone(&config), serve.clone());
        async move {
            peer.answer_tls(b"S").await;
            if let Ok(peer) = peer.handshake(&config).await {
                serve(peer).await;
            }
        }
    })
}

/// A server that offers TLS and refuses the login over it.
fn refuses_over_tls(config: ServerConfig) -> Host {
    serves_tls(config, |mut peer| async move {
        peer.startup().await;
        peer.send(&fatal("28P01")).await;
        peer.end().await;
    })
}

/// A server that offers TLS and accepts the login over it.
fn accepts_over_tls(config: ServerConfig) -> Host {
    serves_tls(config, |mut peer| async move {
        peer.accept().await;
        peer.end().await;
    })
}

/// Settings with these options of TLS.
fn with_tls(mode: SslMode, change: impl FnOnce(&mut TlsOptions)) -> Settings {
    let mut settings = config().settings().unwrap();
    settings.tls = TlsOptions {
        mode,
        ..TlsOptions::default()
    };
    change(&mut settings.tls);
    settings
}

fn trusting(authority: &Authority) -> impl FnOnce(&mut TlsOptions) {
    let roots = RootCerts::Given(authority.pem());
    move |tls| tls.roots = roots
}

/// Dials the only host, `db`, by these settings.
async fn dial_by(host: Host, settings: Settings) -> Result<Dialled, DialError> {
    Scripted::with(host)
        .dialler_by(settings)
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
}
