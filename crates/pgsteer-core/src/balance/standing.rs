//! Whether a backend is offered requests, and when one that is not is tried again.

use std::time::{Duration, Instant};

use crate::hosts::failures::{Backoff, mark};
use crate::hosts::{FailureKind, HostFailure};

/// What a backend's standing goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingOptions {
    /// How long a failed backend is left alone before it is tried again.
    pub failed_delay: Duration,
}

/// What a backend is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It serves, and may grow to all its connections.
    Full,
    /// It cannot be dialled at present, and serves on the connections that it has.
    Capped {
        /// How many they are.
        connections: u32,
    },
    /// It is left out until a probe has found it well.
    LeftOut {
        /// When it last failed.
        failed_at: Instant,
    },
}

/// Where one backend stands. Owned by whoever opens its connections, and told of everything that speaks for or against it.
#[derive(Clone, Debug)]
pub struct Standing {
    options: StandingOptions,
    failure: Option<HostFailure>,
    /// Requests on connections that opened have failed, so that the connections it has are no proof.
    distrusted: bool,
    connections: u32,
    /// Since when it has been left out.
    left_out_since: Option<Instant>,
}

impl Standing {
    /// A backend of which nothing bad is known. It serves.
    pub fn new(options: StandingOptions) -> Self {
        Standing {
            options,
            failure: None,
            distrusted: false,
            connections: 0,
            left_out_since: None,
        }
    }

    /// What it is good for now.
    pub fn service(&self) -> Service {
        match &self.failure {
            None => Service::Full,
            Some(failure) if self.distrusted || self.connections == 0 => Service::LeftOut {
                failed_at: failure.at,
            },
            Some(_) => Service::Capped {
                connections: self.connections,
            },
        }
    }

    /// A dial came to nothing. While a circuit breaker lets nobody dial it is not tried again before `barred_for` is over.
    pub fn dial_failed(&mut self, reason: &str, barred_for: Option<Duration>, now: Instant) {
        self.fail(reason, now);
        if let (Some(failure), Some(rest)) = (&mut self.failure, barred_for) {
            let until = now.checked_add(rest).unwrap_or(failure.next_probe);
            failure.next_probe = failure.next_probe.max(until);
        }
        self.settle(now);
    }

    /// It failed too many requests in a row, or connections ended before they had been used: it can be dialled, and that
    /// says nothing. It is left out whatever connections it has.
    pub fn requests_failed(&mut self, reason: &str, now: Instant) {
        self.distrusted = true;
        self.fail(reason, now);
        self.settle(now);
    }

    /// A connection has opened and has been found well: it serves again.
    pub fn found_well(&mut self, now: Instant) {
        self.failure = None;
        self.distrusted = false;
        self.settle(now);
    }

    /// It has so many connections now.
    pub fn has_connections(&mut self, connections: u32, now: Instant) {
        self.connections = connections;
        self.settle(now);
    }

    /// When it is to be tried again; `None` if there is no need.
    pub fn next_probe(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.next_probe)
    }

    /// When it last failed, if it has not been found well since.
    pub fn failed_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.at)
    }

    /// Since when it has been left out.
    pub fn left_out_since(&self) -> Option<Instant> {
        self.left_out_since
    }

    /// Whether it has failed requests on connections that had opened, so that one more that opens proves nothing.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    /// What it last failed with, if it has not been found well since.
    pub fn reason(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.reason.as_str())
    }

    /// Failures in a row since it was last found well.
    pub fn failures(&self) -> u32 {
        self.failure.as_ref().map_or(0, |failure| failure.consecutive)
    }

    fn fail(&mut self, reason: &str, now: Instant) {
        let backoff = Backoff {
            base: self.options.failed_delay,
            cap: None,
        };
        let failure = mark(
            self.failure.as_ref(),
            FailureKind::Down,
            reason,
            false,
            backoff,
            now,
        );
        self.failure = Some(failure);
    }

    fn settle(&mut self, now: Instant) {
        self.left_out_since = match self.service() {
            Service::LeftOut { .. } => self.left_out_since.or(Some(now)),
            Service::Full | Service::Capped { .. } => None,
        };
    }
}
