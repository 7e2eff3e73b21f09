//! What a checkout that runs out of time is told: who holds what, and why no other connection comes.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::inner::{Counters, Inner};
use crate::config::TargetSessionAttrs;
use crate::error::{Error, Exhausted, HostTried};

/// How long a look at an exhausted pool may be used again.
const DIAGNOSIS_AGE: Duration = Duration::from_millis(20);

impl Inner {
    /// The error of a checkout that ran out of time: who holds what, and what the last connects failed with.
    #[cold]
    pub(super) fn exhausted(&self, waited: Duration) -> Error {
        Counters::add(&self.counters.timeouts);
        Error::CheckoutTimeout(Arc::new(Exhausted {
            waited,
            ..self.diagnosis()
        }))
    }

    /// What an exhausted pool looks like now. Callers that run out of time together share one look.
    fn diagnosis(&self) -> Exhausted {
        let now = super::now();
        let mut shared = self.diagnosis.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, diagnosis)) = &*shared {
            if now.saturating_duration_since(*at) < DIAGNOSIS_AGE {
                return diagnosis.clone();
            }
        }
        let stats = self.planner().stats(self);
        let oldest = self
            .holders
            .held(now, |slot| self.leased_uses(slot))
            .into_iter()
            .next();
        let diagnosis = Exhausted {
            waited: Duration::ZERO,
            size: stats.size as u32,
            idle: stats.idle as u32,
            leased: stats.leased as u32,
            opening: stats.opening as u32,
            settling: (stats.settling + stats.closing) as u32,
            waiting: stats.waiting as u32 + 1,
            oldest_holder: oldest.as_ref().map(|holder| holder.age),
            oldest_holder_at: oldest.and_then(|holder| holder.at).map(ToString::to_string),
            nothing_fits: self.nothing_fits(),
            failures: self.known_failures(now),
        };
        *shared = Some((now, diagnosis.clone()));
        diagnosis
    }

    /// The pool's target, if the last connect found nothing that fits it.
    fn nothing_fits(&self) -> Option<TargetSessionAttrs> {
        match &*self.last_failure() {
            Some((_, Error::NoFit(failed))) => Some(failed.target),
            _ => None,
        }
    }

    /// The newest connect failure per host, or what it is if that is not what is wanted: what the cluster remembers, and
    /// what the last failed search met.
    fn known_failures(&self, now: Instant) -> Vec<HostTried> {
        let snapshot = self.snapshot();
        let failed = snapshot
            .failures
            .iter()
            .map(|(host, failure)| HostTried::remembered(host, failure, now));
        let mut known: Vec<HostTried> = failed.collect();
        let target = self.settings.target_session_attrs;
        for host in &snapshot.unfit {
            if let Some(seen) = snapshot
                .roles
                .get(host)
                .filter(|_| !snapshot.failures.contains_key(host))
            {
                known.push(HostTried::unfit(host, seen, target, now));
            }
        }
        if let Some((at, error)) = &*self.last_failure() {
            for tried in error.hosts_tried() {
                if !known.iter().any(|known| known.host == tried.host) {
                    let age = now.saturating_duration_since(*at);
                    known.push(HostTried { age, ..tried.clone() });
                }
            }
        }
        known
    }
}
