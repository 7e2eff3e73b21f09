//! What is going on, for whoever shows it: the stage, events, samples of the load. Written by the story, read by the
//! view and the plain lines; it decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgsteer::HostKey;
use tokio::time::Instant;

use crate::latency::Tally;

/// Samples kept; at two a second more than a whole demo.
const SAMPLES: usize = 240;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The demo did something to a server.
    Act,
    /// The demo measured something.
    Seen,
    /// A check failed.
    Wrong,
    /// The library said something in its log.
    Log,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the demo started.
    pub at: Duration,
    /// What kind of thing.
    pub kind: Kind,
    /// What, in words.
    pub text: String,
}

/// What has become of a server; the truth, not what the pool knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It runs.
    #[default]
    Up,
    /// It has been killed.
    Killed,
    /// It is frozen: its sockets are open, and nothing answers.
    Frozen,
}

/// The load over a short stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Queries answered per second.
    pub per_second: f64,
    /// The same by host.
    pub by_host: BTreeMap<HostKey, f64>,
    /// 99 % of the queries took no longer, checkout included.
    pub p99: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    started: Instant,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    stage: String,
    events: Vec<Event>,
    conditions: BTreeMap<HostKey, Condition>,
    samples: VecDeque<Sample>,
}

impl Board {
    /// An empty board; its clock starts.
    pub fn new() -> Self {
        Board {
            started: Instant::now(),
            content: Mutex::default(),
        }
    }

    /// Since the demo started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// A new stage begins.
    pub fn set_stage(&self, stage: &str) {
        self.content().stage = stage.to_owned();
    }

    /// The stage that is on.
    pub fn stage(&self) -> String {
        self.content().stage.clone()
    }

    /// Something happened.
    pub fn tell(&self, kind: Kind, text: impl Into<String>) {
        let event = Event {
            at: self.elapsed(),
            kind,
            text: text.into(),
        };
        self.content().events.push(event);
    }

    /// What happened, from event number `from` on.
    pub fn events_from(&self, from: usize) -> Vec<Event> {
        self.content().events.iter().skip(from).cloned().collect()
    }

    /// Something has become of a server.
    pub fn set_condition(&self, host: &HostKey, condition: Condition) {
        self.content().conditions.insert(host.clone(), condition);
    }

    /// What has become of a server.
    pub fn condition(&self, host: &HostKey) -> Condition {
        self.content().conditions.get(host).copied().unwrap_or_default()
    }

    /// The load over the last `length` of time.
    pub fn add_sample(&self, tally: &Tally, length: Duration) {
        let seconds = length.as_secs_f64().max(f64::EPSILON);
        let sample = Sample {
            per_second: tally.operations() as f64 / seconds,
            by_host: tally
                .by_host
                .iter()
                .map(|(host, count)| (host.clone(), *count as f64 / seconds))
                .collect(),
            p99: tally.latency.quantile(0.99),
        };
        let mut content = self.content();
        content.samples.push_back(sample);
        if content.samples.len() > SAMPLES {
            content.samples.pop_front();
        }
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.content().samples.iter().cloned().collect()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Board {
    fn default() -> Self {
        Board::new()
    }
}
