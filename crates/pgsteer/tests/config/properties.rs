//! Properties over random strings and configurations. Each failure prints the seed it came from; set `PGSTEER_SEED` to
//! run it again.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use pgsteer::config::{Config, LoadBalance, TargetSessionAttrs};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, RngSeed, TestRunner};

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

/// Strings made of what connection strings are made of, so that most get past the first check.
fn string_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("@".to_owned()),
        Just(":".to_owned()),
        Just("/".to_owned()),
        Just("?".to_owned()),
        Just("&".to_owned()),
        Just("=".to_owned()),
        Just(",".to_owned()),
        Just("[::1]".to_owned()),
        Just("%2F".to_owned()),
        Just("%".to_owned()),
        "[a-z0-9]{1,4}",
        "[0-9]{1,6}(s|ms|min)?",
        "host|port|user|password|dbname|pool_size|min_idle|topology_keys|checkout_timeout|load_balance|sslmode",
        any::<char>().prop_map(String::from),
    ];
    let scheme = prop_oneof![
        Just("postgresql://"),
        Just("postgres://"),
        Just("yugabytedb://"),
        Just("")
    ];
    (scheme, prop::collection::vec(piece, 0..20))
        .prop_map(|(scheme, pieces)| format!("{scheme}{}", pieces.concat()))
}

/// Strings that are well formed, with options that often are valid.
fn well_formed() -> impl Strategy<Value = String> {
    let option = prop_oneof![
        (0_u32..70_000).prop_map(|size| format!("pool_size={size}")),
        (0_u32..12).prop_map(|floor| format!("min-idle={floor}")),
        (0_u32..700).prop_map(|seconds| format!("yb_servers_refresh_interval={seconds}")),
        "checkout_timeout=([0-9]{1,4}(ms|s|min|h)?|none)",
        "connect_timeout=[0-9]{1,3}(ms|us|ns|s)?",
        "load_balance=(any|true|only-rr|prefer-primary)",
        "topology_keys=[a-c]\\.[a-c]\\.([a-c]|\\*)(:[1-9])?",
        "application_name=[a-z@+%4-5]{0,6}",
        "keepalives=[01]",
    ];
    let host = prop_oneof![
        "[a-z]{1,5}(:[1-9][0-9]{0,3})?",
        Just("[fe80::1]:7".to_owned()),
        Just("%2Ftmp".to_owned())
    ];
    (
        prop_oneof![Just("postgresql"), Just("yugabytedb")],
        prop_oneof![Just(String::new()), "[a-z%4-5]{1,5}(:[a-z%4-5+]{1,5})?@"],
        prop::collection::vec(host, 0..4),
        prop_oneof![Just(String::new()), "/[a-z%4-5@]{0,6}"],
        prop::collection::vec(option, 0..4),
    )
        .prop_map(|(scheme, login, hosts, database, options)| {
            format!(
                "{scheme}://{login}{}{database}?{}",
                hosts.join(","),
                options.join("&")
            )
        })
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

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1_u64..4_000_000).prop_map(Duration::from_millis),
        (1_u64..4_000_000).prop_map(Duration::from_nanos),
        (1_u64..100_000).prop_map(Duration::from_secs),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ -~]{0,12}"].prop_map(|text| text.replace('\0', ""))
}

/// Valid configurations, by the setters.
fn configuration() -> impl Strategy<Value = Config> {
    let name = prop_oneof![
        text().prop_map(|text| {
            let refused = |character: char| {
                character == '@' || character == '/' || character.is_control() || character.is_whitespace()
            };
            let text = text.replace(refused, "");
            // With a colon it may be an address, and then what follows a percent sign a scope.
            if text.contains(':') {
                text.replace('%', "")
            } else {
                text
            }
        }),
        Just("::1".to_owned()),
        Just("/tmp".to_owned()),
        Just("fe80::2".to_owned())
    ]
    .prop_map(|name| if name.is_empty() { "h".to_owned() } else { name });
    let hosts = prop::collection::vec((name, 1_u16..), 1..4);
    let login = (
        hosts,
        prop::option::of(text()),
        prop::option::of(text()),
        text(),
        prop::option::of(text()),
    );
    let cluster = (
        prop_oneof![
            Just(LoadBalance::Off),
            Just(LoadBalance::Any),
            Just(LoadBalance::PreferReplica)
        ],
        prop_oneof![Just(""), Just("a.b.c:3,a.b.*:1"), Just("É.ß.z z")],
        any::<bool>(),
        0_u64..=600,
        1_u64..=60,
        prop::option::of(60_u64..1000),
    );
    let pool = (
        1_u32..100,
        prop::option::of(0.0..=1.0),
        prop::option::of(duration()),
        duration(),
        prop::option::of(duration()),
    );
    let rest = (
        duration(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(0_u64..2_000_000_000),
    );
    (any::<bool>(), login, cluster, pool, rest).prop_map(|(yugabyte, login, cluster, pool, rest)| {
        let (hosts, user, database, application, options) = login;
        let (mode, keys, only, refresh, delay, cap) = cluster;
        let (size, floor, idle, life, wait) = pool;
        let (connect, keepalives, holders, writable, statement) = rest;
        let mut config = if yugabyte {
            Config::yugabyte()
        } else {
            Config::new()
        };
        if let Some(user) = user {
            config = config.user(user);
        }
        if let Some(database) = database {
            config = config.database(database);
        }
        if let Some(options) = options {
            config = config.options(options);
        }
        let session = if writable {
            TargetSessionAttrs::ReadWrite
        } else {
            TargetSessionAttrs::Any
        };
        config
            .hosts(hosts)
            .application_name(application)
            .target_session_attrs(session)
            .load_balance(mode)
            .topology_keys(keys)
            .fallback_to_topology_keys_only(only)
            .yb_servers_refresh_interval(Duration::from_secs(refresh))
            .failed_host_reconnect_delay_secs(delay)
            .failed_host_max_delay_secs(cap)
            .pool_size(size)
            .min_idle(floor.map(|share: f64| (f64::from(size) * share) as u32))
            .idle_timeout(idle)
            .max_lifetime(life)
            .checkout_timeout(wait)
            .connect_timeout(connect)
            .keepalives(keepalives)
            .record_holders(holders)
            .statement_timeout(statement.map(Duration::from_millis))
    })
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
        let config: Config = format!("postgresql://app:{encoded}@db1/ledger")
            .parse()
            .expect("properly encoded");
        let printed = format!(
            "{config:?} {} {}",
            config.describe().expect("valid"),
            config.to_url().expect("valid")
        );
        prop_assert!(
            !printed.contains(&secret) && !printed.contains(&encoded.to_string()),
            "{}",
            printed
        );

        // Put in without encoding it, the string is read as something else or refused; no error may quote it.
        let strings = [
            format!("postgresql://app:{secret}@db1/ledger?pool_size=0"),
            format!("postgresql://app:{secret}@db1/ledger?nope=1"),
            format!("postgresql://app:{secret}@db1:x/ledger"),
            format!("postgresql://db1/ledger?user=app&password={secret}&pool_size=0"),
            format!("postgresql://db1/ledger?password={secret}&nope=0"),
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
