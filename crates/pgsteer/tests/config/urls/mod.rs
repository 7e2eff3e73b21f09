//! URLs by libpq's rules.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod errors;
mod hosts;
mod logins;
mod values;

use pgsteer::config::Config;

use crate::table::{accepts, options, refuses};
use errors::ERRORS;
use hosts::HOSTS;
use logins::LOGINS;
use values::VALUES;

/// Covers: E-009, E-010
#[test]
fn hosts_and_ports_are_read_by_libpqs_rules() {
    accepts(HOSTS);
}

/// Covers: E-002, E-003, E-053, E-054, E-164
#[test]
fn credentials_database_and_texts_are_decoded() {
    accepts(LOGINS);
}

/// Covers: E-019, E-021, E-027, E-028, E-030, E-032, E-041
#[test]
fn every_option_is_read_by_its_name() {
    accepts(VALUES);
}

/// Covers: E-005, E-008, E-013, E-014, E-016, E-017, E-023, E-025, E-029, E-031, E-033, E-039, E-040, E-042, E-056, E-058, E-165
#[test]
fn a_bad_string_is_refused_with_the_reason() {
    refuses(ERRORS);
}

#[test]
fn a_plain_string_has_the_familys_defaults() {
    let yugabyte = "yugabytedb://".parse::<Config>().expect("valid");
    assert_eq!(options(&yugabyte)["hosts"], "localhost:5433");
    assert_eq!(options(&yugabyte)["user"], "yugabyte");
    assert_eq!(options(&yugabyte)["database"], "yugabyte");
    let postgres = "postgresql://".parse::<Config>().expect("valid");
    assert_eq!(options(&postgres)["hosts"], "localhost:5432");
    assert_ne!(options(&postgres)["user"], "");
    assert_eq!(options(&postgres)["database"], options(&postgres)["user"]);
}

#[test]
fn the_string_converts_by_every_usual_way() {
    let text = "postgresql://app@h/db";
    let expected = options(&text.parse().expect("valid"));
    assert_eq!(options(&Config::try_from(text).expect("valid")), expected);
    assert_eq!(
        options(&Config::try_from(text.to_owned()).expect("valid")),
        expected
    );
    assert_eq!(
        options(&Config::try_from(&text.to_owned()).expect("valid")),
        expected
    );
}
