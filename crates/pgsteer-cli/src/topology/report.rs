//! One look at a cluster as data: what `--json` prints, and what the table is made of.

use std::time::{Duration, Instant};

use pgsteer::{BreakerStatus, FailureKind, HostKey, NodeType, Placement, Snapshot};
use serde::Serialize;

use super::probe::Probe;
use super::{Probes, Refusal};
use crate::breaker::BreakerFigures;

/// A cluster at one moment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Look {
    /// Whether servers are looked for; otherwise the configured hosts are all there is.
    discovering: bool,
    /// Whether a discovery has returned servers.
    discovered: bool,
    /// Why the last discovery failed, if it did.
    discovery_failure: Option<String>,
    /// Discovered servers in the order they were listed, then configured hosts that are none of them.
    pub(super) servers: Vec<ServerRow>,
    /// The circuit breaker of the cluster, as far as this program has brought it; `null` if it is off.
    breaker: Option<BreakerFigures>,
    /// Why no connection could be opened through the cluster, if so.
    refused: Option<String>,
    #[serde(skip)]
    hint: Option<&'static str>,
}

/// One server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ServerRow {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) source: Source,
    /// `None` for hosts that no discovery has listed.
    pub(super) node_type: Option<&'static str>,
    pub(super) placement: Option<PlacementRow>,
    /// The lowest preference among the topology keys that match it.
    pub(super) level: Option<u8>,
    /// Whether new connections go to it.
    pub(super) chosen: bool,
    /// Whether connections may stay on it.
    pub(super) allowed: bool,
    /// Connections this program has open to it through the cluster.
    pub(super) connections: u32,
    pub(super) pending: u32,
    /// How it failed when it was last used through the cluster.
    pub(super) failure: Option<FailureRow>,
    pub(super) reachable: bool,
    pub(super) in_recovery: Option<bool>,
    pub(super) connect_us: Option<u64>,
    pub(super) round_trip_us: Option<u64>,
    /// Why it could not be reached by itself.
    pub(super) error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    Discovered,
    Configured,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PlacementRow {
    pub(super) cloud: String,
    pub(super) region: String,
    pub(super) zone: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FailureRow {
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// Failures in a row.
    pub(super) consecutive: u32,
    /// How long ago the newest was.
    pub(super) seconds_ago: f64,
    /// Until a refresh may probe it again; 0 if it may already.
    pub(super) probe_due_in_seconds: f64,
}

impl Look {
    pub(super) fn new(
        snapshot: &Snapshot,
        breaker: Option<&BreakerStatus>,
        probes: &Probes,
        refused: Option<Refusal>,
    ) -> Self {
        let now = tokio::time::Instant::now().into_std();
        let mut servers: Vec<ServerRow> = Vec::new();
        for server in &snapshot.servers {
            let mut row = ServerRow::new(&server.key, snapshot, probes, now);
            row.source = Source::Discovered;
            row.node_type = Some(match server.node_type {
                NodeType::Primary => "primary",
                NodeType::ReadReplica => "read_replica",
            });
            row.placement = Some(PlacementRow::of(&server.placement));
            servers.push(row);
        }
        let listed = |seed: &&HostKey| !snapshot.servers.iter().any(|server| server.key == **seed);
        servers.extend(
            snapshot
                .seeds
                .iter()
                .filter(listed)
                .map(|seed| ServerRow::new(seed, snapshot, probes, now)),
        );
        Look {
            discovering: snapshot.discovering,
            discovered: snapshot.discovered,
            discovery_failure: snapshot
                .discovery
                .last_failure
                .as_ref()
                .map(|(_, reason)| reason.clone()),
            servers,
            breaker: breaker.map(BreakerFigures::of),
            hint: refused.as_ref().and_then(|refused| refused.hint),
            refused: refused.map(|refused| refused.reason),
        }
    }

    /// Whether any server could be reached.
    pub(super) fn reached(&self) -> bool {
        self.servers.iter().any(|server| server.reachable)
    }

    /// What belongs on standard error.
    pub(super) fn complaints(&self) -> Vec<String> {
        let unreachable = self.servers.iter().filter_map(|server| {
            let error = server.error.as_ref()?;
            Some(format!("warning: {} cannot be reached: {error}", server.name()))
        });
        let discovery = self
            .discovery_failure
            .iter()
            .map(|reason| format!("warning: discovery failed: {reason}"));
        let refused = self
            .refused
            .iter()
            .map(|reason| format!("warning: a pool would get no connection: {reason}"));
        let hint = self.hint.iter().map(|hint| format!("hint: {hint}"));
        unreachable.chain(discovery).chain(refused).chain(hint).collect()
    }
}

impl ServerRow {
    /// A host that no discovery has listed.
    fn new(key: &HostKey, snapshot: &Snapshot, probes: &Probes, now: Instant) -> Self {
        let mut row = ServerRow {
            host: key.name().to_owned(),
            port: key.port(),
            source: Source::Configured,
            node_type: None,
            placement: None,
            level: snapshot.levels.get(key).copied().flatten(),
            chosen: snapshot.placement.contains(key),
            allowed: snapshot.allowed.contains(key),
            connections: snapshot.counts.get(key).copied().unwrap_or(0),
            pending: snapshot.pending.get(key).copied().unwrap_or(0),
            failure: snapshot.failures.get(key).map(|failure| FailureRow {
                kind: match failure.kind {
                    FailureKind::Down => "down",
                    FailureKind::Rejected => "rejected",
                    FailureKind::NotReady => "not_ready",
                    FailureKind::Full => "full",
                    _ => "failed",
                },
                reason: failure.reason.clone(),
                consecutive: failure.consecutive,
                seconds_ago: seconds(now.saturating_duration_since(failure.at)),
                probe_due_in_seconds: seconds(failure.next_probe.saturating_duration_since(now)),
            }),
            reachable: false,
            in_recovery: None,
            connect_us: None,
            round_trip_us: None,
            error: None,
        };
        match probes.get(key) {
            Some(Probe::Reached {
                connect,
                round_trip,
                in_recovery,
            }) => {
                row.reachable = true;
                row.in_recovery = *in_recovery;
                row.connect_us = Some(micros(*connect));
                row.round_trip_us = round_trip.map(micros);
            }
            Some(Probe::Failed(reason)) => row.error = Some(reason.clone()),
            // It came with a refresh while the others were being connected to.
            None => row.error = Some("not tried yet".to_owned()),
        }
        row
    }

    /// `name:port`.
    pub(super) fn name(&self) -> String {
        HostKey::new(self.host.as_str(), self.port).to_string()
    }
}

impl PlacementRow {
    fn of(placement: &Placement) -> Self {
        PlacementRow {
            cloud: placement.cloud().to_owned(),
            region: placement.region().to_owned(),
            zone: placement.zone().to_owned(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Seconds with three decimals.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
