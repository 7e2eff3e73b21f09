//! Setters for TLS.

use crate::config::{ChannelBinding, Config, Pem, RootCerts, SslMode, SslNegotiation};

impl Config {
    /// Whether connections are encrypted and what is checked, discovery's and probes' included. Default
    /// [`SslMode::Prefer`], with [`RootCerts::System`] [`SslMode::VerifyFull`]; in a build without the feature `tls`
    /// [`SslMode::Disable`]. [`SslMode::Require`] and stricter are refused in a build without TLS. Over Unix sockets TLS is
    /// never spoken, as in libpq, and modes that verify are refused with them.
    #[must_use]
    pub fn ssl_mode(mut self, mode: SslMode) -> Self {
        self.tls.mode = Some(mode);
        self
    }

    /// How TLS is begun. Default [`SslNegotiation::Postgres`]; [`SslNegotiation::Direct`] needs an
    /// [`ssl_mode`](Config::ssl_mode) of [`SslMode::Require`] or stricter.
    #[must_use]
    pub fn ssl_negotiation(mut self, negotiation: SslNegotiation) -> Self {
        self.tls.negotiation = Some(negotiation);
        self
    }

    /// Whether a SCRAM login is bound to the TLS session. Default [`ChannelBinding::Prefer`];
    /// [`ChannelBinding::Require`] is refused with [`SslMode::Disable`] and over Unix sockets.
    #[must_use]
    pub fn channel_binding(mut self, binding: ChannelBinding) -> Self {
        self.tls.channel_binding = Some(binding);
        self
    }

    /// The roots a server's certificate may lead to: a file or bytes in PEM form, or [`RootCerts::System`], which needs
    /// [`SslMode::VerifyFull`] and makes it the default. Default [`RootCerts::Unset`].
    ///
    /// ```
    /// use pgsteer::config::{Config, Pem};
    ///
    /// let config = Config::new().host("db1").ssl_root_cert(Pem::File("/etc/ssl/db-ca.pem".into()));
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn ssl_root_cert(mut self, roots: impl Into<RootCerts>) -> Self {
        self.tls.roots = match roots.into() {
            RootCerts::Unset => None,
            roots => Some(roots),
        };
        self
    }

    /// The certificate this client shows when a server asks for one, with its chain, in PEM form. Default none; needs
    /// [`ssl_client_key`](Config::ssl_client_key). No file is looked for in the user's folder.
    #[must_use]
    pub fn ssl_client_cert(mut self, cert: impl Into<Option<Pem>>) -> Self {
        self.tls.client_cert = cert.into();
        self
    }

    /// The key of [`ssl_client_cert`](Config::ssl_client_cert), in PEM form and not encrypted. Default none. Never
    /// printed when given as bytes.
    #[must_use]
    pub fn ssl_client_key(mut self, key: impl Into<Option<Pem>>) -> Self {
        self.tls.client_key = key.into();
        self
    }

    /// The name that is sent to every server (SNI) and that its certificate is checked for, instead of the host dialled:
    /// for servers that share one certificate. A DNS name or an IP address. Default none.
    #[must_use]
    pub fn ssl_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }
}
