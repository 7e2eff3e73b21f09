//! What went wrong inside the testkit, in words for the person who reads a failed test. Inner functions return it;
//! the public calls turn it into a panic at the test's own line.

use std::fmt;
use std::io;
use std::path::Path;

/// A failure of the testkit itself, not of the code under test.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// Result of the testkit's inner functions.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Says which step an error belongs to.
pub(crate) trait During<T> {
    fn during(self, step: &str) -> Outcome<T>;
    fn at(self, step: &str, path: &Path) -> Outcome<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, step: &str) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{step}: {error}")))
    }

    fn at(self, step: &str, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{step} {}: {error}", path.display())))
    }
}

/// Fails the test at the caller's line.
#[track_caller]
#[expect(
    clippy::panic,
    reason = "the crate is for tests: a step that cannot be taken fails the test"
)]
pub(crate) fn or_fail<T>(outcome: Outcome<T>) -> T {
    match outcome {
        Ok(value) => value,
        Err(failure) => panic!("pgsteer-testkit: {failure}"),
    }
}
