//! A host as it is configured: a text and, possibly, a port of its own.
//!
//! The text is taken as it is: not trimmed, not split at a colon, not looked up. Port and text are judged when the
//! configuration is checked. A text that is no host is never printed, as it may be a URL with a password.

use std::fmt;
use std::net::Ipv6Addr;

use pgsteer_core::host::HostKey;

use super::error::NOT_SHOWN;
use super::{ConfigError, options};

/// One configured host: a name, an address literal (IPv6 without brackets) or the absolute path of a socket directory,
/// with a port of its own or the configuration's.
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
}

impl HostSpec {
    /// A host that uses the configuration's port.
    pub fn new(name: impl Into<String>) -> Self {
        HostSpec {
            name: name.into(),
            port: None,
        }
    }

    /// The same host with a port of its own, 1 to 65535.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
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
        let path = self.name.starts_with('/');
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
        HostSpec::new(key.name()).port(key.port())
    }
}

impl From<&HostKey> for HostSpec {
    fn from(key: &HostKey) -> Self {
        HostSpec::new(key.name()).port(key.port())
    }
}

impl fmt::Display for HostSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => HostKey::new(self.shown(), port).fmt(f),
            None => f.write_str(self.shown()),
        }
    }
}
