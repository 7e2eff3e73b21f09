//! A cluster machine with a make-believe world around it: hosts that behave as told, names that resolve as told, and a
//! clock that is moved by hand. It carries out the machine's actions and reports back, in the order of time.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(clippy::expect_used, reason = "a test that cannot go on is to fail")]

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{
    Action, Addresses, Answer, ClusterOptions, ClusterState, DiscoveredRow, DiscoveryOutcome, FailureKind,
    Fit, HostOrder, LoadBalance, LogEvent, LogLevel, NoHost, Role, Search, Snapshot, TargetSessionAttrs,
};
use pgsteer_core::topology::{Placement, TopologyKeys};
use pgsteer_core::verdict::{Evidence, HostEffect, Stage, connect_failure};

/// The zone of a first, then the rest of its region.
pub(crate) const ZONE_THEN_REGION: &str = "gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2";
/// The zone of a first, then those of b and c.
pub(crate) const ZONE_THEN_ZONES: &str =
    "gcp.us-east1.us-east1-b:1,gcp.us-east1.us-east1-c:2,gcp.us-east1.us-east1-d:2";

/// What a host does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Up,
    /// Refuses at once.
    Down,
    /// Runs into the connect timeout.
    Unreachable,
    /// Never answers and ignores the connect timeout.
    Hangs,
    /// Takes sessions, and is this.
    Is(Role),
    /// Sends an error during startup.
    Errors(&'static str),
    /// Breaks off the TLS handshake.
    BreaksTls,
    /// Its name does not resolve.
    Nameless,
}

/// What a server says when asked for the servers.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    Rows(Vec<DiscoveredRow>),
    NoFunction,
    /// The question itself fails, on every server.
    Error,
}

enum Due {
    Probe(HostKey, u64, Result<Answer, (HostEffect, String)>),
    Discovery(DiscoveryOutcome),
}

/// A failure to open a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// Nothing was tried, or the mode refused.
    NoHost(NoHost),
    /// The last host's words.
    Connect(String),
    /// Every host that answered is something else than what is wanted: each with what it is.
    NoFit(String),
}

pub(crate) struct Rig {
    pub(crate) cluster: ClusterState,
    pub(crate) now: Instant,
    pub(crate) listing: Listing,
    pub(crate) listing_takes: Duration,
    pub(crate) target: TargetSessionAttrs,
    /// The timeline each host writes on.
    pub(crate) timelines: BTreeMap<String, u32>,
    /// Times pools were told that something has changed.
    pub(crate) changes: usize,
    /// Names asked for, by each look-up.
    pub(crate) look_ups: Vec<String>,
    pub(crate) lines: Vec<LogEvent>,
    /// Questions for the list of servers that were answered or refused.
    pub(crate) discoveries: usize,
    /// Discoveries asked for, with their targets.
    pub(crate) asked: Vec<Vec<HostKey>>,
    /// When each probe started, and of which host.
    pub(crate) probes: Vec<(String, Instant)>,
    pub(crate) stopped_probes: Vec<String>,
    pub(crate) ready_actions: usize,
    connect_timeout: Duration,
    behaviours: HashMap<String, Behaviour>,
    addresses: HashMap<String, Option<IpAddr>>,
    connects: BTreeMap<String, usize>,
    due: BTreeMap<(Instant, u64), Due>,
    sequence: u64,
    next_draw: u64,
}

pub(crate) fn key(name: &str) -> HostKey {
    HostKey::new(name, 5433)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A primary in a zone of gcp.us-east1, without public IP.
pub(crate) fn primary(host: &str, zone: &str) -> DiscoveredRow {
    row(host, NodeType::Primary, "us-east1", zone)
}

pub(crate) fn replica(host: &str, zone: &str) -> DiscoveredRow {
    row(host, NodeType::ReadReplica, "us-east1", zone)
}

pub(crate) fn row(host: &str, node_type: NodeType, region: &str, zone: &str) -> DiscoveredRow {
    let placement = Placement::new("gcp", region, &format!("{region}-{zone}"));
    DiscoveredRow {
        host: host.to_owned(),
        port: 5433,
        node_type,
        placement,
        public_ip: None,
    }
}

pub(crate) fn public(row: DiscoveredRow, public_ip: &str) -> DiscoveredRow {
    DiscoveredRow {
        public_ip: Some(public_ip.to_owned()),
        ..row
    }
}

/// a, b and c, one per zone.
pub(crate) fn three() -> Vec<DiscoveredRow> {
    vec![primary("a", "b"), primary("b", "c"), primary("c", "d")]
}

pub(crate) fn options() -> ClusterOptions {
    ClusterOptions {
        load_balance: LoadBalance::Any,
        topology_keys: TopologyKeys::default(),
        fallback_only: false,
        host_order: HostOrder::Listed,
        role_ttl: Duration::from_secs(10),
        drain_stale_addresses: false,
        refresh_interval: Duration::from_secs(300),
        failed_host_delay: Duration::from_secs(1),
        failed_host_max_delay: None,
        connect_timeout: Duration::from_secs(10),
        log_window: Duration::from_secs(60),
    }
}

pub(crate) fn keyed(keys: &str) -> ClusterOptions {
    ClusterOptions {
        topology_keys: TopologyKeys::parse(keys).expect("keys of a test"),
        ..options()
    }
}

pub(crate) fn joined(keys: &[HostKey]) -> String {
    keys.iter().map(HostKey::name).collect::<Vec<_>>().join(" ")
}

impl Rig {
    /// Seeds a, b and c, whose list of servers is a, b and c. Its first discovery is over.
    pub(crate) fn standard(options: ClusterOptions) -> Self {
        let mut rig = Rig::new(options, &["a", "b", "c"], Listing::Rows(three()));
        rig.settle();
        rig
    }

    /// Its first discovery is not over before [`settle`](Self::settle) or an open.
    pub(crate) fn new(options: ClusterOptions, seeds: &[&str], listing: Listing) -> Self {
        let now = Instant::now();
        let connect_timeout = options.connect_timeout;
        Rig {
            cluster: ClusterState::new(options, seeds.iter().map(|name| key(name)).collect(), now),
            now,
            listing,
            listing_takes: Duration::ZERO,
            target: TargetSessionAttrs::Any,
            timelines: BTreeMap::new(),
            changes: 0,
            look_ups: Vec::new(),
            lines: Vec::new(),
            discoveries: 0,
            asked: Vec::new(),
            probes: Vec::new(),
            stopped_probes: Vec::new(),
            ready_actions: 0,
            connect_timeout,
            behaviours: HashMap::new(),
            addresses: HashMap::new(),
            connects: BTreeMap::new(),
            due: BTreeMap::new(),
            sequence: 0,
            next_draw: 0,
        }
    }

    pub(crate) fn set(&mut self, host: &str, behaviour: Behaviour) {
        self.behaviours.insert(host.to_owned(), behaviour);
    }

    /// Makes a name resolve to an address, or to none.
    pub(crate) fn resolves(&mut self, name: &str, address: Option<&str>) {
        let address = address.map(|text| text.parse().expect("an address of a test"));
        self.addresses.insert(name.to_owned(), address);
    }

    fn behaviour(&self, host: &HostKey) -> Behaviour {
        self.behaviours.get(host.name()).copied().unwrap_or(Behaviour::Up)
    }

    /// Names not told otherwise each have an address of their own.
    fn address(&mut self, name: &str) -> Option<IpAddr> {
        if let Ok(address) = name.parse() {
            return Some(address);
        }
        let next = Ipv4Addr::from_bits(Ipv4Addr::new(172, 16, 0, 0).to_bits() + self.addresses.len() as u32);
        *self
            .addresses
            .entry(name.to_owned())
            .or_insert(Some(IpAddr::V4(next)))
    }

    /// Connections attempted to a host, whatever for.
    pub(crate) fn connects(&self, host: &str) -> usize {
        self.connects.get(host).copied().unwrap_or(0)
    }

    pub(crate) fn forget_connects(&mut self) {
        self.connects.clear();
    }

    /// Does everything that is due now.
    pub(crate) fn settle(&mut self) {
        self.advance(Duration::ZERO);
    }

    /// Moves the clock, doing what falls due on the way.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        loop {
            self.carry_out();
            let event = self
                .due
                .first_key_value()
                .map(|((at, _), _)| *at)
                .filter(|at| *at <= until);
            let timer = self.cluster.next_timer().filter(|at| *at <= until);
            match (event, timer) {
                (None, None) => break,
                (Some(event), timer) if timer.is_none_or(|timer| event <= timer) => {
                    self.now = self.now.max(event);
                    let (_, due) = self.due.pop_first().expect("it was there");
                    match due {
                        Due::Probe(key, id, result) => {
                            self.cluster.probe_finished(&key, id, result, self.now)
                        }
                        Due::Discovery(outcome) => self.cluster.discovery_finished(outcome, self.now),
                    }
                }
                (_, Some(timer)) => {
                    self.now = self.now.max(timer);
                    self.cluster.on_timer(self.now);
                }
                (Some(_), None) => unreachable!("the first arm takes it"),
            }
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        for action in self.cluster.take_actions() {
            match action {
                Action::Ready => self.ready_actions += 1,
                Action::Log(line) => self.lines.push(line),
                Action::StopProbe { key, id } => {
                    self.stopped_probes.push(key.name().to_owned());
                    self.due
                        .retain(|_, due| !matches!(due, Due::Probe(_, other, _) if *other == id));
                }
                Action::Changed => self.changes += 1,
                Action::ResolveNames { keys, .. } => self.look_ups.push(joined(&keys)),
                Action::StartProbe {
                    key,
                    id,
                    limit,
                    ask_role,
                    ask_timeline,
                } => {
                    self.probes.push((key.name().to_owned(), self.now));
                    let (takes, result) = self.connect(&key);
                    let timeline = self.timelines.get(key.name()).copied();
                    let answer = |role: Role| Answer {
                        role: Some(role).filter(|_| ask_role),
                        timeline: timeline.filter(|_| ask_timeline && role.is_primary()),
                    };
                    let (takes, result) = match takes.filter(|takes| *takes < limit) {
                        Some(takes) => (takes, result.map(answer)),
                        None => {
                            let down = HostEffect::Failed(FailureKind::Down);
                            (limit, Err((down, "probe timed out".to_owned())))
                        }
                    };
                    self.schedule(takes, Due::Probe(key, id, result));
                }
                Action::StartDiscovery { targets, limit } => {
                    let (takes, outcome) = self.discover(&targets);
                    self.asked.push(targets);
                    let timed_out = DiscoveryOutcome::Failed("discovery timed out".to_owned());
                    match takes.filter(|takes| *takes < limit) {
                        Some(takes) => self.schedule(takes, Due::Discovery(outcome)),
                        None => self.schedule(limit, Due::Discovery(timed_out)),
                    }
                }
            }
        }
    }

    fn schedule(&mut self, takes: Duration, due: Due) {
        self.sequence += 1;
        self.due.insert((self.now + takes, self.sequence), due);
    }

    fn discover(&mut self, targets: &[HostKey]) -> (Option<Duration>, DiscoveryOutcome) {
        let mut taken = Duration::ZERO;
        for target in targets {
            let (takes, result) = self.connect(target);
            let Some(takes) = takes else {
                return (None, DiscoveryOutcome::NoFunction);
            };
            taken += takes;
            if result.is_err() {
                continue;
            }
            self.discoveries += 1;
            match self.listing.clone() {
                Listing::Error => {}
                Listing::NoFunction => {
                    return (Some(taken + self.listing_takes), DiscoveryOutcome::NoFunction);
                }
                Listing::Rows(rows) => {
                    let Some(answered) = self.address(target.name()) else {
                        continue;
                    };
                    let host = rows.iter().map(|row| self.address(&row.host)).collect();
                    let public_ip = rows
                        .iter()
                        .map(|row| row.public_ip.as_ref().and_then(|name| self.address(name)))
                        .collect();
                    let addresses = Addresses {
                        answered: Some(answered),
                        host,
                        public_ip,
                    };
                    return (
                        Some(taken + self.listing_takes),
                        DiscoveryOutcome::Rows { rows, addresses },
                    );
                }
            }
        }
        (
            Some(taken),
            DiscoveryOutcome::Failed("no server reachable".to_owned()),
        )
    }

    /// How long a connect takes (`None`: for ever) and what comes of it.
    fn connect(&mut self, host: &HostKey) -> (Option<Duration>, Result<Role, (HostEffect, String)>) {
        *self.connects.entry(host.name().to_owned()).or_default() += 1;
        let refused = Evidence::Io(std::io::ErrorKind::ConnectionRefused);
        let (takes, stage, evidence, words) = match self.behaviour(host) {
            Behaviour::Up => return (Some(Duration::ZERO), Ok(Role::Primary)),
            Behaviour::Is(role) => return (Some(Duration::ZERO), Ok(role)),
            Behaviour::Down => (
                Some(Duration::ZERO),
                Stage::Connect,
                refused,
                "connection refused",
            ),
            Behaviour::Unreachable => (
                Some(self.connect_timeout),
                Stage::Connect,
                Evidence::Deadline,
                "timed out",
            ),
            Behaviour::Hangs => (None, Stage::Startup, Evidence::Deadline, "timed out"),
            Behaviour::Errors(sqlstate) => (
                Some(Duration::ZERO),
                Stage::Startup,
                Evidence::Server {
                    fatal: true,
                    sqlstate,
                },
                sqlstate,
            ),
            Behaviour::BreaksTls => (
                Some(Duration::ZERO),
                Stage::Tls,
                Evidence::Closed,
                "TLS handshake: closed",
            ),
            Behaviour::Nameless => (
                Some(Duration::ZERO),
                Stage::Resolve,
                Evidence::NoSuchName,
                "no such name",
            ),
        };
        (takes, Err((connect_failure(stage, &evidence), words.to_owned())))
    }

    /// A random number, the same in every run.
    pub(crate) fn draw(&mut self) -> u64 {
        self.next_draw = self.next_draw.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.next_draw ^ (self.next_draw >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn pick(&mut self, tried: &[HostKey], avoid: &[&str]) -> Result<HostKey, NoHost> {
        self.pick_for(self.target, tried, avoid, false, false)
    }

    pub(crate) fn pick_for(
        &mut self,
        target: TargetSessionAttrs,
        tried: &[HostKey],
        avoid: &[&str],
        answered: bool,
        spare: bool,
    ) -> Result<HostKey, NoHost> {
        let avoid: Vec<HostKey> = avoid.iter().map(|name| key(name)).collect();
        let draw = self.draw();
        let search = Search {
            target,
            tried,
            avoid: &avoid,
            answered,
            spare,
        };
        let picked = self.cluster.pick(&search, draw, self.now);
        self.settle();
        picked
    }

    /// Every host that `draws` picks with nothing tried come to, each pick cancelled at once; sorted.
    pub(crate) fn picks(&mut self, avoid: &[&str], draws: usize) -> String {
        let mut hosts: Vec<HostKey> = (0..draws)
            .filter_map(|_| {
                let picked = self.pick(&[], avoid).ok()?;
                self.cluster.cancelled(&picked);
                Some(picked)
            })
            .collect();
        hosts.sort();
        hosts.dedup();
        joined(&hosts)
    }

    /// Opens a connection: waits for the first discovery, then tries hosts until one takes it. Judges refused logins at
    /// the end.
    pub(crate) fn open(&mut self) -> Result<String, NotOpened> {
        self.open_avoiding(&[])
    }

    pub(crate) fn open_avoiding(&mut self, avoid: &[&str]) -> Result<String, NotOpened> {
        self.settle();
        while !self.cluster.is_ready() {
            self.advance(millis(1));
        }
        let mut tried = Vec::new();
        let mut refused_logins: Vec<(HostKey, String)> = Vec::new();
        let mut last_words = None;
        let mut unfit = Vec::new();
        // a connection that will do, unless a better one is found
        let mut spare: Option<(HostKey, Role)> = None;
        let opened = loop {
            let (answered, has_spare) = (!unfit.is_empty(), spare.is_some());
            let host = match self.pick_for(self.target, &tried, avoid, answered, has_spare) {
                Ok(host) => host,
                Err(no_host) => {
                    break match (spare.take(), no_host) {
                        (Some((host, role)), _) => {
                            self.cluster.opened(&host, Some(role), self.now);
                            Ok(host.name().to_owned())
                        }
                        _ if !unfit.is_empty() => Err(NotOpened::NoFit(unfit.join(", "))),
                        (None, NoHost::NoServer) if last_words.is_some() => {
                            Err(last_words.expect("it is some"))
                        }
                        (None, no_host) => Err(NotOpened::NoHost(no_host)),
                    };
                }
            };
            tried.push(host.clone());
            let (takes, result) = self.connect(&host);
            self.advance(takes.unwrap_or(self.connect_timeout));
            match result {
                Ok(role) => {
                    let asked = Some(role).filter(|_| self.target.asks());
                    let fit = match asked {
                        Some(role) => self.cluster.fit(&host, role, self.target),
                        None => Fit::Wanted,
                    };
                    match fit {
                        Fit::Wanted => {
                            self.cluster.opened(&host, asked, self.now);
                            break Ok(host.name().to_owned());
                        }
                        Fit::Accepted if spare.is_none() => spare = Some((host, role)),
                        Fit::Accepted => self.cluster.answered(&host, role, self.now),
                        Fit::Unfit => {
                            self.cluster.answered(&host, role, self.now);
                            unfit.push(format!("{} {role}", host.name()));
                        }
                    }
                }
                Err((effect, words)) => {
                    match effect {
                        HostEffect::Failed(kind) => self.cluster.open_failed(&host, kind, &words, self.now),
                        HostEffect::JudgeAtEndOfPass => refused_logins.push((host, words.clone())),
                        HostEffect::Role(role) => {
                            self.cluster.answered(&host, role, self.now);
                            unfit.push(format!("{} {role}", host.name()));
                        }
                        _ => unreachable!("a connect that failed says something"),
                    }
                    last_words = Some(NotOpened::Connect(words));
                }
            }
            self.settle();
        };
        // found to be of no use after all, now that there is a better one
        if let Some((host, role)) = spare {
            self.cluster.answered(&host, role, self.now);
        }
        if matches!(opened, Err(NotOpened::NoFit(_))) {
            self.cluster.nothing_fits(self.now);
        }
        for (host, words) in refused_logins {
            match opened {
                Ok(_) => self
                    .cluster
                    .open_failed(&host, FailureKind::Rejected, &words, self.now),
                Err(_) => self.cluster.cancelled(&host),
            }
        }
        self.settle();
        opened
    }

    /// Opens so many connections, all of which must succeed, and says where they are, sorted.
    pub(crate) fn open_all(&mut self, connections: usize) -> String {
        let mut hosts: Vec<String> = (0..connections)
            .map(|_| self.open().expect("a connection opens"))
            .collect();
        hosts.sort();
        hosts.join(" ")
    }

    /// Reserves the host through picks and reports that it refused the connection.
    pub(crate) fn fail(&mut self, host: &str) {
        self.fail_as(host, FailureKind::Down, "connection refused");
    }

    pub(crate) fn fail_as(&mut self, host: &str, kind: FailureKind, reason: &str) {
        self.reserve(host);
        self.cluster.open_failed(&key(host), kind, reason, self.now);
        self.settle();
    }

    /// Reserves the host through picks, cancelling those that come to others.
    pub(crate) fn reserve(&mut self, host: &str) {
        let mut others = Vec::new();
        let wanted = key(host);
        loop {
            let picked = self.pick(&others, &[]).expect("some pick comes to the host");
            if picked == wanted {
                break;
            }
            self.cluster.cancelled(&picked);
            others.push(picked);
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.cluster.snapshot(self.target, self.now)
    }

    pub(crate) fn placement(&self) -> String {
        joined(&self.snapshot().placement)
    }

    pub(crate) fn allowed(&self) -> String {
        joined(&self.snapshot().allowed)
    }

    /// Hosts that are down.
    pub(crate) fn failed(&self) -> String {
        joined(&self.snapshot().failed())
    }

    pub(crate) fn read_only(&self) -> String {
        joined(&self.snapshot().read_only())
    }

    pub(crate) fn rejected(&self) -> String {
        joined(&self.snapshot().rejected())
    }

    pub(crate) fn servers(&self) -> String {
        joined(
            &self
                .snapshot()
                .servers
                .into_iter()
                .map(|server| server.key)
                .collect::<Vec<_>>(),
        )
    }

    /// Open connections as `host=count`, sorted.
    pub(crate) fn counts(&self) -> String {
        let counts = self.snapshot().counts;
        counts
            .iter()
            .map(|(host, count)| format!("{}={count}", host.name()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The lines logged since the last call, with their level.
    pub(crate) fn take_lines(&mut self) -> Vec<(LogLevel, String)> {
        self.lines
            .drain(..)
            .map(|line| (line.level(), line.to_string()))
            .collect()
    }

    /// Looks for servers and probes due hosts now, and waits until everything has ended that ends at once.
    pub(crate) fn refresh(&mut self) {
        self.cluster.refresh(self.now);
        self.settle();
    }
}
