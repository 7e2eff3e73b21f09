//! What a configuration says of TLS: when it is used, what of the server is checked, and with which files.
//!
//! Nothing here opens a file or knows a TLS library; see `dial/tls`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::TlsConnector;

/// Whether connections are encrypted and what is checked, as libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SslMode {
    /// Never TLS.
    #[default]
    Disable,
    /// In clear text; with TLS, unchecked, where the server refuses that (SQLSTATE 28000).
    Allow,
    /// TLS where the server offers it, else clear text. The certificate is checked only if a root certificate is given,
    /// and then its chain; a failed handshake or check fails the connection.
    Prefer,
    /// TLS or no connection. The certificate is checked as with [`SslMode::Prefer`].
    Require,
    /// TLS, and the certificate's chain must lead to a trusted root.
    VerifyCa,
    /// TLS, the chain must lead to a trusted root, and the certificate must be for the host dialled.
    VerifyFull,
}

/// How TLS is begun, as libpq's `sslnegotiation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SslNegotiation {
    /// The server is asked first whether it offers TLS.
    #[default]
    Postgres,
    /// The handshake starts at once, with ALPN `postgresql` (PostgreSQL 17 and later). Needs `require` or stricter.
    Direct,
}

/// Whether a SCRAM login is bound to the TLS session, as libpq's `channel_binding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where the server offers it.
    #[default]
    Prefer,
    /// The login fails without it.
    Require,
}

/// Certificates or a key in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In a file, read when connections are opened.
    File(PathBuf),
    /// Given as it is.
    Bytes(Arc<[u8]>),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => f.debug_tuple("File").field(path).finish(),
            Pem::Bytes(_) => f.write_str("Bytes(not shown)"),
        }
    }
}

/// Which roots a server's certificate may lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RootCerts {
    /// None given: the modes that verify use the operating system's trust store, the others check nothing.
    #[default]
    Unset,
    /// The operating system's trust store (`sslrootcert=system`).
    System,
    /// These.
    Given(Pem),
}

/// Everything a configuration says of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: SslMode,
    pub(crate) negotiation: SslNegotiation,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) roots: RootCerts,
    /// The client's certificate and its chain.
    pub(crate) client_cert: Option<Pem>,
    pub(crate) client_key: Option<Pem>,
    /// The name every server's certificate is checked for, instead of the host dialled.
    pub(crate) server_name: Option<String>,
    /// Does TLS instead of rustls.
    pub(crate) connector: Option<TlsConnector>,
}
