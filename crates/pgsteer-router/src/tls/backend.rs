//! TLS towards backends: a dialler around another.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::{TlsError, files};
use crate::backend::{BackendAddress, BackendIo, BoxFuture, Dial};

/// TLS towards backends (`--backend-tls`). A backend's certificate is always checked: that it leads to an authority, and
/// that it is for the backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendTls {
    /// Authorities to trust, a PEM file (`--backend-tls-ca`). `None`: the operating system's.
    pub ca: Option<PathBuf>,
    /// The name that every backend's certificate must be for (`--backend-tls-server-name`). `None`: the host of the
    /// backend, a name or an address.
    pub server_name: Option<String>,
    /// What the router shows of itself to backends that ask: certificate and key, PEM files (`--backend-tls-cert`,
    /// `--backend-tls-key`).
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl BackendTls {
    /// Reads and judges the files. Blocks for as long as that takes.
    pub(crate) fn load(&self) -> Result<Loaded, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = match &self.ca {
            Some(path) => files::roots("--backend-tls-ca", path)?,
            None => files::system_roots("--backend-tls-ca")?,
        };
        let path = self.identity.as_ref().map(|(_, key)| key.clone());
        let bad_pair = |error| {
            files::no_pair(
                "--backend-tls-key",
                path.as_deref().unwrap_or("".as_ref()),
                &error,
            )
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad_pair)?
            .with_root_certificates(roots);
        let mut client = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = files::chain("--backend-tls-cert", cert)?;
                let key = files::key("--backend-tls-key", key)?;
                builder.with_client_auth_cert(chain, key).map_err(bad_pair)?
            }
        };
        // A resumed session shows no certificate; each connection is to be checked as things stand when it is opened.
        client.resumption = Resumption::disabled();
        let server_name = match &self.server_name {
            None => None,
            Some(name) => {
                let parsed = ServerName::try_from(name.clone()).map_err(|_| TlsError::Name {
                    option: "--backend-tls-server-name",
                    name: name.clone(),
                })?;
                Some(parsed)
            }
        };
        Ok(Loaded {
            client: Arc::new(client),
            server_name,
        })
    }
}

/// What [`BackendTls`] names, read.
#[derive(Clone)]
pub(crate) struct Loaded {
    client: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

/// Has a stream opened by another dialler and then, if it is told to, does a TLS handshake on it. Both are under the pool's
/// one limit on connects.
#[derive(Clone)]
pub struct TlsDialer {
    below: Arc<dyn Dial>,
    tls: Arc<ArcSwap<Option<Loaded>>>,
}

impl TlsDialer {
    /// TLS as the options say, or clear text without them. Blocks for as long as reading the files takes.
    ///
    /// # Errors
    ///
    /// What is wrong with which file.
    pub fn new(below: Arc<dyn Dial>, tls: Option<&BackendTls>) -> Result<Self, TlsError> {
        let loaded = tls.map(BackendTls::load).transpose()?;
        Ok(TlsDialer {
            below,
            tls: Arc::new(ArcSwap::from_pointee(loaded)),
        })
    }

    /// From now on connections are opened with these. Those that are open stay as they are.
    pub(crate) fn replace(&self, tls: Option<Loaded>) {
        self.tls.store(Arc::new(tls));
    }
}

impl Dial for TlsDialer {
    fn dial<'a>(
        &'a self,
        backend: &'a BackendAddress,
        deadline: Instant,
    ) -> BoxFuture<'a, io::Result<BackendIo>> {
        Box::pin(async move {
            let tls = self.tls.load_full();
            let stream = self.below.dial(backend, deadline).await?;
            let Some(tls) = &*tls else {
                return Ok(stream);
            };
            let name = match &tls.server_name {
                Some(name) => name.clone(),
                None => name_of(backend)?,
            };
            let connector = TlsConnector::from(Arc::clone(&tls.client));
            match connector.connect(name, stream).await {
                Ok(stream) => Ok(BackendIo::boxed(stream)),
                Err(error) => Err(io::Error::new(error.kind(), format!("TLS: {error}"))),
            }
        })
    }
}

fn name_of(backend: &BackendAddress) -> io::Result<ServerName<'static>> {
    if let Ok(address) = backend.host().parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    ServerName::try_from(backend.host().to_owned()).map_err(|_| {
        let text = format!("TLS: no certificate can be for the name `{}`", backend.host());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

impl fmt::Debug for TlsDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsDialer")
            .field("tls", &self.tls.load().is_some())
            .finish_non_exhaustive()
    }
}
