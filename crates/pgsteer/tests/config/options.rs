//! Options given through the setters: defaults, what each allows, and the errors.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use pgsteer::HostKey;
use pgsteer::config::{Config, ConfigError, LoadBalance, TargetSessionAttrs, TopologyKeys, Value};

fn value(config: &Config, name: &str) -> String {
    let description = config.describe().expect("the configuration is valid");
    description
        .get(name)
        .unwrap_or_else(|| panic!("{name} is an option"))
        .to_string()
}

/// Option and value that the check complains about.
fn refused(config: Config) -> (&'static str, String) {
    match config.check() {
        Err(ConfigError::InvalidOption { name, value, .. }) => (name, value),
        other => panic!("an invalid option was expected, not {other:?}"),
    }
}

/// Covers: E-001, E-007
#[test]
fn the_defaults_are_the_documented_ones() {
    let description = Config::yugabyte().describe().expect("valid");
    let expected = [
        ("hosts", "localhost:5433"),
        ("user", "yugabyte"),
        ("password", ""),
        ("database", "yugabyte"),
        ("application_name", "pgsteer"),
        ("options", ""),
        ("target_session_attrs", "any"),
        ("role_ttl", "10s"),
        ("load_balance_hosts", "disable"),
        ("statement_timeout", "none"),
        ("sslmode", crate::tls::DEFAULT_MODE),
        ("sslnegotiation", "postgres"),
        ("channel_binding", "prefer"),
        ("sslrootcert", ""),
        ("sslcert", ""),
        ("sslkey", ""),
        ("ssl_server_name", ""),
        ("connect_timeout", "10s"),
        ("connect_race_delay", "none"),
        ("keepalives", "true"),
        ("keepalives_idle", "30s"),
        ("keepalives_interval", "10s"),
        ("keepalives_count", "3"),
        ("tcp_user_timeout", "30s"),
        ("load_balance", "false"),
        ("topology_keys", ""),
        ("fallback_to_topology_keys_only", "false"),
        ("yb_servers_refresh_interval", "300"),
        ("failed_host_reconnect_delay_secs", "5"),
        ("failed_host_max_delay_secs", "none"),
        ("drain_stale_addresses", "true"),
        ("breaker_threshold", "5"),
        ("breaker_base", "1s"),
        ("breaker_cap", "1min"),
        ("breaker_jitter", "0.2"),
        ("pool_size", "10"),
        ("min_idle", "10"),
        ("idle_timeout", "none"),
        ("max_lifetime", "30min"),
        ("lifetime_jitter", "5min"),
        ("rebalance_interval", "30s"),
        ("rebalance_batch", "2"),
        ("checkout_timeout", "5s"),
        ("socket_timeout", "none"),
        ("cancel_on_timeout", "none"),
        ("stall_timeout", "none"),
        ("resolve_commit", "false"),
        ("resolve_commit_timeout", "30s"),
        ("statement_cache_size", "256"),
        ("max_dials", "32"),
        ("after_connect_timeout", "1min"),
        ("recycle", "fast"),
        ("return_cancel_after", "500ms"),
        ("return_timeout", "5s"),
        ("leak_threshold", "none"),
        ("record_holders", "false"),
    ];
    let described: Vec<(&str, String)> = description
        .iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    let expected: Vec<(&str, String)> = expected
        .into_iter()
        .map(|(name, value)| (name, value.to_owned()))
        .collect();
    assert_eq!(described, expected);
}

#[test]
fn postgres_and_yugabyte_differ_in_port_and_user_only() {
    let (postgres, yugabyte) = (Config::default(), Config::yugabyte());
    assert_eq!(value(&postgres, "hosts"), "localhost:5432");
    let postgres = postgres.user("app").describe().expect("valid");
    let yugabyte = yugabyte.user("app").port(5432).describe().expect("valid");
    assert_eq!(postgres, yugabyte);
}

/// Covers: E-002, E-003
#[test]
fn the_database_follows_the_user_unless_it_is_given() {
    assert_eq!(value(&Config::yugabyte().user("app"), "database"), "app");
    assert_eq!(
        value(&Config::yugabyte().user("app").database("db"), "database"),
        "db"
    );
}

/// Covers: E-009, E-010, Q-35
#[test]
fn hosts_keep_their_order_and_take_the_port_unless_they_have_one() {
    let rows = [
        (Config::yugabyte().host("db").port(5432), "db:5432"),
        (Config::yugabyte().host("a").host("b").port(5432), "a:5432,b:5432"),
        (Config::yugabyte().port(5432).hosts(["b", "a"]), "b:5432,a:5432"),
        (Config::yugabyte().hosts([("a", 1), ("b", 2)]).port(9), "a:1,b:2"),
        (
            Config::yugabyte()
                .hosts([String::from("a")])
                .host(("b".to_owned(), 2)),
            "a:5433,b:2",
        ),
        (Config::yugabyte().host("x").hosts(["a"]), "a:5433"),
        (Config::yugabyte().hosts(["a", "a"]), "a:5433,a:5433"),
        (Config::yugabyte().host("db:1"), "[db:1]:5433"),
        (Config::yugabyte().host("/tmp"), "/tmp:5433"),
    ];
    for (config, expected) in rows {
        assert_eq!(value(&config, "hosts"), expected);
    }
}

/// Covers: E-012, E-013
#[test]
fn bad_hosts_and_ports_are_refused() {
    let rows = [
        (
            Config::new().hosts(Vec::<String>::new()),
            ("hosts", "an empty list"),
        ),
        (Config::new().hosts(["a", ""]), ("hosts", "")),
        (Config::new().host(("a", 0)), ("port", "0")),
        (Config::new().port(0), ("port", "0")),
    ];
    for (config, (name, value)) in rows {
        assert_eq!(refused(config), (name, value.to_owned()));
    }
}

#[test]
fn an_ipv6_scope_id_is_refused_by_name_with_the_reason() {
    let error = Config::new().host(("fe80::1%lo", 5433)).check();
    let text = error.expect_err("the scope would be lost").to_string();
    assert!(
        text.starts_with("hosts=fe80::1%lo: an IPv6 address with a scope id"),
        "{text}"
    );
    assert!(Config::new().hosts(["fe80::1", "db%lo"]).check().is_ok());
}

/// Covers: E-022
#[test]
fn a_mode_is_taken_as_a_value() {
    let rows = [
        (LoadBalance::Off, "false"),
        (LoadBalance::Any, "any"),
        (LoadBalance::OnlyPrimary, "only-primary"),
        (LoadBalance::OnlyReplica, "only-rr"),
        (LoadBalance::PreferPrimary, "prefer-primary"),
        (LoadBalance::PreferReplica, "prefer-rr"),
    ];
    for (mode, expected) in rows {
        assert_eq!(
            value(&Config::yugabyte().load_balance(mode), "load_balance"),
            expected
        );
    }
}

/// Covers: E-027, E-028, E-030, E-032, E-035, E-036, E-037, E-038, E-067
#[test]
fn the_edges_of_each_range_are_inside_it() {
    let config = Config::yugabyte;
    let second = Duration::from_secs;
    let century = second(100 * 365 * 86_400);
    let rows = [
        (
            config().yb_servers_refresh_interval(Duration::ZERO),
            "yb_servers_refresh_interval",
            "0",
        ),
        (
            config().yb_servers_refresh_interval(second(600)),
            "yb_servers_refresh_interval",
            "600",
        ),
        (
            config().failed_host_reconnect_delay_secs(0),
            "failed_host_reconnect_delay_secs",
            "0",
        ),
        (
            config().failed_host_reconnect_delay_secs(60),
            "failed_host_reconnect_delay_secs",
            "60",
        ),
        (
            config().failed_host_max_delay_secs(None),
            "failed_host_max_delay_secs",
            "none",
        ),
        (
            config().failed_host_max_delay_secs(60),
            "failed_host_max_delay_secs",
            "60",
        ),
        (
            config()
                .failed_host_reconnect_delay_secs(60)
                .failed_host_max_delay_secs(600),
            "failed_host_max_delay_secs",
            "600",
        ),
        (
            config()
                .failed_host_reconnect_delay_secs(10)
                .failed_host_max_delay_secs(10),
            "failed_host_max_delay_secs",
            "10",
        ),
        (config().pool_size(1), "pool_size", "1"),
        (config().pool_size(65_535), "pool_size", "65535"),
        (config().pool_size(3).min_idle(3), "min_idle", "3"),
        (config().min_idle(0), "min_idle", "0"),
        (config().min_idle(3).min_idle(None), "min_idle", "10"),
        (
            config().connect_timeout(Duration::from_nanos(1)),
            "connect_timeout",
            "1ns",
        ),
        (config().connect_timeout(century), "connect_timeout", "36500d"),
        (
            config().statement_timeout(Duration::ZERO),
            "statement_timeout",
            "0ms",
        ),
        (
            config().tcp_user_timeout(Duration::ZERO),
            "tcp_user_timeout",
            "none",
        ),
        (config().tcp_user_timeout(None), "tcp_user_timeout", "none"),
        (
            config().keepalives_idle(second(32_767)),
            "keepalives_idle",
            "32767s",
        ),
        (config().keepalives_count(127), "keepalives_count", "127"),
        (
            config().checkout_timeout(Duration::ZERO),
            "checkout_timeout",
            "0ms",
        ),
        (config().return_timeout(Duration::ZERO), "return_timeout", "0ms"),
        (
            config().socket_timeout(Duration::from_millis(500)),
            "socket_timeout",
            "500ms",
        ),
        (config().socket_timeout(None), "socket_timeout", "none"),
        (config().lifetime_jitter(century), "lifetime_jitter", "36500d"),
        (
            config().rebalance_batch(u32::MAX),
            "rebalance_batch",
            "4294967295",
        ),
        (config().user("").database(""), "user", "yugabyte"),
        (config().user("").database(""), "database", "yugabyte"),
        (config().user("me").database(""), "database", "me"),
        (
            config().target_session_attrs(TargetSessionAttrs::ReadWrite),
            "target_session_attrs",
            "read-write",
        ),
    ];
    for (config, name, expected) in rows {
        assert_eq!(value(&config, name), expected, "{name}");
    }
}

/// Covers: E-017, E-029, E-031, E-033, E-039, E-074
#[test]
fn what_is_just_outside_a_range_is_refused() {
    let config = Config::yugabyte;
    let second = Duration::from_secs;
    let too_long = second(100 * 365 * 86_400) + Duration::from_nanos(1);
    let long = "3153600000000000001ns";
    let rows = [
        (
            config().yb_servers_refresh_interval(second(601)),
            ("yb_servers_refresh_interval", "601"),
        ),
        (
            config().yb_servers_refresh_interval(Duration::from_millis(1500)),
            ("yb_servers_refresh_interval", "1500ms"),
        ),
        (
            config().failed_host_reconnect_delay_secs(61),
            ("failed_host_reconnect_delay_secs", "61"),
        ),
        (
            config().failed_host_max_delay_secs(4),
            ("failed_host_max_delay_secs", "4"),
        ),
        (
            config()
                .failed_host_reconnect_delay_secs(0)
                .failed_host_max_delay_secs(10),
            ("failed_host_max_delay_secs", "10"),
        ),
        (
            config().failed_host_max_delay_secs(u64::MAX),
            ("failed_host_max_delay_secs", "18446744073709551615"),
        ),
        (config().breaker_base(Duration::ZERO), ("breaker_base", "0ms")),
        (config().breaker_base(second(61)), ("breaker_base", "61s")),
        (config().breaker_cap(second(86_401)), ("breaker_cap", "86401s")),
        (config().breaker_jitter(1.5), ("breaker_jitter", "1.5")),
        (config().breaker_jitter(-0.5), ("breaker_jitter", "-0.5")),
        (config().breaker_jitter(f64::NAN), ("breaker_jitter", "NaN")),
        (config().pool_size(0), ("pool_size", "0")),
        (config().pool_size(65_536), ("pool_size", "65536")),
        (config().min_idle(11), ("min_idle", "11")),
        (config().rebalance_batch(0), ("rebalance_batch", "0")),
        (config().max_dials(0), ("max_dials", "0")),
        (
            config().after_connect_timeout(Duration::ZERO),
            ("after_connect_timeout", "0"),
        ),
        (config().connect_timeout(Duration::ZERO), ("connect_timeout", "0")),
        (config().connect_timeout(too_long), ("connect_timeout", long)),
        (
            config().statement_timeout(Duration::from_micros(1)),
            ("statement_timeout", "1us"),
        ),
        (
            config().statement_timeout(Duration::from_millis(2_147_483_648)),
            ("statement_timeout", "2147483648ms"),
        ),
        (
            config().tcp_user_timeout(Duration::from_micros(1500)),
            ("tcp_user_timeout", "1500us"),
        ),
        (config().keepalives_idle(Duration::ZERO), ("keepalives_idle", "0")),
        (
            config().keepalives_idle(second(32_768)),
            ("keepalives_idle", "32768"),
        ),
        (
            config().keepalives_interval(Duration::from_millis(500)),
            ("keepalives_interval", "500ms"),
        ),
        (config().keepalives_count(0), ("keepalives_count", "0")),
        (config().keepalives_count(128), ("keepalives_count", "128")),
        (config().idle_timeout(Duration::ZERO), ("idle_timeout", "0")),
        (config().max_lifetime(Duration::ZERO), ("max_lifetime", "0")),
        (config().max_lifetime(too_long), ("max_lifetime", long)),
        (config().lifetime_jitter(too_long), ("lifetime_jitter", long)),
        (
            config().rebalance_interval(Duration::ZERO),
            ("rebalance_interval", "0"),
        ),
        (config().checkout_timeout(too_long), ("checkout_timeout", long)),
        (
            config().return_cancel_after(too_long),
            ("return_cancel_after", long),
        ),
        (config().return_timeout(too_long), ("return_timeout", long)),
        (config().socket_timeout(Duration::ZERO), ("socket_timeout", "0")),
        (
            config().statement_cache_size(65_536),
            ("statement_cache_size", "65536"),
        ),
        (
            config().cancel_on_timeout(Duration::ZERO),
            ("cancel_on_timeout", "0"),
        ),
        (config().stall_timeout(Duration::ZERO), ("stall_timeout", "0")),
        (
            config().resolve_commit_timeout(Duration::ZERO),
            ("resolve_commit_timeout", "0"),
        ),
        (
            config().resolve_commit_timeout(too_long),
            ("resolve_commit_timeout", long),
        ),
        (config().socket_timeout(too_long), ("socket_timeout", long)),
        (config().leak_threshold(Duration::ZERO), ("leak_threshold", "0")),
        (config().user("a\0"), ("user", "a\0")),
        (config().database("a\0"), ("database", "a\0")),
        (config().application_name("a\0"), ("application_name", "a\0")),
        (config().options("a\0"), ("options", "a\0")),
        (config().password("a\0"), ("password", "redacted")),
    ];
    for (config, (name, value)) in rows {
        assert_eq!(refused(config), (name, value.to_owned()));
    }
}

#[test]
fn an_error_states_the_option_the_value_and_the_range() {
    let error = Config::new().pool_size(0).check().expect_err("0 is no size");
    assert_eq!(
        error.to_string(),
        "option pool_size cannot be `0`: it takes a whole number from 1 to 65535"
    );
    let error = Config::new()
        .with_option("keepalives_count", "many")
        .expect_err("no number");
    assert_eq!(
        error.to_string(),
        "option keepalives_count cannot be `many`: it takes a whole number from 1 to 127"
    );
    let error = Config::new().application_name("a\0").check().expect_err("NUL");
    assert_eq!(
        error.to_string(),
        "option application_name cannot be `a\\0`: it takes text in UTF-8 without NUL characters"
    );
}

/// Covers: E-005, E-008, E-016, Q-35
#[test]
fn unknown_options_are_reported_together_with_what_was_meant() {
    let url = "postgresql://?pool_szie=5&health_check_interval=5000&connect_attempts=3&load_balanec=any";
    let error = url.parse::<Config>().expect_err("four names are unknown");
    assert_eq!(
        error.to_string(),
        "unknown options `connect_attempts`, `health_check_interval`, `load_balanec` (did you mean load_balance?), \
         `pool_szie` (did you mean pool_size?)"
    );
    let error = Config::new().with_option("nope", "1").expect_err("unknown");
    assert_eq!(error.to_string(), "unknown option `nope`");
}

/// Covers: E-041, E-042, E-045
#[test]
fn topology_keys_are_taken_as_text_or_as_keys() {
    assert_eq!(
        value(
            &Config::yugabyte().topology_keys("gcp.us-east1.*"),
            "topology_keys"
        ),
        "gcp.us-east1.*:1"
    );
    let keys = TopologyKeys::from_tuples([("GCP", "us-east1", "b", 2)]).expect("valid");
    assert_eq!(
        value(&Config::yugabyte().topology_keys(keys), "topology_keys"),
        "gcp.us-east1.b:2"
    );
    assert_eq!(
        value(
            &Config::yugabyte().topology_keys("gcp.r.z\u{100}"),
            "topology_keys"
        ),
        "gcp.r.z\u{101}:1"
    );
    let error = Config::yugabyte()
        .topology_keys("a.b.c, nope")
        .check()
        .expect_err("one part is no key");
    assert_eq!(
        error,
        Config::yugabyte()
            .with_option("topology_keys", "nope")
            .expect_err("no key")
    );
    assert!(error.to_string().contains("`nope`"), "{error}");
}

#[test]
fn the_order_of_setters_does_not_matter() {
    let one = Config::yugabyte().min_idle(20).pool_size(30).port(7).host("a");
    let other = Config::yugabyte().host("a").port(7).pool_size(30).min_idle(20);
    assert_eq!(one.describe().expect("valid"), other.describe().expect("valid"));
}

#[test]
fn a_description_is_one_line_per_option() {
    let description = Config::yugabyte().pool_size(3).describe().expect("valid");
    assert_eq!(
        description.to_string().lines().count(),
        description.iter().count()
    );
    assert!(description.to_string().contains("pool_size = 3\nmin_idle = 3\n"));
    assert_eq!(description.get("pool_size"), Some(&Value::Number(3)));
    assert_eq!(description.get("health_check_interval"), None);
    assert_eq!(
        description.get("hosts"),
        Some(&Value::Hosts(vec![HostKey::new("localhost", 5433)]))
    );
}

#[test]
fn a_printed_string_has_only_what_is_not_default() {
    let config = Config::yugabyte()
        .hosts([("a", 1), ("::1", 2), ("/tmp", 3)])
        .user("us er")
        .password("secret")
        .database("d/b")
        .pool_size(20)
        .min_idle(10)
        .application_name("a&b=c")
        .checkout_timeout(None);
    assert_eq!(
        config.to_url().expect("valid"),
        "yugabytedb://us%20er@a:1,[::1]:2,%2Ftmp:3/d%2Fb?application_name=a%26b%3Dc&pool_size=20&min_idle=10\
         &checkout_timeout=none"
    );
    assert_eq!(
        Config::yugabyte().to_url().expect("valid"),
        "yugabytedb://localhost:5433/"
    );
}

/// Covers: E-069, E-070, E-073, E-290
#[test]
fn a_hook_is_any_closure_or_function_and_has_a_minute_unless_another_limit_is_given() {
    async fn warm(client: &pgsteer::tokio_postgres::Client) -> Result<(), pgsteer::tokio_postgres::Error> {
        client.batch_execute("SELECT 1").await
    }
    let config = Config::yugabyte;
    assert_eq!(value(&config(), "after_connect_timeout"), "1min");
    let secret = "s3cret-arg".to_owned();
    let hooked = [
        config().after_connect(|client| {
            Box::pin(async move {
                client.batch_execute("SELECT 1").await?;
                Ok(())
            })
        }),
        config().after_connect(|client| Box::pin(async { Ok(warm(client).await?) })),
        config().after_connect(move |client| {
            let secret = secret.clone();
            Box::pin(async move {
                client
                    .execute("SELECT set_config('app.key', $1, false)", &[&secret])
                    .await?;
                Ok(())
            })
        }),
        config().after_connect(|_| Box::pin(async { Err("not today".into()) })),
    ];
    for config in hooked {
        assert_eq!(value(&config, "after_connect_timeout"), "1min");
        let shown = format!("{config:?} {:?}", config.describe());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    for (limit, shown) in [(Some(Duration::from_millis(200)), "200ms"), (None, "none")] {
        assert_eq!(
            value(&config().after_connect_timeout(limit), "after_connect_timeout"),
            shown
        );
    }
}
