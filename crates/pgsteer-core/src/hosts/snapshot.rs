//! What is known of a cluster at one moment, for rebalancing and for people.

use std::collections::BTreeMap;
use std::time::Instant;

use super::address::AddressChoice;
use super::load::Host;
use super::{ClusterState, allowed};
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

/// How looking for servers has gone.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryReport {
    /// Whether a discovery is running now.
    pub running: bool,
    /// When the last discovery that was answered ended, with servers or without.
    pub last_answer: Option<Instant>,
    /// When and why the last discovery failed; absent once one has been answered.
    pub last_failure: Option<(Instant, String)>,
}

/// What is known of a cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Whether servers are looked for (`true`) or the configured hosts are all there is: load balancing is off, or the
    /// server asked last cannot list servers.
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
    /// For each server the lowest preference among the topology keys that match it; `None` if none does.
    pub levels: BTreeMap<HostKey, Option<u8>>,
    /// Whether servers are used by their host or by their public IP. `None` until servers have been discovered.
    pub address: Option<AddressChoice>,
    /// How looking for servers has gone.
    pub discovery: DiscoveryReport,
}

impl Snapshot {
    /// Hosts that could not be connected to, sorted.
    pub fn failed(&self) -> Vec<HostKey> {
        self.of_kind(FailureKind::Down)
    }

    /// Hosts found in recovery while writes are wanted, sorted.
    pub fn read_only(&self) -> Vec<HostKey> {
        self.of_kind(FailureKind::ReadOnly)
    }

    /// Hosts that answered and refused all the same, sorted.
    pub fn rejected(&self) -> Vec<HostKey> {
        self.of_kind(FailureKind::Rejected)
    }

    fn of_kind(&self, kind: FailureKind) -> Vec<HostKey> {
        self.failures
            .iter()
            .filter(|(_, failure)| failure.kind == kind)
            .map(|(key, _)| key.clone())
            .collect()
    }
}

impl ClusterState {
    /// What is known now. Costs a walk over all hosts.
    pub fn snapshot(&self) -> Snapshot {
        let works = |place: usize| self.table.host(place).works();
        let key = |place: usize| self.table.host(place).key.clone();
        let candidates = self.tier_one(works);
        let placement = if candidates.is_empty() {
            self.seed_to_try(&[]).into_iter().collect()
        } else {
            candidates
        };
        let levels = self.servers.iter().zip(&self.facts);
        let with = |count: fn(&Host) -> u32| {
            let counts = self.table.iter().map(|host| (host.key.clone(), count(host)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        let failed = self
            .table
            .iter()
            .filter_map(|host| Some((host.key.clone(), host.failure.clone()?)));
        Snapshot {
            discovering: self.options.load_balance.discovers() && !self.cannot_list,
            discovered: self.discovered,
            seeds: self.seeds.iter().copied().map(key).collect(),
            servers: self.servers.clone(),
            placement: placement.into_iter().map(key).collect(),
            allowed: self.allowed_places().into_iter().map(key).collect(),
            counts: with(Host::open),
            pending: with(Host::pending),
            failures: failed.collect(),
            levels: levels
                .map(|(server, facts)| (server.key.clone(), facts.levels.lowest()))
                .collect(),
            address: self.address,
            discovery: DiscoveryReport {
                running: self.discovery_running,
                last_answer: self.last_answer,
                last_failure: self.owed.clone(),
            },
        }
    }

    /// Where existing connections may stay: servers in listed order, then seeds that are not among them.
    fn allowed_places(&self) -> Vec<usize> {
        let works = |place: usize| self.table.host(place).works();
        let (mut places, served) = allowed::servers(&self.policy(), &self.facts, works);
        if !served && self.refusal().is_none() {
            let seeds = allowed::seeds(&self.seeds, works);
            let additional: Vec<usize> = seeds
                .into_iter()
                .filter(|place| !places.contains(place))
                .collect();
            places.extend(additional);
        }
        places
    }
}
