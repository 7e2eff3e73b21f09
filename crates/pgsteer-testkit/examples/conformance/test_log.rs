//! Reads which tests passed from the output of `cargo test`: a line names the test program that runs, the lines after
//! it name its tests.

use std::collections::BTreeSet;

/// Tests that passed, as `crate::path::to::test`.
pub(crate) fn passed(log: &str) -> BTreeSet<String> {
    let mut program = String::new();
    let mut passed = BTreeSet::new();
    for line in log.lines() {
        let line = line.trim();
        if let Some(name) = running_program(line) {
            program = name;
        } else if let Some(test) = passed_test(line) {
            passed.insert(format!("{program}::{test}"));
        }
    }
    passed
}

/// `Running unittests src/lib.rs (target/debug/deps/pgsteer_core-0123456789abcdef)` names `pgsteer_core`.
fn running_program(line: &str) -> Option<String> {
    let path = line
        .strip_prefix("Running ")?
        .strip_suffix(')')?
        .rsplit_once('(')?
        .1;
    let file = path.rsplit('/').next()?;
    Some(file.rsplit_once('-')?.0.replace('-', "_"))
}

/// `test pool::tests::name ... ok`, or `test pool::tests::name - should panic ... ok`.
fn passed_test(line: &str) -> Option<&str> {
    let test = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
    Some(test.strip_suffix(" - should panic").unwrap_or(test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_carry_the_name_of_their_program() {
        let log = "   Compiling a v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/a_b-0f0f)\n\n\
                   running 3 tests\ntest pool::tests::good ... ok\ntest pool::tests::bad ... FAILED\n\
                   test pool::tests::loud - should panic ... ok\n\
                   \x20    Running tests/it.rs (/elsewhere/target/debug/deps/it-1e1e)\ntest good ... ok\n\
                   test later ... ignored\ntest result: ok. 1 passed; 0 failed\n";
        let expected = ["a_b::pool::tests::good", "a_b::pool::tests::loud", "it::good"];
        assert_eq!(passed(log), expected.map(str::to_owned).into());
    }
}
