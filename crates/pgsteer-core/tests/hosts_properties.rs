//! Random histories of a cluster, with everything that must always hold checked after every event.
//!
//! `PGSTEER_SEED` replays one history, whose number a failing run prints; `PGSTEER_HISTORIES` says how many there are.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a history that cannot go on is to fail"
)]

mod hosts_model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use hosts_model::{Listed, Model};
use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{
    Action, Addresses, Answer, ClusterOptions, ClusterState, DiscoveredRow, DiscoveryOutcome, FailureKind,
    Fit, HostOrder, LoadBalance, LogEvent, Role, Search, TargetSessionAttrs,
};
use pgsteer_core::topology::{Placement, TopologyKeys};
use pgsteer_core::verdict::HostEffect;

const EVENTS: usize = 200;
const HISTORIES: u64 = 10_000;
const HOSTS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const SEEDS: usize = 3;

/// A small generator of random numbers (splitmix64), the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Each with the chance of one in `one_in`.
    fn some_of(&mut self, choices: &[&str], one_in: usize) -> Vec<HostKey> {
        choices
            .iter()
            .filter(|_| self.below(one_in) == 0)
            .map(|name| HostKey::new(*name, 5433))
            .collect()
    }
}

/// Tells which history it was when one fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this history with PGSTEER_SEED={}", self.0);
        }
    }
}

/// What the machine may ask for after an event.
#[derive(Default)]
struct Expected {
    refresh: bool,
    /// Due hosts are probed without a refresh.
    probe: bool,
    /// These hosts too, if they are not being probed.
    asked: BTreeSet<HostKey>,
    /// A line may begin a run of this host: it has just failed in this way.
    failed: Option<(HostKey, FailureKind)>,
    discovery_failed: bool,
}

struct History {
    random: Random,
    now: Instant,
    cluster: ClusterState,
    model: Model,
    /// Failures of the run each host is in, by the lines and failures so far.
    runs: BTreeMap<HostKey, (FailureKind, u32)>,
    /// Discovery is in a run of failures.
    discovery_run: bool,
    ready_actions: usize,
    probe_ids: BTreeSet<u64>,
    /// Probes that are known to have been stopped already.
    stopped: BTreeSet<u64>,
}

fn options(random: &mut Random) -> ClusterOptions {
    use LoadBalance::{Any, Off, OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica};
    let keys = ["", "x.r.1:1", "x.r.1:1,x.r.2:3", "x.r.1:2,x.r.*:5,x.q.*:9"];
    let delay = random.one_of(&[0, 500, 1000, 5000]);
    let cap = random.one_of(&[None, Some(8)]).filter(|_| delay > 0);
    ClusterOptions {
        load_balance: random.one_of(&[
            Off,
            Any,
            Any,
            OnlyPrimary,
            OnlyReplica,
            PreferPrimary,
            PreferReplica,
        ]),
        topology_keys: TopologyKeys::parse(random.one_of(&keys)).expect("keys of a test"),
        fallback_only: random.chance(50),
        host_order: random.one_of(&[HostOrder::Listed, HostOrder::Random]),
        role_ttl: Duration::from_millis(random.one_of(&[0, 1000, 10_000])),
        drain_stale_addresses: false,
        refresh_interval: Duration::from_millis(random.one_of(&[0, 700, 3000, 300_000])),
        failed_host_delay: Duration::from_millis(delay),
        failed_host_max_delay: cap.map(|times| Duration::from_millis(delay) * times),
        connect_timeout: Duration::from_millis(1500),
        log_window: Duration::from_millis(random.one_of(&[0, 1000, 60_000])),
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let now = Instant::now();
        let options = options(&mut random);
        let mut seeds = random.some_of(&HOSTS[..SEEDS], 2);
        if seeds.is_empty() {
            seeds.push(HostKey::new("a", 5433));
        }
        let mut history = History {
            cluster: ClusterState::new(options.clone(), seeds.clone(), now),
            model: Model::new(options, seeds, now),
            random,
            now,
            runs: BTreeMap::new(),
            discovery_run: false,
            ready_actions: 0,
            probe_ids: BTreeSet::new(),
            stopped: BTreeSet::new(),
        };
        history.first_actions();
        history
    }

    fn first_actions(&mut self) {
        let actions = self.cluster.take_actions();
        let expected_targets = self.model.targets();
        match (&actions[..], self.model.discovers()) {
            ([Action::Ready], false) => self.ready_actions = 1,
            ([Action::StartDiscovery { targets, .. }], true) => assert_eq!(*targets, expected_targets),
            (other, _) => panic!("a new cluster asked for {other:?}"),
        }
    }

    fn event(&mut self) {
        let expected = match self.random.below(100) {
            0..28 => self.pick(),
            28..56 => self.settle_one(),
            56..62 => self.close_one(),
            62..68 => self.doubt_something(),
            68..80 => self.wait(),
            80..83 => {
                self.cluster.refresh(self.now);
                Expected {
                    refresh: true,
                    ..Expected::default()
                }
            }
            83..91 => self.end_discovery(),
            91..97 => self.end_probe(),
            _ => self.nonsense(),
        };
        self.check_actions(expected);
        self.check_state();
    }

    fn pick(&mut self) -> Expected {
        let tried = if self.random.chance(40) {
            self.random.some_of(&HOSTS, 3)
        } else {
            Vec::new()
        };
        let avoid = if self.random.chance(20) {
            self.random.some_of(&HOSTS, 3)
        } else {
            Vec::new()
        };
        let refresh = self.model.pick_refreshes(self.now);
        let asked = hosts_model::Search {
            target: self.random.one_of(&TargetSessionAttrs::ALL),
            tried,
            answered: self.random.chance(30),
            spare: self.random.chance(20),
        };
        self.model.searched_for.push(asked.target);
        let draw = self.random.next();
        let search = Search {
            target: asked.target,
            tried: &asked.tried,
            avoid: &avoid,
            answered: asked.answered,
            spare: asked.spare,
        };
        // the refresh comes first, and so what it probes is being probed
        let expected = Expected {
            refresh,
            ..Expected::default()
        };
        let picked = self.cluster.pick(&search, draw, self.now);
        self.check_actions(expected);
        match (picked, self.model.candidates(&asked, self.now)) {
            (Ok(picked), Ok(candidates)) => {
                let welcome: Vec<HostKey> = candidates
                    .iter()
                    .filter(|key| !avoid.contains(key))
                    .cloned()
                    .collect();
                let by_load = self.model.are_servers(&candidates);
                let among = if welcome.is_empty() { candidates } else { welcome };
                assert!(
                    among.contains(&picked),
                    "{picked} is none of {among:?}: {asked:?}"
                );
                let least = among.iter().map(|key| self.model.load(key)).min();
                assert!(
                    !by_load || Some(self.model.load(&picked)) == least,
                    "{picked} is not the least loaded of {among:?}"
                );
                self.model.reserved.push(picked);
            }
            (Err(no_host), Err(expected)) => assert_eq!(no_host, expected),
            (picked, candidates) => panic!("picked {picked:?} among {candidates:?}: {asked:?}"),
        }
        Expected::default()
    }

    fn any_role(&mut self) -> Role {
        use Role::{ColdStandby, Primary, ReadOnlyPrimary, Standby};
        self.random
            .one_of(&[Primary, Primary, Standby, Standby, ReadOnlyPrimary, ColdStandby])
    }

    fn settle_one(&mut self) -> Expected {
        if self.model.reserved.is_empty() {
            return Expected::default();
        }
        let number = self.random.below(self.model.reserved.len());
        let key = self.model.reserved.swap_remove(number);
        let role = self.any_role();
        match self.random.below(12) {
            0..5 => {
                let role = Some(role).filter(|role| *role != Role::ColdStandby && self.random.chance(60));
                self.cluster.opened(&key, role, self.now);
                self.model.live.push(key.clone());
                Expected {
                    refresh: self.model.works(&key, role, self.now),
                    ..Expected::default()
                }
            }
            5..7 => {
                self.cluster.answered(&key, role, self.now);
                Expected {
                    refresh: self.model.works(&key, Some(role), self.now),
                    ..Expected::default()
                }
            }
            7..11 => {
                use FailureKind::{Down, Full, NotReady, Rejected};
                let kind = self.random.one_of(&[Down, Down, Rejected, NotReady, Full]);
                let refresh = self.model.failure_refreshes(self.now);
                self.cluster.open_failed(&key, kind, "scripted", self.now);
                self.model.fail(&key, kind, false, self.now);
                Expected {
                    refresh,
                    failed: Some((key, kind)),
                    ..Expected::default()
                }
            }
            _ => {
                self.cluster.cancelled(&key);
                Expected::default()
            }
        }
    }

    /// Somebody doubts a role, finds that nothing fits, or begins to care for roles, or no longer does.
    fn doubt_something(&mut self) -> Expected {
        let key = HostKey::new(self.random.one_of(&HOSTS), 5433);
        match self.random.below(4) {
            0 | 3 if !self.model.is_listed(&key) => Expected::default(),
            0 => {
                self.cluster.suspect(&key);
                self.model.doubt(&key);
                Expected::default()
            }
            1 => {
                self.cluster.nothing_fits(self.now);
                Expected {
                    asked: self.model.failed_and_idle(),
                    ..Expected::default()
                }
            }
            2 => {
                self.model.watching = !self.model.watching;
                self.cluster.watch_roles(self.model.watching);
                Expected::default()
            }
            _ => {
                self.cluster.role_doubted(&key, self.now);
                self.model.said.remove(&key);
                let second = Duration::from_secs(1);
                let earliest = self.model.asked_at.get(&key).map(|at| *at + second);
                let at = earliest.map_or(self.now, |earliest| earliest.max(self.now));
                self.model.ask_at.insert(key.clone(), at);
                let asks = at <= self.now && !self.model.probes.contains_key(&key);
                Expected {
                    refresh: self.model.failure_refreshes(self.now),
                    asked: BTreeSet::from_iter(asks.then_some(key)),
                    ..Expected::default()
                }
            }
        }
    }

    fn close_one(&mut self) -> Expected {
        if !self.model.live.is_empty() {
            let number = self.random.below(self.model.live.len());
            let key = self.model.live.swap_remove(number);
            self.cluster.closed(&key);
        }
        Expected::default()
    }

    fn wait(&mut self) -> Expected {
        let millis = self
            .random
            .one_of(&[0, 1, 499, 500, 999, 1000, 1001, 5000, 60_000]);
        let until = self.now + Duration::from_millis(millis);
        // a timer may be late, but not for ever
        let due = self.cluster.next_timer().filter(|at| *at <= until);
        self.now = if self.random.chance(50) {
            due.unwrap_or(until).max(self.now)
        } else {
            until
        };
        if due.is_none() {
            return Expected::default();
        }
        let before = self.cluster.next_timer();
        self.cluster.on_timer(self.now);
        let after = self.cluster.next_timer();
        assert!(
            after.is_none_or(|at| at > self.now),
            "{after:?} is not after {before:?}"
        );
        let refresh = self.model.refresh_timer.is_some_and(|at| at <= self.now);
        if refresh {
            self.model.refresh_timer = None;
        }
        let own_times = self.model.own_times().into_iter();
        let mut asked: BTreeSet<HostKey> = own_times
            .filter(|(_, at)| *at <= self.now)
            .map(|(key, _)| key)
            .collect();
        if self.model.strangers_at.take_if(|at| *at <= self.now).is_some() {
            let strangers = self.model.strangers().into_iter();
            asked.extend(strangers.filter(|key| !self.model.probes.contains_key(key)));
        }
        Expected {
            refresh,
            asked,
            ..Expected::default()
        }
    }

    fn end_discovery(&mut self) -> Expected {
        if !self.model.discovery_running {
            self.cluster
                .discovery_finished(DiscoveryOutcome::Failed("late".to_owned()), self.now);
            return Expected::default();
        }
        self.model.discovery_running = false;
        self.model.ready = true;
        self.model.arm_refresh_timer(self.now);
        let outcome = match self.random.below(10) {
            0..7 => self.rows(),
            7 => DiscoveryOutcome::NoFunction,
            _ => DiscoveryOutcome::Failed("scripted".to_owned()),
        };
        self.model.owed = matches!(outcome, DiscoveryOutcome::Failed(_));
        let probe = matches!(outcome, DiscoveryOutcome::Rows { .. });
        self.cluster.discovery_finished(outcome, self.now);
        Expected {
            probe,
            discovery_failed: self.model.owed,
            ..Expected::default()
        }
    }

    /// A random list of servers, now and then empty or with a server twice. Tells the model too.
    fn rows(&mut self) -> DiscoveryOutcome {
        let listed = if self.random.chance(10) {
            Vec::new()
        } else {
            self.random.some_of(&HOSTS, 2)
        };
        let mut rows: Vec<DiscoveredRow> = Vec::new();
        for key in &listed {
            let node_type = self.random.one_of(&[NodeType::Primary, NodeType::ReadReplica]);
            let (region, zone) = (
                self.random.one_of(&["R", "q"]),
                self.random.one_of(&["1", "2", "3"]),
            );
            let placement = Placement::new("x", region, zone);
            let host = key.name().to_owned();
            let copies = if self.random.chance(5) { 2 } else { 1 };
            for _ in 0..copies {
                let (host, placement) = (host.clone(), placement.clone());
                rows.push(DiscoveredRow {
                    host,
                    port: 5433,
                    node_type,
                    placement,
                    public_ip: None,
                });
            }
        }
        let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let addresses = Addresses {
            answered: address,
            host: vec![address; rows.len()],
            public_ip: Vec::new(),
        };
        if !rows.is_empty() {
            self.model.discovered = true;
            self.model.servers.clear();
            for row in &rows {
                let key = HostKey::new(row.host.as_str(), row.port);
                if self.model.servers.iter().all(|server| server.key != key) {
                    let (node_type, placement) = (row.node_type, row.placement.clone());
                    self.model.servers.push(Listed {
                        key,
                        node_type,
                        placement,
                    });
                }
            }
            let known = self.model.failures.keys().chain(self.model.said.keys());
            let known = known
                .chain(self.model.ask_at.keys())
                .chain(self.model.asked_at.keys());
            let gone: Vec<HostKey> = known.filter(|key| !self.model.is_listed(key)).cloned().collect();
            for key in gone {
                self.model.failures.remove(&key);
                self.model.said.remove(&key);
                self.model.ask_at.remove(&key);
                if self.model.load(&key) == 0 {
                    self.model.asked_at.remove(&key);
                }
            }
            let model = &self.model;
            self.runs.retain(|key, _| model.is_listed(key));
        }
        DiscoveryOutcome::Rows { rows, addresses }
    }

    fn end_probe(&mut self) -> Expected {
        let running: Vec<(HostKey, (u64, bool))> = self
            .model
            .probes
            .iter()
            .map(|(key, probe)| (key.clone(), *probe))
            .collect();
        if running.is_empty() {
            return Expected::default();
        }
        let (key, (id, early)) = self.random.one_of(&running);
        self.model.probes.remove(&key);
        let role = self.any_role();
        if self.random.chance(60) {
            let cold = role == Role::ColdStandby;
            let role = Some(role).filter(|_| cold || self.random.chance(80));
            let answer = match role {
                Some(role) if cold => Err((HostEffect::Role(role), "57M02".to_owned())),
                role => Ok(Answer { role, timeline: None }),
            };
            self.cluster.probe_finished(&key, id, answer, self.now);
            return Expected {
                refresh: self.model.works(&key, role, self.now),
                ..Expected::default()
            };
        }
        let effect = self.random.one_of(&[
            HostEffect::Failed(FailureKind::Down),
            HostEffect::Failed(FailureKind::NotReady),
            HostEffect::JudgeAtEndOfPass,
        ]);
        self.cluster
            .probe_finished(&key, id, Err((effect, "scripted".to_owned())), self.now);
        let kind = match effect {
            HostEffect::Failed(kind) => kind,
            _ if !self.model.failures.contains_key(&key) => return Expected::default(),
            _ => FailureKind::Rejected,
        };
        self.model.fail(&key, kind, early, self.now);
        Expected {
            failed: Some((key, kind)),
            ..Expected::default()
        }
    }

    /// Reports that fit nothing, which must change nothing.
    fn nonsense(&mut self) -> Expected {
        let stranger = HostKey::new("stranger", 1);
        let key = HostKey::new(self.random.one_of(&HOSTS), 5433);
        let wrong_id = u64::MAX;
        match self.random.below(4) {
            0 => self.cluster.closed(&stranger),
            1 => self.cluster.cancelled(&stranger),
            2 => self
                .cluster
                .probe_finished(&key, wrong_id, Ok(Answer::default()), self.now),
            _ => {
                let failure = (HostEffect::Failed(FailureKind::Down), "late".to_owned());
                self.cluster
                    .probe_finished(&key, wrong_id, Err(failure), self.now);
            }
        }
        Expected::default()
    }

    fn check_actions(&mut self, expected: Expected) {
        let actions = self.cluster.take_actions();
        // a host whose probe ends here may be probed anew at once
        for action in &actions {
            if let Action::StopProbe { key, id } = action {
                let is_known = self
                    .model
                    .probes
                    .get(key)
                    .is_some_and(|(running, _)| running == id);
                self.stopped
                    .extend(is_known.then(|| self.model.probes.remove(key)).map(|_| *id));
            }
        }
        let mut due = expected.asked.clone();
        if expected.refresh || expected.probe {
            due.extend(self.model.due(self.now));
        }
        let rivals = self.model.rivals();
        let mut starts_discovery =
            expected.refresh && self.model.discovers() && !self.model.discovery_running;
        if expected.refresh {
            self.model.last_refresh = self.now;
            if !self.model.discovers() {
                self.model.arm_refresh_timer(self.now);
            }
        }
        if let Some((key, kind)) = &expected.failed {
            match self.runs.get_mut(key) {
                Some((of, failures)) if of == kind => *failures += 1,
                _ => {}
            }
        }
        let mut probed = BTreeSet::new();
        for action in actions {
            match action {
                Action::Ready => self.ready_actions += 1,
                Action::StartDiscovery { targets, limit } => {
                    assert!(
                        starts_discovery,
                        "nobody asked for a discovery, or one is running"
                    );
                    assert_eq!(targets, self.model.targets());
                    let connects = u32::try_from(targets.len()).expect("few targets") + 1;
                    assert_eq!(
                        limit,
                        self.model.options.connect_timeout * connects + Duration::from_secs(5)
                    );
                    starts_discovery = false;
                    self.model.discovery_running = true;
                }
                Action::Changed => {}
                Action::ResolveNames { .. } => panic!("no names are to be looked up"),
                Action::StartProbe {
                    key,
                    id,
                    limit,
                    ask_role,
                    ask_timeline,
                } => {
                    assert!(self.probe_ids.insert(id), "probe {id} is given twice");
                    assert_eq!(limit, self.model.options.connect_timeout * 2);
                    let doubted = self.model.ask_at.remove(&key).is_some();
                    if doubted {
                        self.model.asked_at.insert(key.clone(), self.now);
                    }
                    assert_eq!(ask_role, self.model.watching || doubted);
                    let failed = self.model.failures.get(&key);
                    let early = failed.is_some_and(|failed| failed.next_probe > self.now);
                    assert!(
                        self.model.probes.insert(key.clone(), (id, early)).is_none(),
                        "a second probe of {key}"
                    );
                    assert_eq!(ask_timeline, rivals.contains(&key));
                    // primaries may be asked for their timelines beside what is due
                    if !ask_timeline || due.contains(&key) {
                        probed.insert(key);
                    }
                }
                Action::StopProbe { key, id } => {
                    if !self.stopped.remove(&id) {
                        let stopped = self.model.probes.remove(&key).map(|(id, _)| id);
                        assert_eq!(stopped, Some(id), "{key} is not being probed");
                    }
                    assert!(
                        !self.model.failures.contains_key(&key),
                        "{key} has failed and was to be probed"
                    );
                }
                Action::Log(line) => self.check_line(line, &expected),
            }
        }
        assert!(!starts_discovery, "no discovery was started");
        assert_eq!(probed, due, "hosts probed, and hosts due for it");
    }

    fn check_line(&mut self, line: LogEvent, expected: &Expected) {
        let (host, kind) = match line {
            LogEvent::Down { host, .. } => (host, FailureKind::Down),
            LogEvent::Rejected { host, .. } => (host, FailureKind::Rejected),
            LogEvent::NotReady { host, .. } => (host, FailureKind::NotReady),
            LogEvent::Full { host, .. } => (host, FailureKind::Full),
            LogEvent::RunEnded {
                host, kind, failures, ..
            } => {
                let (of, counted) = self.runs.remove(&host).expect("a run that ended had begun");
                assert_eq!(of, kind);
                // the failure that found the run over begins the next
                let next = u32::from(
                    expected
                        .failed
                        .as_ref()
                        .is_some_and(|failed| *failed == (host, kind)),
                );
                assert_eq!(counted, failures + next);
                return;
            }
            LogEvent::DiscoveryFailed { .. } => {
                assert!(expected.discovery_failed && !std::mem::replace(&mut self.discovery_run, true));
                return;
            }
            LogEvent::DiscoveryRecovered { .. } => {
                assert!(
                    std::mem::replace(&mut self.discovery_run, false),
                    "a run that ended had begun"
                );
                return;
            }
            _ => return,
        };
        assert_eq!(
            expected.failed,
            Some((host.clone(), kind)),
            "a line of a failure that was not"
        );
        let before = self.runs.insert(host.clone(), (kind, 1));
        assert!(
            before.is_none_or(|(of, _)| of != kind),
            "{host} began its run twice"
        );
    }

    fn check_state(&self) {
        let target = TargetSessionAttrs::ALL[self.ready_actions + self.model.live.len() % 7];
        let known = self.cluster.snapshot(target, self.now);
        let said: Vec<_> = self
            .model
            .said
            .iter()
            .map(|(key, said)| (key, said.role, said.at))
            .collect();
        let roles: Vec<_> = known
            .roles
            .iter()
            .map(|(key, seen)| (key, seen.role, seen.at))
            .collect();
        assert_eq!(roles, said);
        let unfit: Vec<_> = said
            .iter()
            .filter(|(_, role, _)| target.fit(*role) == Fit::Unfit)
            .map(|(key, ..)| (*key).clone())
            .collect();
        assert_eq!(known.unfit, unfit);
        assert_eq!(known.counts, Model::tally(&self.model.live));
        assert_eq!(known.pending, Model::tally(&self.model.reserved));
        assert_eq!(known.discovered, self.model.discovered);
        assert_eq!(known.discovery.running, self.model.discovery_running);
        assert_eq!(self.cluster.is_ready(), self.model.ready);
        assert_eq!(self.ready_actions, usize::from(self.model.ready));

        let failures: Vec<_> = known
            .failures
            .iter()
            .map(|(key, was)| (key, was.kind, was.consecutive, was.next_probe))
            .collect();
        let expected: Vec<_> = self
            .model
            .failures
            .iter()
            .map(|(key, was)| (key, was.kind, was.consecutive, was.next_probe))
            .collect();
        assert_eq!(failures, expected);
        let search = hosts_model::Search {
            target,
            ..hosts_model::Search::default()
        };
        let placement = self.model.candidates(&search, self.now).unwrap_or_default();
        let mut sorted = (known.placement.clone(), placement);
        sorted.0.sort();
        sorted.1.sort();
        assert_eq!(sorted.0, sorted.1);
        for host in &known.placement {
            assert!(
                known.allowed.contains(host) || known.unfit.contains(host),
                "{host} may be opened to but not stayed on: {:?}",
                known.allowed
            );
        }
        let allowed: BTreeSet<HostKey> = known.allowed.iter().cloned().collect();
        assert_eq!(
            allowed.len(),
            known.allowed.len(),
            "a host is named twice: {:?}",
            known.allowed
        );
        assert_eq!(allowed, self.model.allowed(target), "{target}");
        assert!(known.unfit.iter().all(|host| !allowed.contains(host)));
        let own_times = self.model.own_times().into_iter().map(|(_, at)| at);
        let (next, first) = (
            self.cluster.next_timer(),
            self.model
                .refresh_timer
                .into_iter()
                .chain(self.model.strangers_at)
                .chain(own_times)
                .min(),
        );
        assert!(
            first.is_none_or(|at| next.is_some_and(|next| next <= at)),
            "{first:?} would be missed"
        );
        assert!(
            next == first || next.is_some_and(|_| !self.runs.is_empty() || self.discovery_run),
            "{next:?}"
        );
    }
}

fn run(seed: u64) {
    let _replay = Replay(seed);
    let mut history = History::new(seed);
    for _ in 0..EVENTS {
        history.event();
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().expect("a whole number"))
}

fn run_share(share: u64, shares: u64) {
    match number("PGSTEER_SEED") {
        Some(seed) => run(seed),
        None => {
            let histories = number("PGSTEER_HISTORIES").unwrap_or(HISTORIES);
            for seed in (share..histories).step_by(shares as usize) {
                run(seed);
            }
        }
    }
}

// two tests, so that two processors share the work

#[test]
fn every_history_keeps_to_the_rules_with_an_even_number() {
    run_share(0, 2);
}

#[test]
fn every_history_keeps_to_the_rules_with_an_odd_number() {
    run_share(1, 2);
}
