//! What a host is: the key everything is kept by, and a server as discovery reported it.
//!
//! A host is the pair of host text and port, compared exactly. Two spellings of one machine are two hosts.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::topology::Placement;

/// The pair (host text, port), with the address it is dialled at if one was given, that every table is keyed by. Compared
/// exactly and case-sensitively; cheap to clone.
///
/// The text is a name, an IP address literal without brackets, or the absolute path of a socket directory.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostKey {
    name: Arc<str>,
    port: u16,
    address: Option<IpAddr>,
}

impl HostKey {
    /// A key from a host text and a port.
    pub fn new(name: impl Into<Arc<str>>, port: u16) -> Self {
        HostKey {
            name: name.into(),
            port,
            address: None,
        }
    }

    /// The same host, to be dialled at this address without asking for its name's. The name is then what a certificate
    /// is checked for.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Self {
        HostKey {
            address: Some(address),
            ..self
        }
    }

    /// The address it is dialled at, where one was given (`hostaddr`).
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The host text as given: a name, an address literal or a socket directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The TCP port, or the number in the socket's file name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether this is a directory with a Unix socket rather than a network host.
    pub fn is_unix_socket(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl fmt::Display for HostKey {
    /// `name:port`, with IPv6 literals in brackets, and an address given besides the name in parentheses: `db(10.0.0.1):5432`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') && !self.is_unix_socket() {
            write!(f, "[{}]", self.name)?;
        } else {
            f.write_str(&self.name)?;
        }
        if let Some(address) = self.address {
            write!(f, "({address})")?;
        }
        write!(f, ":{}", self.port)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What kind of node a discovered server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeType {
    /// Takes reads and writes. Anything discovery does not call a read replica is one.
    Primary,
    /// A YugabyteDB read replica.
    ReadReplica,
}

/// One server of the cluster, as it is used: its key already has the public address where that is in use, and its
/// placement is case-folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What connections to it are keyed by.
    pub key: HostKey,
    /// Primary or read replica.
    pub node_type: NodeType,
    /// Where it runs, case-folded.
    pub placement: Placement,
}
