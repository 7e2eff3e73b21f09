//! What the settings come to: every option has an effect, each on its own setting, by every way it can be given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::options::OPTIONS;
use super::*;

/// An option, a text that is not its default, and the setter that means the same.
type Row = (&'static str, &'static str, fn(Config) -> Config);

/// What the settings of a configuration without an option differ in; `min_idle` follows `pool_size`, and the database
/// follows the user.
const EFFECTS: &[Row] = &[
    ("hosts", "db1,db2", |config| config.hosts(["db1", "db2"])),
    ("hostaddr", "10.0.0.1", |config| config.host("10.0.0.1")),
    ("port", "6000", |config| config.port(6000)),
    ("user", "app", |config| config.user("app")),
    ("password", "secret", |config| config.password("secret")),
    ("database", "db", |config| config.database("db")),
    ("application_name", "svc", |config| config.application_name("svc")),
    ("fallback_application_name", "svc", |config| {
        config.fallback_application_name("svc")
    }),
    ("options", "-c geqo=off", |config| config.options("-c geqo=off")),
    ("target_session_attrs", "read-write", |config| {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite)
    }),
    ("role_ttl", "30", |config| {
        config.role_ttl(Duration::from_secs(30))
    }),
    ("load_balance_hosts", "random", |config| {
        config.load_balance_hosts(HostOrder::Random)
    }),
    ("statement_timeout", "1500", |config| {
        config.statement_timeout(Duration::from_millis(1500))
    }),
    ("sslmode", "allow", |config| config.ssl_mode(SslMode::Allow)),
    ("sslrootcert", "ca.pem", |config| {
        config.ssl_root_cert(Pem::File("ca.pem".into()))
    }),
    ("channel_binding", "disable", |config| {
        config.channel_binding(ChannelBinding::Disable)
    }),
    ("ssl_server_name", "db.example", |config| {
        config.ssl_server_name("db.example")
    }),
    ("connect_race_delay", "250ms", |config| {
        config.connect_race_delay(Duration::from_millis(250))
    }),
    ("connect_timeout", "3", |config| {
        config.connect_timeout(Duration::from_secs(3))
    }),
    ("keepalives", "off", |config| config.keepalives(false)),
    ("keepalives_idle", "60", |config| {
        config.keepalives_idle(Duration::from_secs(60))
    }),
    ("keepalives_interval", "7", |config| {
        config.keepalives_interval(Duration::from_secs(7))
    }),
    ("keepalives_count", "9", |config| config.keepalives_count(9)),
    ("tcp_user_timeout", "2500", |config| {
        config.tcp_user_timeout(Duration::from_millis(2500))
    }),
    ("load_balance", "only-rr", |config| {
        config.load_balance(LoadBalance::OnlyReplica)
    }),
    ("topology_keys", "a.b.c:2", |config| {
        config.topology_keys("a.b.c:2")
    }),
    ("fallback_to_topology_keys_only", "true", |config| {
        config.fallback_to_topology_keys_only(true)
    }),
    ("yb_servers_refresh_interval", "60", |config| {
        config.yb_servers_refresh_interval(Duration::from_secs(60))
    }),
    ("failed_host_reconnect_delay_secs", "9", |config| {
        config.failed_host_reconnect_delay_secs(9)
    }),
    ("failed_host_max_delay_secs", "90", |config| {
        config.failed_host_max_delay_secs(90)
    }),
    ("drain_stale_addresses", "off", |config| {
        config.drain_stale_addresses(false)
    }),
    ("breaker_threshold", "3", |config| config.breaker_threshold(3)),
    ("breaker_base", "2s", |config| {
        config.breaker_base(Duration::from_secs(2))
    }),
    ("breaker_cap", "30s", |config| {
        config.breaker_cap(Duration::from_secs(30))
    }),
    ("breaker_jitter", "0.5", |config| config.breaker_jitter(0.5)),
    ("pool_size", "20", |config| config.pool_size(20)),
    ("min_idle", "3", |config| config.min_idle(3)),
    ("idle_timeout", "1min", |config| {
        config.idle_timeout(Duration::from_secs(60))
    }),
    ("max_lifetime", "1h", |config| {
        config.max_lifetime(Duration::from_secs(3600))
    }),
    ("lifetime_jitter", "0", |config| {
        config.lifetime_jitter(Duration::ZERO)
    }),
    ("rebalance_interval", "1s", |config| {
        config.rebalance_interval(Duration::from_secs(1))
    }),
    ("rebalance_batch", "5", |config| config.rebalance_batch(5)),
    ("checkout_timeout", "none", |config| config.checkout_timeout(None)),
    ("socket_timeout", "30", |config| {
        config.socket_timeout(Duration::from_secs(30))
    }),
    ("cancel_on_timeout", "250ms", |config| {
        config.cancel_on_timeout(Duration::from_millis(250))
    }),
    ("stall_timeout", "1min", |config| {
        config.stall_timeout(Duration::from_secs(60))
    }),
    ("resolve_commit", "true", |config| config.resolve_commit(true)),
    ("resolve_commit_timeout", "1min", |config| {
        config.resolve_commit_timeout(Duration::from_secs(60))
    }),
    ("statement_cache_size", "100", |config| {
        config.statement_cache_size(100)
    }),
    ("max_dials", "4", |config| config.max_dials(4)),
    ("after_connect_timeout", "2min", |config| {
        config.after_connect_timeout(Duration::from_secs(120))
    }),
    ("recycle", "clean", |config| config.recycle(Recycle::Clean)),
    ("return_cancel_after", "1s", |config| {
        config.return_cancel_after(Duration::from_secs(1))
    }),
    ("return_timeout", "9s", |config| {
        config.return_timeout(Duration::from_secs(9))
    }),
    ("leak_threshold", "1min", |config| {
        config.leak_threshold(Duration::from_secs(60))
    }),
    ("record_holders", "true", |config| config.record_holders(true)),
];

/// The names of the described options in which two configurations differ.
fn differing(one: &Config, other: &Config) -> Vec<&'static str> {
    let one = one.describe().expect("valid");
    let other = other.describe().expect("valid");
    one.iter()
        .filter(|(name, value)| other.get(name) != Some(value))
        .map(|(name, _)| name)
        .collect()
}

fn settings_text(config: &Config) -> String {
    format!("{:?}", config.settings().expect("valid"))
}

#[test]
fn every_option_changes_its_own_setting_and_no_other() {
    for (name, _, set) in EFFECTS {
        let plain = Config::yugabyte();
        let changed = set(Config::yugabyte());
        let expected: &[&str] = match *name {
            // The port is seen in the hosts.
            "port" | "hostaddr" => &["hosts"],
            "fallback_application_name" => &["application_name"],
            "user" => &["user", "database"],
            "pool_size" => &["pool_size", "min_idle"],
            "keepalives" => &[
                "keepalives",
                "keepalives_idle",
                "keepalives_interval",
                "keepalives_count",
            ],
            name => &[name],
        };
        assert_eq!(differing(&changed, &plain), expected, "{name}");
        assert_ne!(
            settings_text(&changed),
            settings_text(&plain),
            "{name} reaches the settings"
        );
    }
}

#[test]
fn the_text_of_an_option_means_the_same_as_its_setter() {
    for (name, text, set) in EFFECTS {
        let from_text = Config::yugabyte().with_option(name, text).expect("a valid text");
        assert_eq!(
            settings_text(&from_text),
            settings_text(&set(Config::yugabyte())),
            "{name}={text}"
        );
    }
}

#[test]
fn the_table_of_effects_has_every_option() {
    let mut rows: Vec<&str> = EFFECTS.iter().map(|(name, _, _)| *name).collect();
    // Each of these needs another; the next test has them.
    rows.extend(["sslnegotiation", "sslcert", "sslkey"]);
    rows.sort_unstable();
    let mut known: Vec<&str> = OPTIONS.iter().map(|rule| rule.name).collect();
    known.sort_unstable();
    assert_eq!(rows, known);
}

#[test]
fn a_clients_certificate_and_key_go_together() {
    let from_text = Config::yugabyte()
        .with_option("sslcert", "me.pem")
        .and_then(|config| config.with_option("sslkey", "me.key"))
        .expect("valid texts");
    let from_setters = Config::yugabyte()
        .ssl_client_cert(Pem::File("me.pem".into()))
        .ssl_client_key(Pem::File("me.key".into()));
    assert_eq!(differing(&from_text, &Config::yugabyte()), ["sslcert", "sslkey"]);
    assert_eq!(settings_text(&from_text), settings_text(&from_setters));
}

#[test]
fn a_second_name_of_an_option_is_the_same_option() {
    let rows: [(&str, &str, Config); 7] = [
        ("host", "a", Config::yugabyte().host("a")),
        ("username", "app", Config::yugabyte().username("app")),
        ("dbname", "db", Config::yugabyte().dbname("db")),
        (
            "keepalives_retries",
            "9",
            Config::yugabyte().keepalives_retries(9),
        ),
        ("pool-size", "3", Config::yugabyte().pool_size(3)),
        ("poolSize", "3", Config::yugabyte().pool_size(3)),
        (
            "ssl_root_cert",
            "ca.pem",
            Config::yugabyte().ssl_root_cert(Pem::File("ca.pem".into())),
        ),
    ];
    for (name, text, expected) in rows {
        let config = Config::yugabyte().with_option(name, text).expect("a known name");
        assert_eq!(settings_text(&config), settings_text(&expected), "{name}");
    }
}

#[test]
fn each_option_says_what_it_allows() {
    for rule in OPTIONS {
        assert_eq!(options::allowed(rule.name), rule.allowed);
        assert!(!rule.allowed.is_empty(), "{}", rule.name);
    }
}

/// Covers: E-046
#[tokio::test]
async fn without_a_password_there_is_none_to_send() {
    let settings = Config::yugabyte().settings().expect("valid");
    assert!(settings.password.ask().await.expect("nothing can fail").is_none());
}

/// Covers: E-047, E-048
#[tokio::test]
async fn a_password_is_kept_byte_for_byte() {
    let rows: [(Config, &[u8]); 6] = [
        (Config::new().password("s3cret"), b"s3cret"),
        (Config::new().password("pässwörd"), "pässwörd".as_bytes()),
        (Config::new().password([0xff, 0xfe]), &[0xff, 0xfe]),
        ("postgresql://u:%FF%40%2F+@h".parse().expect("valid"), b"\xff@/+"),
        ("postgresql://u:a:b@h".parse().expect("valid"), b"a:b"),
        (
            "postgresql://u:a@h?password=b%26c".parse().expect("valid"),
            b"b&c",
        ),
    ];
    for (config, expected) in rows {
        let password = config.user("u").settings().expect("valid").password;
        assert_eq!(password.ask().await.expect("fixed").as_deref(), Some(expected));
    }
}

/// Covers: E-050
#[tokio::test]
async fn a_password_source_is_asked_each_time() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let config = Config::yugabyte().password("unused").password_source(move || {
        let count = counter.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, std::io::Error>(format!("token-{count}")) }
    });
    let password = config.settings().expect("valid").password;
    assert_eq!(
        asked.load(Ordering::Relaxed),
        0,
        "nothing is asked for before a dial"
    );
    for expected in ["token-0", "token-1"] {
        let secret = password.ask().await.expect("the source has one").expect("set");
        assert_eq!(&*secret, expected.as_bytes());
    }
}

#[tokio::test]
async fn a_password_source_can_be_a_type_and_can_fail() {
    struct Vault;
    impl PasswordSource for Vault {
        fn password(
            &self,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<Vec<u8>, PasswordError>> + Send + '_>> {
            Box::pin(async { Err("the vault is sealed".into()) })
        }
    }
    let password = Config::yugabyte()
        .password_source(Vault)
        .settings()
        .expect("valid")
        .password;
    let error = password.ask().await.expect_err("the source fails");
    assert_eq!(error.to_string(), "the vault is sealed");
}

#[tokio::test]
async fn a_fixed_password_replaces_a_source() {
    let source = || async { Ok::<_, std::io::Error>("token") };
    let config = Config::yugabyte().password_source(source).password("fixed");
    let password = config.settings().expect("valid").password;
    assert_eq!(
        password.ask().await.expect("fixed").as_deref(),
        Some(&b"fixed"[..])
    );
}
