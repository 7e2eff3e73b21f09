//! Options in files and on the command line: one table reads both.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says by panicking that it failed"
)]

use std::time::Duration;

use pgsteer_router::config::{Config, ConfigError, Given, LogLevel, RULES, Source};

/// What they come to, apart from what is said of it.
fn silent(config: Config) -> Config {
    Config {
        without_effect: Vec::new(),
        ..config
    }
}

fn from_flags(flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut given = Given::default();
    for (name, value) in flags {
        given.set(Source::Flag, name, value)?;
    }
    given.finish()
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let mut given = Given::default();
    given.file("router.toml", text)?;
    given.finish()
}

/// Covers: S-61
#[test]
fn without_options_everything_is_as_the_table_says() {
    for rule in RULES.iter().filter(|rule| !rule.default.is_empty()) {
        let config = from_flags(&[(rule.name, rule.default)]).unwrap();

        assert_eq!(
            silent(config),
            Config::default(),
            "{} = {}",
            rule.name,
            rule.default
        );
    }
}

/// Covers: S-26, S-28
#[test]
fn the_defaults_are_those_that_the_older_program_names() {
    let config = Config::default();
    let (server, backend) = (&config.router.server, &config.router.backend);
    let seconds = Duration::from_secs;

    assert_eq!(config.router.listen, "0.0.0.0:8080");
    assert_eq!(config.router.backends, ["127.0.0.1:9090".parse().unwrap()]);
    assert_eq!((backend.max_size, backend.min_idle), (16, 2));
    assert_eq!(backend.idle_timeout, Some(seconds(60)));
    assert_eq!(backend.max_lifetime, Some(seconds(300)));
    assert_eq!(backend.health_check_interval, seconds(10));
    assert_eq!(
        (backend.connect_timeout, backend.borrow_timeout),
        (seconds(2), seconds(2))
    );
    assert!(backend.enable_health_check);
    assert_eq!(
        (server.client_timeout, server.backend_timeout),
        (seconds(5), seconds(5))
    );
    assert_eq!(server.tls_handshake_timeout, seconds(5));
    assert_eq!(server.max_frame, 16 * 1024 * 1024);
    assert_eq!(config.shutdown_grace, seconds(30));
    assert_eq!(config.log_level, LogLevel::Info);
}

/// Covers: S-26
#[test]
fn every_option_has_an_effect_or_is_refused_for_what_it_needs() {
    // A value that is not the default, by what stands for it in the help.
    for rule in RULES {
        let value = match (rule.name, rule.value) {
            ("metrics", _) => "127.0.0.1:1",
            ("log-level", _) => "debug",
            (_, "HOST:PORT") => "[::1]:1",
            (_, "HOST:PORT[:WEIGHT]") => "[::1]:1:7",
            (_, "N") => "7",
            (_, "SIZE") => "7KiB",
            (_, "DURATION") => "7s",
            (_, "SHARE") => "0.7",
            (_, "FILE" | "NAME") => "seven",
            (_, "on|off") if rule.default == "on" => "off",
            (_, "on|off") => "on",
            other => panic!("{other:?}"),
        };
        match from_flags(&[(rule.name, value)]) {
            Ok(config) => assert_ne!(silent(config), Config::default(), "{}", rule.name),
            Err(ConfigError::Needs { .. }) => assert!(rule.name.contains("tls"), "{}", rule.name),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Covers: S-61
#[test]
fn a_file_has_the_same_options_with_values_of_whatever_type() {
    let config = from_file(
        "listen = '[::1]:8080'\n\
         backend = ['10.0.0.1:9090', 'db.example:9090:2', '[::1]:9090:3']\n\
         pool-size = 32\n\
         idle-timeout = 'off'\n\
         lifetime-jitter = 0.5\n\
         connect-timeout = 1.5\n\
         enable-health-check = false\n\
         max-frame = '1MiB'\n\
         tls-cert = 'cert.pem'\n\
         tls-key = 'key.pem'\n",
    )
    .unwrap();

    let weights: Vec<u32> = config
        .router
        .backends
        .iter()
        .map(|one| one.weight().get())
        .collect();
    assert_eq!(weights, [1, 2, 3]);
    let backend = &config.router.backend;
    assert_eq!(
        (backend.max_size, backend.idle_timeout, backend.lifetime_jitter),
        (32, None, 0.5)
    );
    assert_eq!(backend.connect_timeout, Duration::from_millis(1500));
    assert!(!backend.enable_health_check);
    assert_eq!(config.router.server.max_frame, 1 << 20);
    assert_eq!(config.router.tls.unwrap().cert.to_str(), Some("cert.pem"));
}

#[test]
fn the_command_line_goes_over_the_file_and_its_backends_replace_the_files() {
    let mut given = Given::default();
    let text = "backend = ['one:1', 'two:2']\npool-size = 32\nmin-idle = 3";
    given.file("router.toml", text).unwrap();
    for (name, value) in [("pool-size", "64"), ("backend", "three:3"), ("backend", "four:4")] {
        given.set(Source::Flag, name, value).unwrap();
    }
    let config = given.finish().unwrap();

    let backends: Vec<String> = config.router.backends.iter().map(ToString::to_string).collect();
    assert_eq!(backends, ["three:3", "four:4"]);
    assert_eq!(
        (config.router.backend.max_size, config.router.backend.min_idle),
        (64, 3)
    );
}

/// Covers: S-63
#[test]
fn what_is_wrong_is_told_in_one_sentence_that_names_the_option_the_value_and_what_is_allowed() {
    let cases = [
        (
            "pool-siz = 1",
            "router.toml: pool-siz is no option; did you mean pool-size?",
        ),
        (
            "pool_size = 1",
            "router.toml: pool_size is no option; did you mean pool-size?",
        ),
        (
            "colour = 'red'",
            "router.toml: colour is no option; `pgsteer route --help` lists them",
        ),
        (
            "pool-size = 0",
            "router.toml: pool-size cannot be `0`: it takes a number from 1 to 65535",
        ),
        (
            "pool-size = [1]",
            "router.toml: pool-size cannot be `[1]`: it takes a number from 1 to 65535",
        ),
        (
            "backend = 'nowhere'",
            "router.toml: backend cannot be `nowhere`: it takes HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in \
             brackets, each backend once; the port is missing",
        ),
        (
            "backend = 'a:1:0'",
            "router.toml: backend cannot be `a:1:0`: it takes HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in \
             brackets, each backend once; the weight is not a number from 1 to 4294967295",
        ),
        (
            "backend = []",
            "router.toml: backend cannot be `[]`: it takes HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in \
             brackets, each backend once; there is no IPv6 address in the brackets",
        ),
        (
            "backend = ['a:1', 'a:1:2']",
            "router.toml: backend cannot be `a:1:2`: it takes each backend once",
        ),
        (
            "backend = ['db.example:1', 'DB.Example:1']",
            "router.toml: backend cannot be `DB.Example:1`: it takes each backend once",
        ),
        (
            "backend = ['[::1]:1', '[0:0::0001]:1']",
            "router.toml: backend cannot be `[0:0::0001]:1`: it takes each backend once",
        ),
        (
            "client-timeout = '0s'",
            "router.toml: client-timeout cannot be `0s`: it takes a duration from 1 ms to 24 h, like 500ms, 5s or \
             2min; a bare number is seconds",
        ),
        ("tls-cert = 'x'", "tls-cert needs tls-key"),
        ("tls-client-ca = 'x'", "tls-client-ca needs tls-cert and tls-key"),
        ("backend-tls-ca = 'x'", "backend-tls-ca needs backend-tls"),
        (
            "tls-key = '-----BEGIN PRIVATE KEY-----'\ntls-cert = 'x'",
            "router.toml: tls-key cannot be `text that may hold a secret (not shown)`: it takes the path of a file",
        ),
        (
            "backend = 'tcp://me:secret@host:1'",
            "router.toml: backend cannot be `text that may hold a secret (not shown)`: it takes HOST:PORT or \
             HOST:PORT:WEIGHT, an IPv6 address in brackets, each backend once; there are too many colons",
        ),
    ];
    for (text, told) in cases {
        assert_eq!(from_file(text).unwrap_err().to_string(), told);
    }
    let told = from_flags(&[("pool-size", "many")]).unwrap_err().to_string();
    assert_eq!(
        told,
        "--pool-size cannot be `many`: it takes a number from 1 to 65535"
    );
}

/// Options by name and value, as flags.
type Flags = &'static [(&'static str, &'static str)];

/// Covers: S-30, S-63
#[test]
fn options_that_cannot_both_hold_are_refused_with_the_one_that_was_given_and_its_bound() {
    let cases: &[(Flags, &str)] = &[
        (
            &[("min-idle", "17")],
            "--min-idle cannot be `17`: it takes at most pool-size, which is 16",
        ),
        (
            &[("min-idle", "4"), ("pool-size", "3")],
            "--min-idle cannot be `4`: it takes at most pool-size, which is 3",
        ),
        (
            &[("breaker-base", "20s")],
            "--breaker-base cannot be `20s`: it takes at most breaker-cap, which is 10s",
        ),
        (
            &[("breaker-cap", "999ms")],
            "--breaker-cap cannot be `999ms`: it takes at least breaker-base, which is 1s",
        ),
        (
            &[("drain-delay", "30s")],
            "--drain-delay cannot be `30s`: it takes less than shutdown-grace, which is 30s",
        ),
        (
            &[("shutdown-grace", "2"), ("drain-delay", "3")],
            "--drain-delay cannot be `3`: it takes less than shutdown-grace, which is 2",
        ),
        (
            &[("listen", "127.0.0.1:9090")],
            "--listen cannot be `127.0.0.1:9090`: it takes another place than backend, which is 127.0.0.1:9090",
        ),
        (
            &[("backend", "localhost:8080:3")],
            "--backend cannot be `localhost:8080:3`: it takes another place than listen, which is 0.0.0.0:8080",
        ),
        (
            &[("listen", "[::1]:70"), ("metrics", "[::]:70")],
            "--metrics cannot be `[::]:70`: it takes another place than listen, which is [::1]:70",
        ),
        (
            &[("metrics", "127.0.0.1:9090")],
            "--metrics cannot be `127.0.0.1:9090`: it takes another place than backend, which is 127.0.0.1:9090",
        ),
    ];
    for (flags, told) in cases {
        assert_eq!(from_flags(flags).expect_err(told).to_string(), *told);
    }
    let in_file = from_file("pool-size = 1\nmin-idle = 2").unwrap_err().to_string();
    assert_eq!(
        in_file,
        "router.toml: min-idle cannot be `2`: it takes at most pool-size, which is 1"
    );
}

#[test]
fn the_ends_of_what_goes_together_are_taken() {
    let cases: &[Flags] = &[
        &[("min-idle", "16")],
        &[("breaker-base", "10s")],
        &[("breaker-base", "500ms"), ("breaker-cap", "500ms")],
        &[("drain-delay", "29999ms")],
        &[("shutdown-grace", "0")],
        &[("shutdown-grace", "0"), ("drain-delay", "0")],
        &[("listen", "127.0.0.1:0"), ("metrics", "127.0.0.1:0")],
        &[("listen", "127.0.0.1:1"), ("metrics", "127.0.0.2:1")],
    ];
    for flags in cases {
        assert!(from_flags(flags).is_ok(), "{flags:?}");
    }
}

/// Covers: S-30
#[test]
fn by_default_no_more_connections_are_kept_ready_than_there_may_be() {
    for (size, ready) in [("1", 1), ("2", 2), ("3", 2)] {
        let config = from_flags(&[("pool-size", size)]).unwrap();

        assert_eq!(config.router.backend.min_idle, ready, "of {size}");
    }
}

/// Covers: S-64
#[test]
fn an_option_that_was_given_and_changes_nothing_is_told() {
    let cases: &[(Flags, &[&str])] = &[
        (&[], &[]),
        (&[("idle-timeout", "60s")], &[]),
        (&[("idle-timeout", "5min")], &["idle-timeout"]),
        (&[("idle-timeout", "5min"), ("max-lifetime", "off")], &[]),
        (&[("idle-timeout", "off"), ("max-lifetime", "1s")], &[]),
        (&[("max-lifetime", "1s")], &[]),
        (&[("idle-timeout", "1s"), ("pool-size", "2")], &["idle-timeout"]),
        (&[("pool-size", "2")], &[]),
        (
            &[("lifetime-jitter", "0.5"), ("max-lifetime", "off")],
            &["lifetime-jitter"],
        ),
        (
            &[
                ("health-check-interval", "1s"),
                ("health-check-timeout", "1s"),
                ("enable-health-check", "off"),
            ],
            &["health-check-interval", "health-check-timeout"],
        ),
        (&[("health-check-interval", "10min")], &["health-check-interval"]),
        (&[("max-dials", "17")], &["max-dials"]),
        (&[("max-dials", "16")], &[]),
        (&[("pool-size", "3")], &[]),
        (
            &[
                ("breaker-threshold", "0"),
                ("breaker-base", "1s"),
                ("breaker-cap", "2s"),
                ("breaker-jitter", "0"),
            ],
            &["breaker-base", "breaker-cap", "breaker-jitter"],
        ),
        (&[("tls-handshake-timeout", "1s")], &["tls-handshake-timeout"]),
        (
            &[
                ("tls-handshake-timeout", "1s"),
                ("tls-cert", "c"),
                ("tls-key", "k"),
            ],
            &[],
        ),
    ];
    for (flags, names) in cases {
        let told = from_flags(flags).unwrap().without_effect;

        let told: Vec<&str> = told
            .iter()
            .map(|told| told.split_once(" has no effect: ").expect("a reason").0)
            .collect();
        assert_eq!(told, *names, "{flags:?}");
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_the_place_and_nothing_of_what_stands_there() {
    for (text, place) in [
        ("pool-size = 1\npool-size 2", "line 2, column 11: "),
        ("pool-size = 1\npool-size = 2", "line 2, column 1: "),
        (
            "tls-key = \"\"\"-----BEGIN PRIVATE KEY-----\nMIISECRET",
            "line 2, column 10: ",
        ),
        ("tls-key = MIISECRET", "line 1, column 11: "),
    ] {
        let told = from_file(text).unwrap_err().to_string();

        assert!(told.starts_with(&format!("router.toml: {place}")), "{told}");
        assert!(!told.contains('\n') && !told.contains("MIISECRET"), "{told}");
    }
}

#[test]
fn a_path_in_brackets_or_a_port_that_is_none_is_no_place_to_listen() {
    for bad in [
        "8080",
        "localhost",
        ":8080",
        "::1:8080",
        "[::1]",
        "localhost:99999",
    ] {
        let told = from_flags(&[("listen", bad)]).unwrap_err().to_string();
        assert!(told.starts_with(&format!("--listen cannot be `{bad}`")), "{told}");
    }
}

/// Covers: S-28, S-61
#[test]
fn the_page_on_the_router_lists_every_option_with_its_default() {
    let page = include_str!("../../../docs/router.md");
    for rule in RULES {
        let default = match rule.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        let begins = format!("| `{}` | {default} |", rule.name);
        let is_there = page.lines().any(|line| line.starts_with(&begins));
        assert!(is_there, "{begins}");
    }
}
