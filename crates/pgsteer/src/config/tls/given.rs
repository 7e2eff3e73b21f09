//! What of TLS was given in a configuration, the defaults of the rest, and the rules between them.

use super::{ChannelBinding, Pem, RootCerts, SslMode, SslNegotiation, Tls};
use crate::config::error::REDACTED;
use crate::config::{ConfigError, TlsConnector, options};

/// Whether this build can speak TLS.
const BUILT_IN: bool = cfg!(feature = "tls");

/// The options of TLS, each only if it was given.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct TlsGiven {
    pub(in crate::config) mode: Option<SslMode>,
    pub(in crate::config) negotiation: Option<SslNegotiation>,
    pub(in crate::config) channel_binding: Option<ChannelBinding>,
    pub(in crate::config) roots: Option<RootCerts>,
    pub(in crate::config) client_cert: Option<Pem>,
    pub(in crate::config) client_key: Option<Pem>,
    pub(in crate::config) server_name: Option<String>,
    /// Does TLS instead of rustls.
    pub(in crate::config) connector: Option<TlsConnector>,
}

impl TlsGiven {
    /// The mode in force. Whoever names the operating system's trust store wants servers checked, as in libpq.
    pub(in crate::config) fn mode(&self) -> SslMode {
        let unset = match self.roots {
            Some(RootCerts::System) => SslMode::VerifyFull,
            _ if self.can_speak() => SslMode::Prefer,
            _ => SslMode::Disable,
        };
        self.mode.unwrap_or(unset)
    }

    /// Whether anything can speak TLS.
    fn can_speak(&self) -> bool {
        BUILT_IN || self.connector.is_some()
    }

    /// With the defaults filled in.
    pub(in crate::config) fn resolve(&self) -> Tls {
        Tls {
            mode: self.mode(),
            negotiation: self.negotiation.unwrap_or_default(),
            channel_binding: self.channel_binding.unwrap_or_default(),
            roots: self.roots.clone().unwrap_or_default(),
            client_cert: self.client_cert.clone(),
            client_key: self.client_key.clone(),
            server_name: self.server_name.clone(),
            connector: self.connector.clone(),
        }
    }

    /// Every rule between the options, and with the hosts: `sockets` says whether one of them is a socket directory.
    pub(in crate::config) fn judge(&self, sockets: bool) -> Result<(), ConfigError> {
        let mode = self.mode();
        let binding = self.channel_binding == Some(ChannelBinding::Require);
        if self.roots == Some(RootCerts::System) && mode < SslMode::VerifyFull {
            return Err(invalid("sslmode", &mode.to_string(), WEAK_WITH_SYSTEM));
        }
        if self.negotiation == Some(SslNegotiation::Direct) && !mode.insists() {
            return Err(invalid("sslnegotiation", "direct", DIRECT_NEEDS));
        }
        if sockets && mode >= SslMode::VerifyCa {
            return Err(invalid("sslmode", &mode.to_string(), NO_SOCKETS));
        }
        if sockets && binding {
            return Err(invalid("channel_binding", "require", BINDING_NO_SOCKETS));
        }
        match (&self.client_cert, &self.client_key) {
            (Some(_), None) => return Err(invalid("sslkey", "", KEY_NEEDED)),
            (None, Some(_)) => return Err(invalid("sslcert", "", CERT_NEEDED)),
            _ => {}
        }
        judge_file("sslrootcert", self.root_file())?;
        judge_file("sslcert", self.client_cert.as_ref())?;
        judge_file("sslkey", self.client_key.as_ref())?;
        self.judge_server_name()?;
        self.judge_build(mode, binding)?;
        if self.roots.is_none() && mode == SslMode::VerifyCa && self.connector.is_none() {
            return Err(invalid("sslmode", &mode.to_string(), CA_NEEDED));
        }
        if binding && mode == SslMode::Disable {
            return Err(invalid("channel_binding", "require", BINDING_NEEDS));
        }
        Ok(())
    }

    /// The options whose values were given as bytes, so that no text has them. Certificate and key are of no use without
    /// each other, and so both are among them if one is.
    pub(in crate::config) fn left_out(&self) -> Vec<&'static str> {
        let bytes = |pem: Option<&Pem>| matches!(pem, Some(Pem::Bytes(_)));
        let mut names = Vec::new();
        if bytes(self.root_file()) {
            names.push("sslrootcert");
        }
        if bytes(self.client_cert.as_ref()) || bytes(self.client_key.as_ref()) {
            names.extend(["sslcert", "sslkey"]);
        }
        names
    }

    fn root_file(&self) -> Option<&Pem> {
        match &self.roots {
            Some(RootCerts::Given(pem)) => Some(pem),
            _ => None,
        }
    }

    /// A build without TLS must not go on in clear text where that was ruled out.
    fn judge_build(&self, mode: SslMode, binding: bool) -> Result<(), ConfigError> {
        let needed = match (mode.insists(), binding) {
            _ if self.can_speak() => return Ok(()),
            (true, _) => format!("sslmode={mode}"),
            (false, true) => "channel_binding=require".to_owned(),
            (false, false) => return Ok(()),
        };
        Err(ConfigError::NotInThisVersion {
            name: needed,
            reason: "this build is without TLS; build pgsteer with its feature `tls`, or write sslmode=disable, allow or \
                     prefer, which go on without it",
        })
    }

    fn judge_server_name(&self) -> Result<(), ConfigError> {
        let Some(name) = &self.server_name else {
            return Ok(());
        };
        let odd = |character: char| {
            character.is_whitespace()
                || character.is_control()
                || matches!(character, '@' | '/' | ',' | '[' | ']')
        };
        if name.is_empty() || name.contains(odd) {
            let allowed = options::allowed("ssl_server_name");
            return Err(invalid(
                "ssl_server_name",
                crate::config::error::shown(name),
                allowed,
            ));
        }
        Ok(())
    }
}

const WEAK_WITH_SYSTEM: &str = "verify-full only, because sslrootcert is system: every public name has a certificate that leads to those roots";
const CA_NEEDED: &str = "verify-ca only with sslrootcert: against the operating system's roots any public name would pass; \
                         write verify-full, or name the CA";
const DIRECT_NEEDS: &str = "postgres, unless sslmode is require, verify-ca or verify-full: a direct handshake leaves no \
                            way to go on without TLS";
const BINDING_NEEDS: &str =
    "disable or prefer, because sslmode is disable and there is nothing to bind a login to";
const NO_SOCKETS: &str = "no more than require, because one of the hosts is a socket directory: TLS is not spoken over Unix \
                          sockets, and so there is no certificate to verify";
const BINDING_NO_SOCKETS: &str = "disable or prefer, because one of the hosts is a socket directory and TLS is not spoken \
                                  over Unix sockets";
const KEY_NEEDED: &str = "the key of the certificate in sslcert; the one is of no use without the other";
const CERT_NEEDED: &str = "the certificate of the key in sslkey; the one is of no use without the other";

fn invalid(name: &'static str, value: &str, allowed: &'static str) -> ConfigError {
    ConfigError::InvalidOption {
        name,
        value: value.to_owned(),
        allowed,
    }
}

/// A path that no file can have is refused before anybody looks for it. What was given as bytes is judged when it is read.
fn judge_file(name: &'static str, pem: Option<&Pem>) -> Result<(), ConfigError> {
    let Some(Pem::File(path)) = pem else {
        return Ok(());
    };
    let text = path.as_os_str().as_encoded_bytes();
    if text.is_empty() || text.contains(&0) {
        return Err(invalid(name, "", options::allowed(name)));
    }
    if text.starts_with(b"-----BEGIN") {
        // The certificate or the key itself, where its file was asked for.
        return Err(invalid(name, REDACTED, options::allowed(name)));
    }
    Ok(())
}
