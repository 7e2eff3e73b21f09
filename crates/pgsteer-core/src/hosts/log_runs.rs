//! Runs of failures, so that people are told of a trouble once when it begins and once when it is over.
//!
//! Kept apart from the failure table: a host that opens and fails again within the quiet time has stayed in its run, and
//! silence alone is no proof that it works.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::failures::after;
use super::{FailureKind, LogEvent};
use crate::host::HostKey;

/// What can be in a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Looking for servers.
    Discovery,
    /// Connecting to a host.
    Host(HostKey),
    /// `after_connect` on a host.
    Hook(HostKey),
}

#[derive(Clone, Debug)]
struct Run {
    /// What the failures were, for a host.
    kind: Option<FailureKind>,
    failures: u32,
    last_failure: Instant,
    /// Something has gone well since the last failure.
    passed: bool,
}

impl Run {
    fn ended_event(&self, subject: &Subject) -> LogEvent {
        let failures = self.failures;
        match subject {
            Subject::Discovery => LogEvent::DiscoveryRecovered { failures },
            Subject::Host(host) => LogEvent::RunEnded {
                host: host.clone(),
                kind: self.kind.unwrap_or(FailureKind::Down),
                failures,
                role: None,
            },
            Subject::Hook(host) => LogEvent::HookRecovered {
                host: host.clone(),
                failures,
            },
        }
    }
}

/// Every run that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    window: Duration,
    runs: BTreeMap<Subject, Run>,
    /// When the first of them ends, if nothing fails before.
    next_end: Option<Instant>,
}

impl Runs {
    pub(super) fn new(window: Duration) -> Self {
        Runs {
            window,
            runs: BTreeMap::new(),
            next_end: None,
        }
    }

    /// A failure. `first` makes the line with which a run begins; the lines to be logged are returned in order.
    pub(super) fn failed(
        &mut self,
        subject: Subject,
        kind: Option<FailureKind>,
        now: Instant,
        first: impl FnOnce() -> LogEvent,
    ) -> Vec<LogEvent> {
        let mut lines: Vec<LogEvent> = self.end(&subject, now).into_iter().collect();
        match self.runs.get_mut(&subject) {
            Some(run) if run.kind == kind => {
                run.failures = run.failures.saturating_add(1);
                run.last_failure = now;
                run.passed = false;
            }
            _ => {
                lines.push(first());
                self.runs.insert(
                    subject,
                    Run {
                        kind,
                        failures: 1,
                        last_failure: now,
                        passed: false,
                    },
                );
            }
        }
        self.find_next_end();
        lines
    }

    /// Something went well: the run ends now or, if nothing fails before, when its quiet time is over.
    pub(super) fn passed(&mut self, subject: &Subject, now: Instant) -> Option<LogEvent> {
        self.runs.get_mut(subject)?.passed = true;
        let line = self.end(subject, now);
        self.find_next_end();
        line
    }

    /// Ends the runs whose quiet time is over.
    pub(super) fn on_timer(&mut self, now: Instant) -> Vec<LogEvent> {
        if self.next_end.is_none_or(|end| end > now) {
            return Vec::new();
        }
        let subjects: Vec<Subject> = self.runs.keys().cloned().collect();
        let lines = subjects
            .iter()
            .filter_map(|subject| self.end(subject, now))
            .collect();
        self.find_next_end();
        lines
    }

    /// When [`on_timer`](Self::on_timer) has something to do, if nothing happens before.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.next_end
    }

    /// Drops the runs of hosts for which `keep` is false, without a word.
    pub(super) fn keep_hosts(&mut self, keep: impl Fn(&HostKey) -> bool) {
        self.runs.retain(|subject, _| match subject {
            Subject::Discovery => true,
            Subject::Host(host) | Subject::Hook(host) => keep(host),
        });
        self.find_next_end();
    }

    fn end(&mut self, subject: &Subject, now: Instant) -> Option<LogEvent> {
        let run = self.runs.get(subject)?;
        if !run.passed || after(run.last_failure, self.window) > now {
            return None;
        }
        let line = run.ended_event(subject);
        self.runs.remove(subject);
        Some(line)
    }

    fn find_next_end(&mut self) {
        let passed = self.runs.values().filter(|run| run.passed);
        self.next_end = passed.map(|run| after(run.last_failure, self.window)).min();
    }
}
