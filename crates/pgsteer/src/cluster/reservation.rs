//! A pick's reservation and an open connection's count, as values that cannot be forgotten: dropping either tells
//! the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{FailureKind, Role};

use super::Shared;

/// The right to dial one host once. Dropped unreported, it is cancelled and the host is left unmarked.
#[must_use]
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    key: HostKey,
    since: Instant,
    settled: bool,
}

impl Reservation {
    pub(super) fn new(shared: Arc<Shared>, key: HostKey) -> Self {
        Reservation {
            shared,
            key,
            since: super::now(),
            settled: false,
        }
    }

    /// How long ago it was made.
    pub(crate) fn age(&self) -> Duration {
        super::now().saturating_duration_since(self.since)
    }

    pub(crate) fn key(&self) -> &HostKey {
        &self.key
    }

    /// The host has been connected to: it counts from now until the [`Counted`] is dropped. `role` is what it said it is,
    /// if it was asked.
    pub(crate) fn opened(mut self, role: Option<Role>) -> Counted {
        self.settled = true;
        self.shared
            .with_state(|state, now| state.opened(&self.key, role, now));
        Counted {
            shared: self.shared.clone(),
            key: self.key.clone(),
        }
    }

    /// The host works and said what it is, which is not what is wanted.
    pub(crate) fn answered(mut self, role: Role) {
        self.settled = true;
        self.shared
            .with_state(|state, now| state.answered(&self.key, role, now));
    }

    /// The connect failed in a way that says something about the host.
    pub(crate) fn failed(mut self, kind: FailureKind, reason: &str) {
        self.settled = true;
        self.shared
            .with_state(|state, now| state.open_failed(&self.key, kind, reason, now));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.settled {
            self.shared.with_state(|state, _| state.cancelled(&self.key));
        }
    }
}

/// One open connection in the cluster's counts, until dropped. The connection's driver holds it, so that the count
/// falls when the socket is gone and not before.
#[must_use]
pub(crate) struct Counted {
    shared: Arc<Shared>,
    key: HostKey,
}

impl Counted {
    /// The cluster it counts in.
    pub(super) fn cluster(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.with_state(|state, _| state.closed(&self.key));
    }
}
