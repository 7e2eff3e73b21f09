//! A host as it is configured: a text and, possibly, a port of its own.
//!
//! The text is taken as it is: not trimmed, not split at a colon, not looked up. Port and text are judged when the
//! configuration is checked.

use std::fmt;

use pgsteer_core::host::HostKey;

/// One configured host: a name, an address literal (IPv6 without brackets) or the absolute path of a socket directory,
/// with a port of its own or the configuration's.
///
/// Made from `"db1"`, `("db1", 5433)` or a [`HostKey`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
            Some(port) => HostKey::new(self.name.as_str(), port).fmt(f),
            None => f.write_str(&self.name),
        }
    }
}
