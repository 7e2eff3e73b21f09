//! A small world to plan a pool in: slots with holders, waiters and drivers, openers, hosts that come and go, and the
//! real cluster machine. Everything happens when the test says so, on a clock that only the test moves, and what must
//! never happen is checked on the way.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of the world"
)]

mod checks;
pub mod outside;
pub mod random;
pub mod rig;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{
    Action as ClusterAction, Addresses, Answer, ClusterOptions, ClusterState, DiscoveredRow,
    DiscoveryOutcome, FailureKind, Fit, HostOrder, LoadBalance, NoHost, Role, Search, Snapshot,
    TargetSessionAttrs,
};
use pgsteer_core::pool::planner::{
    Action, CloseReason, OpenFailure, Planner, PlannerOptions, PoolView, ReturnReason, SlotState,
};
use pgsteer_core::topology::{Placement, TopologyKeys};
use pgsteer_core::verdict::HostEffect;

use random::Random;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// A fixed pool with the reference's values, in which nothing but the test's own doing happens for ten minutes.
pub fn options(size: u32) -> PlannerOptions {
    PlannerOptions {
        size,
        min_idle: size,
        idle_timeout: None,
        max_lifetime: Some(600 * SECOND),
        lifetime_jitter: Duration::ZERO,
        rebalance_interval: 100 * MS,
        rebalance_batch: 2,
        max_dials: 8,
        refill_delay: SECOND,
        login_backoff_max: 30 * SECOND,
        not_ready_max: 5 * SECOND,
        hook_keep_off: SECOND,
        return_cancel_after: SECOND,
        return_timeout: 5 * SECOND,
    }
}

pub fn cluster_options(load_balance: LoadBalance) -> ClusterOptions {
    ClusterOptions {
        load_balance,
        topology_keys: TopologyKeys::parse("").unwrap(),
        fallback_only: false,
        host_order: HostOrder::Listed,
        role_ttl: 10 * SECOND,
        drain_stale_addresses: false,
        refresh_interval: SECOND,
        failed_host_delay: SECOND,
        failed_host_max_delay: None,
        connect_timeout: SECOND,
        log_window: 60 * SECOND,
    }
}

pub fn host(name: &str) -> HostKey {
    HostKey::new(name, 5433)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Keeper,
    Idle,
    Leased,
    Parked,
    /// A lease on its way to the keeper.
    Post,
}

/// A connection that is open on some server.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub id: u64,
    pub host: HostKey,
    pub opened_at: Instant,
    pub expires_at: Option<Instant>,
    pub retired: bool,
    pub ended: bool,
    pub dirty: bool,
}

#[derive(Debug)]
pub struct Place {
    pub owner: Owner,
    pub tenant: Option<Tenant>,
    pub uses: u64,
}

/// The slots, as holders and drivers change them behind the planner's back.
#[derive(Debug)]
pub struct Places {
    pub places: Vec<Place>,
    pub waiting: usize,
}

impl PoolView for Places {
    fn is_idle(&self, slot: u32) -> bool {
        self.places[slot as usize].owner == Owner::Idle
    }
    fn is_parked(&self, slot: u32) -> bool {
        self.places[slot as usize].owner == Owner::Parked
    }
    fn uses(&self, slot: u32) -> u64 {
        self.places[slot as usize].uses
    }
    fn waiting(&self) -> usize {
        self.waiting
    }
    fn idle(&self) -> usize {
        self.places.iter().filter(|it| it.owner == Owner::Idle).count()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Up,
    Down,
    /// Answers, and takes no connections.
    Rejects,
    /// Answers that it is starting up.
    NotReady,
}

#[derive(Debug)]
pub struct Opener {
    pub avoid: Vec<HostKey>,
    pub tried: Vec<HostKey>,
    /// Reserved and being dialled.
    pub dialling: Option<HostKey>,
    pub login_refused: bool,
    /// Some host said that it is something else than what is wanted.
    pub unfit: bool,
    pub not_ready: bool,
    /// A connection that will do, unless a better one is found.
    pub spare: Option<(HostKey, Role)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    Rollback,
    Cancel,
}

/// What travels to the keeper, in any order.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    Returned(u32, ReturnReason),
    Parked(u32),
    Ended(u32, u64),
    DiedParked(u32),
    Demand,
}

pub struct World {
    pub now: Instant,
    pub planner: Planner,
    pub options: PlannerOptions,
    pub cluster: ClusterState,
    pub view: Places,
    pub health: BTreeMap<HostKey, Health>,
    /// What discovery returns.
    pub listed: Vec<(HostKey, &'static str)>,
    pub target: TargetSessionAttrs,
    /// What each host is; the others are primaries.
    pub roles: BTreeMap<HostKey, Role>,
    /// Hosts that the planner has been told to be unfit.
    pub was_unfit: BTreeSet<HostKey>,
    pub login_refused: bool,
    pub hook_fails_on: Vec<HostKey>,
    pub openers: BTreeMap<u32, Opener>,
    pub cleaning: BTreeMap<u32, Cleaning>,
    pub closing: Vec<u32>,
    pub post: VecDeque<Note>,
    /// Whom, which, and whether it is asked what it is.
    pub probes: Vec<(HostKey, u64, bool)>,
    pub discovering: bool,
    pub random: Random,
    /// How likely something happens between an action and its execution: one in so many; zero is never.
    pub races: u64,
    pub dialled: Vec<HostKey>,
    pub closed: Vec<(HostKey, CloseReason)>,
    pub failed_waiters: usize,
    pub ticks: usize,
    next_id: u64,
    /// What the last look at the hosts was made by.
    last_snapshot: Option<Snapshot>,
    refusal_just_reported: bool,
    passing_just_reported: bool,
    /// When an open last failed because nothing fitted or was ready.
    last_passing: Option<Instant>,
    /// No connection has opened since then, and no open has failed for another reason.
    is_passing: bool,
    cluster_changed: bool,
    resting_until: Option<Instant>,
    replaces_at_once: bool,
    last_young_death: Option<Instant>,
    /// Whether any open has come to anything yet, and since when its first opener is at work.
    experienced: bool,
    alone_since: Option<Instant>,
}

impl World {
    pub fn new(
        options: PlannerOptions,
        cluster: ClusterOptions,
        seeds: &[&str],
        listed: &[(&str, &'static str)],
        seed: u64,
    ) -> Self {
        let now = Instant::now();
        let listed: Vec<(HostKey, &'static str)> =
            listed.iter().map(|(name, zone)| (host(name), *zone)).collect();
        let seeds: Vec<HostKey> = seeds.iter().map(|name| host(name)).collect();
        let all = seeds.iter().chain(listed.iter().map(|(key, _)| key));
        let places = (0..options.size).map(|_| Place {
            owner: Owner::Keeper,
            tenant: None,
            uses: 0,
        });
        World {
            now,
            planner: Planner::new(options.clone()),
            health: all.map(|key| (key.clone(), Health::Up)).collect(),
            cluster: ClusterState::new(cluster, seeds, now),
            view: Places {
                places: places.collect(),
                waiting: 0,
            },
            options,
            listed,
            target: TargetSessionAttrs::Any,
            roles: BTreeMap::new(),
            was_unfit: BTreeSet::new(),
            login_refused: false,
            hook_fails_on: Vec::new(),
            openers: BTreeMap::new(),
            cleaning: BTreeMap::new(),
            closing: Vec::new(),
            post: VecDeque::new(),
            probes: Vec::new(),
            discovering: false,
            random: Random::new(seed),
            races: 0,
            dialled: Vec::new(),
            closed: Vec::new(),
            failed_waiters: 0,
            ticks: 0,
            next_id: 0,
            last_snapshot: None,
            refusal_just_reported: false,
            passing_just_reported: false,
            last_passing: None,
            is_passing: false,
            cluster_changed: false,
            resting_until: None,
            replaces_at_once: false,
            last_young_death: None,
            experienced: false,
            alone_since: None,
        }
    }

    pub fn start(&mut self) {
        self.planner.start(&self.view, self.now);
        self.pump();
    }

    // The keeper.

    /// Carries out what the planner and the cluster ask for.
    pub fn pump(&mut self) {
        loop {
            while let Some(action) = self.planner.next_action() {
                self.execute(action);
            }
            self.take_cluster_actions();
            if !std::mem::take(&mut self.cluster_changed) {
                return;
            }
            let snapshot = self.snapshot();
            self.was_unfit.extend(snapshot.unfit.iter().cloned());
            self.planner.cluster_changed(&snapshot, &self.view, self.now);
        }
    }

    fn take_cluster_actions(&mut self) {
        for action in self.cluster.take_actions() {
            match action {
                ClusterAction::StartDiscovery { .. } => self.discovering = true,
                ClusterAction::Changed => self.cluster_changed = true,
                ClusterAction::StartProbe {
                    key, id, ask_role, ..
                } => self.probes.push((key, id, ask_role)),
                ClusterAction::StopProbe { id, .. } => self.probes.retain(|(_, other, _)| *other != id),
                _ => {}
            }
        }
    }

    fn execute(&mut self, action: Action) {
        if self.races > 0 && self.random.one_in(self.races) {
            self.something_outside();
        }
        self.check_action(&action);
        match action {
            Action::Open { slot, avoid } => {
                assert_eq!(
                    self.place(slot).owner,
                    Owner::Keeper,
                    "only an owned slot is opened for"
                );
                assert!(
                    self.place(slot).tenant.is_none(),
                    "a slot with a connection is not opened for"
                );
                let opener = Opener {
                    avoid,
                    tried: Vec::new(),
                    dialling: None,
                    login_refused: false,
                    unfit: false,
                    not_ready: false,
                    spare: None,
                };
                assert!(self.openers.insert(slot, opener).is_none(), "one opener per slot");
            }
            Action::Release { slot } => {
                assert_eq!(
                    self.place(slot).owner,
                    Owner::Keeper,
                    "only an owned slot is released"
                );
                self.release(slot);
            }
            Action::Close { slot, why, claim } => {
                if claim && !self.claim(slot, Owner::Idle) {
                    return;
                }
                assert_eq!(
                    self.place(slot).owner,
                    Owner::Keeper,
                    "only an owned connection is closed"
                );
                let key = self.tenant(slot).host.clone();
                self.closed.push((key, why));
                self.closing.push(slot);
            }
            Action::Retire { slot } => {
                if let Some(tenant) = self.place(slot).tenant.as_mut() {
                    tenant.retired = true;
                }
            }
            Action::Unretire { slot } => {
                if let Some(tenant) = self.place(slot).tenant.as_mut() {
                    tenant.retired = false;
                }
            }
            Action::Rollback { slot } => {
                assert_eq!(
                    self.place(slot).owner,
                    Owner::Keeper,
                    "only an owned connection is rolled back"
                );
                self.cleaning.insert(slot, Cleaning::Rollback);
            }
            Action::Cancel { slot } => {
                if self.claim(slot, Owner::Parked) {
                    self.cleaning.insert(slot, Cleaning::Cancel);
                }
            }
            Action::Abort { slot, claim } => {
                if claim && !self.claim(slot, Owner::Parked) {
                    return;
                }
                assert_eq!(
                    self.place(slot).owner,
                    Owner::Keeper,
                    "only an owned connection is cut"
                );
                self.cleaning.remove(&slot);
                if !self.closing.contains(&slot) {
                    self.closing.push(slot);
                }
            }
            Action::FailWaiters => {
                self.failed_waiters += self.view.waiting;
                self.view.waiting = 0;
            }
        }
    }

    /// Gets hold of a slot, if it still is with whom the planner thought.
    fn claim(&mut self, slot: u32, from: Owner) -> bool {
        if self.place(slot).owner == from {
            self.place(slot).owner = Owner::Keeper;
            return true;
        }
        self.planner.claim_failed(slot, &self.view, self.now).unwrap();
        false
    }

    /// Tells the planner one of the things that are on their way to it.
    pub fn deliver(&mut self, which: usize) {
        let Some(note) = self.post.remove(which) else {
            return;
        };
        match note {
            Note::Returned(slot, why) => {
                assert_eq!(self.place(slot).owner, Owner::Post);
                self.place(slot).owner = Owner::Keeper;
                if matches!(why, ReturnReason::Closed | ReturnReason::Detached) {
                    self.empty(slot);
                }
                self.planner.returned(slot, why, &self.view, self.now).unwrap();
            }
            Note::Parked(slot) => self.planner.parked(slot, &self.view, self.now),
            Note::DiedParked(slot) => {
                self.place(slot).owner = Owner::Keeper;
                self.empty(slot);
                self.planner.died(slot, true, &self.view, self.now).unwrap();
            }
            Note::Ended(slot, id) => {
                let here = self
                    .place(slot)
                    .tenant
                    .as_ref()
                    .is_some_and(|tenant| tenant.id == id);
                let owned = here
                    && match self.place(slot).owner {
                        Owner::Idle | Owner::Keeper => true,
                        Owner::Leased | Owner::Parked | Owner::Post => false,
                    };
                if owned {
                    self.place(slot).owner = Owner::Keeper;
                    self.cleaning.remove(&slot);
                    self.closing.retain(|other| *other != slot);
                    self.empty(slot);
                }
                self.planner.died(slot, owned, &self.view, self.now).unwrap();
            }
            Note::Demand => self.planner.demand(&self.view, self.now),
        }
        self.pump();
    }

    /// The next wake-ups up to `until`, each at its exact time.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        let ticks = self.ticks;
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.wake();
        }
        self.now = until;
        self.check_ticks(self.ticks - ticks, by);
    }

    pub fn next_timer(&self) -> Option<Instant> {
        [self.planner.next_wake(), self.cluster.next_timer()]
            .into_iter()
            .flatten()
            .min()
    }

    pub fn wake(&mut self) {
        if self.cluster.next_timer().is_some_and(|at| at <= self.now) {
            self.cluster.on_timer(self.now);
            self.pump();
        }
        if self.planner.next_wake().is_some_and(|at| at <= self.now) {
            self.tick();
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        self.cluster.snapshot(self.target, self.now)
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let snapshot = self.planner.rebalance_due(self.now).then(|| self.snapshot());
        let marked = self.moving_marks();
        self.planner.tick(snapshot.as_ref(), &self.view, self.now);
        self.after_look(snapshot, &marked);
        let wake = self.planner.next_wake();
        assert!(
            wake.is_none_or(|at| at > self.now),
            "asked to be woken in the past"
        );
    }

    pub fn rebalance(&mut self) {
        let snapshot = self.snapshot();
        let marked = self.moving_marks();
        self.planner.rebalance(&snapshot, &self.view, self.now);
        self.after_look(Some(snapshot), &marked);
    }

    fn after_look(&mut self, snapshot: Option<Snapshot>, marked: &[u32]) {
        let actions: Vec<Action> = std::iter::from_fn(|| self.planner.next_action()).collect();
        let unfit = snapshot
            .iter()
            .flat_map(|snapshot| snapshot.unfit.iter().cloned());
        self.was_unfit.extend(unfit);
        if let Some(snapshot) = snapshot.filter(|it| !it.allowed.is_empty()) {
            self.last_snapshot = Some(snapshot);
        }
        self.check_batch(&actions, marked);
        for action in actions {
            self.execute(action);
        }
        self.pump();
    }

    // Openers, cleaners, closers, discovery and probes.

    /// One step of the opener: it picks a host, or learns what came of dialling it.
    pub fn step_opener(&mut self, slot: u32) {
        if !self.cluster.is_ready() {
            return;
        }
        let mut opener = self.openers.remove(&slot).unwrap();
        let Some(key) = opener.dialling.take() else {
            let draw = self.random.next();
            let search = Search {
                target: self.target,
                tried: &opener.tried,
                avoid: &opener.avoid,
                answered: opener.unfit || opener.not_ready,
                spare: opener.spare.is_some(),
            };
            match self.cluster.pick(&search, draw, self.now) {
                Ok(key) => {
                    self.dialled.push(key.clone());
                    opener.dialling = Some(key);
                    self.openers.insert(slot, opener);
                }
                Err(no_host) => match opener.spare.take() {
                    Some((key, role)) => self.report_opened(slot, key, Some(role), &opener.avoid),
                    None => self.report_failed_open(slot, &opener, no_host),
                },
            }
            self.pump();
            return;
        };
        match self.health[&key] {
            Health::Up if self.login_refused => {
                self.cluster.cancelled(&key);
                opener.login_refused = true;
                opener.tried.push(key);
                self.openers.insert(slot, opener);
            }
            Health::Up => self.dialled_as(slot, key, opener),
            sick => {
                let kind = match sick {
                    Health::Down => FailureKind::Down,
                    Health::NotReady => FailureKind::NotReady,
                    _ => FailureKind::Rejected,
                };
                opener.not_ready |= sick == Health::NotReady;
                self.cluster.open_failed(&key, kind, "as the test said", self.now);
                opener.tried.push(key);
                self.openers.insert(slot, opener);
                self.pump();
            }
        }
    }

    fn role(&self, key: &HostKey) -> Role {
        self.roles.get(key).copied().unwrap_or(Role::Primary)
    }

    /// The host gives a connection: it is used, kept, or closed, by what the host is.
    fn dialled_as(&mut self, slot: u32, key: HostKey, mut opener: Opener) {
        let role = self.role(&key);
        let asked = Some(role).filter(|_| self.target.asks() || role == Role::ColdStandby);
        let fit = asked.map_or(Fit::Wanted, |role| self.cluster.fit(&key, role, self.target));
        match fit {
            Fit::Wanted => {
                if let Some((spare, role)) = opener.spare.take() {
                    self.cluster.answered(&spare, role, self.now);
                }
                return self.report_opened(slot, key, asked, &opener.avoid);
            }
            Fit::Accepted if opener.spare.is_none() => opener.spare = Some((key.clone(), role)),
            Fit::Accepted => self.cluster.answered(&key, role, self.now),
            Fit::Unfit => {
                self.cluster.answered(&key, role, self.now);
                opener.unfit = true;
            }
        }
        opener.tried.push(key);
        self.openers.insert(slot, opener);
        self.pump();
    }

    fn report_opened(&mut self, slot: u32, key: HostKey, role: Option<Role>, avoid: &[HostKey]) {
        assert!(
            role.is_none_or(|role| self.target.fit(role) != Fit::Unfit),
            "{key} is a {role:?}, which is not wanted"
        );
        self.cluster.opened(&key, role, self.now);
        self.is_passing = false;
        if self.hook_fails_on.contains(&key) {
            self.cluster.closed(&key);
            self.planner
                .hook_failed(slot, key.clone(), &self.view, self.now)
                .unwrap();
            self.shorten_rest();
            if avoid.contains(&key) {
                self.experienced = true;
                self.begin_rest();
            } else {
                self.replaces_at_once = true;
            }
            self.pump();
            self.replaces_at_once = false;
            return;
        }
        self.experienced = true;
        self.next_id += 1;
        let tenant = Tenant {
            id: self.next_id,
            host: key.clone(),
            opened_at: self.now,
            expires_at: None,
            retired: false,
            ended: false,
            dirty: false,
        };
        self.place(slot).tenant = Some(tenant);
        let draw = self.random.next();
        self.planner
            .opened(slot, key, None, draw, &self.view, self.now)
            .unwrap();
        self.shorten_rest();
        let expires_at = self.planner.slot_info(slot).unwrap().expires_at;
        self.check_lifetime(expires_at);
        self.place(slot).tenant.as_mut().unwrap().expires_at = expires_at;
        self.pump();
    }

    fn report_failed_open(&mut self, slot: u32, opener: &Opener, no_host: NoHost) {
        let why = match no_host {
            _ if opener.unfit => OpenFailure::NoFit,
            _ if opener.login_refused => OpenFailure::Login,
            _ if opener.not_ready => OpenFailure::NotReady,
            NoHost::NoServer => OpenFailure::Hosts,
            NoHost::NoNode(_) => OpenFailure::Refused,
            NoHost::NotReady(_) => OpenFailure::NotReady,
        };
        self.experienced = true;
        self.refusal_just_reported = why == OpenFailure::Login;
        self.passing_just_reported = matches!(why, OpenFailure::NoFit | OpenFailure::NotReady);
        self.is_passing = self.passing_just_reported;
        if self.passing_just_reported {
            self.last_passing = Some(self.now);
            self.cluster.nothing_fits(self.now);
        }
        self.planner.open_failed(slot, why, &self.view, self.now).unwrap();
        self.begin_rest();
        self.pump();
        (self.refusal_just_reported, self.passing_just_reported) = (false, false);
    }

    pub fn vanish_opener(&mut self, slot: u32) {
        let opener = self.openers.remove(&slot).unwrap();
        let spare = opener.spare.map(|(key, _)| key);
        for key in opener.dialling.into_iter().chain(spare) {
            self.cluster.cancelled(&key);
        }
        self.planner.open_vanished(slot, &self.view, self.now).unwrap();
        self.begin_rest();
        self.pump();
    }

    pub fn finish_cleaning(&mut self, slot: u32, ok: bool) {
        let cleaning = self.cleaning.remove(&slot).unwrap();
        let dirty = std::mem::take(&mut self.tenant(slot).dirty);
        let ok = ok && !self.tenant(slot).ended;
        if ok && dirty && cleaning == Cleaning::Cancel {
            self.planner
                .returned(slot, ReturnReason::Dirty, &self.view, self.now)
                .unwrap();
        } else {
            self.planner.cleaned(slot, ok, &self.view, self.now).unwrap();
        }
        self.pump();
    }

    pub fn finish_closing(&mut self, which: usize) {
        let slot = self.closing.remove(which);
        self.empty(slot);
        self.planner.socket_closed(slot, &self.view, self.now).unwrap();
        self.pump();
    }

    pub fn finish_discovery(&mut self) {
        if !std::mem::take(&mut self.discovering) {
            return;
        }
        let answers = self.health.values().any(|health| *health == Health::Up) && !self.login_refused;
        let rows: Vec<DiscoveredRow> = self
            .listed
            .iter()
            .map(|(key, zone)| DiscoveredRow {
                host: key.name().to_owned(),
                port: key.port(),
                node_type: NodeType::Primary,
                placement: Placement::new("cloud", "region", zone),
                public_ip: None,
            })
            .collect();
        let outcome = match (answers, rows.is_empty()) {
            (false, _) => DiscoveryOutcome::Failed("nobody answers".to_owned()),
            (true, true) => DiscoveryOutcome::NoFunction,
            (true, false) => {
                let unknown = vec![None; rows.len()];
                let addresses = Addresses {
                    answered: None,
                    host: unknown.clone(),
                    public_ip: unknown,
                };
                DiscoveryOutcome::Rows { rows, addresses }
            }
        };
        self.cluster.discovery_finished(outcome, self.now);
        self.pump();
    }

    pub fn finish_probe(&mut self, which: usize) {
        let (key, id, asks) = self.probes.remove(which);
        let result = match self.health[&key] {
            Health::Up if !self.login_refused => Ok(Answer {
                role: Some(self.role(&key)).filter(|_| asks),
                timeline: None,
            }),
            Health::NotReady => Err((
                HostEffect::Failed(FailureKind::NotReady),
                "starting up".to_owned(),
            )),
            Health::Down => {
                // As if nothing had been heard from it.
                self.cluster.silent(&key, id, self.now);
                Err((HostEffect::Failed(FailureKind::Down), "down".to_owned()))
            }
            _ => Err((HostEffect::Failed(FailureKind::Rejected), "rejects".to_owned())),
        };
        self.cluster.probe_finished(&key, id, result, self.now);
        self.pump();
    }

    // For tests that want no disorder.

    /// Lets everything that is under way come to its end, in no time.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let waits_for_discovery = !self.cluster.is_ready();
            if !self.post.is_empty() {
                self.deliver(0);
            } else if self.discovering {
                self.finish_discovery();
            } else if !self.probes.is_empty() {
                self.finish_probe(0);
            } else if !self.closing.is_empty() {
                self.finish_closing(0);
            } else if let Some(slot) = self.cleaning.keys().next().copied() {
                self.finish_cleaning(slot, true);
            } else if let Some(slot) = self
                .openers
                .keys()
                .next()
                .copied()
                .filter(|_| !waits_for_discovery)
            {
                self.step_opener(slot);
            } else {
                self.check();
                return;
            }
        }
        panic!("the pool does not come to rest");
    }

    /// Lets time pass, with everything else taking none.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        self.settle();
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.wake();
            self.settle();
        }
        self.now = until;
    }

    /// Where the connections are, as `a:2 b:1`.
    pub fn by_host(&self) -> String {
        let by_host = self.planner.stats(&self.view).by_host;
        let words: Vec<String> = by_host
            .iter()
            .map(|(key, count)| format!("{}:{count}", key.name()))
            .collect();
        words.join(" ")
    }

    /// Which connections there are, whatever they do.
    pub fn ids(&self) -> Vec<u64> {
        self.view
            .places
            .iter()
            .filter_map(|place| place.tenant.as_ref().map(|tenant| tenant.id))
            .collect()
    }

    pub fn place(&mut self, slot: u32) -> &mut Place {
        &mut self.view.places[slot as usize]
    }

    pub fn tenant(&mut self, slot: u32) -> &mut Tenant {
        self.place(slot)
            .tenant
            .as_mut()
            .expect("the slot has a connection")
    }

    pub fn state(&self, slot: u32) -> SlotState {
        self.planner.slot_info(slot).unwrap().state
    }

    /// The slot's connection is gone from the server.
    fn empty(&mut self, slot: u32) {
        let tenant = self
            .place(slot)
            .tenant
            .take()
            .expect("only a connection can be gone");
        self.cluster.closed(&tenant.host);
        if tenant.ended && self.now < tenant.opened_at + self.options.refill_delay {
            self.last_young_death = Some(self.now);
        }
    }

    fn begin_rest(&mut self) {
        if self.is_passing {
            self.last_passing = Some(self.now);
        }
        if self.resting_until.is_none_or(|until| until <= self.now) {
            let rest = self.planner.login_back_off().unwrap_or(self.options.refill_delay);
            self.resting_until = Some(self.now + rest);
        }
    }

    /// A login succeeded, so that the rest is no longer than any other.
    fn shorten_rest(&mut self) {
        let soon = self.now + self.options.refill_delay;
        self.resting_until = self.resting_until.map(|until| until.min(soon));
    }
}
