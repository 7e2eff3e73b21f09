//! Properties over random strings and configurations. Each failure prints the seed it came from; set `PGSTEER_SEED` to
//! run it again.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use pgsteer::config::Config;
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, RngSeed, TestRunner};

use crate::random::{configuration, mutated, string_like, well_formed};

/// Runs a property on random inputs and prints the seed.
fn hold<S: Strategy>(inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: std::fmt::Debug,
{
    let seed = match std::env::var("PGSTEER_SEED") {
        Ok(seed) => seed.parse().expect("PGSTEER_SEED is a number"),
        Err(_) => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |since| since.as_secs()),
    };
    println!("PGSTEER_SEED={seed}");
    let runs = Runs {
        cases: 400,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Runs::default()
    };
    if let Err(failure) = TestRunner::new(runs).run(&inputs, property) {
        panic!("PGSTEER_SEED={seed}: {failure}");
    }
}

/// The description as text, and without the password's line.
fn described(config: &Config) -> String {
    let description = config.describe().expect("the configuration is valid");
    let lines = description.iter().filter(|(name, _)| *name != "password");
    lines.map(|(name, value)| format!("{name} = {value}\n")).collect()
}

fn round_trip(config: &Config) -> Result<(), TestCaseError> {
    let printed = config.to_url().expect("the configuration is valid");
    let again: Config = match printed.parse() {
        Ok(again) => again,
        Err(error) => return Err(TestCaseError::fail(format!("{printed} is refused: {error}"))),
    };
    prop_assert_eq!(described(&again), described(config), "{}", printed);
    prop_assert_eq!(again.to_url().expect("valid"), printed);
    Ok(())
}

#[test]
fn any_string_is_read_or_refused_and_what_is_read_round_trips() {
    let strings = prop_oneof![string_like(), well_formed(), any::<String>()];
    hold(strings, |text| match text.parse::<Config>() {
        Ok(config) => round_trip(&config),
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            Ok(())
        }
    });
}

#[test]
fn a_valid_string_that_was_changed_is_read_or_refused_and_what_is_read_round_trips() {
    let accepted = std::cell::Cell::new(0);
    hold(mutated(), |text| match text.parse::<Config>() {
        Ok(config) => {
            accepted.set(accepted.get() + 1);
            round_trip(&config)
        }
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            Ok(())
        }
    });
    assert!(
        accepted.get() >= 20,
        "only {} of 400 strings were accepted",
        accepted.get()
    );
}

#[test]
fn well_formed_strings_are_often_accepted() {
    // Guards the property above: were every random string refused, it would say nothing about printing.
    let accepted = std::cell::Cell::new(0);
    hold(well_formed(), |text| {
        if text.parse::<Config>().is_ok() {
            accepted.set(accepted.get() + 1);
        }
        Ok(())
    });
    assert!(
        accepted.get() >= 40,
        "only {} of 400 strings were accepted",
        accepted.get()
    );
}

#[test]
fn any_configuration_prints_as_a_string_that_reads_back_the_same() {
    hold(configuration(), |config| {
        prop_assert!(config.check().is_ok(), "{:?}", config.check());
        round_trip(&config)
    });
}

#[test]
fn a_password_is_never_printed_whatever_it_is() {
    let refused = std::cell::Cell::new(0);
    hold("[ -~]{8,24}", |secret: String| {
        let encoded = percent_encode(secret.as_bytes(), NON_ALPHANUMERIC);
        let quoted = secret.replace('\\', "\\\\").replace('\'', "\\'");
        let strings = [
            format!("postgresql://app:{encoded}@db1/ledger"),
            format!("jdbc:postgresql://db1/ledger?user=app&password={encoded}"),
            format!("host=db1 user=app dbname=ledger password='{quoted}'"),
        ];
        for string in strings {
            let config: Config = string.parse().expect("properly encoded");
            let description = config.describe().expect("valid");
            let printed = format!(
                "{config:?} {config:#?} {description} {description:?} {} {:?}",
                config.to_url().expect("valid"),
                config.without_effect()
            );
            prop_assert!(
                !printed.contains(&secret) && !printed.contains(&encoded.to_string()),
                "{}",
                printed
            );
            #[cfg(feature = "serde")]
            prop_assert!(!serde_json::to_string(&config).expect("valid").contains(&secret));
        }

        // Put in without encoding it, the string is read as something else or refused; no error may quote it.
        let strings = [
            format!("postgresql://app:{secret}@db1/ledger?pool_size=0"),
            format!("postgresql://app:{secret}@db1/ledger?nope=1"),
            format!("postgresql://app:{secret}@db1:x/ledger"),
            format!("postgresql://db1/ledger?user=app&password={secret}&pool_size=0"),
            format!("postgresql://db1/ledger?password={secret}&nope=0"),
            format!("jdbc:postgresql://db1/ledger?password={secret}&pool_size=0"),
            format!("jdbc:postgresql://app:{secret}@db1/ledger"),
            format!("jdbc:postgresql://db1?password={secret}"),
            format!("host=db1 password={secret} pool_size=0"),
            format!("host=db1 password='{secret}"),
            format!("host=db1 password={secret} nope"),
            format!("Host=db1;Password={secret}"),
        ];
        for string in strings {
            // Some happen to be read as something else, by the rules: a `/` ends the hosts, and so on.
            let Err(error) = string.parse::<Config>() else {
                continue;
            };
            refused.set(refused.get() + 1);
            let printed = format!("{error} {error:?}");
            for quoted in secret.as_bytes().windows(6) {
                let quoted = std::str::from_utf8(quoted).expect("ASCII");
                prop_assert!(!printed.contains(quoted), "{} quotes {}", printed, quoted);
            }
        }
        Ok(())
    });
    assert!(
        refused.get() >= 400,
        "only {} strings were refused",
        refused.get()
    );
}
