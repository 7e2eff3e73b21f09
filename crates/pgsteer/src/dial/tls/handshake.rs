//! The handshake, by rustls, with certificates that may change on disk between one connection and the next.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;

use super::binding::tls_server_end_point;
use super::files::{self, Contents};
use super::stream::ClearSide;
use super::verify::{Check, Roots, Verifier};
use super::{failed, words};
use crate::config::{self, ConfigError, RootCerts, SslMode, SslNegotiation};
use crate::dial::error::Failure;
use crate::world::{Endpoint, Socket};

/// What PostgreSQL calls its protocol within TLS.
const ALPN: &[u8] = b"postgresql";

/// rustls, set up by the options.
pub(super) struct Rustls {
    sources: Arc<Sources>,
    /// Whether some of it is in files, which are looked at for each connection.
    in_files: bool,
    check: Check,
    direct: bool,
    trusted: &'static str,
}

/// Where everything comes from, and what came last.
struct Sources {
    options: config::Tls,
    check: Check,
    provider: Arc<CryptoProvider>,
    /// The operating system's roots, or none; not looked at again.
    fixed_roots: Arc<Roots>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    contents: Contents,
    client: Arc<ClientConfig>,
    /// What is on disk now could not be used, and that has been told.
    warned: bool,
}

impl Rustls {
    /// Reads and judges what the options name. Blocks for as long as that takes.
    pub(super) fn new(options: &config::Tls) -> Result<Self, ConfigError> {
        let check = check(options);
        let system = check != Check::Nothing && !matches!(options.roots, RootCerts::Given(_));
        let fixed_roots = Arc::new(match system {
            true => files::system_roots()?,
            false => Roots::none(),
        });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let contents = files::read(options)?;
        let client = client(options, &contents, check, &fixed_roots, &provider)?;
        Ok(Rustls {
            in_files: files::any_file(options),
            check,
            direct: options.negotiation == SslNegotiation::Direct,
            trusted: match system {
                true => "the operating system's trust store",
                false => "sslrootcert",
            },
            sources: Arc::new(Sources {
                options: options.clone(),
                check,
                provider,
                fixed_roots,
                loaded: Mutex::new(Loaded {
                    contents,
                    client,
                    warned: false,
                }),
            }),
        })
    }

    /// Does the handshake with the server of this name. Also what a login can be bound to.
    pub(super) async fn handshake(
        &self,
        socket: Socket,
        name: &str,
        endpoint: &Endpoint,
    ) -> Result<(ClearSide, Option<Vec<u8>>), Failure> {
        let server = self.server(name, endpoint)?;
        let connector = TlsConnector::from(self.client().await);
        let stream = connector.connect(server, socket).await.map_err(|error| {
            let about = words::About {
                endpoint,
                name,
                trusted: self.trusted,
                direct: self.direct,
            };
            about.handshake_failure(&error)
        })?;
        let (_, session) = stream.get_ref();
        if self.direct && session.alpn_protocol() != Some(ALPN) {
            let text = "the server does TLS, but does not say that it speaks PostgreSQL's protocol within it, which \
                        sslnegotiation=direct needs";
            return Err(failed(endpoint, text));
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let binding = certificate.and_then(|certificate| tls_server_end_point(certificate));
        Ok((ClearSide::of(stream), binding))
    }

    /// The name for rustls. One that no certificate can have is let pass where no name is checked.
    fn server(&self, name: &str, endpoint: &Endpoint) -> Result<ServerName<'static>, Failure> {
        match (ServerName::try_from(name.to_owned()), endpoint) {
            (Ok(server), _) => Ok(server),
            (Err(_), Endpoint::Tcp(address)) if self.check != Check::ChainAndName => {
                Ok(ServerName::IpAddress(address.ip().into()))
            }
            (Err(_), _) => {
                let text = format!("no certificate can be for the name `{}`", name.escape_debug());
                Err(failed(endpoint, &text))
            }
        }
    }

    /// rustls' configuration for the next connection.
    async fn client(&self) -> Arc<ClientConfig> {
        if self.in_files {
            let sources = Arc::clone(&self.sources);
            // If it does not come to an end, what was read before is as good as ever.
            let _ = spawn_blocking(move || sources.look_again()).await;
        }
        Arc::clone(&self.sources.loaded().client)
    }
}

impl Sources {
    /// Takes over what has changed on disk, if it can be used. Files are renewed one after another, so for a moment a
    /// certificate and its key need not fit; then, and whenever they cannot be read, those before stay.
    fn look_again(&self) {
        let read = files::read(&self.options);
        if let Ok(contents) = &read {
            let mut loaded = self.loaded();
            if *contents == loaded.contents {
                loaded.warned = false;
                return;
            }
        }
        let renewed = read.and_then(|contents| {
            let client = client(
                &self.options,
                &contents,
                self.check,
                &self.fixed_roots,
                &self.provider,
            )?;
            Ok((contents, client))
        });
        let mut loaded = self.loaded();
        match renewed {
            Ok((contents, client)) => {
                tracing::info!("the files of TLS have changed: new connections use what is in them now");
                *loaded = Loaded {
                    contents,
                    client,
                    warned: false,
                };
            }
            Err(error) => {
                if !std::mem::replace(&mut loaded.warned, true) {
                    tracing::warn!(
                        "the files of TLS have changed and cannot be used; what was read before stays in use: {error}"
                    );
                }
            }
        }
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        // Replaced whole or not at all, so there is nothing half done behind a poisoned lock.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rustls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rustls")
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// What the mode checks: as libpq, roots that are given are used in every mode.
fn check(options: &config::Tls) -> Check {
    match (options.mode, &options.roots) {
        (SslMode::VerifyFull, _) => Check::ChainAndName,
        (SslMode::VerifyCa, _) => Check::Chain,
        (_, RootCerts::Unset) => Check::Nothing,
        (_, RootCerts::System | RootCerts::Given(_)) => Check::Chain,
    }
}

fn client(
    options: &config::Tls,
    contents: &Contents,
    check: Check,
    fixed_roots: &Arc<Roots>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let roots = files::given_roots(options, contents)?.map_or_else(|| Arc::clone(fixed_roots), Arc::new);
    let verifier = Verifier {
        check,
        roots,
        provider: Arc::clone(provider),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| files::unusable_identity(options, &error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut client = match files::identity(options, contents)? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| files::unusable_identity(options, &error))?,
    };
    // A resumed session shows no certificate. Each connection is to be checked, as it stands at that moment.
    client.resumption = Resumption::disabled();
    if options.negotiation == SslNegotiation::Direct {
        client.alpn_protocols = vec![ALPN.to_vec()];
    }
    Ok(Arc::new(client))
}
