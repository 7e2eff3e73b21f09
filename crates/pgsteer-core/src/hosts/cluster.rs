//! The cluster machine: what is known of the hosts, and every event that changes it.
//!
//! It is told what happened and when, and answers with actions for somebody else to carry out. It does no I/O, waits for
//! nothing and draws no random number, so a pick answers at once whatever else is going on.

use std::time::{Duration, Instant};

use super::address::AddressChoice;
use super::failures::{Backoff, mark};
use super::load::HostTable;
use super::log_runs::{Runs, Subject};
use super::picker::Facts;
use super::search::{Places, Search};
use super::{Action, FailureKind, HostOrder, LoadBalance, LogEvent, NoHost, Role, TargetSessionAttrs};
use crate::host::{HostKey, Server};
use crate::topology::TopologyKeys;

/// How a cluster is used.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Which servers new connections go to.
    pub load_balance: LoadBalance,
    /// The places to prefer; empty for none.
    pub topology_keys: TopologyKeys,
    /// Refuse servers outside the topology keys. Without effect if there are none, and under the preferring modes.
    pub fallback_only: bool,
    /// The order of the configured hosts where nothing else decides.
    pub host_order: HostOrder,
    /// How long a host that is known to be of no better use than what there is already is not asked again. Zero: it
    /// always is.
    pub role_ttl: Duration,
    /// Whether refreshes look up the names of configured hosts, so that connections to addresses that a name no longer
    /// has can be moved away.
    pub drain_stale_addresses: bool,
    /// How often servers are looked for and failed hosts probed. Zero: on every pick, and never by a timer.
    pub refresh_interval: Duration,
    /// How long a failed host is left alone at least.
    pub failed_host_delay: Duration,
    /// With a value, the delay doubles with each failure in a row, up to this.
    pub failed_host_max_delay: Option<Duration>,
    /// The limit of one connection attempt, from which those of probes and discoveries follow.
    pub connect_timeout: Duration,
    /// The quiet time that ends a run of failures in the log; 60 s unless a test is in a hurry.
    pub log_window: Duration,
}

/// The pure cluster machine. After every call that changes it, [`take_actions`](Self::take_actions) says what is to be
/// done and [`next_timer`](Self::next_timer) when to call [`on_timer`](Self::on_timer).
#[derive(Debug)]
pub struct ClusterState {
    pub(super) options: ClusterOptions,
    pub(super) table: HostTable,
    /// The seeds' places, in configured order, each once.
    pub(super) seeds: Vec<usize>,
    /// The discovered servers, each once, in the order they were listed.
    pub(super) servers: Vec<Server>,
    /// What the filter needs of each server, in the same order.
    pub(super) facts: Vec<Facts>,
    /// The servers a pick with nothing tried would choose among, by target, and whether that is up to date. Empty if age
    /// matters for it.
    pub(super) candidates: [Vec<usize>; TargetSessionAttrs::ALL.len()],
    pub(super) candidates_known: [bool; TargetSessionAttrs::ALL.len()],
    /// Room for the hosts a search has tried and those it avoids.
    pub(super) scratch: (Places, Places),
    pub(super) discovered: bool,
    /// The last server that was asked cannot list servers.
    pub(super) cannot_list: bool,
    pub(super) discovery_running: bool,
    /// When a discovery last got an answer.
    pub(super) last_answer: Option<Instant>,
    /// The last discovery failed, so that one is still owed.
    pub(super) owed: Option<(Instant, String)>,
    pub(super) ready: bool,
    pub(super) address: Option<AddressChoice>,
    /// When the last refresh started.
    pub(super) last_refresh: Instant,
    pub(super) refresh_timer: Option<Instant>,
    pub(super) last_probe_id: u64,
    /// When the next host is due to be probed by its own schedule.
    pub(super) probe_timer: Option<Instant>,
    /// When hosts that nobody has met yet are asked what they are.
    pub(super) strangers_at: Option<Instant>,
    pub(super) watches_roles: bool,
    /// The targets that searches have had.
    pub(super) searched_for: [bool; TargetSessionAttrs::ALL.len()],
    /// The highest timeline any configured host writes on.
    pub(super) highest_timeline: Option<u32>,
    pub(super) told_of_split_brain: bool,
    pub(super) runs: Runs,
    pub(super) actions: Vec<Action>,
}

impl ClusterState {
    /// A cluster of which only the configured hosts are known, in order of preference. Starts its first discovery, or is
    /// ready at once if it has none to make.
    pub fn new(options: ClusterOptions, seeds: Vec<HostKey>, now: Instant) -> Self {
        let mut table = HostTable::default();
        let mut places = Vec::new();
        for key in &seeds {
            let place = table.place_or_add(key);
            if !table.host(place).is_seed {
                table.host_mut(place).is_seed = true;
                places.push(place);
            }
        }
        let mut cluster = ClusterState {
            runs: Runs::new(options.log_window),
            options,
            table,
            seeds: places,
            servers: Vec::new(),
            facts: Vec::new(),
            candidates: Default::default(),
            candidates_known: Default::default(),
            scratch: Default::default(),
            discovered: false,
            cannot_list: false,
            discovery_running: false,
            last_answer: None,
            owed: None,
            ready: false,
            address: None,
            last_refresh: now,
            refresh_timer: None,
            last_probe_id: 0,
            probe_timer: None,
            strangers_at: None,
            watches_roles: false,
            searched_for: Default::default(),
            highest_timeline: None,
            told_of_split_brain: false,
            actions: Vec::new(),
        };
        if cluster.options.load_balance.discovers() {
            cluster.refresh(now);
        } else {
            cluster.arm_refresh_timer(now);
            cluster.become_ready();
        }
        cluster
    }

    /// What is to be done, in order. Each action is given once.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The options this cluster was made with.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// Whether connections may be opened: the first discovery has ended, however it did, or there is none.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Chooses a host for one connection attempt and reserves it. The reservation ends with exactly one of
    /// [`opened`](Self::opened), [`answered`](Self::answered), [`open_failed`](Self::open_failed) and
    /// [`cancelled`](Self::cancelled).
    ///
    /// `draw` is a random number that settles ties. A pick may start a refresh but never waits for it.
    ///
    /// # Errors
    ///
    /// If nothing is left to try; nothing is changed by that.
    pub fn pick(&mut self, search: &Search<'_>, draw: u64, now: Instant) -> Result<HostKey, NoHost> {
        self.searched_for[search.target as usize] = true;
        self.refresh_if_picks_call_for_it(now);
        let place = self
            .choose(search, draw, now)
            .ok_or_else(|| match self.refusal() {
                Some(refused) if self.some_server_is_coming() => NoHost::NotReady(refused),
                Some(refused) => NoHost::NoNode(refused),
                None => NoHost::NoServer,
            })?;
        self.table.reserve(place);
        Ok(self.table.host(place).key.clone())
    }

    /// A picked host was connected to; the connection counts until [`closed`](Self::closed). The host works again. `role`
    /// is what it said it is, if it was asked.
    pub fn opened(&mut self, key: &HostKey, role: Option<Role>, now: Instant) {
        let place = self.table.place_or_add(key);
        self.table.settle(place);
        self.table.count(place);
        self.works(place, role, None, false, now);
    }

    /// A picked host works, but is of no use to the search: it said that it is something else than what is wanted, or
    /// that it is a standby that takes no sessions. No connection counts for it.
    pub fn answered(&mut self, key: &HostKey, role: Role, now: Instant) {
        let place = self.table.place_or_add(key);
        self.table.settle(place);
        self.works(place, Some(role), None, true, now);
    }

    /// A picked host could not be connected to. It is left out until something connects to it, and a refresh starts
    /// unless the last one is younger than a second. `reason` is for people and holds no secrets.
    pub fn open_failed(&mut self, key: &HostKey, kind: FailureKind, reason: &str, now: Instant) {
        let place = self.table.place_or_add(key);
        self.table.settle(place);
        self.mark_failed(place, kind, reason, false, now);
        self.find_probe_timer();
        self.refresh_early(now);
    }

    /// A pick came to nothing, in a way that says nothing of its host.
    pub fn cancelled(&mut self, key: &HostKey) {
        if let Some(place) = self.table.place(key) {
            self.table.settle(place);
        }
    }

    /// A connection that had been reported opened is gone. Says nothing of its host.
    pub fn closed(&mut self, key: &HostKey) {
        if let Some(place) = self.table.place(key) {
            self.table.uncount(place);
        }
    }

    /// `after_connect` failed on a connection to the host. Only for the log: no host is marked by it. `keep_off` is how
    /// long the pool avoids the host.
    pub fn hook_failed(&mut self, key: &HostKey, reason: &str, keep_off: Duration, now: Instant) {
        let line = || LogEvent::HookFailed {
            host: key.clone(),
            reason: reason.to_owned(),
            keep_off,
        };
        let lines = self.runs.failed(Subject::Hook(key.clone()), None, now, line);
        self.log(lines);
    }

    /// `after_connect` went well on a connection to the host. Only for the log.
    pub fn hook_passed(&mut self, key: &HostKey, now: Instant) {
        let line = self.runs.passed(&Subject::Hook(key.clone()), now);
        self.log(line);
    }

    pub(super) fn mark_failed(
        &mut self,
        place: usize,
        kind: FailureKind,
        reason: &str,
        again: bool,
        now: Instant,
    ) {
        let backoff = Backoff::of(kind, &self.options);
        let host = self.table.host_mut(place);
        let worked = host.works();
        let failure = mark(host.failure.as_ref(), kind, reason, again, backoff, now);
        let delay = failure.next_probe.saturating_duration_since(now);
        host.failure = Some(failure);
        // it may come back as something else
        self.doubt(place);
        if worked {
            self.outdate_candidates();
        }

        let (host, reason) = (self.table.host(place).key.clone(), reason.to_owned());
        let subject = Subject::Host(host.clone());
        let lines = self.runs.failed(subject, Some(kind), now, || match kind {
            FailureKind::Down => LogEvent::Down { host, reason, delay },
            FailureKind::Rejected => LogEvent::Rejected { host, reason, delay },
            FailureKind::NotReady => LogEvent::NotReady { host, reason, delay },
            FailureKind::Full => LogEvent::Full { host, reason, delay },
        });
        self.log(lines);
    }

    /// The host was connected to, or answered that it is there, and said what it is, if it was asked. `is_news`: people
    /// are told of that even if nothing was known before.
    pub(super) fn works(
        &mut self,
        place: usize,
        role: Option<Role>,
        timeline: Option<u32>,
        is_news: bool,
        now: Instant,
    ) {
        self.reacts(place);
        // a working host may be asked for its timeline meanwhile, which no connection brings
        if self.table.host_mut(place).failure.take().is_some() {
            self.stop_probe(place);
            self.outdate_candidates();
            self.changed();
            self.find_probe_timer();
        }
        match role {
            Some(_) if self.table.host(place).is_mixed => self.answered_and_has_no_role(place),
            Some(role) => self.learn(place, role, timeline, is_news, now),
            None => self.takes_sessions(place),
        }
        let subject = Subject::Host(self.table.host(place).key.clone());
        let line = self.runs.passed(&subject, now);
        self.log(line);
    }

    pub(super) fn log(&mut self, lines: impl IntoIterator<Item = LogEvent>) {
        for mut line in lines {
            if let LogEvent::RunEnded { host, role, .. } = &mut line {
                let place = self.table.place(host);
                *role = place.and_then(|place| Some(self.table.host(place).role?.seen.role));
            }
            self.actions.push(Action::Log(line));
        }
    }
}
