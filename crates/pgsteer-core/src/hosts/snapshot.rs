//! What is known of a cluster at one moment, for rebalancing and for people.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::host::{HostKey, Server};

/// What a host's last failure was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// It could not be connected to.
    Down,
    /// It was connected to, but is in recovery while writes are wanted.
    ReadOnly,
    /// It answered, and the connection failed all the same: refused login, too many connections, starting up, TLS.
    Rejected,
}

/// A host that has failed and has not been connected to since.
#[derive(Clone, Debug)]
pub struct HostFailure {
    /// What the newest failure was.
    pub kind: FailureKind,
    /// Failures in a row.
    pub consecutive: u32,
    /// When the newest failure happened.
    pub at: Instant,
    /// The earliest moment at which a refresh may probe it.
    pub next_probe: Instant,
    /// The newest failure in words, without secrets.
    pub reason: String,
}

/// What is known of a cluster at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whether servers are looked for (`true`) or the configured hosts are all there is.
    pub discovering: bool,
    /// Whether a discovery has returned at least one server. Never goes back.
    pub discovered: bool,
    /// The configured hosts, in order.
    pub seeds: Vec<HostKey>,
    /// The servers in the order discovery listed them; the seeds have no entry here until discovered.
    pub servers: Vec<Server>,
    /// What a pick with nothing tried would choose among.
    pub placement: Vec<HostKey>,
    /// Where existing connections may stay.
    pub allowed: Vec<HostKey>,
    /// Open connections per host; hosts without any are absent.
    pub counts: BTreeMap<HostKey, u32>,
    /// Connections being opened per host; hosts without any are absent.
    pub pending: BTreeMap<HostKey, u32>,
    /// Hosts that have failed and were not connected to since.
    pub failures: BTreeMap<HostKey, HostFailure>,
}
