//! What is known of a cluster at one moment, for rebalancing and for people.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use super::address::AddressChoice;
use super::load::Host;
use super::roles::{RoleSeen, Standing};
use super::{ClusterState, Fit, Search, TargetSessionAttrs, allowed};
use crate::host::{HostKey, Server};

/// What a host's last failure was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// It could not be connected to.
    Down,
    /// It answered, and the connection failed all the same: refused login, TLS, anything not named here.
    Rejected,
    /// It is there and takes no connections yet, or no longer: starting up, in crash recovery, shutting down.
    NotReady,
    /// It works and takes no more connections.
    Full,
}

/// A host that has failed and has not been connected to since.
#[derive(Clone, Debug)]
pub struct HostFailure {
    /// What the newest failure was.
    pub kind: FailureKind,
    /// Failures in a row.
    pub consecutive: u32,
    /// Failures in a row that were of this kind.
    pub of_kind: u32,
    /// When the newest failure happened.
    pub at: Instant,
    /// The earliest moment at which it is probed: by a refresh, or by a timer if it is not ready or full.
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
    /// What a pick with nothing tried would choose among, for the snapshot's target.
    pub placement: Vec<HostKey>,
    /// Where existing connections may stay, for the snapshot's target.
    pub allowed: Vec<HostKey>,
    /// Hosts that are known to be something the snapshot's target does not take, sorted: no connection may stay there. An
    /// outranked primary of a split brain is one where a primary is wanted.
    pub unfit: Vec<HostKey>,
    /// What hosts last said they are.
    pub roles: BTreeMap<HostKey, RoleSeen>,
    /// What the names of configured hosts resolve to now, sorted; names that were not looked up are absent.
    pub addresses: BTreeMap<HostKey, Vec<IpAddr>>,
    /// Open connections per host; hosts without any are absent.
    pub counts: BTreeMap<HostKey, u32>,
    /// Connections being opened per host; hosts without any are absent.
    pub pending: BTreeMap<HostKey, u32>,
    /// Hosts that have failed and were not connected to since.
    pub failures: BTreeMap<HostKey, HostFailure>,
    /// Hosts that react to nothing, neither on open connections nor on new ones, and when that was found out last. A host is
    /// none of them any more once it has been connected to.
    pub frozen: BTreeMap<HostKey, Instant>,
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
        self.of_kinds(&[FailureKind::Down])
    }

    /// Hosts that can be connected to and are known to take no writes, sorted.
    pub fn read_only(&self) -> Vec<HostKey> {
        let takes_no_writes = |seen: &RoleSeen| TargetSessionAttrs::ReadWrite.fit(seen.role) == Fit::Unfit;
        self.roles
            .iter()
            .filter(|(key, seen)| takes_no_writes(seen) && !self.failures.contains_key(*key))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Hosts that answered and gave no connection all the same, for now or for good, sorted.
    pub fn rejected(&self) -> Vec<HostKey> {
        self.of_kinds(&[FailureKind::Rejected, FailureKind::NotReady, FailureKind::Full])
    }

    fn of_kinds(&self, kinds: &[FailureKind]) -> Vec<HostKey> {
        self.failures
            .iter()
            .filter(|(_, failure)| kinds.contains(&failure.kind))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

impl ClusterState {
    /// What is known now, as it matters for a target. Costs a walk over all hosts.
    pub fn snapshot(&self, target: TargetSessionAttrs, now: Instant) -> Snapshot {
        let key = |place: usize| self.table.host(place).key.clone();
        let search = Search {
            target,
            ..Search::default()
        };
        let mut placement = self.servers_on_offer(&search, |_| false, now);
        if placement.is_empty() {
            placement = self.seeds_on_offer(&search, |_| false, now).collect();
        }
        let levels = self.servers.iter().zip(&self.facts);
        let with = |count: fn(&Host) -> u32| {
            let counts = self.table.iter().map(|host| (host.key.clone(), count(host)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        let failed = self
            .table
            .iter()
            .filter_map(|host| Some((host.key.clone(), host.failure.clone()?)));
        let frozen = self
            .table
            .iter()
            .filter_map(|host| Some((host.key.clone(), host.frozen_at?)));
        let roles = self
            .table
            .iter()
            .filter_map(|host| Some((host.key.clone(), host.role?.seen)));
        let addresses = self.table.iter().filter(|host| !host.addresses.is_empty());
        let is_unfit = |place: &usize| {
            self.table.host(*place).role.is_some() && self.standing(*place, target) == Standing::Unfit
        };
        let mut unfit: Vec<HostKey> = (0..self.table.len()).filter(is_unfit).map(key).collect();
        unfit.sort_unstable();
        Snapshot {
            discovering: self.options.load_balance.discovers() && !self.cannot_list,
            discovered: self.discovered,
            seeds: self.seeds.iter().copied().map(key).collect(),
            servers: self.servers.clone(),
            placement: placement.into_iter().map(key).collect(),
            allowed: self.allowed_places(target).into_iter().map(key).collect(),
            unfit,
            roles: roles.collect(),
            addresses: addresses
                .map(|host| (host.key.clone(), host.addresses.clone()))
                .collect(),
            counts: with(Host::open),
            pending: with(Host::pending),
            failures: failed.collect(),
            frozen: frozen.collect(),
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
    fn allowed_places(&self, target: TargetSessionAttrs) -> Vec<usize> {
        let works = |place: usize| self.table.host(place).works();
        let rank = |place: usize, spread| allowed::rank(self.standing(place, target), spread);
        let servers_rank = |place| rank(place, true);
        let (mut places, served) = allowed::servers(&self.policy(), &self.facts, servers_rank, works);
        if !served && self.refusal().is_none() {
            let spread = self.spreads_seeds();
            let seeds = allowed::seeds(&self.seeds, spread, |place| rank(place, spread), works);
            let additional: Vec<usize> = seeds
                .into_iter()
                .filter(|place| !places.contains(place))
                .collect();
            places.extend(additional);
        }
        places
    }
}
