//! What a router is started with, and reloaded with.

use super::options::ServerOptions;
use crate::backend::{BackendAddress, BackendOptions, SetError};
use crate::tls::{BackendTls, ServerTls};

/// What a router is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    /// Where clients connect: `HOST:PORT`, an IPv6 address in brackets. Port 0 lets the system choose. Default
    /// `0.0.0.0:8080`.
    pub listen: String,
    /// Where metrics and health are asked for, as `listen`. Default `None`: nowhere.
    pub metrics: Option<String>,
    /// The backends, each once. Default `127.0.0.1:9090`.
    pub backends: Vec<BackendAddress>,
    /// The knobs of each backend's pool.
    pub backend: BackendOptions,
    /// The knobs towards clients.
    pub server: ServerOptions,
    /// TLS towards clients. Default `None`: clear text.
    pub tls: Option<ServerTls>,
    /// TLS towards backends. Default `None`: clear text.
    pub backend_tls: Option<BackendTls>,
}

impl Default for RouterConfig {
    fn default() -> Self {
        RouterConfig {
            listen: "0.0.0.0:8080".to_owned(),
            metrics: None,
            backends: BackendAddress::new("127.0.0.1", 9090).into_iter().collect(),
            backend: BackendOptions::default(),
            server: ServerOptions::default(),
            tls: None,
            backend_tls: None,
        }
    }
}

impl RouterConfig {
    pub(super) fn set(&self) -> Vec<(BackendAddress, BackendOptions)> {
        let backends = self.backends.iter();
        backends
            .map(|backend| (backend.clone(), self.backend.clone()))
            .collect()
    }

    /// Everything that can be wrong with the list of backends.
    pub(super) fn check_backends(&self) -> Result<(), SetError> {
        let Some(first) = self.backends.first() else {
            return Err(SetError::Empty);
        };
        let option = |error| SetError::Option(first.clone(), error);
        self.backend.check().map_err(option)?;
        for (place, backend) in self.backends.iter().enumerate() {
            if self.backends[..place]
                .iter()
                .any(|earlier| earlier.is_same_backend(backend))
            {
                return Err(SetError::Twice(backend.clone()));
            }
        }
        Ok(())
    }
}
