//! Configurations in documents (feature `serde`): the same names, texts and rules as in connection strings.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![cfg(feature = "serde")]

use pgsteer::config::Config;
use serde_json::json;

/// The described options of a document in which it differs from YugabyteDB's or PostgreSQL's defaults.
fn differing(document: &serde_json::Value, plain: &Config) -> Vec<String> {
    let config: Config =
        serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{document}: {error}"));
    let (description, plain) = (
        config.describe().expect("valid"),
        plain.describe().expect("valid"),
    );
    let changed = description
        .iter()
        .filter(|(name, value)| plain.get(name) != Some(value));
    changed.map(|(name, value)| format!("{name}={value}")).collect()
}

fn refusal(document: &serde_json::Value) -> String {
    match serde_json::from_value::<Config>(document.clone()) {
        Ok(config) => panic!("{document} is accepted as {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// Covers: E-010, E-020, E-027, E-032, E-041, E-047
#[test]
fn a_document_is_read_by_the_names_and_texts_of_connection_strings() {
    let rows: Vec<(serde_json::Value, &[&str])> = vec![
        (json!({}), &[]),
        (json!({"host": "a"}), &["hosts=a:5432"]),
        (json!({"hosts": "a,b"}), &["hosts=a:5432,b:5432"]),
        (
            json!({"hosts": ["a", ["b", 2], {"host": "c", "port": 3}, {"port": 4, "host": "d"}, {"host": "e"}]}),
            &["hosts=a:5432,b:2,c:3,d:4,e:5432"],
        ),
        (json!({"hosts": ["a", ["b", 2]], "port": 7}), &["hosts=a:7,b:2"]),
        (json!({"port": 7, "hosts": ["a", ["b", 2]]}), &["hosts=a:7,b:2"]),
        (json!({"hosts": {"host": "a", "port": 1}}), &["hosts=a:1"]),
        (
            json!({"hosts": [{"host": "a", "hostaddr": "10.0.0.1", "port": 1}, {"host": "b", "hostaddr": null}]}),
            &["hosts=a(10.0.0.1):1,b:5432"],
        ),
        (
            json!({"hostaddr": "10.0.0.1,10.0.0.2", "hosts": ["a", "b"]}),
            &["hosts=a(10.0.0.1):5432,b(10.0.0.2):5432"],
        ),
        (
            json!({"targetServerType": "primary", "poolSize": 20}),
            &["target_session_attrs=read-write", "pool_size=20", "min_idle=20"],
        ),
        (json!({"tcpKeepAlive": true, "prepareThreshold": 5}), &[]),
        (json!({"url": "host=a port=7"}), &["hosts=a:7"]),
        (json!({"url": "jdbc:postgresql://a:7/"}), &["hosts=a:7"]),
        (json!({"port": "7"}), &["hosts=localhost:7"]),
        (json!({"database": "db"}), &["database=db"]),
        (json!({"password": "s3cret"}), &["password=redacted"]),
        (
            json!({"pool_size": 20, "min-idle": "4"}),
            &["pool_size=20", "min_idle=4"],
        ),
        (
            json!({"checkout_timeout": "none", "connect_timeout": 3}),
            &["connect_timeout=3s", "checkout_timeout=none"],
        ),
        (
            json!({"checkout_timeout": null, "failed_host_max_delay_secs": null}),
            &[],
        ),
        (
            json!({"max_lifetime": "1h", "idle_timeout": 60000}),
            &["idle_timeout=1min", "max_lifetime=1h"],
        ),
        (json!({"load_balance": true}), &["load_balance=any"]),
        (json!({"load_balance": "Prefer-RR"}), &["load_balance=prefer-rr"]),
        (json!({"load_balance": false, "keepalives": true}), &[]),
        (json!({"record_holders": true}), &["record_holders=true"]),
        (
            json!({"yb_servers_refresh_interval": 0}),
            &["yb_servers_refresh_interval=0"],
        ),
        (
            json!({"topology_keys": "gcp.us-east1.*"}),
            &["topology_keys=gcp.us-east1.*:1"],
        ),
        (json!({"breaker_jitter": 0.5}), &["breaker_jitter=0.5"]),
        (json!({"breaker_jitter": 0}), &["breaker_jitter=0"]),
        (json!({"sslmode": "allow"}), &["sslmode=allow"]),
    ];
    for (document, expected) in rows {
        assert_eq!(differing(&document, &Config::new()), expected, "{document}");
    }
}

#[test]
fn other_fields_override_the_url() {
    let url = "yugabytedb://app:secret@a:1,b:2/db?pool_size=20&min_idle=4";
    let rows: Vec<(serde_json::Value, &[&str])> = vec![
        (
            json!({"url": url}),
            &[
                "hosts=a:1,b:2",
                "user=app",
                "password=redacted",
                "database=db",
                "pool_size=20",
                "min_idle=4",
            ],
        ),
        (
            json!({"database": "other", "url": url, "pool_size": 4, "user": "root"}),
            &[
                "hosts=a:1,b:2",
                "user=root",
                "password=redacted",
                "database=other",
                "pool_size=4",
                "min_idle=4",
            ],
        ),
        (
            json!({"url": url, "port": 9}),
            &[
                "hosts=a:9,b:9",
                "user=app",
                "password=redacted",
                "database=db",
                "pool_size=20",
                "min_idle=4",
            ],
        ),
        (
            json!({"url": url, "port": 9, "hosts": ["c", ["d", 4]]}),
            &[
                "hosts=c:9,d:4",
                "user=app",
                "password=redacted",
                "database=db",
                "pool_size=20",
                "min_idle=4",
            ],
        ),
        // Judged together, not the URL on its own.
        (
            json!({"url": "yugabytedb://?min_idle=15", "pool_size": 20}),
            &["pool_size=20", "min_idle=15"],
        ),
    ];
    for (document, expected) in rows {
        assert_eq!(differing(&document, &Config::yugabyte()), expected, "{document}");
    }
}

/// Covers: E-004, E-012, E-013, E-018, E-026, E-029, E-031, E-043, E-044, E-051, E-057, E-059
#[test]
fn a_bad_document_is_refused_with_the_reason() {
    let rows = [
        (json!([]), "expected a map of pgsteer options"),
        (json!("postgresql://h"), "expected a map of pgsteer options"),
        (
            json!({"pool_szie": 5, "zzz": {"a": [1]}}),
            "unknown options `pool_szie` (did you mean pool_size?), `zzz`",
        ),
        (
            json!({"pool_size": 5, "pool-size": 5}),
            "option pool_size is given more than once",
        ),
        (json!({"database": 42}), "option database cannot be `42`"),
        (json!({"user": true}), "option user cannot be `true`"),
        (
            json!({"application_name": [-1]}),
            "option application_name cannot be `a list`",
        ),
        (json!({"hosts": []}), "option hosts cannot be `an empty list`"),
        (json!({"hosts": [""]}), "option hosts cannot be ``"),
        (json!({"hosts": ["a", 5]}), "option hosts cannot be `5`"),
        (json!({"hosts": [["a", "b"]]}), "option hosts cannot be `a list`"),
        (
            json!({"hosts": [["a", 65536]]}),
            "option hosts cannot be `a list`",
        ),
        (json!({"hosts": [["a", 0]]}), "option port cannot be `0`"),
        (
            json!({"hosts": [{"name": "a"}]}),
            "option hosts cannot be `a map`",
        ),
        (json!({"port": "1,2"}), "option port cannot be `1,2`"),
        (
            json!({"load_balance": [-1]}),
            "option load_balance cannot be `a list`",
        ),
        (json!({"load_balance": 1}), "option load_balance cannot be `1`"),
        (
            json!({"yb_servers_refresh_interval": 1.5}),
            "option yb_servers_refresh_interval cannot be `1.5`",
        ),
        (
            json!({"yb_servers_refresh_interval": -1}),
            "option yb_servers_refresh_interval cannot be `-1`",
        ),
        (
            json!({"yb_servers_refresh_interval": 60.0}),
            "option yb_servers_refresh_interval cannot be `60.0`",
        ),
        (
            json!({"failed_host_reconnect_delay_secs": 0.5}),
            "option failed_host_reconnect_delay_secs cannot be `0.5`",
        ),
        (json!({"pool_size": true}), "option pool_size cannot be `true`"),
        (json!({"min_idle": 11}), "option min_idle cannot be `11`"),
        (json!({"topology_keys": 42}), "topology key `42`"),
        (
            json!({"topology_keys": ["a.b.c", 1]}),
            "option topology_keys cannot be `a list`",
        ),
        (
            json!({"password": 123_456}),
            "option password cannot be `redacted`",
        ),
        (
            json!({"password": ["hunter22"]}),
            "option password cannot be `redacted`",
        ),
        (
            json!({"hosts": [{"host": "a", "hostaddr": "b"}]}),
            "option hosts cannot be `a map`",
        ),
        (
            json!({"hosts": [{"host": "a", "address": "c"}]}),
            "option hosts cannot be `a map`",
        ),
        (
            json!({"hostaddr": "10.0.0.1", "hosts": ["a", "b"]}),
            "the connection string cannot be read: 1 addresses in hostaddr do not fit 2 hosts",
        ),
        (
            json!({"sslcert": "a", "sslkey": "redacted"}),
            "option sslkey cannot be `redacted`: it takes the value itself",
        ),
        (
            json!({"targetServerType": ["primary"]}),
            "option targetServerType cannot be `a list`",
        ),
        (
            json!({"sslmode": "required"}),
            "option sslmode cannot be `required`: it takes disable, allow, prefer,",
        ),
        (
            json!({"url": 5}),
            "the connection string cannot be read: it is not a text",
        ),
        (
            json!({"url": "postgresql://h:x"}),
            "a port is not a number from 1 to 65535",
        ),
    ];
    for (document, expected) in rows {
        let refusal = refusal(&document);
        assert!(
            refusal.contains(expected),
            "{document}\n  gives   {refusal}\n  and not {expected}"
        );
        assert!(
            !refusal.contains("123456") && !refusal.contains("hunter22"),
            "{refusal}"
        );
    }
}

#[test]
fn the_word_that_stands_for_a_password_is_not_taken_for_one() {
    let config = Config::yugabyte().password("s3cret");
    let mut written = serde_json::to_value(&config).expect("written");
    assert!(
        refusal(&written).starts_with("option password cannot be `redacted`: it takes the value itself"),
        "{}",
        refusal(&written)
    );
    for usable in [json!("s3cret"), json!(null)] {
        written["password"] = usable;
        assert!(
            serde_json::from_value::<Config>(written.clone()).is_ok(),
            "{written}"
        );
    }
}

#[test]
fn a_refused_document_repeats_nothing_that_may_hold_a_secret() {
    let pasted = "postgresql://app:hunter22@db1/ledger";
    let rows = [
        (json!(pasted), "expected a map of pgsteer options"),
        (json!({"hosts": pasted}), "option hosts cannot be `text that may"),
        (json!({"host": [pasted]}), "option hosts cannot be `text that may"),
        (
            json!({"hosts": {"host": pasted, "port": 1}}),
            "option hosts cannot be `text that may",
        ),
        (
            json!({"hosts": [[pasted, "x"]]}),
            "option hosts cannot be `a list`",
        ),
        (
            json!({"hosts": [{"password": "hunter22"}]}),
            "option hosts cannot be `a map`",
        ),
        (
            json!({"hosts": "db1", "port": pasted}),
            "option port cannot be `text that may",
        ),
        (
            json!({"user": {"password": "hunter22"}}),
            "option user cannot be `a map`",
        ),
        (
            json!({"options": {"password": "hunter22"}}),
            "option options cannot be `a map`",
        ),
        (
            json!({"database": [["hunter22"]]}),
            "option database cannot be `a list`",
        ),
        (
            json!({"pool_size": pasted}),
            "option pool_size cannot be `text that may",
        ),
        (
            json!({"sslmode": "app:hunter22@db1"}),
            "option sslmode cannot be `text that may",
        ),
        (json!({"topology_keys": pasted}), "topology key `text that may"),
        (
            json!({"application_name": format!("{pasted}\0")}),
            "option application_name cannot be `text that may",
        ),
        (json!({pasted: 1}), "unknown option `text that may"),
    ];
    for (document, expected) in rows {
        let refusal = refusal(&document);
        assert!(refusal.contains(expected), "{document} gives {refusal}");
        assert!(!refusal.contains("hunter22"), "{refusal}");
    }
}

/// Covers: E-015, E-057
#[test]
fn a_surrogate_is_refused_without_a_crash() {
    for document in [r#"{"hosts": "\ud800"}"#, r#"{"user": "\udfff"}"#] {
        assert!(serde_json::from_str::<Config>(document).is_err(), "{document}");
    }
}

#[test]
fn a_repeated_field_is_refused() {
    for (document, name) in [
        (r#"{"port": 1, "port": 2}"#, "port"),
        (r#"{"url": "postgresql://", "url": "x"}"#, "url"),
    ] {
        let error = serde_json::from_str::<Config>(document).expect_err("given twice");
        assert!(
            error
                .to_string()
                .starts_with(&format!("option {name} is given more than once")),
            "{error}"
        );
    }
}

/// Covers: E-158
#[test]
fn a_configuration_is_written_normalised_and_redacted() {
    let config: Config = "yugabytedb://app:s3cret@a,b:2/db?checkout_timeout=none&load_balance=true"
        .parse()
        .expect("valid");
    let written = serde_json::to_value(&config).expect("a valid configuration is written");
    assert_eq!(
        written,
        serde_json::to_value(config.describe().expect("valid")).expect("written")
    );
    assert_eq!(
        written["hosts"],
        json!([{"host": "a", "port": 5433}, {"host": "b", "port": 2}])
    );
    assert_eq!(written["password"], json!("redacted"));
    assert_eq!(written["options"], json!(null));
    assert_eq!(written["checkout_timeout"], json!("none"));
    assert_eq!(written["pool_size"], json!(10));
    assert_eq!(written["load_balance"], json!("any"));
    assert_eq!(written["record_holders"], json!(false));
    assert!(!written.to_string().contains("s3cret"));
}

#[test]
fn what_is_written_reads_back_the_same() {
    let strings = [
        "postgresql://",
        "yugabytedb://app@[::1],%2Ftmp:7/db",
        "postgresql://app@h?keepalives=0&tcp_user_timeout=0&checkout_timeout=none&statement_timeout=0",
        "yugabytedb://?load_balance=only-rr&topology_keys=a.b.*:2&failed_host_max_delay_secs=60&min_idle=0",
        "postgresql://app@h?idle_timeout=7ns&max_lifetime=1d&leak_threshold=3us&options=-c%20a=b",
    ];
    for string in strings {
        let config: Config = string.parse().expect("valid");
        let written = serde_json::to_string(&config).expect("written");
        let again: Config =
            serde_json::from_str(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(again.describe(), config.describe(), "{string}");
    }
}

#[test]
fn an_invalid_configuration_is_not_written() {
    let error = serde_json::to_string(&Config::yugabyte().pool_size(0)).expect_err("0 is no size");
    assert!(
        error.to_string().contains("option pool_size cannot be `0`"),
        "{error}"
    );
}
