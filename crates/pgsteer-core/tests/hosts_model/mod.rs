//! A second, slow and simple telling of the rules of a cluster, to hold the machine against.
//!
//! It keeps plain lists, looks everything up by name and follows the order in which hosts are used up line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{ClusterOptions, FailureKind, LoadBalance, NoHost, Refused};
use pgsteer_core::topology::Placement;

/// A discovered server.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) key: HostKey,
    pub(crate) node_type: NodeType,
    pub(crate) placement: Placement,
}

#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) kind: FailureKind,
    pub(crate) consecutive: u32,
    pub(crate) next_probe: Instant,
}

pub(crate) struct Model {
    pub(crate) options: ClusterOptions,
    pub(crate) seeds: Vec<HostKey>,
    pub(crate) servers: Vec<Listed>,
    pub(crate) discovered: bool,
    pub(crate) discovery_running: bool,
    pub(crate) owed: bool,
    pub(crate) ready: bool,
    pub(crate) last_refresh: Instant,
    pub(crate) refresh_timer: Option<Instant>,
    /// Every open connection by its host.
    pub(crate) live: Vec<HostKey>,
    /// Every reservation by its host.
    pub(crate) reserved: Vec<HostKey>,
    pub(crate) failures: BTreeMap<HostKey, Failed>,
    pub(crate) probes: BTreeMap<HostKey, u64>,
}

impl Model {
    pub(crate) fn new(options: ClusterOptions, seeds: Vec<HostKey>, now: Instant) -> Self {
        let discovers = options.load_balance != LoadBalance::Off;
        let mut model = Model {
            options,
            seeds,
            servers: Vec::new(),
            discovered: false,
            discovery_running: discovers,
            owed: false,
            ready: !discovers,
            last_refresh: now,
            refresh_timer: None,
            live: Vec::new(),
            reserved: Vec::new(),
            failures: BTreeMap::new(),
            probes: BTreeMap::new(),
        };
        if !discovers {
            model.arm_refresh_timer(now);
        }
        model
    }

    pub(crate) fn arm_refresh_timer(&mut self, now: Instant) {
        let interval = self.options.refresh_interval;
        self.refresh_timer = Some(now + interval).filter(|_| !interval.is_zero());
    }

    pub(crate) fn discovers(&self) -> bool {
        self.options.load_balance != LoadBalance::Off
    }

    pub(crate) fn works(&self, key: &HostKey) -> bool {
        !self.failures.contains_key(key)
    }

    pub(crate) fn is_listed(&self, key: &HostKey) -> bool {
        self.seeds.contains(key) || self.servers.iter().any(|server| server.key == *key)
    }

    pub(crate) fn load(&self, key: &HostKey) -> usize {
        self.live
            .iter()
            .chain(&self.reserved)
            .filter(|host| *host == key)
            .count()
    }

    pub(crate) fn tally(hosts: &[HostKey]) -> BTreeMap<HostKey, u32> {
        let mut counts = BTreeMap::new();
        for host in hosts {
            *counts.entry(host.clone()).or_default() += 1;
        }
        counts
    }

    /// One more failure in a row.
    pub(crate) fn fail(&mut self, key: &HostKey, kind: FailureKind, now: Instant) {
        let consecutive = self.failures.get(key).map_or(0, |failed| failed.consecutive) + 1;
        let mut delay = self.options.failed_host_delay;
        if let Some(cap) = self.options.failed_host_max_delay {
            for _ in 1..consecutive {
                delay = (delay * 2).min(cap);
            }
        }
        self.failures.insert(
            key.clone(),
            Failed {
                kind,
                consecutive,
                next_probe: now + delay,
            },
        );
    }

    /// Hosts a refresh now must begin to probe.
    pub(crate) fn due(&self, now: Instant) -> Vec<HostKey> {
        let due = self.failures.iter().filter(|(key, failed)| {
            failed.next_probe <= now && !self.probes.contains_key(*key) && self.is_listed(key)
        });
        due.map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn targets(&self) -> Vec<HostKey> {
        let down = |key: &HostKey| {
            self.failures
                .get(key)
                .is_some_and(|failed| failed.kind == FailureKind::Down)
        };
        let servers = self.servers.iter().map(|server| server.key.clone());
        let others = servers.filter(|key| !self.seeds.contains(key) && !down(key));
        self.seeds.iter().cloned().chain(others).collect()
    }

    /// Servers of a type that match a key of a preference; `None` stands for any.
    fn group(&self, node_type: Option<NodeType>, preference: Option<u8>) -> Vec<HostKey> {
        let keys = || {
            self.options
                .topology_keys
                .iter()
                .filter(|key| Some(key.preference()) == preference)
        };
        let fits = |server: &&Listed| {
            node_type.is_none_or(|wanted| wanted == server.node_type)
                && (preference.is_none() || keys().any(|key| key.matches(&server.placement)))
        };
        self.servers
            .iter()
            .filter(fits)
            .map(|server| server.key.clone())
            .collect()
    }

    /// The groups of servers in the order in which they are used up, and what is said after the last if no seed may follow.
    pub(crate) fn order(&self) -> (Vec<Vec<HostKey>>, Option<NoHost>) {
        use NodeType::{Primary, ReadReplica};
        let keyed = !self.options.topology_keys.is_empty();
        let only_listed = keyed && self.options.fallback_only;
        let mut preferences: Vec<u8> = self
            .options
            .topology_keys
            .iter()
            .map(|key| key.preference())
            .collect();
        preferences.sort_unstable();
        preferences.dedup();
        let by_level = |node_type, then_anywhere: bool| {
            let mut groups: Vec<_> = preferences
                .iter()
                .map(|preference| self.group(node_type, Some(*preference)))
                .collect();
            if then_anywhere || !keyed {
                groups.push(self.group(node_type, None));
            }
            groups
        };
        let refuse = |refused| self.discovered.then_some(NoHost::NoNode(refused));
        match self.options.load_balance {
            LoadBalance::Off | LoadBalance::Any if only_listed => (
                by_level(None, false),
                refuse(Refused::Cluster).filter(|_| self.discovers()),
            ),
            LoadBalance::Off | LoadBalance::Any => (by_level(None, true), None),
            LoadBalance::OnlyPrimary => (by_level(Some(Primary), !only_listed), refuse(Refused::Primary)),
            LoadBalance::OnlyReplica => (
                by_level(Some(ReadReplica), !only_listed),
                refuse(Refused::ReadReplica),
            ),
            LoadBalance::PreferPrimary => {
                let mut groups = by_level(Some(Primary), true);
                groups.push(self.group(Some(ReadReplica), None));
                (groups, None)
            }
            LoadBalance::PreferReplica => {
                let mut groups = by_level(Some(ReadReplica), true);
                groups.push(self.group(Some(Primary), None));
                (groups, None)
            }
        }
    }

    /// What a pick chooses among, before load and avoiding.
    pub(crate) fn candidates(&self, tried: &[HostKey]) -> Result<Vec<HostKey>, NoHost> {
        let (groups, end) = self.order();
        for group in groups {
            let usable: Vec<HostKey> = group
                .into_iter()
                .filter(|key| self.works(key) && !tried.contains(key))
                .collect();
            if !usable.is_empty() {
                return Ok(usable);
            }
        }
        if let Some(refusal) = end {
            return Err(refusal);
        }
        let untried = || self.seeds.iter().filter(|key| !tried.contains(key));
        let seed = untried().find(|key| self.works(key)).or_else(|| untried().next());
        seed.map(|key| vec![key.clone()]).ok_or(NoHost::NoServer)
    }

    /// Where connections may stay: the first group there is, the first in which something works, and, if nothing does, some
    /// seeds.
    pub(crate) fn allowed(&self) -> BTreeSet<HostKey> {
        let (groups, end) = self.order();
        let healthy = groups.iter().find(|group| !group.is_empty());
        let serving = groups
            .iter()
            .find(|group| group.iter().any(|key| self.works(key)));
        let mut allowed: BTreeSet<HostKey> = healthy.into_iter().chain(serving).flatten().cloned().collect();
        if serving.is_none() && end.is_none() {
            match self.seeds.iter().find(|key| self.works(key)) {
                Some(working) => allowed.extend([self.seeds[0].clone(), working.clone()]),
                None => allowed.extend(self.seeds.iter().cloned()),
            }
        }
        allowed
    }

    /// Whether a refresh must start with a pick.
    pub(crate) fn pick_refreshes(&self, now: Instant) -> bool {
        let since = now - self.last_refresh;
        since >= self.options.refresh_interval || (self.owed && since >= Duration::from_secs(1))
    }

    /// Whether a refresh must start with a reported failure.
    pub(crate) fn failure_refreshes(&self, now: Instant) -> bool {
        now - self.last_refresh >= Duration::from_secs(1)
    }
}
