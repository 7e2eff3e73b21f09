//! What a run came to, as text.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::book::{Either, Judgement};
use super::callers::{FOUND_ABORTED, FOUND_COMMITTED, TO_BE_SETTLED};

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
    /// Whether `resolve_commit` was on; `None` for now and then.
    pub(crate) resolve: Option<bool>,
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
        for (why, either) in &self.judgement.unknown {
            if why.starts_with(TO_BE_SETTLED) {
                let _ = writeln!(text, "nobody knows of {} commits: {why}", all(*either));
            }
        }
        text
    }

    /// Runs as a table, a row each.
    pub(crate) fn table(outcomes: &[Outcome]) -> String {
        let head = [
            "servers",
            "`resolve_commit`",
            "seed",
            "seconds",
            "transfers",
            "faults",
            "told `Ok`",
            "told an error",
            "dropped",
            "settled",
            "nobody knows",
            "**told what is not true**",
            "sums wrong",
        ];
        let mut text = format!(
            "| {} |\n|---{}|\n",
            head.join(" | "),
            "|--:".repeat(head.len() - 1)
        );
        for outcome in outcomes {
            let _ = writeln!(text, "| {} |", outcome.row().join(" | "));
        }
        text
    }

    fn row(&self) -> Vec<String> {
        let Judgement {
            done, dropped, wrong, ..
        } = &self.judgement;
        let (unknown, failed) = (self.judgement.nobody_knows(), self.judgement.failed());
        let begun = done + failed + all(*dropped) + all(unknown);
        let either = |what: Either| format!("{}, {} of them done", all(what), what.there);
        vec![
            self.site.to_owned(),
            self.resolve().to_owned(),
            self.seed.to_string(),
            self.took.as_secs().to_string(),
            begun.to_string(),
            self.faults.values().sum::<u64>().to_string(),
            done.to_string(),
            failed.to_string(),
            either(*dropped),
            (self.ended(FOUND_COMMITTED) + self.ended(FOUND_ABORTED)).to_string(),
            either(unknown),
            format!("**{}**", wrong.len()),
            self.wrong_sums.len().to_string(),
        ]
    }

    fn resolve(&self) -> &'static str {
        match self.resolve {
            Some(true) => "on",
            Some(false) => "off",
            None => "now and then",
        }
    }

    /// Attempts that ended so.
    fn ended(&self, how: &str) -> u64 {
        self.attempts.get(how).copied().unwrap_or(0)
    }

    /// By kinds, the most frequent first.
    pub(crate) fn details(&self) -> String {
        let not_done = &self.judgement.not_done;
        let errors = not_done.iter().map(|(kind, count)| (kind.as_str(), *count));
        let unknown = &self.judgement.unknown;
        let unknown = unknown.iter().map(|(why, either)| (why.as_str(), all(*either)));
        let mut text = format!("\n{}, `resolve_commit` {}:\n\n", self.site, self.resolve());
        let faults = self.faults.iter().map(|(kind, count)| (*kind, *count));
        let _ = writeln!(text, "- faults: {}", list(faults.collect()));
        let _ = writeln!(text, "- errors: {}", list(errors.collect()));
        let _ = writeln!(text, "- nobody knows: {}", list(unknown.collect()));
        let attempts = self.attempts.iter().map(|(kind, count)| (*kind, *count));
        let _ = writeln!(text, "- attempts: {}", list(attempts.collect()));
        text
    }
}

fn all(either: Either) -> u64 {
    either.there + either.not_there
}

fn list(mut kinds: Vec<(&str, u64)>) -> String {
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let written: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    written.join(", ")
}

/// As Markdown.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::table(std::slice::from_ref(self)))?;
        f.write_str(&self.details())
    }
}
