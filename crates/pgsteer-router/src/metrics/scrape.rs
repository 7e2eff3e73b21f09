//! The text of a scrape: the router's counters, and of each backend what its status says and its histograms.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::backend::{BackendStatus, BreakerState};
use crate::server::Shared;

/// What the text is, for whoever asks by HTTP.
pub(crate) const TEXT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to tell.
pub(crate) struct Scrape(Registry);

impl Scrape {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        let mut registry = Registry::with_prefix("pgsteer_router");
        let metrics = &shared.metrics;
        for (name, help, counter) in [
            ("accepted", "Client connections accepted", &metrics.accepted),
            (
                "turned_away",
                "Client connections closed at once for want of a descriptor",
                &metrics.turned_away,
            ),
            ("requests", "Requests of which a byte has come", &metrics.requests),
            (
                "answered",
                "Requests whose answer was written to the client",
                &metrics.answered,
            ),
            (
                "retried",
                "Requests sent once more after a stale connection",
                &metrics.retried,
            ),
            (
                "dropped",
                "Requests given up when the router was stopped",
                &metrics.dropped,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register_collector(Box::new(Current(shared)));
        Scrape(registry)
    }

    /// The text, as of now.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.0)?;
        Ok(text)
    }
}

/// What is read off at each scrape.
struct Current(Arc<Shared>);

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl Collector for Current {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shared = &self.0;
        for (name, help, value) in [
            (
                "connected",
                "Client connections open at present.",
                shared.clients.connected() as u64,
            ),
            (
                "ready",
                "Whether new clients are welcome.",
                u64::from(shared.is_ready()),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let help = "What went wrong, by kind.";
        let mut family = encoder.encode_descriptor("errors", help, None, MetricType::Counter)?;
        for (kind, counter) in shared.metrics.errors() {
            let value = ConstCounter::new(counter.get());
            value.encode(family.encode_family(&[("kind", kind)])?)?;
        }
        self.backends(encoder)
    }
}

/// A figure of a backend.
type Figure = (&'static str, &'static str, fn(&BackendStatus) -> u64);

const GAUGES: [Figure; 8] = [
    (
        "backend_in_flight",
        "Requests the backend has at present.",
        |status| status.in_flight,
    ),
    ("backend_idle", "Connections that wait for a request.", |status| {
        status.idle.into()
    }),
    (
        "backend_open",
        "Connections that are open, idle or in use.",
        |status| status.open().into(),
    ),
    ("backend_opening", "Connections being opened.", |status| {
        status.opening.into()
    }),
    (
        "backend_waiting",
        "Requests that wait for a connection.",
        |status| status.waiting.into(),
    ),
    ("backend_weight", "The backend's share beside others.", |status| {
        status.address.weight().get().into()
    }),
    (
        "backend_left_out",
        "Whether the backend is left out of the choice.",
        |status| u64::from(status.left_out_for.is_some()),
    ),
    (
        "backend_breaker_state",
        "The circuit breaker: 0 closed, 1 half-open, 2 open.",
        |status| match status.breaker {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        },
    ),
];

const COUNTERS: [Figure; 6] = [
    (
        "backend_handled",
        "Requests the backend has answered.",
        |status| status.handled,
    ),
    ("backend_failed", "Requests the backend has failed.", |status| {
        status.failed
    }),
    (
        "backend_connections_opened",
        "Connections opened to the backend.",
        |status| status.totals.opened,
    ),
    (
        "backend_dials_failed",
        "Dials that ended without a connection.",
        |status| status.totals.dials_failed,
    ),
    (
        "backend_connections_lost",
        "Idle connections that the backend ended or sent something on.",
        |status| status.totals.lost,
    ),
    (
        "backend_pings_failed",
        "Pings that were not answered as they should be.",
        |status| status.totals.pings_failed,
    ),
];

impl Current {
    fn backends(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.set.status();
        let label = |status: &BackendStatus| [("backend", status.address.to_string())];
        for (name, help, figure) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for status in &all {
                let value = ConstGauge::new(figure(status));
                value.encode(family.encode_family(&label(status))?)?;
            }
        }
        for (name, help, figure) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for status in &all {
                let value = ConstCounter::new(figure(status));
                value.encode(family.encode_family(&label(status))?)?;
            }
        }
        let seconds = Some(&Unit::Seconds);
        let name = "backend_borrow_wait";
        let help = "How long requests waited for a connection.";
        let mut family = encoder.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
        for status in &all {
            let histogram = self.0.backends.of(&status.address).borrow_wait;
            histogram.encode(family.encode_family(&label(status))?)?;
        }
        let name = "backend_request_duration";
        let help = "How long the backend took for requests it answered.";
        let mut family = encoder.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
        for status in &all {
            let histogram = self.0.backends.of(&status.address).duration;
            histogram.encode(family.encode_family(&label(status))?)?;
        }
        Ok(())
    }
}
