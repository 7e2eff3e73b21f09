//! Addresses and knobs: what is taken, what is refused, and in which words.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use pgsteer_router::backend::{BackendAddress, BackendOptions, BreakerOptions};

/// Covers: S-65
#[test]
fn addresses_are_read_and_written() {
    let table = [
        ("127.0.0.1:9090", "127.0.0.1", 9090, 1, "127.0.0.1:9090"),
        ("backend:1:7", "backend", 1, 7, "backend:1"),
        (
            "db-1.prod_eu.example.com:65535",
            "db-1.prod_eu.example.com",
            65535,
            1,
            "db-1.prod_eu.example.com:65535",
        ),
        ("[::1]:9090", "::1", 9090, 1, "[::1]:9090"),
        (
            "[2001:db8::2]:80:4294967295",
            "2001:db8::2",
            80,
            u32::MAX,
            "[2001:db8::2]:80",
        ),
        ("bäckend:80", "bäckend", 80, 1, "bäckend:80"),
    ];
    for (text, host, port, weight, written) in table {
        let address: BackendAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (address.host(), address.port(), address.weight().get()),
            (host, port, weight),
            "{text}"
        );
        assert_eq!(address.to_string(), written);
        let again: BackendAddress = written.parse().unwrap();
        assert!(again.is_same_backend(&address));
    }
}

/// What is given, and why it is refused.
/// Covers: S-42
#[test]
fn addresses_that_cannot_be_are_refused_with_the_reason_and_what_is_allowed() {
    let table = [
        ("", "the port is missing"),
        ("host", "the port is missing"),
        (":80", "the host is missing"),
        ("host:", "the port is not a number from 1 to 65535"),
        ("host:0", "the port is not a number from 1 to 65535"),
        ("host:65536", "the port is not a number from 1 to 65535"),
        ("host:+80", "the port is not a number from 1 to 65535"),
        ("host:80:0", "the weight is not a number from 1 to 4294967295"),
        ("host:80:-1", "the weight is not a number from 1 to 4294967295"),
        (
            "host:80:4294967296",
            "the weight is not a number from 1 to 4294967295",
        ),
        ("host:80:", "the weight is not a number from 1 to 4294967295"),
        ("host:80:1:1", "there are too many colons"),
        ("::1:9090", "there are too many colons"),
        ("2001:db8::2:80", "there are too many colons"),
        ("[::1:9090", "the closing bracket is missing"),
        ("[::1]9090", "the port is missing"),
        ("[host]:80", "there is no IPv6 address in the brackets"),
        ("[127.0.0.1]:80", "there is no IPv6 address in the brackets"),
        ("ho st:80", "the host is neither an address nor a name"),
        ("/socket:80", "the host is neither an address nor a name"),
        ("http://host:80", "the port is not a number from 1 to 65535"),
    ];
    for (text, reason) in table {
        let error = text.parse::<BackendAddress>().expect_err(text).to_string();
        let expected = format!(
            "backend `{text}` cannot be used: {reason}; a backend is HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in brackets"
        );
        assert_eq!(error, expected);
    }
    let long = format!("{}:80", "a".repeat(254));
    let error = long.parse::<BackendAddress>().unwrap_err().to_string();
    assert!(error.contains("longer than 253 bytes"), "{error}");
}

/// Covers: S-28
#[test]
fn the_defaults_are_those_that_are_documented() {
    let options = BackendOptions::default();
    let seconds = Duration::from_secs;
    assert_eq!(
        (options.max_size, options.min_idle, options.max_dials),
        (16, 2, 4)
    );
    assert_eq!(options.idle_timeout, Some(seconds(60)));
    assert_eq!(options.max_lifetime, Some(seconds(300)));
    assert_eq!(options.health_check_interval, seconds(10));
    assert_eq!(options.health_check_timeout, seconds(1));
    assert_eq!(
        (options.connect_timeout, options.borrow_timeout),
        (seconds(2), seconds(2))
    );
    assert!(options.enable_health_check);
    assert_eq!(
        (options.failed_backend_delay, options.close_timeout),
        (seconds(1), seconds(1))
    );
    assert_eq!((options.failure_threshold, options.lifetime_jitter), (5, 0.1));
    assert_eq!(
        (
            options.breaker.threshold,
            options.breaker.base,
            options.breaker.cap
        ),
        (5, seconds(1), seconds(10))
    );
    assert!(options.check().is_ok());
}

/// A knob out of its range, and what is said.
#[test]
fn a_knob_out_of_its_range_is_refused_by_name_with_what_is_allowed() {
    type Turn = fn(&mut BackendOptions);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let table: [(Turn, &str); 14] = [
        (
            |it| it.max_size = 0,
            "max_size cannot be `0`: it takes a number from 1 to 65535",
        ),
        (
            |it| it.max_size = 65_536,
            "max_size cannot be `65536`: it takes a number from 1 to 65535",
        ),
        (
            |it| it.max_dials = 0,
            "max_dials cannot be `0`: it takes a number from 1 to 65535",
        ),
        (
            |it| it.idle_timeout = Some(Duration::ZERO),
            "idle_timeout cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.health_check_interval = Duration::ZERO,
            "health_check_interval cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.health_check_timeout = 2 * DAY,
            "health_check_timeout cannot be `172800s`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.connect_timeout = Duration::ZERO,
            "connect_timeout cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.borrow_timeout = Duration::MAX,
            "borrow_timeout cannot be `18446744073709551615.999999999s`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.failed_backend_delay = Duration::ZERO,
            "failed_backend_delay cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.close_timeout = Duration::ZERO,
            "close_timeout cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            |it| it.max_lifetime = Some(Duration::from_millis(999)),
            "max_lifetime cannot be `999ms`: it takes a duration from 1 s to 24 h",
        ),
        (
            |it| it.lifetime_jitter = 1.0,
            "lifetime_jitter cannot be `1.0`: it takes a number from 0 to 0.9",
        ),
        (
            |it| it.lifetime_jitter = f64::NAN,
            "lifetime_jitter cannot be `NaN`: it takes a number from 0 to 0.9",
        ),
        (
            |it| {
                it.breaker = BreakerOptions {
                    base: DAY * 2,
                    ..it.breaker
                }
            },
            "breaker_base cannot be `172800s`: it takes a duration from 1 ms to breaker_cap",
        ),
    ];
    for (turn, expected) in table {
        let mut options = BackendOptions::default();
        turn(&mut options);
        let error = options.check().unwrap_err();
        assert_eq!(error.to_string(), format!("option {expected}"));
    }
}

#[test]
fn the_ends_of_every_range_are_taken() {
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(24 * 60 * 60));
    for (time, size, life) in [(short, 1, Duration::from_secs(1)), (long, 65_535, long)] {
        let options = BackendOptions {
            max_size: size,
            max_dials: size,
            min_idle: u32::MAX,
            idle_timeout: Some(time),
            max_lifetime: Some(life),
            lifetime_jitter: 0.9,
            health_check_interval: time,
            health_check_timeout: time,
            connect_timeout: time,
            borrow_timeout: time,
            failed_backend_delay: time,
            close_timeout: time,
            ..BackendOptions::default()
        };
        assert_eq!(options.check(), Ok(()));
    }
    let never = BackendOptions {
        idle_timeout: None,
        max_lifetime: None,
        ..BackendOptions::default()
    };
    assert_eq!(never.check(), Ok(()));
}
