//! The cluster machine.

use std::time::{Duration, Instant};

use super::{Action, DiscoveryOutcome, FailureKind, LoadBalance, NoHost, Snapshot};
use crate::host::HostKey;
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

/// The pure cluster machine.
#[derive(Debug)]
pub struct ClusterState {
    options: ClusterOptions,
}

impl ClusterState {
    /// A cluster that knows its seeds.
    pub fn new(options: ClusterOptions, seeds: Vec<HostKey>, now: Instant) -> Self {
        let _ = (seeds, now);
        ClusterState { options }
    }
    /// What is to be done, in order; call after every other call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        todo!()
    }
    /// Chooses a host for one connection attempt and reserves it.
    ///
    /// # Errors
    ///
    /// If there is nothing to try.
    pub fn pick(&mut self, tried: &[HostKey], avoid: &[HostKey], draw: u64, now: Instant) -> Result<HostKey, NoHost> {
        let _ = (tried, avoid, draw, now);
        todo!()
    }
    /// The picked host was connected to.
    pub fn opened(&mut self, key: &HostKey, now: Instant) {
        let _ = (key, now);
        todo!()
    }
    /// The picked host could not be connected to.
    pub fn open_failed(&mut self, key: &HostKey, kind: FailureKind, reason: &str, now: Instant) {
        let _ = (key, kind, reason, now);
        todo!()
    }
    /// The pick came to nothing that says anything of the host.
    pub fn cancelled(&mut self, key: &HostKey) {
        let _ = key;
        todo!()
    }
    /// A counted connection is gone.
    pub fn closed(&mut self, key: &HostKey) {
        let _ = key;
        todo!()
    }
    /// `after_connect` failed on a connection to the host.
    pub fn hook_failed(&mut self, key: &HostKey, reason: &str, keep_off: Duration, now: Instant) {
        let _ = (key, reason, keep_off, now);
        todo!()
    }
    /// `after_connect` went well on a connection to the host.
    pub fn hook_passed(&mut self, key: &HostKey, now: Instant) {
        let _ = (key, now);
        todo!()
    }
    /// Refreshes now.
    pub fn refresh(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }
    /// Does what is due.
    pub fn on_timer(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }
    /// When `on_timer` is to be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        todo!()
    }
    /// The discovery that was asked for has ended.
    pub fn discovery_finished(&mut self, outcome: DiscoveryOutcome, now: Instant) {
        let _ = (outcome, now);
        todo!()
    }
    /// A probe has ended.
    pub fn probe_finished(&mut self, key: &HostKey, id: u64, result: Result<(), (FailureKind, String)>, now: Instant) {
        let _ = (key, id, result, now);
        todo!()
    }
    /// Whether connections may be opened: the first discovery has ended, or there is none.
    pub fn is_ready(&self) -> bool {
        todo!()
    }
    /// The options this cluster was made with.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }
    /// What is known now.
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }
}
