//! What a run came to, as text.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::book::{Either, Judgement};

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) site: &'static str,
    pub(crate) seed: u64,
    pub(crate) took: Duration,
    pub(crate) judgement: Judgement,
    /// Servers whose sums are wrong, and how.
    pub(crate) wrong_sums: Vec<String>,
    /// What was done to the servers, and how often.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// How attempts have ended.
    pub(crate) attempts: BTreeMap<&'static str, u64>,
}

/// Wrong ones that are told at most.
const TOLD: usize = 20;

impl Outcome {
    /// Everything that is wrong, a line each; empty if nothing is.
    pub(crate) fn wrong(&self) -> String {
        let mut text = String::new();
        for wrong in self.judgement.wrong.iter().take(TOLD) {
            let _ = writeln!(text, "{wrong}");
        }
        if let Some(more @ 1..) = self.judgement.wrong.len().checked_sub(TOLD) {
            let _ = writeln!(text, "and {more} more");
        }
        for sums in &self.wrong_sums {
            let _ = writeln!(text, "{sums}");
        }
        text
    }
}

fn all(either: Either) -> u64 {
    either.there + either.not_there
}

/// As Markdown.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement {
            done,
            not_done,
            dropped,
            wrong,
            ..
        } = &self.judgement;
        let (unknown, failed) = (self.judgement.nobody_knows(), self.judgement.failed());
        let begun = done + failed + all(*dropped) + all(unknown);
        writeln!(f, "### {}, seed {}\n", self.site, self.seed)?;
        writeln!(f, "| | |\n|---|--:|")?;
        writeln!(f, "| time | {:.0} s |", self.took.as_secs_f64())?;
        writeln!(f, "| transfers begun | {begun} |")?;
        writeln!(f, "| attempts | {} |", self.attempts.values().sum::<u64>())?;
        writeln!(f, "| faults | {} |", self.faults.values().sum::<u64>())?;
        writeln!(f, "| told `Ok` | {done} |")?;
        writeln!(f, "| told an error | {failed} |")?;
        let either = |what: Either| format!("{} ({} of them committed)", all(what), what.there);
        writeln!(f, "| dropped by the caller | {} |", either(*dropped))?;
        writeln!(f, "| told that nobody knows | {} |", either(unknown))?;
        writeln!(f, "| **told what is not true** | **{}** |", wrong.len())?;
        writeln!(f, "| servers whose sums are wrong | {} |", self.wrong_sums.len())?;
        let list = |kinds: Vec<(String, u64)>| {
            let mut kinds = kinds;
            kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let written: Vec<String> = kinds
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            written.join(", ")
        };
        let plain = |kinds: &BTreeMap<&str, u64>| {
            kinds
                .iter()
                .map(|(kind, count)| ((*kind).to_owned(), *count))
                .collect()
        };
        writeln!(f, "\nFaults: {}.", list(plain(&self.faults)))?;
        let errors = not_done.iter().map(|(kind, count)| (kind.clone(), *count));
        writeln!(f, "\nErrors: {}.", list(errors.collect()))?;
        writeln!(f, "\nAttempts: {}.", list(plain(&self.attempts)))
    }
}
