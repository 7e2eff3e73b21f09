//! What is counted for each backend. They are few, and found by their addresses without a lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::histogram::Histogram;

use crate::backend::BackendAddress;

/// Seconds, from a twentieth of a millisecond to ten seconds.
const BUCKETS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// The histograms of one backend.
#[derive(Clone, Debug)]
pub(crate) struct BackendMetrics {
    /// How long requests waited for a connection, in seconds.
    pub(crate) borrow_wait: Histogram,
    /// How long the backend took for those it answered, from their first byte sent to the answer's last byte read.
    pub(crate) duration: Histogram,
}

impl BackendMetrics {
    fn new() -> Self {
        BackendMetrics {
            borrow_wait: Histogram::new(BUCKETS),
            duration: Histogram::new(BUCKETS),
        }
    }
}

/// The histograms of all backends there have been.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    all: ArcSwap<Vec<(BackendAddress, BackendMetrics)>>,
    growing: Mutex<()>,
}

impl Backends {
    pub(crate) fn waited(&self, backend: &BackendAddress, wait: Duration) {
        self.with(backend, |metrics| metrics.borrow_wait.observe(wait.as_secs_f64()));
    }

    pub(crate) fn answered(&self, backend: &BackendAddress, took: Duration) {
        self.with(backend, |metrics| metrics.duration.observe(took.as_secs_f64()));
    }

    /// What has been counted for a backend. Handles: what is counted later shows.
    pub(crate) fn of(&self, backend: &BackendAddress) -> BackendMetrics {
        self.with(backend, BackendMetrics::clone)
    }

    fn with<T>(&self, backend: &BackendAddress, look: impl FnOnce(&BackendMetrics) -> T) -> T {
        match find(&self.all.load(), backend) {
            Some(metrics) => look(metrics),
            None => look(&self.met(backend)),
        }
    }

    /// A backend that is met for the first time.
    fn met(&self, backend: &BackendAddress) -> BackendMetrics {
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.all.load();
        if let Some(metrics) = find(&all, backend) {
            return metrics.clone();
        }
        let metrics = BackendMetrics::new();
        let mut more = Vec::clone(&all);
        more.push((backend.clone(), metrics.clone()));
        self.all.store(Arc::new(more));
        metrics
    }
}

fn find<'a>(
    all: &'a [(BackendAddress, BackendMetrics)],
    backend: &BackendAddress,
) -> Option<&'a BackendMetrics> {
    let found = all.iter().find(|(address, _)| address.is_same_backend(backend));
    found.map(|(_, metrics)| metrics)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::Backends;
    use crate::backend::BackendAddress;

    #[test]
    fn a_backend_keeps_its_histograms_when_others_are_met() {
        let [first, second] = [1, 2].map(|port| BackendAddress::new("db", port).unwrap());
        let backends = Backends::default();
        let mut registry = Registry::default();
        registry.register("first", "The first backend", backends.of(&first).duration);

        backends.answered(&second, Duration::from_millis(3));
        backends.answered(&first, Duration::from_millis(3));

        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("first_count 1"), "{text}");
    }
}
