//! Tables of connection strings: each with the options that differ from its family's defaults, or with what is wrong with it.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use pgsteer::config::{Config, ConfigError};

/// A string, and the options in which it differs from its family's defaults.
pub(crate) type Good = (&'static str, &'static [(&'static str, &'static str)]);

/// A string, and what is wrong with it: its kind, the option and the value; of the kind `url` only the beginning.
pub(crate) type Bad = (&'static str, &'static str);

/// The options of a description as text, without those that have no value.
pub(crate) fn options(config: &Config) -> BTreeMap<&'static str, String> {
    let description = config.describe().expect("the row's configuration is valid");
    description
        .iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

/// What a string without any option means, changed by a row.
fn expected(url: &str, changes: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
    let plain = if url.starts_with("yugabytedb:") || url.starts_with("jdbc:yugabytedb:") {
        Config::yugabyte()
    } else {
        Config::new()
    };
    let mut expected = options(&plain);
    for (name, value) in changes {
        assert!(expected.contains_key(name), "{name} is an option");
        expected.insert(name, (*value).to_owned());
        // Two defaults follow another option.
        match *name {
            "user" => expected.insert("database", (*value).to_owned()),
            "pool_size" => expected.insert("min_idle", (*value).to_owned()),
            _ => None,
        };
    }
    expected
}

/// An error in short: its kind, the option, the value.
pub(crate) fn short(error: &ConfigError) -> String {
    match error {
        ConfigError::UnknownOptions { names } => {
            let names = names.iter().map(|unknown| match unknown.nearest {
                Some(nearest) => format!("{}->{nearest}", unknown.name),
                None => unknown.name.clone(),
            });
            format!("unknown {}", names.collect::<Vec<_>>().join(" "))
        }
        ConfigError::InvalidOption { name, value, .. } => format!("invalid {name}={value}"),
        ConfigError::DuplicateOption { name } => format!("duplicate {name}"),
        ConfigError::ConflictingNames { name, first, second } => {
            format!("conflict {name}: {first}, {second}")
        }
        ConfigError::InEnvironment { variable, error } => format!("{variable} {}", short(error)),
        ConfigError::InvalidTopologyKey { part } => format!("key {part}"),
        ConfigError::InvalidUrl { reason } => format!("url {reason}"),
        ConfigError::NotInThisVersion { name, .. } => format!("later {name}"),
        other => panic!("a kind of error the table does not know: {other:?}"),
    }
}

/// Every row is read as it says, and what it is printed as reads back the same.
pub(crate) fn accepts(rows: &[Good]) {
    for (string, changes) in rows {
        let config: Config = string
            .parse()
            .unwrap_or_else(|error| panic!("{string} is refused: {error}"));
        assert_eq!(options(&config), expected(string, changes), "{string}");

        let printed = config.to_url().expect("a valid configuration prints");
        let again: Config = printed
            .parse()
            .unwrap_or_else(|error| panic!("{string} prints as {printed}: {error}"));
        let mut expected = options(&config);
        expected.insert("password", String::new());
        assert_eq!(options(&again), expected, "{string} prints as {printed}");
    }
}

/// Every row is refused with the reason it says.
pub(crate) fn refuses(rows: &[Bad]) {
    for (string, expected) in rows {
        let error = match string.parse::<Config>() {
            Ok(config) => panic!("{string} is accepted as {config:?}"),
            Err(error) => short(&error),
        };
        let holds = if expected.starts_with("url ") {
            error.starts_with(expected)
        } else {
            error == *expected
        };
        assert!(holds, "{string}\n  gives     {error}\n  and not   {expected}");
    }
}
