//! The cluster machine: what is known of the hosts, and every event that changes it.
//!
//! It is told what happened and when, and answers with actions for somebody else to carry out. It does no I/O, waits for
//! nothing and draws no random number, so a pick answers at once whatever else is going on.

use std::time::{Duration, Instant};

use super::address::AddressChoice;
use super::failures::{Backoff, mark};
use super::load::HostTable;
use super::log_runs::{Runs, Subject};
use super::picker::{Facts, Policy, least_loaded};
use super::{Action, FailureKind, LoadBalance, LogEvent, NoHost};
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
    /// The servers a pick with nothing tried would choose among, unless out of date.
    candidates: Vec<usize>,
    pub(super) candidates_outdated: bool,
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
            candidates: Vec::new(),
            candidates_outdated: false,
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
    /// [`opened`](Self::opened), [`open_failed`](Self::open_failed) and [`cancelled`](Self::cancelled).
    ///
    /// `tried` are the hosts that this search has been to already. `avoid` are hosts to be used only if there are no
    /// others as good. `draw` is a random number that settles ties. A pick may start a refresh but never waits for it.
    ///
    /// # Errors
    ///
    /// If nothing is left to try; nothing is changed by that.
    pub fn pick(
        &mut self,
        tried: &[HostKey],
        avoid: &[HostKey],
        draw: u64,
        now: Instant,
    ) -> Result<HostKey, NoHost> {
        self.refresh_if_picks_call_for_it(now);
        let place = self
            .choose(tried, avoid, draw)
            .ok_or_else(|| match self.refusal() {
                Some(refused) => NoHost::NoNode(refused),
                None => NoHost::NoServer,
            })?;
        self.table.reserve(place);
        Ok(self.table.host(place).key.clone())
    }

    fn choose(&mut self, tried: &[HostKey], avoid: &[HostKey], draw: u64) -> Option<usize> {
        if self.candidates_outdated {
            self.candidates = self.tier_one(|place| self.table.host(place).works());
            self.candidates_outdated = false;
        }
        let tried: Vec<usize> = tried.iter().filter_map(|key| self.table.place(key)).collect();
        // a host that failed is no candidate anyway
        let tried_works = tried.iter().any(|place| self.table.host(*place).works());
        let without_tried = tried_works.then(|| {
            let is_tried = self.marks(&tried);
            self.tier_one(|place| !is_tried[place] && self.table.host(place).works())
        });
        let candidates = without_tried.as_ref().unwrap_or(&self.candidates);
        self.choose_avoiding(candidates, avoid, draw)
            .or_else(|| self.seed_to_try(&tried))
    }

    /// The servers that a pick chooses among, of those for which `usable` is true.
    pub(super) fn tier_one(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let usable = || self.facts.iter().filter(|server| usable(server.place));
        let filter = self.policy().filter(usable());
        usable()
            .filter(|server| filter.admits(server))
            .map(|server| server.place)
            .collect()
    }

    fn choose_avoiding(&self, candidates: &[usize], avoid: &[HostKey], draw: u64) -> Option<usize> {
        let loads = self.table.loads();
        if avoid.is_empty() {
            return least_loaded(candidates, loads, draw);
        }
        let avoid: Vec<usize> = avoid.iter().filter_map(|key| self.table.place(key)).collect();
        let is_avoided = self.marks(&avoid);
        let welcome: Vec<usize> = candidates
            .iter()
            .copied()
            .filter(|place| !is_avoided[*place])
            .collect();
        least_loaded(&welcome, loads, draw).or_else(|| least_loaded(candidates, loads, draw))
    }

    /// For every place of the table, whether it is among these.
    fn marks(&self, places: &[usize]) -> Vec<bool> {
        let mut marks = vec![false; self.table.len()];
        for place in places {
            marks[*place] = true;
        }
        marks
    }

    /// The first seed that works, else the first at all, tried ones left out.
    pub(super) fn seed_to_try(&self, tried: &[usize]) -> Option<usize> {
        if self.refusal().is_some() {
            return None;
        }
        let untried = || self.seeds.iter().copied().filter(|place| !tried.contains(place));
        untried()
            .find(|place| self.table.host(*place).works())
            .or_else(|| untried().next())
    }

    /// Why the seeds may not be used, if they may not: a mode that refuses does so from the first discovered server on.
    pub(super) fn refusal(&self) -> Option<super::Refused> {
        if self.discovered {
            self.policy().refuses()
        } else {
            None
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            mode: self.options.load_balance,
            keyed: !self.options.topology_keys.is_empty(),
            fallback_only: self.options.fallback_only,
        }
    }

    /// A picked host was connected to; the connection counts until [`closed`](Self::closed). The host works again.
    pub fn opened(&mut self, key: &HostKey, now: Instant) {
        let place = self.table.place_or_add(key);
        self.table.settle(place);
        self.table.count(place);
        self.clear_failure(place, now);
    }

    /// A picked host could not be connected to. It is left out until something connects to it, and a refresh starts
    /// unless the last one is younger than a second. `reason` is for people and holds no secrets.
    pub fn open_failed(&mut self, key: &HostKey, kind: FailureKind, reason: &str, now: Instant) {
        let place = self.table.place_or_add(key);
        self.table.settle(place);
        self.mark_failed(place, kind, reason, now);
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

    pub(super) fn mark_failed(&mut self, place: usize, kind: FailureKind, reason: &str, now: Instant) {
        let backoff = Backoff {
            base: self.options.failed_host_delay,
            cap: self.options.failed_host_max_delay,
        };
        let host = self.table.host_mut(place);
        self.candidates_outdated |= host.works();
        let failure = mark(host.failure.as_ref(), kind, reason, backoff, now);
        let delay = backoff.delay(failure.consecutive);
        host.failure = Some(failure);

        let (host, reason) = (host.key.clone(), reason.to_owned());
        let subject = Subject::Host(host.clone());
        let lines = self.runs.failed(subject, Some(kind), now, || match kind {
            FailureKind::Down => LogEvent::Down { host, reason, delay },
            FailureKind::Rejected => LogEvent::Rejected { host, reason, delay },
            FailureKind::ReadOnly => LogEvent::ReadOnly { host, delay },
        });
        self.log(lines);
    }

    /// A connection to the host opened.
    pub(super) fn clear_failure(&mut self, place: usize, now: Instant) {
        let host = self.table.host_mut(place);
        self.candidates_outdated |= host.failure.take().is_some();
        let subject = Subject::Host(host.key.clone());
        self.stop_probe(place);
        let line = self.runs.passed(&subject, now);
        self.log(line);
    }

    pub(super) fn stop_probe(&mut self, place: usize) {
        let host = self.table.host_mut(place);
        if let Some(id) = host.probe.take() {
            self.actions.push(Action::StopProbe {
                key: host.key.clone(),
                id,
            });
        }
    }

    pub(super) fn log(&mut self, lines: impl IntoIterator<Item = LogEvent>) {
        self.actions.extend(lines.into_iter().map(Action::Log));
    }
}
