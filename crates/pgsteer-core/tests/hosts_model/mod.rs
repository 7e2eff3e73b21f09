//! A second, slow and simple telling of the rules of a cluster, to hold the machine against.
//!
//! It keeps plain lists, looks everything up by name and follows the order in which hosts are used up line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{
    ClusterOptions, FailureKind, Fit, HostOrder, LoadBalance, NoHost, Refused, Role, TargetSessionAttrs,
};
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
    pub(crate) of_kind: u32,
    pub(crate) next_probe: Instant,
}

/// What a host last said it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) role: Role,
    pub(crate) at: Instant,
    /// Something has happened since that makes it doubtful.
    pub(crate) doubtful: bool,
}

/// One search, as far as it has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub(crate) target: TargetSessionAttrs,
    pub(crate) tried: Vec<HostKey>,
    pub(crate) answered: bool,
    pub(crate) spare: bool,
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
    /// The probe of each host, and whether it began before the host's delay was over.
    pub(crate) probes: BTreeMap<HostKey, (u64, bool)>,
    pub(crate) said: BTreeMap<HostKey, Said>,
    pub(crate) watching: bool,
    pub(crate) searched_for: Vec<TargetSessionAttrs>,
    /// When hosts whose role was doubted are to be asked, and when they last were.
    pub(crate) ask_at: BTreeMap<HostKey, Instant>,
    pub(crate) asked_at: BTreeMap<HostKey, Instant>,
    /// When configured hosts that nobody has met are to be asked what they are.
    pub(crate) strangers_at: Option<Instant>,
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
            said: BTreeMap::new(),
            watching: false,
            searched_for: Vec::new(),
            ask_at: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            strangers_at: None,
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

    /// One more failure in a row, unless it is only another look before the delay was over.
    pub(crate) fn fail(&mut self, key: &HostKey, kind: FailureKind, early: bool, now: Instant) {
        let before = self.failures.get(key);
        let same = before.filter(|failed| failed.kind == kind);
        let more = u32::from(!(early && same.is_some()));
        let consecutive = before.map_or(0, |failed| failed.consecutive) + more;
        let of_kind = same.map_or(0, |failed| failed.of_kind) + more;
        let base = self.options.failed_host_delay;
        let doubling = |first: Duration, cap: Duration, times: u32| {
            (1..times).fold(first, |delay, _| (delay * 2).min(cap.max(first)))
        };
        let (soon, later) = (Duration::from_millis(100), Duration::from_millis(500));
        let delay = match (kind, self.options.failed_host_max_delay) {
            (FailureKind::NotReady, _) => doubling(soon, base, of_kind),
            (FailureKind::Full, _) => doubling(later, base, of_kind),
            (_, Some(cap)) => doubling(base, cap, consecutive),
            (_, None) => base,
        };
        self.failures.insert(
            key.clone(),
            Failed {
                kind,
                consecutive,
                of_kind,
                next_probe: now + delay,
            },
        );
        self.doubt(key);
    }

    pub(crate) fn doubt(&mut self, key: &HostKey) {
        if let Some(said) = self.said.get_mut(key) {
            said.doubtful = true;
        }
    }

    /// The host works, and said what it is, if it was asked. Answers whether a refresh must start for that.
    pub(crate) fn works(&mut self, key: &HostKey, role: Option<Role>, now: Instant) -> bool {
        self.failures.remove(key);
        let before = self.said.get(key).map(|said| said.role);
        match role {
            Some(role) => {
                let said = Said {
                    role,
                    at: now,
                    doubtful: false,
                };
                self.said.insert(key.clone(), said);
                self.ask_at.remove(key);
            }
            None if before == Some(Role::ColdStandby) => {
                self.said.remove(key);
            }
            None => {}
        }
        let is_new_primary = role != before && role.is_some_and(Role::is_primary);
        if is_new_primary && self.strangers_at.is_none() && !self.strangers().is_empty() {
            self.strangers_at = Some(now + Duration::from_secs(1));
        }
        let changed = role.is_some() && before.is_some() && before != role;
        changed && self.watching && self.failure_refreshes(now)
    }

    /// Configured hosts of which nobody knows what they are, if that matters. Those being probed are among them.
    pub(crate) fn strangers(&self) -> BTreeSet<HostKey> {
        if !self.watching || self.discovered {
            return BTreeSet::new();
        }
        let seeds = self.seeds.iter();
        let strange = seeds.filter(|key| self.works_now(key) && !self.said.contains_key(*key));
        strange.cloned().collect()
    }

    pub(crate) fn is_fresh(&self, key: &HostKey, now: Instant) -> bool {
        self.said
            .get(key)
            .is_some_and(|said| !said.doubtful && now < said.at + self.options.role_ttl)
    }

    fn probe_may_start(&self, key: &HostKey) -> bool {
        !self.probes.contains_key(key) && self.is_listed(key)
    }

    /// Hosts a refresh now must begin to probe.
    pub(crate) fn due(&self, now: Instant) -> BTreeSet<HostKey> {
        let known = self
            .seeds
            .iter()
            .chain(self.servers.iter().map(|server| &server.key));
        let due = known.filter(|key| match self.failures.get(*key) {
            Some(failed) => failed.next_probe <= now,
            None => {
                let passed_over = self.said.get(*key).is_some_and(|said| {
                    self.searched_for
                        .iter()
                        .any(|target| target.fit(said.role) != Fit::Wanted)
                });
                let asked_elsewhere = self.discovered && !passed_over;
                let cold = self
                    .said
                    .get(*key)
                    .is_some_and(|said| said.role == Role::ColdStandby);
                let doubted = self.ask_at.contains_key(*key);
                !self.is_fresh(key, now) && !doubted && (cold || (self.watching && !asked_elsewhere))
            }
        });
        due.filter(|key| self.probe_may_start(key)).cloned().collect()
    }

    /// Hosts that failed, of which each must be probed when nothing fits.
    pub(crate) fn failed_and_idle(&self) -> BTreeSet<HostKey> {
        let failed = self.failures.keys();
        failed.filter(|key| self.probe_may_start(key)).cloned().collect()
    }

    /// When each host is probed without anybody's doing.
    pub(crate) fn own_times(&self) -> Vec<(HostKey, Instant)> {
        let soon = self
            .failures
            .iter()
            .filter(|(_, failed)| matches!(failed.kind, FailureKind::NotReady | FailureKind::Full));
        let soon = soon.map(|(key, failed)| (key.clone(), failed.next_probe));
        let doubted = self.ask_at.iter().map(|(key, at)| (key.clone(), *at));
        soon.chain(doubted)
            .filter(|(key, _)| self.probe_may_start(key))
            .collect()
    }

    /// Seeds that are primaries and work: more than one of them is asked for its timeline.
    pub(crate) fn rivals(&self) -> Vec<HostKey> {
        let is_primary = |key: &&HostKey| {
            self.works_now(key) && self.said.get(*key).is_some_and(|said| said.role.is_primary())
        };
        let rivals: Vec<HostKey> = self.seeds.iter().filter(is_primary).cloned().collect();
        if self.discovered || !self.watching || rivals.len() < 2 {
            return Vec::new();
        }
        rivals
    }

    fn works_now(&self, key: &HostKey) -> bool {
        !self.failures.contains_key(key)
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

    fn fit(&self, key: &HostKey, target: TargetSessionAttrs) -> Option<Fit> {
        match self.said.get(key) {
            Some(said) => Some(target.fit(said.role)),
            None if target == TargetSessionAttrs::Any => Some(Fit::Wanted),
            None => None,
        }
    }

    /// The hosts in turns by what they said, the best first. A spreading search does not tell apart what is wanted from
    /// what may be.
    fn turns(&self, hosts: Vec<HostKey>, spreads: bool, search: &Search, now: Instant) -> Vec<Vec<HostKey>> {
        let pick = |fit: Option<Fit>, fresh: &[bool]| -> Vec<HostKey> {
            let belongs = |key: &&HostKey| {
                self.fit(key, search.target) == fit && fresh.contains(&self.is_fresh(key, now))
            };
            hosts.iter().filter(belongs).cloned().collect()
        };
        let (stale, any) = (&[false][..], &[false, true][..]);
        let wanted = pick(Some(Fit::Wanted), any);
        let unknown = pick(None, any);
        let accepted = pick(Some(Fit::Accepted), if search.spare { stale } else { any });
        let unfit = pick(Some(Fit::Unfit), stale);
        let surely_unfit = if search.spare {
            Vec::new()
        } else {
            pick(Some(Fit::Unfit), &[true])
        };
        let mut turns = match spreads {
            true => vec![
                hosts
                    .iter()
                    .filter(|key| wanted.contains(key) || unknown.contains(key))
                    .cloned()
                    .collect(),
            ],
            false => vec![wanted, unknown],
        };
        turns.extend([accepted, unfit, surely_unfit]);
        turns
    }

    /// What a pick chooses among, before load and avoiding.
    pub(crate) fn candidates(&self, search: &Search, now: Instant) -> Result<Vec<HostKey>, NoHost> {
        let (groups, end) = self.order();
        let usable = |key: &&HostKey| self.works_now(key) && !search.tried.contains(key);
        let servers: Vec<HostKey> = self
            .servers
            .iter()
            .map(|server| &server.key)
            .filter(usable)
            .cloned()
            .collect();
        for turn in self.turns(servers, true, search, now) {
            for group in &groups {
                let found: Vec<HostKey> = group.iter().filter(|key| turn.contains(key)).cloned().collect();
                if !found.is_empty() {
                    return Ok(found);
                }
            }
        }
        if let Some(refusal) = end {
            return Err(self.or_not_ready(refusal));
        }
        let random = self.options.host_order == HostOrder::Random;
        let seeds: Vec<HostKey> = self.seeds.iter().filter(usable).cloned().collect();
        let mut turns = self.turns(seeds, random, search, now);
        let left_out = |key: &HostKey| {
            search.spare
                || (search.answered && (self.probes.contains_key(key) || self.failures[key].next_probe > now))
        };
        let failed = self
            .seeds
            .iter()
            .filter(|key| !self.works_now(key) && !search.tried.contains(key));
        turns.push(failed.filter(|key| !left_out(key)).cloned().collect());
        let turn = turns
            .into_iter()
            .find(|turn| !turn.is_empty())
            .ok_or(NoHost::NoServer)?;
        Ok(if random { turn } else { turn[..1].to_vec() })
    }

    /// A refusal gives hope if a server that the mode takes is starting up or full.
    fn or_not_ready(&self, refusal: NoHost) -> NoHost {
        let taken: Vec<HostKey> = self.order().0.concat();
        let is_coming = |key: &HostKey| {
            let kind = self.failures.get(key).map(|failed| failed.kind);
            matches!(kind, Some(FailureKind::NotReady | FailureKind::Full))
        };
        match refusal {
            NoHost::NoNode(refused) if taken.iter().any(is_coming) => NoHost::NotReady(refused),
            other => other,
        }
    }

    /// Whether what is chosen among are servers, of which the least loaded is taken.
    pub(crate) fn are_servers(&self, keys: &[HostKey]) -> bool {
        keys.iter()
            .all(|key| self.servers.iter().any(|server| server.key == *key) && self.works_now(key))
    }

    /// Where connections may stay: the best group there is, the best in which something works, and, if nothing does, some
    /// seeds. Nothing stays on what is known to be unfit.
    pub(crate) fn allowed(&self, target: TargetSessionAttrs) -> BTreeSet<HostKey> {
        let (groups, end) = self.order();
        let levels = |spreads: bool| -> Vec<Vec<Option<Fit>>> {
            match spreads {
                true => vec![vec![Some(Fit::Wanted), None], vec![Some(Fit::Accepted)]],
                false => vec![vec![Some(Fit::Wanted)], vec![None], vec![Some(Fit::Accepted)]],
            }
        };
        let best = |groups: &[Vec<HostKey>], spreads: bool, must_work: bool| -> Vec<HostKey> {
            let good = |key: &&HostKey| !must_work || self.works_now(key);
            for fits in levels(spreads) {
                for group in groups {
                    let members = group.iter().filter(|key| fits.contains(&self.fit(key, target)));
                    if members.clone().any(|key| good(&key)) {
                        return members.cloned().collect();
                    }
                }
            }
            Vec::new()
        };
        let serving = best(&groups, true, true);
        let mut allowed: BTreeSet<HostKey> = best(&groups, true, false).into_iter().collect();
        allowed.extend(serving.iter().cloned());
        if !serving.is_empty() || end.is_some() {
            return allowed;
        }
        let random = self.options.host_order == HostOrder::Random;
        let seeds = vec![self.seeds.clone()];
        let (there, working) = (best(&seeds, random, false), best(&seeds, random, true));
        let fit = self
            .seeds
            .iter()
            .filter(|key| self.fit(key, target) != Some(Fit::Unfit));
        match (working.iter().find(|key| self.works_now(key)), random) {
            (None, _) => allowed.extend(fit.cloned()),
            (Some(_), true) => allowed.extend(there.into_iter().chain(working)),
            (Some(first), false) => {
                allowed.insert(first.clone());
                allowed.insert(there[0].clone());
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
