//! Tables of text, as Markdown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub struct Table {
    title: &'static str,
    steps: &'static str,
    header: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: &'static str, steps: &'static str, header: &'static [&'static str]) -> Self {
        Table {
            title,
            steps,
            header,
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.header.len(), "a cell for every column");
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n\n{}\n", self.title, self.steps)?;
        writeln!(f, "| {} |", self.header.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(self.header.len() - 1))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

/// Seconds with two decimals.
pub fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

/// Counts by kind, the most frequent first.
pub fn errors(kinds: &BTreeMap<&str, usize>) -> String {
    let mut kinds: Vec<_> = kinds.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let written: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if written.is_empty() {
        "none".to_owned()
    } else {
        written.join(", ")
    }
}
