//! The table of `docs/conformance.md`: a row per case with its number, its title, and its tests or the reason why it
//! has none. Titles and reasons are written by hand; tests are written by `update`.

use std::collections::BTreeSet;

use crate::sources::{Covers, is_case};

/// Stands where a case has neither test nor reason.
const MISSING: &str = "missing";

/// The document, taken apart.
pub(crate) struct Table<'d>(Vec<Line<'d>>);

enum Line<'d> {
    Case {
        number: &'d str,
        title: &'d str,
        shown_by: &'d str,
    },
    Other(&'d str),
}

impl<'d> Table<'d> {
    pub(crate) fn read(document: &'d str) -> Result<Self, String> {
        let lines: Vec<Line<'d>> = document.lines().map(read_line).collect::<Result<_, _>>()?;
        let mut numbers = BTreeSet::new();
        for line in &lines {
            if let Line::Case { number, .. } = line {
                if !numbers.insert(*number) {
                    return Err(format!("case {number} is in the table twice"));
                }
            }
        }
        if numbers.is_empty() {
            Err("the table has no cases".to_owned())
        } else {
            Ok(Self(lines))
        }
    }

    /// The document with each case's tests as they are in the sources.
    pub(crate) fn with_tests(&self, covers: &Covers) -> String {
        let mut text = String::new();
        for line in &self.0 {
            match line {
                Line::Case {
                    number,
                    title,
                    shown_by,
                } => {
                    let column = match covers.get(*number) {
                        Some(tests) => tests
                            .iter()
                            .map(|test| format!("`{test}`"))
                            .collect::<Vec<_>>()
                            .join("<br>"),
                        None if shown_by.starts_with("reason: ") => (*shown_by).to_owned(),
                        None => MISSING.to_owned(),
                    };
                    text.push_str(&format!("| {number} | {title} | {column} |\n"));
                }
                Line::Other(line) => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        text
    }

    /// Fails if tests cover a case that the table does not have.
    pub(crate) fn unknown_cases(&self, covers: &Covers) -> Result<(), String> {
        let known: BTreeSet<&str> = self.cases().map(|(number, _)| number).collect();
        let unknown: Vec<String> = covers
            .iter()
            .filter(|(case, _)| !known.contains(case.as_str()))
            .map(|(case, tests)| {
                format!(
                    "{case}, which {} covers, is not in the table",
                    tests.join(" and ")
                )
            })
            .collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(unknown.join("; "))
        }
    }

    /// Fails unless every case has a reason, or tests that all passed.
    pub(crate) fn complete(&self, passed: &BTreeSet<String>) -> Result<(), String> {
        let mut faults = Vec::new();
        for (number, shown_by) in self.cases() {
            if shown_by == MISSING {
                faults.push(format!("{number} has neither a test nor a reason"));
            }
            for test in tests_in(shown_by).filter(|test| !passed.contains(*test)) {
                faults.push(format!("{number}: {test} did not pass in this run"));
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!("{} faults:\n  {}", faults.len(), faults.join("\n  ")))
    }

    /// One line for people.
    pub(crate) fn summary(&self) -> String {
        let count = |wanted: fn(&str) -> bool| self.cases().filter(|(_, shown_by)| wanted(shown_by)).count();
        format!(
            "conformance: {} cases, {} shown by tests, {} with a reason, {} missing",
            self.cases().count(),
            count(|shown_by| shown_by.starts_with('`')),
            count(|shown_by| shown_by.starts_with("reason: ")),
            count(|shown_by| shown_by == MISSING),
        )
    }

    fn cases(&self) -> impl Iterator<Item = (&'d str, &'d str)> + '_ {
        self.0.iter().filter_map(|line| match line {
            Line::Case { number, shown_by, .. } => Some((*number, *shown_by)),
            Line::Other(_) => None,
        })
    }
}

fn tests_in(shown_by: &str) -> impl Iterator<Item = &str> {
    shown_by
        .split("<br>")
        .filter_map(|test| test.strip_prefix('`')?.strip_suffix('`'))
}

fn read_line(line: &str) -> Result<Line<'_>, String> {
    let first = line.strip_prefix("| ").and_then(|cells| cells.split(' ').next());
    if !first.is_some_and(is_case) {
        return Ok(Line::Other(line));
    }
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    match cells[..] {
        [number, title, shown_by] if !title.is_empty() => Ok(Line::Case {
            number,
            title,
            shown_by,
        }),
        _ => Err(format!("a case has three columns: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Title\n\n| case | behaviour | tests |\n|---|---|---|\n\
        | E-001 | One | `a::gone` |\n| E-002 | Two | reason: cannot be |\n| F-3 | Three | missing |\n";

    fn covers(pairs: &[(&str, &[&str])]) -> Covers {
        let owned = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
        pairs
            .iter()
            .map(|(case, tests)| ((*case).to_owned(), owned(tests)))
            .collect()
    }

    #[test]
    fn tests_replace_what_stood_there_and_reasons_stay() {
        let table = Table::read(DOCUMENT).unwrap();
        let text = table.with_tests(&covers(&[("F-3", &["a::x", "b::y"])]));
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| E-001 | One | missing |",
                "| E-002 | Two | reason: cannot be |",
                "| F-3 | Three | `a::x`<br>`b::y` |"
            ]
        );
        assert!(text.starts_with("# Title\n\n| case |"));
    }

    #[test]
    fn a_case_without_test_or_reason_and_a_test_that_did_not_pass_are_faults() {
        let table = Table::read(DOCUMENT).unwrap();
        let faults = table.complete(&BTreeSet::new()).unwrap_err();
        assert!(faults.contains("F-3 has neither"), "{faults}");
        assert!(faults.contains("E-001: a::gone did not pass"), "{faults}");
        assert!(!faults.contains("E-002"), "{faults}");
    }

    #[test]
    fn a_table_whose_tests_all_passed_is_complete() {
        let table = Table::read("| E-001 | One | `a::x`<br>`b::y` |\n").unwrap();
        let passed = ["a::x", "b::y"].map(str::to_owned).into();
        assert_eq!(table.complete(&passed), Ok(()));
        assert_eq!(
            table.summary(),
            "conformance: 1 cases, 1 shown by tests, 0 with a reason, 0 missing"
        );
    }

    #[test]
    fn a_case_that_the_table_does_not_have_is_a_fault() {
        let error = Table::read(DOCUMENT)
            .unwrap()
            .unknown_cases(&covers(&[("E-999", &["a::x"])]))
            .unwrap_err();
        assert!(error.contains("E-999") && error.contains("a::x"), "{error}");
    }

    #[test]
    fn a_case_stands_once_and_has_three_columns() {
        assert!(Table::read("| E-001 | One | missing |\n| E-001 | One | missing |\n").is_err());
        assert!(Table::read("| E-001 | One |\n").is_err());
        assert!(Table::read("nothing\n").is_err());
    }
}
