//! What a configuration says of TLS: when it is used, what of the server is checked, and with which files.
//!
//! Nothing here opens a file or knows a TLS library; see `dial/tls`.

mod given;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::TlsConnector;
pub(super) use given::TlsGiven;

/// Whether connections are encrypted and what is checked, as libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// In clear text; with TLS, unchecked, where the server refuses that (SQLSTATE 28000).
    Allow,
    /// TLS where the server offers it, else clear text. The certificate is checked only if a root certificate is given,
    /// and then its chain; a failed handshake or check fails the connection.
    #[default]
    Prefer,
    /// TLS or no connection. The certificate is checked as with [`SslMode::Prefer`].
    Require,
    /// TLS, and the certificate's chain must lead to a trusted root.
    VerifyCa,
    /// TLS, the chain must lead to a trusted root, and the certificate must be for the host dialled.
    VerifyFull,
}

impl SslMode {
    /// Whether a connection without TLS is refused.
    pub fn insists(self) -> bool {
        self >= SslMode::Require
    }
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

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Pem::File(path.to_owned())
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Pem::File(path)
    }
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

impl<P: Into<Pem>> From<P> for RootCerts {
    fn from(roots: P) -> Self {
        RootCerts::Given(roots.into())
    }
}

/// Everything a configuration says of TLS, defaults filled in.
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

/// The text forms of a type with few values, as libpq spells them.
macro_rules! spelled {
    ($type:ty, $($text:literal = $value:expr),+ $(,)?) => {
        impl $type {
            const SPELLINGS: &[(&str, $type)] = &[$(($text, $value)),+];

            /// Reads libpq's spelling, lower case; `None` for any other text.
            pub fn parse_text(text: &str) -> Option<Self> {
                Self::SPELLINGS.iter().find(|(spelling, _)| *spelling == text).map(|(_, value)| *value)
            }
        }

        impl fmt::Display for $type {
            /// libpq's spelling.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let spelling = Self::SPELLINGS.iter().find(|(_, value)| value == self);
                f.write_str(spelling.map_or("", |(spelling, _)| spelling))
            }
        }
    };
}

spelled!(
    SslMode,
    "disable" = SslMode::Disable,
    "allow" = SslMode::Allow,
    "prefer" = SslMode::Prefer,
    "require" = SslMode::Require,
    "verify-ca" = SslMode::VerifyCa,
    "verify-full" = SslMode::VerifyFull,
);
spelled!(
    SslNegotiation,
    "postgres" = SslNegotiation::Postgres,
    "direct" = SslNegotiation::Direct,
);
spelled!(
    ChannelBinding,
    "disable" = ChannelBinding::Disable,
    "prefer" = ChannelBinding::Prefer,
    "require" = ChannelBinding::Require,
);
