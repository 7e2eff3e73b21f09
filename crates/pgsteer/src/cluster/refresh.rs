//! The background work of a refresh: one discovery over its targets, one probe of a failed host. Both end within
//! the limit the state gave them, and both report back whatever happens to them.

use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{Answer, DiscoveryOutcome, FailureKind, LogEvent, LogLevel};
use pgsteer_core::verdict::HostEffect;

use super::Shared;
use crate::dial::{self, Ask, Purpose};
use crate::error::shortened;

/// Asks the targets in order until one lists the servers.
pub(super) async fn discover(shared: Arc<Shared>, targets: Vec<HostKey>, limit: Duration) {
    let mut report = Report {
        shared,
        outcome: Some(DiscoveryOutcome::Failed("the discovery died".into())),
    };
    let shared = report.shared.clone();
    report.outcome = Some(match tokio::time::timeout(limit, ask(&shared, targets)).await {
        Ok(outcome) => outcome,
        Err(_) => DiscoveryOutcome::Failed(format!("no answer within {limit:?}")),
    });
}

async fn ask(shared: &Shared, targets: Vec<HostKey>) -> DiscoveryOutcome {
    let mut reasons = Vec::new();
    for target in targets {
        let dialled = match shared
            .dialler
            .dial(&target, Purpose::Discovery, Ask::default())
            .await
        {
            Ok(dialled) => dialled,
            Err(error) => {
                shared.met(error.host_effect());
                reasons.push(format!("{target}: {}", shortened(&error.to_string())));
                continue;
            }
        };
        match shared.dialler.discover(&target, dialled).await {
            dial::Discovered::Servers {
                rows,
                addresses,
                oddities,
            } => {
                shared.sign_of_life();
                for oddity in oddities {
                    tracing::warn!(host = %target, "yb_servers() listed a server that makes no sense: {oddity}");
                }
                return DiscoveryOutcome::Rows { rows, addresses };
            }
            dial::Discovered::NoFunction => {
                shared.sign_of_life();
                return DiscoveryOutcome::NoFunction;
            }
            dial::Discovered::Failed(reason) => reasons.push(format!("{target}: {reason}")),
        }
    }
    DiscoveryOutcome::Failed(format!("no server reachable ({})", reasons.join("; ")))
}

/// Reports the discovery's outcome when dropped, so that a panic in it is reported too.
struct Report {
    shared: Arc<Shared>,
    outcome: Option<DiscoveryOutcome>,
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take().filter(|_| !self.shared.is_stopped()) {
            self.shared
                .with_state(|state, now| state.discovery_finished(outcome, now));
        }
    }
}

/// Dials one host to see whether it is back, or what it is. Its connection is closed at once and never counted.
pub(super) async fn probe(shared: Arc<Shared>, key: HostKey, id: u64, limit: Duration, ask: Ask) {
    let attempt = tokio::spawn({
        let (shared, key) = (shared.clone(), key.clone());
        async move { tokio::time::timeout(limit, shared.dialler.dial(&key, Purpose::Probe, ask)).await }
    });
    // If this task is aborted the attempt ends with it.
    let abort = AbortOnDrop(attempt.abort_handle());
    let mut out_of_time = false;
    let result = match attempt.await {
        Ok(Ok(Ok(dialled))) => {
            let answer = Answer {
                role: dialled.role,
                timeline: dialled.timeline,
            };
            shared.heard(&key, &dialled);
            dialled.close_in_background();
            shared.sign_of_life();
            Ok(answer)
        }
        Ok(Ok(Err(error))) => {
            out_of_time = error.ran_out_of_time();
            shared.met(error.host_effect());
            Err((error.host_effect(), shortened(&error.to_string()).into_owned()))
        }
        Ok(Err(_)) => {
            out_of_time = true;
            let reason = format!("the probe did not end within {limit:?}");
            Err((HostEffect::Failed(FailureKind::Down), reason))
        }
        Err(_) => Err((HostEffect::Failed(FailureKind::Down), "the probe died".to_owned())),
    };
    drop(abort);
    let silent = out_of_time && !shared.pulse(&key).was_heard();
    shared.with_state(|state, now| {
        if silent {
            state.silent(&key, id, now);
        }
        state.probe_finished(&key, id, result, now);
    });
    shared.forget_probe(id);
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes what the state has to say to the application's log.
pub(super) fn log(event: &LogEvent) {
    if event.level() == LogLevel::Warning {
        tracing::warn!(target: "pgsteer::cluster", "{event}");
    } else {
        tracing::info!(target: "pgsteer::cluster", "{event}");
    }
}
