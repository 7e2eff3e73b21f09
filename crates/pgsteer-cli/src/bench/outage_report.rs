//! What a bench prints of its outages, as JSON and as lines of text. Times are of the wall clock, so that they can be
//! held beside what else happened to the servers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::outages::{Found, Outage};

/// The outages of a whole run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OutageFigures {
    /// The longest time without a success, in milliseconds.
    longest_gap_ms: f64,
    outages: Vec<OutageFigure>,
    /// How many more there were.
    outages_not_listed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct OutageFigure {
    /// The last success before it, in seconds since 1970.
    from_unix_s: f64,
    /// The first success after it; null if none came.
    to_unix_s: Option<f64>,
    seconds: f64,
    errors: BTreeMap<String, u64>,
}

impl OutageFigures {
    /// `start` is the wall clock's time at the zero of the outages' times.
    pub(super) fn of(found: &Found, start: SystemTime) -> Self {
        let start = start.duration_since(UNIX_EPOCH).unwrap_or_default();
        OutageFigures {
            longest_gap_ms: milliseconds(found.longest),
            outages: found
                .listed
                .iter()
                .map(|outage| OutageFigure::of(outage, start))
                .collect(),
            outages_not_listed: found.unlisted,
        }
    }
}

impl OutageFigure {
    fn of(outage: &Outage, start: Duration) -> Self {
        OutageFigure {
            from_unix_s: seconds(start + outage.from),
            to_unix_s: outage.is_over.then(|| seconds(start + outage.to)),
            seconds: seconds(outage.to.saturating_sub(outage.from)),
            errors: outage.errors.clone(),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

impl fmt::Display for OutageFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longest time without a success: {:.1} ms", self.longest_gap_ms)?;
        for outage in &self.outages {
            write!(f, "\n{outage}")?;
        }
        if self.outages_not_listed > 0 {
            write!(f, "\nand {} times more", self.outages_not_listed)?;
        }
        Ok(())
    }
}

impl fmt::Display for OutageFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no success for {:.3} s, from {}",
            self.seconds,
            TimeOfDay(self.from_unix_s)
        )?;
        match self.to_unix_s {
            Some(to) => write!(f, " to {} UTC", TimeOfDay(to))?,
            None => write!(f, " UTC to the end")?,
        }
        for (place, (class, count)) in self.errors.iter().enumerate() {
            let before = if place == 0 { ";" } else { "," };
            write!(f, "{before} {class}: {count}")?;
        }
        Ok(())
    }
}

/// Seconds since 1970, written as the time of day in UTC.
struct TimeOfDay(f64);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = (self.0 * 1000.0).round() as u64 % 86_400_000;
        let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(is_over: bool, errors: &[(&str, u64)]) -> Outage {
        Outage {
            from: Duration::from_millis(1500),
            to: Duration::from_millis(3750),
            is_over,
            errors: errors
                .iter()
                .map(|(class, count)| ((*class).to_owned(), *count))
                .collect(),
        }
    }

    #[test]
    fn an_outage_is_a_line_with_times_of_day() {
        let start = UNIX_EPOCH + Duration::from_secs(86_400 + 3600 + 59);
        let cases = [
            (
                outage(true, &[("connection_lost", 32), ("no_fit", 1)]),
                "no success for 2.250 s, from 01:01:00.500 to 01:01:02.750 UTC; connection_lost: 32, no_fit: 1",
            ),
            (
                outage(false, &[]),
                "no success for 2.250 s, from 01:01:00.500 UTC to the end",
            ),
        ];

        for (outage, expected) in cases {
            let found = Found {
                longest: Duration::from_micros(2_250_040),
                listed: vec![outage],
                unlisted: 0,
            };

            let text = OutageFigures::of(&found, start).to_string();

            assert_eq!(
                text,
                format!("longest time without a success: 2250.0 ms\n{expected}")
            );
        }
    }

    #[test]
    fn outages_that_are_not_listed_are_counted() {
        let found = Found {
            longest: Duration::from_secs(1),
            listed: Vec::new(),
            unlisted: 3,
        };

        let text = OutageFigures::of(&found, UNIX_EPOCH).to_string();

        assert!(text.ends_with("\nand 3 times more"), "{text}");
    }
}
