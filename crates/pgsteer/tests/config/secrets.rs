//! Nothing that is printed about a configuration shows its password.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use pgsteer::config::{Config, ConfigError, HostSpec};

const SECRET: &str = "s3cret-Tr0ub4dor";

/// Everything that can be printed about a configuration.
fn everything(config: &Config) -> String {
    let description = config.describe().expect("valid");
    let url = config.to_url().expect("valid");
    format!("{config:?} {config:#?} {description} {description:?} {url}")
}

fn error_text(error: &ConfigError) -> String {
    format!("{error} {error:?} {error:#?}")
}

/// Covers: E-158
#[test]
fn a_password_is_redacted_and_the_rest_stays_visible() {
    let configs = [
        Config::yugabyte()
            .hosts(["db1", "db2"])
            .user("app")
            .password(SECRET)
            .database("ledger"),
        format!("yugabytedb://app:{SECRET}@db1,db2/ledger")
            .parse()
            .expect("valid"),
        format!("yugabytedb://app@db1,db2/ledger?password={SECRET}")
            .parse()
            .expect("valid"),
    ];
    for config in configs {
        let printed = everything(&config);
        assert!(!printed.contains(SECRET), "{printed}");
        assert!(
            config
                .describe()
                .expect("valid")
                .to_string()
                .contains("password = redacted\n")
        );
        for visible in ["app", "ledger", "db1", "db2"] {
            assert!(printed.contains(visible), "{visible} stays visible");
        }
    }
}

/// Covers: E-159
#[test]
fn a_password_source_is_redacted_too() {
    let secret = SECRET.to_owned();
    let source = move || {
        let secret = secret.clone();
        async move { Ok::<_, std::io::Error>(secret) }
    };
    let config = Config::yugabyte().password_source(source);
    let printed = everything(&config);
    assert!(!printed.contains(SECRET));
    assert!(
        config
            .describe()
            .expect("valid")
            .to_string()
            .contains("password = redacted\n")
    );
}

/// Covers: E-051
#[test]
fn no_error_repeats_a_password_however_the_string_is_broken() {
    let broken = [
        format!("postgresql://app:{SECRET}@h:0/db"),
        format!("postgresql://app:{SECRET}@h/db?pool_size=0"),
        format!("postgresql://app:{SECRET}@h/db?pool_szie=1"),
        format!("postgresql://app:{SECRET}%@h/db"),
        format!("postgresql://app:{SECRET}%00@h/db"),
        format!("postgresql://app:a@{SECRET}@h/db"),
        format!("postgresql://app:a@{SECRET}:1@h/db"),
        format!("postgresql://app:/{SECRET}@h/db?x=1"),
        format!("postgresql://app:1/{SECRET}@h/db?x=1"),
        format!("postgresql://app:1/{SECRET}%@h/db"),
        format!("postgresql://app:1?{SECRET}=1@h/db"),
        format!("postgresql://app:1?pool_size={SECRET}@h/db"),
        format!("postgresql://app:1?topology_keys={SECRET}@h/db"),
        format!("postgresql://app:1?ssl{SECRET}=@h/db"),
        format!("postgresql://app:1?{SECRET}@h/db"),
        format!("postgresql://app:{SECRET}"),
        format!("postgresql://app:{SECRET}/db"),
        format!("postgresql://app:{SECRET},h2/db"),
        format!("postgresql://[app]{SECRET}"),
        format!("postgresql://h/db?password={SECRET}%00"),
        format!("postgresql://h/db?password={SECRET}%zz"),
        format!("postgresql://h/db?password=a&{SECRET}=1"),
        format!("postgresql://h/db?password=a&b=1&{SECRET}=1&pool_szie=2"),
        format!("postgresql://h/db?password=a&{SECRET}"),
        format!("postgresql://h/db?password={SECRET}&password={SECRET}"),
        format!("postgresql://h/db?pasword={SECRET}"),
        format!("postgresql//app:{SECRET}@h/db"),
        format!("jdbc:postgresql://h/db?user=app&password={SECRET}&pool_size=0"),
        format!("jdbc:postgresql://h/db?password=a&{SECRET}&nope=1"),
        format!("jdbc:postgresql://h/db?password={SECRET}%&nope=1"),
        format!("jdbc:postgresql://h?password={SECRET}"),
        format!("jdbc:postgresql://app:{SECRET}@h/db"),
        format!("jdbc:postgresql://app:/{SECRET}@h/db"),
        format!("jdbc:postgresql://app:1/{SECRET}@h/db?nope=1"),
        format!("jdbc:postgresql://h/db?sslpassword={SECRET}"),
        format!("jdbc:postgresql:app:{SECRET}@h/db?x=1"),
        format!("host=h password={SECRET} pool_size=0"),
        format!("host=h password={SECRET} words"),
        format!("host=h password=my {SECRET} user=x"),
        format!("host=h password=my {SECRET}=x user=x"),
        format!("host=h password='{SECRET}"),
        format!("host=h password=a password={SECRET}"),
        format!("host=h sslpassword={SECRET}"),
        format!("host=h passwd={SECRET}"),
        format!("host=h oauth_client_secret={SECRET}"),
        format!("host=h scram_client_key={SECRET}"),
        format!("Host=h;Username=app;Password={SECRET}"),
        // Separators of other drivers, by which a password ends up in the value before it.
        format!("postgresql://h/db?sslmode=require;password={SECRET}"),
        format!("postgresql://h/db?sslmode=require,Password={SECRET}"),
        format!("postgresql://h/db?sslmode=require?password={SECRET}"),
        format!("postgresql://h/db?user=u;password={SECRET}"),
        format!("jdbc:postgresql://h/db?sslmode=require;password={SECRET}"),
        format!("jdbc:yugabytedb://h/db;password={SECRET}"),
        format!("host=h port=5432;password={SECRET}"),
        format!("host=h connect_timeout=5;Pwd={SECRET}"),
        format!("Options=x;Password={SECRET}"),
        format!("application_name=x;Password={SECRET}"),
        format!("mysql://app:{SECRET}@h/db"),
        format!("app:{SECRET}@h"),
    ];
    for url in broken {
        let error = url.parse::<Config>().expect_err("the string is broken");
        let printed = error_text(&error);
        assert!(!printed.contains(SECRET), "{url} gives {printed}");
    }
}

#[test]
fn a_refused_password_is_not_repeated() {
    let error = Config::new()
        .password(format!("{SECRET}\0"))
        .check()
        .expect_err("NUL");
    assert_eq!(
        error.to_string(),
        "option password cannot be `redacted`: it takes text, or any bytes but NUL"
    );
    let error = Config::new()
        .with_option("passphrase", SECRET)
        .expect_err("unknown");
    assert!(!error_text(&error).contains(SECRET));
}

#[test]
fn a_text_that_is_no_host_is_refused_and_printed_nowhere() {
    let misplaced = [
        format!("postgresql://app:{SECRET}@h/d"),
        format!("app:{SECRET}@h"),
        format!("mysql://{SECRET}"),
        format!("h/{SECRET}"),
        format!("h {SECRET}"),
        format!("h\t{SECRET}"),
        format!("h\u{a0}{SECRET}"),
        format!("h\0{SECRET}"),
        format!("h\u{7f}{SECRET}"),
        format!("/run/{SECRET}@h"),
        format!("/run/{SECRET}\n"),
    ];
    for text in misplaced {
        let config = Config::new().host(text.as_str()).host(("db2", 1));
        let error = config.check().expect_err("it is no host");
        assert!(
            error
                .to_string()
                .starts_with("option hosts cannot be `text that may hold a secret (not shown)`"),
            "{error}"
        );
        let host = HostSpec::new(&text);
        let with_port = host.clone().port(1);
        let printed = format!("{} {config:?} {host} {host:?} {with_port}", error_text(&error));
        assert!(!printed.contains(SECRET), "{printed}");

        let encoded = percent_encode(text.as_bytes(), NON_ALPHANUMERIC);
        for url in [
            format!("postgresql://{encoded}/d"),
            format!("postgresql://h/d?host={encoded}"),
            format!("postgresql://h/d?host={text}"),
        ] {
            let error = url.parse::<Config>().expect_err("it is no host");
            assert!(!error_text(&error).contains(SECRET), "{url} gives {error}");
        }
    }
}

#[test]
fn a_socket_directory_may_have_slashes_and_spaces() {
    let config = Config::new().user("app").host("/var/run/my server");
    assert_eq!(
        config.to_url().expect("valid"),
        "postgresql://app@%2Fvar%2Frun%2Fmy%20server:5432/"
    );
}

#[test]
fn a_value_that_looks_like_a_connection_string_is_not_repeated() {
    for name in [
        "port",
        "pool_size",
        "load_balance",
        "sslmode",
        "topology_keys",
        "connect_timeout",
    ] {
        for value in [format!("postgresql://{SECRET}"), format!("app:{SECRET}@h")] {
            let error = Config::new()
                .with_option(name, &value)
                .expect_err("no such value");
            assert!(!error_text(&error).contains(SECRET), "{error}");
            assert!(
                error
                    .to_string()
                    .contains("text that may hold a secret (not shown)"),
                "{error}"
            );
        }
    }
}
