//! How the demo ended: what was measured at each stage and in all, whether it was right, and the summary that says so.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::spread::Spread;

/// What the demo came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From start to end.
    pub took: Duration,
    /// The stages that were played.
    pub stages: Vec<StageEnd>,
    /// Queries answered.
    pub answered: u64,
    /// Operations that failed.
    pub failed: u64,
    /// The failed operations by why they failed.
    pub causes: BTreeMap<String, u64>,
    /// From the kill of the home zone to a pool that is full again.
    pub kill_to_full: Option<Duration>,
    /// Everything that was not as it should be.
    pub wrong: Vec<String>,
    /// Whether it was ended before its end.
    pub interrupted: bool,
}

/// How a stage ended.
#[derive(Clone, Debug)]
pub struct StageEnd {
    /// What had happened.
    pub name: String,
    /// Where the connections were.
    pub spread: Spread,
    /// How long the pool took to get there; `None` if it did not in time, or had no way to go.
    pub took: Option<Duration>,
    /// Whether that is where they belong.
    pub right: bool,
    /// What else was seen.
    pub note: String,
}

impl Outcome {
    /// Whether everything was as it should be.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.stages.iter().all(|stage| stage.right)
    }
}

impl fmt::Display for Outcome {
    /// The summary, several lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "summary after {:.1} s", self.took.as_secs_f64())?;
        let name = self
            .stages
            .iter()
            .map(|stage| stage.name.len())
            .max()
            .unwrap_or(0);
        let spread = self
            .stages
            .iter()
            .map(|stage| stage.spread.to_string().len())
            .max()
            .unwrap_or(0);
        for stage in &self.stages {
            let took = match stage.took {
                Some(took) => format!("{:.2} s", took.as_secs_f64()),
                None => "-".to_owned(),
            };
            let verdict = if stage.right { "ok" } else { "WRONG" };
            let line = format!(
                "  {:<name$}  {:<spread$}  {took:>7}  {verdict:<5}  {}",
                stage.name,
                stage.spread.to_string(),
                stage.note
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        if let Some(time) = self.kill_to_full {
            writeln!(f, "from the kill to a full pool: {:.2} s", time.as_secs_f64())?;
        }
        writeln!(f, "queries: {} answered, {} failed", self.answered, self.failed)?;
        for (cause, count) in &self.causes {
            writeln!(f, "  {count}: {cause}")?;
        }
        for reason in &self.wrong {
            writeln!(f, "WRONG: {reason}")?;
        }
        match (self.is_good(), self.interrupted) {
            (true, false) => write!(f, "result: good"),
            (true, true) => write!(f, "result: interrupted; good as far as it went"),
            (false, _) => write!(f, "result: not good"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Outcome {
        Outcome {
            took: Duration::from_secs(30),
            stages: vec![StageEnd {
                name: "filled".to_owned(),
                spread: Spread::default(),
                took: Some(Duration::from_millis(120)),
                right: true,
                note: String::new(),
            }],
            answered: 1000,
            failed: 2,
            causes: BTreeMap::from([("in flight on a server as it was killed".to_owned(), 2)]),
            kill_to_full: Some(Duration::from_millis(340)),
            wrong: Vec::new(),
            interrupted: false,
        }
    }

    #[test]
    fn losses_in_flight_alone_are_good() {
        assert!(good().is_good());
        assert!(good().to_string().ends_with("result: good"), "{}", good());
    }

    #[test]
    fn a_wrong_spread_at_any_stage_is_not_good() {
        let mut outcome = good();
        outcome.stages[0].right = false;

        assert!(!outcome.is_good());
        assert!(outcome.to_string().ends_with("result: not good"), "{outcome}");
    }

    #[test]
    fn anything_that_went_wrong_is_not_good_and_is_told() {
        let mut outcome = good();
        outcome.wrong.push("the freeze cost 2 connections".to_owned());

        assert!(!outcome.is_good());
        assert!(
            outcome
                .to_string()
                .contains("WRONG: the freeze cost 2 connections"),
            "{outcome}"
        );
    }
}
