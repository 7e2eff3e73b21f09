//! Refreshes of the cluster machine: when one starts, and what comes of its discovery and its probes.
//!
//! A refresh probes the failed hosts whose delay is over, asks hosts for their roles where these matter, looks names up
//! and looks for servers again. A connect that failed, a role that changed and a role that was doubted bring it forward.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::address::{Addresses, DiscoveredRow, choose, key_of};
use super::failures::after;
use super::log_runs::Subject;
use super::picker::Facts;
use super::{Action, ClusterState, DiscoveryOutcome, FailureKind, LogEvent};
use crate::host::{HostKey, Server};

/// The least time between refreshes that a failure brings forward.
const EARLY_REFRESH_GAP: Duration = Duration::from_secs(1);

/// What a discovery may take beyond one connect per target and one for its look-ups.
const DISCOVERY_MARGIN: Duration = Duration::from_secs(5);

impl ClusterState {
    /// Refreshes now, however young the last refresh is.
    pub fn refresh(&mut self, now: Instant) {
        self.last_refresh = now;
        self.probe_due_hosts(now);
        self.resolve_names();
        if !self.options.load_balance.discovers() {
            self.arm_refresh_timer(now);
        } else if !self.discovery_running {
            self.start_discovery();
        }
    }

    /// Does what is due at this moment; harmless if nothing is.
    pub fn on_timer(&mut self, now: Instant) {
        if self.refresh_timer.is_some_and(|due| due <= now) {
            self.refresh_timer = None;
            self.refresh(now);
        }
        self.on_probe_timer(now);
        self.meet_strangers(now);
        let lines = self.runs.on_timer(now);
        self.log(lines);
    }

    /// When [`on_timer`](Self::on_timer) is to be called next, as things stand; `None` if never.
    pub fn next_timer(&self) -> Option<Instant> {
        let timers = [
            self.refresh_timer,
            self.probe_timer,
            self.strangers_at,
            self.runs.next_end(),
        ];
        timers.into_iter().flatten().min()
    }

    /// The discovery that was asked for has ended, run out of time or died. Ignored if none was asked for.
    pub fn discovery_finished(&mut self, outcome: DiscoveryOutcome, now: Instant) {
        if !self.discovery_running {
            return;
        }
        self.discovery_running = false;
        match outcome {
            DiscoveryOutcome::Failed(reason) => {
                let line = || LogEvent::DiscoveryFailed {
                    reason: reason.clone(),
                };
                let lines = self.runs.failed(Subject::Discovery, None, now, line);
                self.log(lines);
                self.owed = Some((now, reason));
            }
            DiscoveryOutcome::NoFunction => {
                if !self.cannot_list {
                    self.log([LogEvent::NotYugabyte]);
                }
                self.discovery_answered(true, now);
            }
            DiscoveryOutcome::Rows { rows, addresses } => {
                if !rows.is_empty() {
                    self.replace_servers(&rows, &addresses);
                }
                self.discovery_answered(false, now);
                // hosts that fell due during an outage would otherwise wait for the next refresh
                self.probe_due_hosts(now);
            }
        }
        self.arm_refresh_timer(now);
        self.become_ready();
    }

    pub(super) fn refresh_if_picks_call_for_it(&mut self, now: Instant) {
        let interval_over = now.saturating_duration_since(self.last_refresh) >= self.options.refresh_interval;
        if interval_over {
            self.refresh(now);
        } else if self.owed.is_some() {
            self.refresh_early(now);
        }
    }

    /// Refreshes now unless the last refresh is too young for it.
    pub(super) fn refresh_early(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_refresh) >= EARLY_REFRESH_GAP {
            self.refresh(now);
        }
    }

    /// A full interval from now, whatever was armed before; with no interval there is no timer.
    pub(super) fn arm_refresh_timer(&mut self, now: Instant) {
        let interval = self.options.refresh_interval;
        self.refresh_timer = (!interval.is_zero()).then(|| after(now, interval));
    }

    pub(super) fn become_ready(&mut self) {
        if !self.ready {
            self.ready = true;
            self.actions.push(Action::Ready);
        }
    }

    fn start_discovery(&mut self) {
        let seeds = self.seeds.iter().map(|place| self.table.host(*place));
        let others = self
            .facts
            .iter()
            .map(|server| self.table.host(server.place))
            .filter(|host| {
                let is_down = host
                    .failure
                    .as_ref()
                    .is_some_and(|failure| failure.kind == FailureKind::Down);
                !host.is_seed && !is_down
            });
        let targets: Vec<HostKey> = seeds.chain(others).map(|host| host.key.clone()).collect();
        let connects = u32::try_from(targets.len()).unwrap_or(u32::MAX).saturating_add(1);
        let limit = self
            .options
            .connect_timeout
            .saturating_mul(connects)
            .saturating_add(DISCOVERY_MARGIN);
        self.discovery_running = true;
        self.actions.push(Action::StartDiscovery { targets, limit });
    }

    fn discovery_answered(&mut self, cannot_list: bool, now: Instant) {
        self.cannot_list = cannot_list;
        self.last_answer = Some(now);
        self.owed = None;
        let line = self.runs.passed(&Subject::Discovery, now);
        self.log(line);
    }

    /// Takes the rows as the servers there are, and forgets what was known of hosts that are gone.
    fn replace_servers(&mut self, rows: &[DiscoveredRow], addresses: &Addresses) {
        let choice = choose(self.address, rows, addresses);
        if self.address.replace(choice) != Some(choice) {
            self.log([LogEvent::AddressChosen(choice)]);
        }
        let mut seen = HashSet::new();
        self.servers = rows
            .iter()
            .map(|row| Server {
                key: key_of(row, choice.column),
                node_type: row.node_type,
                placement: row.placement.clone(),
            })
            .filter(|server| seen.insert(server.key.clone()))
            .collect();
        self.discovered = true;

        let seeds: Vec<HostKey> = self
            .seeds
            .iter()
            .map(|place| self.table.host(*place).key.clone())
            .collect();
        for host in self.table.iter_mut() {
            host.is_server = seen.contains(&host.key);
        }
        for place in 0..self.table.len() {
            if !self.table.host(place).is_listed() {
                let host = self.table.host_mut(place);
                host.failure = None;
                host.role = None;
                host.ask_at = None;
                self.stop_probe(place);
            }
        }
        self.table.keep_only_used();
        self.seeds = seeds.iter().map(|key| self.table.place_or_add(key)).collect();
        self.facts.clear();
        for server in &self.servers {
            let place = self.table.place_or_add(&server.key);
            self.table.host_mut(place).is_server = true;
            let levels = self.options.topology_keys.levels(&server.placement);
            self.facts.push(Facts {
                place,
                node_type: server.node_type,
                levels,
            });
        }
        self.find_highest_timeline();
        self.outdate_candidates();
        self.find_probe_timer();
        self.changed();
        let table = &self.table;
        self.runs.keep_hosts(|key| {
            table
                .place(key)
                .is_some_and(|place| table.host(place).is_listed())
        });
    }
}
