//! What a bench prints: the figures of one second or of all, as JSON and as a line of text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pgsteer::Status;
use serde::Serialize;

use super::outage_report::OutageFigures;
use crate::breaker::BreakerFigures;
use crate::latency::{Percentiles, Tally};
use crate::output::Micros;

/// Figures of one stretch of time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    #[serde(rename = "type")]
    kind: Kind,
    /// Which second, from 1; absent in the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<u64>,
    /// Length of the stretch.
    seconds: f64,
    ops: u64,
    ops_per_s: f64,
    errors: BTreeMap<String, u64>,
    latency_us: Percentiles,
    checkout_us: Percentiles,
    /// Connections by host, at the end of the stretch.
    by_host: BTreeMap<String, u32>,
    /// Operations by host.
    ops_by_host: BTreeMap<String, u64>,
    status: PoolFigures,
    /// In the total only.
    #[serde(flatten)]
    outages: Option<OutageFigures>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Second,
    Total,
}

/// The pool at the end of the stretch.
#[derive(Clone, Debug, Serialize)]
struct PoolFigures {
    size: u32,
    idle: u32,
    leased: u32,
    draining: u32,
    opening: u32,
    settling: u32,
    closing: u32,
    waiting: u32,
    /// Where the circuit breaker stands; `null` if it is off.
    breaker: Option<BreakerFigures>,
    totals: PoolTotals,
}

/// What the pool has counted since it started, the warm-up included.
#[derive(Clone, Debug, Serialize)]
struct PoolTotals {
    opened: u64,
    open_failures: u64,
    lost: u64,
    expired: u64,
    moved: u64,
    rolled_back: u64,
    cancelled: u64,
    cut: u64,
    timeouts: u64,
    circuit_open: u64,
}

impl Report {
    pub(super) fn of_second(number: u64, length: Duration, tally: &Tally, status: &Status) -> Self {
        Report {
            kind: Kind::Second,
            second: Some(number),
            ..Report::of_all(length, tally, status)
        }
    }

    pub(super) fn of_all(length: Duration, tally: &Tally, status: &Status) -> Self {
        let seconds = length.as_secs_f64();
        let per_second = if length.is_zero() {
            0.0
        } else {
            tally.operations() as f64 / seconds
        };
        Report {
            kind: Kind::Total,
            second: None,
            seconds: rounded(seconds, 1000.0),
            ops: tally.operations(),
            ops_per_s: rounded(per_second, 10.0),
            errors: tally.errors.clone(),
            latency_us: tally.latency.percentiles(),
            checkout_us: tally.checkout.percentiles(),
            by_host: status
                .by_host
                .iter()
                .map(|(host, count)| (host.to_string(), *count))
                .collect(),
            ops_by_host: tally
                .by_host
                .iter()
                .map(|(host, count)| (host.to_string(), *count))
                .collect(),
            status: PoolFigures::of(status),
            outages: None,
        }
    }

    pub(super) fn with(self, outages: OutageFigures) -> Self {
        Report {
            outages: Some(outages),
            ..self
        }
    }
}

impl PoolFigures {
    fn of(status: &Status) -> Self {
        let totals = &status.totals;
        PoolFigures {
            size: status.size,
            idle: status.idle,
            leased: status.leased,
            draining: status.draining,
            opening: status.opening,
            settling: status.settling,
            closing: status.closing,
            waiting: status.waiting,
            breaker: status.breaker.as_ref().map(BreakerFigures::of),
            totals: PoolTotals {
                opened: totals.opened,
                open_failures: totals.open_failures,
                lost: totals.lost,
                expired: totals.expired,
                moved: totals.moved,
                rolled_back: totals.rolled_back,
                cancelled: totals.cancelled,
                cut: totals.cut,
                timeouts: totals.timeouts,
                circuit_open: totals.circuit_open,
            },
        }
    }
}

fn rounded(figure: f64, steps: f64) -> f64 {
    (figure * steps).round() / steps
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.second {
            Some(second) => write!(f, "{second:>5} s")?,
            None => write!(f, "total  ")?,
        }
        let (latency, checkout) = (&self.latency_us, &self.checkout_us);
        write!(
            f,
            "  {:>9.0} ops/s  p50 {}  p99 {}  max {}  checkout p99 {}",
            self.ops_per_s,
            Micros(latency.p50),
            Micros(latency.p99),
            Micros(latency.max),
            Micros(checkout.p99)
        )?;
        for (class, count) in &self.errors {
            write!(f, "  {class}: {count}")?;
        }
        if self.kind == Kind::Second {
            return Ok(());
        }
        write!(
            f,
            "\n{} operations in {:.1} s; p90 {}, p99.9 {}",
            self.ops,
            self.seconds,
            Micros(latency.p90),
            Micros(latency.p999)
        )?;
        for (host, connections) in &self.by_host {
            let operations = self.ops_by_host.get(host).copied().unwrap_or(0);
            write!(
                f,
                "\n  {host}: {connections} connections, {operations} operations"
            )?;
        }
        if let Some(outages) = &self.outages {
            write!(f, "\n{outages}")?;
        }
        Ok(())
    }
}
