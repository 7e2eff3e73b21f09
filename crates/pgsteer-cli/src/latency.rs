//! Times of operations: recorded by many tasks at once, read out as percentiles. Nothing here knows what was timed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use pgsteer::HostKey;
use serde::Serialize;

/// The longest time told apart; longer ones count as this.
const LONGEST: Duration = Duration::from_secs(600);
/// Significant figures kept of each time.
const FIGURES: u8 = 3;
/// Tasks that record at once disturb each other only if they share a shard.
const SHARDS: usize = 16;

/// A set of times.
#[derive(Clone, Debug)]
pub struct Times {
    // Nanoseconds: a checkout takes some tens of them.
    histogram: Histogram<u64>,
}

impl Times {
    /// No times yet.
    pub fn new() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the bounds are constants that the histogram accepts"
        )]
        let histogram =
            Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, FIGURES).expect("bounds are valid");
        Times { histogram }
    }

    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        self.histogram
            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all of another set.
    pub fn add(&mut self, other: &Times) {
        // Both have the same bounds, so it cannot fail.
        let _ = self.histogram.add(&other.histogram);
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The time that this share of the operations, 0 to 1, did not exceed. Zero if there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(share))
    }

    /// The figures people compare.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: micros(self.quantile(0.5)),
            p90: micros(self.quantile(0.9)),
            p99: micros(self.quantile(0.99)),
            p999: micros(self.quantile(0.999)),
            max: micros(Duration::from_nanos(self.histogram.max())),
        }
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }
}

impl Default for Times {
    fn default() -> Self {
        Times::new()
    }
}

/// Times in microseconds; all zero where nothing was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half were no slower.
    pub p50: f64,
    /// 90 % were no slower.
    pub p90: f64,
    /// 99 % were no slower.
    pub p99: f64,
    /// 99.9 % were no slower.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// Microseconds with three decimals.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// What a number of operations came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Checkout and query together, of each operation that succeeded.
    pub latency: Times,
    /// The checkout alone, of the same operations.
    pub checkout: Times,
    /// Operations that succeeded, by the host they ran on.
    pub by_host: BTreeMap<HostKey, u64>,
    /// Operations that failed, by class.
    pub errors: BTreeMap<String, u64>,
}

impl Tally {
    /// Operations that succeeded.
    pub fn operations(&self) -> u64 {
        self.latency.len()
    }

    /// Operations that failed.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Tally) {
        self.latency.add(&other.latency);
        self.checkout.add(&other.checkout);
        for (host, count) in &other.by_host {
            *self.by_host.entry(host.clone()).or_default() += count;
        }
        for (class, count) in &other.errors {
            *self.errors.entry(class.clone()).or_default() += count;
        }
    }

    fn clear(&mut self) {
        self.latency.clear();
        self.checkout.clear();
        self.by_host.clear();
        self.errors.clear();
    }
}

/// Where tasks leave what they did, until somebody takes it.
#[derive(Debug)]
pub struct Recorder {
    shards: Vec<Mutex<Tally>>,
}

impl Recorder {
    /// One with nothing recorded.
    pub fn new() -> Self {
        Recorder {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// An operation of task number `task` succeeded.
    pub fn succeeded(&self, task: usize, host: &HostKey, checkout: Duration, latency: Duration) {
        let mut tally = self.shard(task);
        tally.latency.record(latency);
        tally.checkout.record(checkout);
        *tally.by_host.entry(host.clone()).or_default() += 1;
    }

    /// An operation of task number `task` failed.
    pub fn failed(&self, task: usize, class: String) {
        *self.shard(task).errors.entry(class).or_default() += 1;
    }

    /// Everything recorded since the last taking.
    pub fn take(&self) -> Tally {
        let mut total = Tally::default();
        for shard in 0..self.shards.len() {
            let mut tally = self.shard(shard);
            total.add(&tally);
            tally.clear();
        }
        total
    }

    fn shard(&self, task: usize) -> MutexGuard<'_, Tally> {
        self.shards[task % self.shards.len()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_even_times_are_the_times_themselves() {
        let mut times = Times::new();
        for millis in 1..=100 {
            times.record(Duration::from_millis(millis));
        }

        let found = times.percentiles();

        for (figure, millis) in [
            (found.p50, 50.0),
            (found.p90, 90.0),
            (found.p99, 99.0),
            (found.max, 100.0),
        ] {
            let off = (figure / 1000.0 - millis).abs() / millis;
            assert!(off < 0.002, "{figure} us is not {millis} ms");
        }
    }

    #[test]
    fn a_time_beyond_the_longest_counts_as_the_longest() {
        let mut times = Times::new();

        times.record(Duration::from_secs(100_000));

        assert_eq!(times.len(), 1);
        assert!(times.percentiles().max >= 599e6, "{:?}", times.percentiles());
    }

    #[test]
    fn no_times_have_zero_percentiles() {
        assert_eq!(Times::new().percentiles(), Percentiles::default());
    }

    #[test]
    fn taking_leaves_nothing_behind_and_sums_all_tasks() {
        let (recorder, host) = (Recorder::new(), HostKey::new("db1", 5432));
        for task in 0..40 {
            recorder.succeeded(task, &host, Duration::from_micros(1), Duration::from_micros(100));
        }
        recorder.failed(3, "connection_lost".to_owned());

        let first = recorder.take();
        let second = recorder.take();

        assert_eq!((first.operations(), first.failures()), (40, 1));
        assert_eq!(first.by_host, BTreeMap::from([(host, 40)]));
        assert_eq!((second.operations(), second.failures()), (0, 0));
        assert!(
            second.by_host.is_empty() && second.errors.is_empty(),
            "{second:?}"
        );
    }
}
