//! `pgsteer url`.

use serde_json::{Value, json};

use crate::rig::{pgsteer, run};

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

#[test]
fn every_kind_of_string_is_shown() {
    let strings = [
        "postgresql://app:s3cr3t@db1:6000/shop",
        "host=db1 port=6000 user=app password=s3cr3t dbname=shop",
        "jdbc:postgresql://db1:6000/shop?user=app&password=s3cr3t",
        "jdbc:yugabytedb://db1:6000/shop?user=app&password=s3cr3t",
        "yugabytedb://app:s3cr3t@db1:6000/shop",
    ];
    for string in strings {
        let run = run(&["url", string]);

        assert_eq!(run.code, Some(0), "{run:?}");
        let shown: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
        assert_eq!(shown["hosts"], json!([{"host": "db1", "port": 6000}]), "{string}");
        assert_eq!(shown["user"], json!("app"), "{string}");
        assert_eq!(shown["password"], json!("redacted"), "{string}");
        assert_eq!(shown["database"], json!("shop"), "{string}");
    }
}

#[test]
fn npgsqls_strings_are_refused_with_what_to_write_instead() {
    let run = run(&["url", "Host=db1;Username=app;Password=s3cr3t"]);

    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("write host=… user=…"), "{run:?}");
    assert!(!run.stderr.contains("s3cr3t"), "{run:?}");
}

#[test]
fn the_environment_counts_only_on_request() {
    let shown = |arguments: &[&str]| -> Value {
        let output = pgsteer(arguments)
            .env("PGHOST", "db7")
            .env("PGUSER", "app")
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    };

    assert_eq!(
        shown(&["url", "dbname=shop user=me"])["hosts"],
        json!([{"host": "localhost", "port": 5432}])
    );
    let asked = shown(&["url", "dbname=shop user=me", "--environment"]);
    assert_eq!(asked["hosts"], json!([{"host": "db7", "port": 5432}]));
    assert_eq!(asked["user"], json!("me"));
}

#[test]
fn a_password_file_that_is_not_there_is_an_error_with_its_name() {
    let run = run(&["url", "host=db1 user=app", "--pgpass=/no/such/file"]);

    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("/no/such/file"), "{run:?}");
}

#[test]
fn the_own_password_file_may_be_missing() {
    let output = pgsteer(&["url", "host=db1 user=app", "--pgpass"])
        .env("HOME", "/no/such/home")
        .output()
        .expect("the program runs");

    assert!(output.status.success(), "{output:?}");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(shown["password"], Value::Null);
}
