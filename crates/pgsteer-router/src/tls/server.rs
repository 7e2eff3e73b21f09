//! What clients are shown, and what is asked of them.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::{TlsError, files};

/// TLS towards clients. All three are PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The router's certificate, followed by the authorities between it and the root (`--tls-cert`).
    pub cert: PathBuf,
    /// Its key, not encrypted (`--tls-key`).
    pub key: PathBuf,
    /// Authorities one of which must have signed each client's certificate (`--tls-client-ca`). `None`: clients need no
    /// certificate, and none is asked for.
    pub client_ca: Option<PathBuf>,
}

impl ServerTls {
    /// Reads and judges the files: what rustls serves by. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// What is wrong with which file.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = files::chain("--tls-cert", &self.cert)?;
        let key = files::key("--tls-key", &self.key)?;
        let bad_pair = |error| files::no_pair("--tls-key", &self.key, &error);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(bad_pair)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let option = "--tls-client-ca";
                let roots = Arc::new(files::roots(option, path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| files::unusable(option, path, &error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key).map_err(bad_pair)?;
        Ok(Arc::new(config))
    }
}
