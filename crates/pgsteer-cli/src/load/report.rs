//! What a load prints: the figures of one second or of all, as JSON and as a line of text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::nagle;
use super::tally::Tally;
use crate::latency::Percentiles;
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
    #[serde(flatten)]
    counts: Counts,
    answered_per_s: f64,
    latency_us: Percentiles,
    /// In the total only.
    #[serde(flatten)]
    rest: Option<Rest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Second,
    Total,
}

/// What became of requests and connects.
#[derive(Clone, Debug, Serialize)]
struct Counts {
    sent: u64,
    answered: u64,
    errors: BTreeMap<String, u64>,
    lost: BTreeMap<&'static str, u64>,
    turned_away: u64,
    duplicated: u64,
    crossed: u64,
    corrupted: u64,
    /// Due at the end, and not sent; by a fixed rate only.
    unsent: u64,
    connects: u64,
    connect_failures: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Serialize)]
struct Rest {
    /// What was sent before anything was measured.
    warmup: Counts,
    /// The connections that were idle until the end, if there were any.
    idle: Option<Counts>,
    warning: Option<String>,
}

impl Counts {
    fn of(tally: &Tally) -> Self {
        Counts {
            sent: tally.sent,
            answered: tally.answered(),
            errors: tally.errors.clone(),
            lost: tally.lost.clone(),
            turned_away: tally.turned_away,
            duplicated: tally.duplicated,
            crossed: tally.crossed,
            corrupted: tally.corrupted,
            unsent: tally.unsent,
            connects: tally.connects,
            connect_failures: tally.connect_failures.clone(),
        }
    }
}

impl Report {
    pub(super) fn of_second(number: u64, length: Duration, tally: &Tally) -> Self {
        Report {
            kind: Kind::Second,
            second: Some(number),
            ..Report::of(length, tally)
        }
    }

    pub(super) fn of_all(length: Duration, total: &Tally, warmup: &Tally, idle: Option<&Tally>) -> Self {
        let report = Report::of(length, total);
        let warning = nagle::warning(&report.latency_us);
        Report {
            rest: Some(Rest {
                warmup: Counts::of(warmup),
                idle: idle.map(Counts::of),
                warning,
            }),
            ..report
        }
    }

    fn of(length: Duration, tally: &Tally) -> Self {
        let seconds = length.as_secs_f64();
        let per_second = if length.is_zero() {
            0.0
        } else {
            tally.answered() as f64 / seconds
        };
        Report {
            kind: Kind::Total,
            second: None,
            seconds: rounded(seconds, 1000.0),
            counts: Counts::of(tally),
            answered_per_s: rounded(per_second, 10.0),
            latency_us: tally.latency.percentiles(),
            rest: None,
        }
    }

    /// Something about the figures that their reader should know.
    pub(super) fn warning(&self) -> Option<&str> {
        self.rest.as_ref().and_then(|rest| rest.warning.as_deref())
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
        let latency = &self.latency_us;
        write!(
            f,
            "  {:>9.0} answers/s  p50 {}  p99 {}  max {}{}",
            self.answered_per_s,
            Micros(latency.p50),
            Micros(latency.p99),
            Micros(latency.max),
            Amiss(&self.counts)
        )?;
        let Some(rest) = &self.rest else {
            return Ok(());
        };
        write!(
            f,
            "\n{} sent, {} answered in {:.1} s over {} connections; p90 {}, p99.9 {}",
            self.counts.sent,
            self.counts.answered,
            self.seconds,
            self.counts.connects,
            Micros(latency.p90),
            Micros(latency.p999)
        )?;
        if rest.warmup.sent > 0 {
            write!(
                f,
                "\nwarm-up: {} sent, {} answered{}",
                rest.warmup.sent,
                rest.warmup.answered,
                Amiss(&rest.warmup)
            )?;
        }
        if let Some(idle) = &rest.idle {
            let (connects, answered) = (idle.connects, idle.answered);
            write!(
                f,
                "\nidle until the end: {connects} connections, {answered} answered{}",
                Amiss(idle)
            )?;
        }
        Ok(())
    }
}

/// Everything that did not go well, if anything did not.
struct Amiss<'a>(&'a Counts);

impl fmt::Display for Amiss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0;
        for (text, count) in &counts.errors {
            write!(f, "  `{text}`: {count}")?;
        }
        for (cause, count) in &counts.lost {
            write!(f, "  lost ({cause}): {count}")?;
        }
        for (cause, count) in &counts.connect_failures {
            write!(f, "  connect failed ({cause}): {count}")?;
        }
        let others = [
            ("turned away", counts.turned_away),
            ("duplicated", counts.duplicated),
            ("crossed", counts.crossed),
            ("corrupted", counts.corrupted),
            ("unsent", counts.unsent),
        ];
        for (name, count) in others.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, "  {name}: {count}")?;
        }
        Ok(())
    }
}
