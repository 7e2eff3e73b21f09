//! `pgsteer url`.

use serde_json::{Value, json};

use crate::rig::run;

#[test]
fn a_connection_string_is_shown_as_json_with_the_password_redacted() {
    let run = run(&[
        "url",
        "postgresql://app:s3cr3t@db1,db2:6000/shop?pool_size=20&checkout_timeout=2s",
    ]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let shown: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    let expected = [
        (
            "hosts",
            json!([{"host": "db1", "port": 5432}, {"host": "db2", "port": 6000}]),
        ),
        ("user", json!("app")),
        ("password", json!("redacted")),
        ("database", json!("shop")),
        ("pool_size", json!(20)),
        ("checkout_timeout", json!("2s")),
    ];
    for (option, value) in expected {
        assert_eq!(shown[option], value, "{option}");
    }
    assert!(!run.stdout.contains("s3cr3t"), "{run:?}");
}

#[test]
fn an_option_without_effect_is_told_on_standard_error() {
    let run = run(&["url", "yugabytedb://db1/shop?topology_keys=gcp.us-east1.*"]);

    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr.starts_with("hint: topology_keys has no effect: "),
        "{run:?}"
    );
    assert!(!run.stdout.contains("hint"), "{run:?}");
}
