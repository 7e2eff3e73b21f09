//! What became of requests: counted by many clients at once, read out each second and at the end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::latency::Times;

/// Clients that record at once disturb each other only if they share a shard.
const SHARDS: usize = 16;
/// Texts of errors told apart; a target that makes up ever new ones must not fill the memory.
const TEXTS: usize = 32;
/// What all further ones count as.
const OTHER_TEXTS: &str = "(other texts)";

/// What a number of requests came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    /// From when a request was sent, or due, to its answer's last byte; of each that was answered rightly.
    pub(super) latency: Times,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) lost: BTreeMap<&'static str, u64>,
    pub(super) turned_away: u64,
    pub(super) duplicated: u64,
    pub(super) crossed: u64,
    pub(super) corrupted: u64,
    /// Due at the end, and not sent.
    pub(super) unsent: u64,
    pub(super) connects: u64,
    pub(super) connect_failures: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(super) fn answered(&self) -> u64 {
        self.latency.len()
    }

    /// Answers that no target may give.
    pub(super) fn wrong(&self) -> u64 {
        self.duplicated + self.crossed + self.corrupted
    }

    /// Adds all of another.
    pub(super) fn add(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.latency.add(&other.latency);
        for (text, count) in &other.errors {
            self.error(text, *count);
        }
        for (cause, count) in &other.lost {
            *self.lost.entry(cause).or_default() += count;
        }
        self.turned_away += other.turned_away;
        self.duplicated += other.duplicated;
        self.crossed += other.crossed;
        self.corrupted += other.corrupted;
        self.unsent += other.unsent;
        self.connects += other.connects;
        for (cause, count) in &other.connect_failures {
            *self.connect_failures.entry(cause).or_default() += count;
        }
    }

    /// Counts answers that were errors.
    pub(super) fn error(&mut self, text: &str, count: u64) {
        let known = self.errors.contains_key(text);
        let text = if known || self.errors.len() < TEXTS {
            text
        } else {
            OTHER_TEXTS
        };
        *self.errors.entry(text.to_owned()).or_default() += count;
    }

    /// Counts requests that got no answer.
    pub(super) fn lose(&mut self, cause: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(cause).or_default() += count;
        }
    }
}

/// Where clients leave what they did, until somebody takes it.
#[derive(Debug)]
pub(super) struct Recorder {
    shards: Vec<Mutex<Tally>>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Recorder {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Where a client counts. Held for no longer than the counting takes.
    pub(super) fn of(&self, client: u32) -> MutexGuard<'_, Tally> {
        self.shards[client as usize % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything recorded since the last taking.
    pub(super) fn take(&self) -> Tally {
        let mut total = Tally::default();
        for shard in 0..SHARDS {
            let mut tally = self.of(shard as u32);
            total.add(&tally);
            // The histogram is kept, since it is large; the rest is small.
            let mut latency = std::mem::take(&mut tally.latency);
            latency.clear();
            *tally = Tally {
                latency,
                ..Tally::default()
            };
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn taking_sums_all_clients_and_leaves_nothing_behind() {
        let recorder = Recorder::new();
        for client in 0..40 {
            recorder.of(client).sent += 1;
            recorder.of(client).latency.record(Duration::from_micros(5));
        }
        recorder.of(3).lose("reset", 2);

        let (first, second) = (recorder.take(), recorder.take());

        assert_eq!((first.sent, first.answered()), (40, 40));
        assert_eq!(first.lost, BTreeMap::from([("reset", 2)]));
        assert_eq!((second.sent, second.answered(), second.lost.len()), (0, 0, 0));
    }

    #[test]
    fn a_target_that_makes_up_texts_fills_no_memory() {
        let mut tally = Tally::default();

        for number in 0..1000 {
            tally.error(&format!("ERR {number}"), 1);
        }

        assert_eq!(tally.errors.len(), TEXTS + 1);
        assert_eq!(tally.errors[OTHER_TEXTS], 1000 - TEXTS as u64);
    }
}
