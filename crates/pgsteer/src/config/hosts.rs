//! A host as it is configured: a text and, possibly, a port of its own.
//!
//! The text is taken as it is: not trimmed, not split at a colon, not looked up. Port and text are judged when the
//! configuration is checked. A text that is no host is never printed, as it may be a URL with a password.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use pgsteer_core::host::HostKey;

use super::error::NOT_SHOWN;
use super::{ConfigError, options};

/// One configured host: a name, an address literal (IPv6 without brackets) or the absolute path of a socket directory,
/// with a port of its own or the configuration's, and possibly with the address to dial for the name.
///
/// Must not be empty or contain `@`, `://`, a control character or, unless it is a path, `/` or white space; such a text
/// is refused when the configuration is checked, and printed nowhere. An IPv6 address cannot have a scope id
/// (`fe80::1%eth0`).
///
/// Made from `"db1"`, `("db1", 5433)` or a [`HostKey`].
#[derive(Clone, PartialEq, Eq)]
pub struct HostSpec {
    pub(super) name: String,
    pub(super) port: Option<u16>,
    pub(super) address: Option<IpAddr>,
}

impl HostSpec {
    /// A host that uses the configuration's port.
    pub fn new(name: impl Into<String>) -> Self {
        HostSpec {
            name: name.into(),
            port: None,
            address: None,
        }
    }

    /// The same host with a port of its own, 1 to 65535.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The same host, dialled at this address without looking its name up (libpq's `hostaddr`). The name is then what a
    /// server's certificate is checked for.
    #[must_use]
    pub fn at(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    pub(super) fn address(self, address: Option<IpAddr>) -> Self {
        HostSpec { address, ..self }
    }

    /// What the host is keyed by, with this port if it has none of its own.
    pub(super) fn key(&self, default_port: u16) -> HostKey {
        let key = HostKey::new(self.name.as_str(), self.port.unwrap_or(default_port));
        match self.address {
            Some(address) => key.at(address),
            None => key,
        }
    }

    /// Whether it is the directory of a Unix socket.
    pub(super) fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }

    /// Whether this can be a host at all.
    pub(super) fn judge(&self) -> Result<(), ConfigError> {
        let invalid = |name, value: String| ConfigError::InvalidOption {
            name,
            value,
            allowed: options::allowed(name),
        };
        if self.name.is_empty() || self.is_misplaced() {
            return Err(invalid("hosts", self.shown().to_owned()));
        }
        if self.port == Some(0) {
            return Err(invalid("port", "0".to_owned()));
        }
        if let (true, Some(address)) = (self.is_socket(), self.address) {
            return Err(ConfigError::InvalidOption {
                name: "hostaddr",
                value: address.to_string(),
                allowed: "nothing for this host, because it is a socket directory",
            });
        }
        let scoped = self.name.split_once('%');
        if scoped.is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok()) {
            return Err(ConfigError::NotInThisVersion {
                name: format!("hosts={}", self.name),
                reason: "an IPv6 address with a scope id (the part from the %) is not in this version, and without it \
                         another host might be reached; write an address that needs none",
            });
        }
        Ok(())
    }

    /// Whether the text has something in it that no host has, but a URL, a login or a mishap may.
    fn is_misplaced(&self) -> bool {
        let path = self.is_socket();
        self.name.contains("://")
            || self.name.chars().any(|character| {
                character == '@'
                    || character.is_control()
                    || !path && (character == '/' || character.is_whitespace())
            })
    }

    fn shown(&self) -> &str {
        if self.is_misplaced() {
            NOT_SHOWN
        } else {
            &self.name
        }
    }
}

impl fmt::Debug for HostSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSpec")
            .field("name", &self.shown())
            .field("port", &self.port)
            .field("address", &self.address)
            .finish()
    }
}

impl From<&str> for HostSpec {
    fn from(name: &str) -> Self {
        HostSpec::new(name)
    }
}

impl From<String> for HostSpec {
    fn from(name: String) -> Self {
        HostSpec::new(name)
    }
}

impl From<&String> for HostSpec {
    fn from(name: &String) -> Self {
        HostSpec::new(name)
    }
}

impl From<(&str, u16)> for HostSpec {
    fn from((name, port): (&str, u16)) -> Self {
        HostSpec::new(name).port(port)
    }
}

impl From<(String, u16)> for HostSpec {
    fn from((name, port): (String, u16)) -> Self {
        HostSpec::new(name).port(port)
    }
}

impl From<HostKey> for HostSpec {
    fn from(key: HostKey) -> Self {
        HostSpec::from(&key)
    }
}

impl From<&HostKey> for HostSpec {
    fn from(key: &HostKey) -> Self {
        HostSpec {
            name: key.name().to_owned(),
            port: Some(key.port()),
            address: key.address(),
        }
    }
}

impl fmt::Display for HostSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => HostSpec::new(self.shown()).address(self.address).key(port).fmt(f),
            None => match self.address {
                Some(address) => write!(f, "{}({address})", self.shown()),
                None => f.write_str(self.shown()),
            },
        }
    }
}

/// libpq's `hostaddr`: an address for each host, those left empty as `None`.
pub(super) fn addresses(list: &str) -> Option<Vec<Option<IpAddr>>> {
    let address = |text: &str| match text {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    list.split(',').map(address).collect()
}

/// These hosts at these addresses; without hosts, the addresses are the hosts.
pub(super) fn dialled_at(
    hosts: Vec<HostSpec>,
    addresses: Vec<Option<IpAddr>>,
) -> Result<Vec<HostSpec>, ConfigError> {
    let hosts = match hosts.len() {
        0 => vec![HostSpec::new(""); addresses.len()],
        count if count == addresses.len() => hosts,
        count => {
            let reason = format!(
                "{} addresses in hostaddr do not fit {count} hosts: there must be one for each, possibly empty",
                addresses.len()
            );
            return Err(ConfigError::InvalidUrl { reason });
        }
    };
    let at = |(host, address): (HostSpec, Option<IpAddr>)| match address {
        // An address is its own name.
        Some(address) if host.name.is_empty() => HostSpec {
            name: address.to_string(),
            ..host
        },
        address => host.address(address),
    };
    Ok(hosts.into_iter().zip(addresses).map(at).collect())
}
