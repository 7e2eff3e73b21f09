//! Options that are set but change nothing are told.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use pgsteer::config::{Config, HostOrder, LoadBalance, Pem, SslMode, TargetSessionAttrs};

const KEYS: &str = "gcp.us-east1.*";

/// The options told about, in their order.
fn told(config: &Config) -> Vec<String> {
    config.check().expect("the configuration is valid");
    let sentences = config.without_effect();
    let names = sentences.iter().map(|sentence| {
        let (name, _) = sentence.split_once(" has no effect: ").expect("a reason");
        name.to_owned()
    });
    names.collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn an_option_that_changes_nothing_is_told() {
    let config = Config::yugabyte;
    let keys = || config().topology_keys(KEYS);
    let rows: Vec<(Config, &[&str])> = vec![
        (keys(), &["topology_keys"]),
        (
            keys().fallback_to_topology_keys_only(true),
            &["topology_keys", "fallback_to_topology_keys_only"],
        ),
        (
            config().fallback_to_topology_keys_only(true),
            &["fallback_to_topology_keys_only"],
        ),
        (
            config()
                .load_balance(LoadBalance::Any)
                .fallback_to_topology_keys_only(true),
            &["fallback_to_topology_keys_only"],
        ),
        (
            keys()
                .load_balance(LoadBalance::PreferPrimary)
                .fallback_to_topology_keys_only(true),
            &["fallback_to_topology_keys_only"],
        ),
        (
            keys()
                .load_balance(LoadBalance::PreferReplica)
                .fallback_to_topology_keys_only(true),
            &["fallback_to_topology_keys_only"],
        ),
        (config().idle_timeout(millis(1)), &["idle_timeout"]),
        (config().idle_timeout(millis(1)).min_idle(10), &["idle_timeout"]),
        (
            config()
                .idle_timeout(seconds(30))
                .min_idle(1)
                .max_lifetime(seconds(20))
                .lifetime_jitter(seconds(10)),
            &["idle_timeout"],
        ),
        (
            config().return_cancel_after(millis(5000)),
            &["return_cancel_after"],
        ),
        (config().return_timeout(millis(500)), &["return_cancel_after"]),
        (config().cancel_on_timeout(millis(500)), &["cancel_on_timeout"]),
        (
            config().return_timeout(millis(0)).return_cancel_after(millis(0)),
            &["return_cancel_after"],
        ),
        (
            config().after_connect_timeout(millis(1)),
            &["after_connect_timeout"],
        ),
        (
            config().resolve_commit_timeout(millis(1)),
            &["resolve_commit_timeout"],
        ),
        (config().role_ttl(millis(1)), &["role_ttl"]),
        (
            config().load_balance_hosts(HostOrder::Random),
            &["load_balance_hosts"],
        ),
        (config().connect_race_delay(millis(1)), &["connect_race_delay"]),
        (
            config().hosts(["a", "b"]).connect_race_delay(millis(10_000)),
            &["connect_race_delay"],
        ),
        (
            config()
                .ssl_mode(SslMode::Disable)
                .ssl_root_cert(Pem::File("ca.pem".into()))
                .ssl_client_cert(Pem::File("me.pem".into()))
                .ssl_client_key(Pem::File("me.key".into()))
                .ssl_server_name("db"),
            &["sslrootcert", "sslcert", "sslkey", "ssl_server_name"],
        ),
        (
            Config::new()
                .hosts(["/run/one", "/run/two"])
                .user("me")
                .ssl_root_cert(Pem::File("ca.pem".into()))
                .ssl_client_cert(Pem::File("me.pem".into()))
                .ssl_client_key(Pem::File("me.key".into()))
                .ssl_server_name("db"),
            &["sslrootcert", "sslcert", "sslkey", "ssl_server_name"],
        ),
        (
            config()
                .keepalives(false)
                .keepalives_idle(seconds(60))
                .keepalives_interval(seconds(5))
                .keepalives_count(5),
            &["keepalives_idle", "keepalives_interval", "keepalives_count"],
        ),
        (
            "host=/run/one user=me keepalives=0 keepalives_idle=60"
                .parse()
                .expect("valid"),
            &["keepalives_idle"],
        ),
        (
            "host=/run/one user=me keepalives_count=9".parse().expect("valid"),
            &["keepalives_count"],
        ),
        (
            "jdbc:postgresql:?binaryTransfer=true&loggerLevel=DEBUG"
                .parse()
                .expect("valid"),
            &["binaryTransfer", "loggerLevel"],
        ),
        (
            config().failed_host_max_delay_secs(5),
            &["failed_host_max_delay_secs"],
        ),
        (
            config()
                .breaker_threshold(0)
                .breaker_base(millis(1))
                .breaker_cap(millis(2))
                .breaker_jitter(0.0),
            &["breaker_base", "breaker_cap", "breaker_jitter"],
        ),
        (config().breaker_threshold(0), &[]),
        (config().breaker_base(millis(1)), &[]),
    ];
    for (config, expected) in rows {
        assert_eq!(told(&config), expected, "{config:?}");
    }
}

#[test]
fn an_option_that_has_an_effect_is_not_told() {
    let config = Config::yugabyte;
    let balanced = || {
        config()
            .load_balance(LoadBalance::OnlyReplica)
            .topology_keys(KEYS)
    };
    let rows = [
        Config::new(),
        config(),
        config().topology_keys(""),
        balanced(),
        balanced().fallback_to_topology_keys_only(true),
        balanced().load_balance(LoadBalance::PreferReplica),
        config().idle_timeout(millis(1)).min_idle(9),
        config()
            .idle_timeout(seconds(29))
            .min_idle(1)
            .max_lifetime(seconds(20))
            .lifetime_jitter(seconds(10)),
        config().return_cancel_after(millis(4999)),
        // Busy connections are to be closed at once.
        config().return_timeout(millis(0)),
        config()
            .after_connect(|_| Box::pin(async { Ok(()) }))
            .after_connect_timeout(millis(1)),
        config().failed_host_max_delay_secs(6),
        config()
            .role_ttl(millis(1))
            .target_session_attrs(TargetSessionAttrs::Primary),
        config().hosts(["a", "b"]).load_balance_hosts(HostOrder::Random),
        config().hosts(["a", "b"]).connect_race_delay(millis(250)),
        config().keepalives(false),
        config().keepalives_idle(seconds(60)),
        "host=/run/one,db user=me sslrootcert=ca.pem keepalives_count=9"
            .parse()
            .expect("valid"),
        config()
            .ssl_mode(SslMode::Prefer)
            .ssl_root_cert(Pem::File("ca.pem".into())),
        "jdbc:postgresql:?tcpKeepAlive=true&gssEncMode=disable"
            .parse()
            .expect("valid"),
    ];
    for config in rows {
        assert!(told(&config).is_empty(), "{config:?}");
    }
}

#[test]
fn nothing_is_told_about_an_invalid_configuration() {
    let config = Config::yugabyte().topology_keys(KEYS).pool_size(0);
    assert!(config.check().is_err());
    assert!(config.without_effect().is_empty());
}
