//! What the calls of a run come to. Nothing here reads a clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::contender::TASKS;
use super::load::{Call, Outcome};

/// The calls of one run, in the order in which they ended.
pub struct Calls(Vec<Call>);

impl Calls {
    pub fn new(mut calls: Vec<Call>) -> Self {
        calls.sort_by_key(|call| call.ended);
        Calls(calls)
    }

    fn writes(&self) -> impl Iterator<Item = (&Call, &str)> {
        self.0.iter().filter_map(|call| match &call.outcome {
            Outcome::Wrote(server) => Some((call, server.as_str())),
            _ => None,
        })
    }

    /// Writes done between the two times.
    pub fn writes_between(&self, from: Instant, to: Instant) -> usize {
        self.writes()
            .filter(|(call, _)| (from..to).contains(&call.ended))
            .count()
    }

    /// Errors from then on, by kind, and calls given up.
    pub fn errors_since(&self, from: Instant) -> (BTreeMap<&str, usize>, usize) {
        let (mut kinds, mut hung) = (BTreeMap::new(), 0);
        for call in self.0.iter().filter(|call| call.ended >= from) {
            match &call.outcome {
                Outcome::Failed(kind) => *kinds.entry(kind.as_str()).or_default() += 1,
                Outcome::Hung => hung += 1,
                Outcome::Wrote(_) => {}
            }
        }
        (kinds, hung)
    }

    /// The first write on a server after a time.
    pub fn first_write(&self, server: &str, after: Instant) -> Option<Instant> {
        let mut writes = self.writes();
        let first = writes.find(|(call, by)| *by == server && call.ended >= after);
        first.map(|(call, _)| call.ended)
    }

    /// When the last of the tasks had its first write on a server after a time; `Err` says how many had none.
    pub fn all_tasks_wrote(&self, server: &str, after: Instant) -> Result<Instant, usize> {
        let mut firsts = BTreeMap::new();
        for (call, by) in self.writes() {
            if by == server && call.ended >= after {
                firsts.entry(call.task).or_insert(call.ended);
            }
        }
        match firsts.values().max() {
            Some(last) if firsts.len() == TASKS => Ok(*last),
            _ => Err(TASKS - firsts.len()),
        }
    }

    /// The longest time without a write by any task, up to the end.
    pub fn longest_gap(&self, from: Instant, end: Instant) -> Duration {
        gap(self.writes().map(|(call, _)| call.ended), from, end)
    }

    /// The longest time that one task went without a write.
    pub fn longest_gap_of_a_task(&self, from: Instant, end: Instant) -> Duration {
        let gaps = (0..TASKS).map(|task| {
            let own = self.writes().filter(|(call, _)| call.task == task);
            gap(own.map(|(call, _)| call.ended), from, end)
        });
        gaps.max().unwrap_or_default()
    }
}

fn gap(writes: impl Iterator<Item = Instant>, from: Instant, end: Instant) -> Duration {
    let (mut last, mut longest) = (from, Duration::ZERO);
    for at in writes
        .filter(|at| (from..end).contains(at))
        .chain(std::iter::once(end))
    {
        longest = longest.max(at - last);
        last = at;
    }
    longest
}
