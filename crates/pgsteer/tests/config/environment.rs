//! libpq's environment variables, given by the test and never set in the process.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::ffi::OsString;

use pgsteer::config::{Config, ConfigError, HostOrder, SslMode, TargetSessionAttrs};

use crate::table::{options, short};

type Variables = &'static [(&'static str, &'static str)];

fn with(config: Config, variables: Variables) -> Result<Config, ConfigError> {
    config.with_environment_from(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

/// A row: a connection string, variables, and what the configuration then has beside the string's own defaults.
type Row = (&'static str, Variables, &'static [(&'static str, &'static str)]);

const ROWS: &[Row] = &[
    ("postgresql://", &[], &[]),
    ("postgresql://", &[("PGHOST", "db1")], &[("hosts", "db1:5432")]),
    ("postgresql://", &[("PGHOST", "")], &[("hosts", "localhost:5432")]),
    ("yugabytedb://", &[("PGHOST", "db1")], &[("hosts", "db1:5433")]),
    (
        "postgresql://",
        &[("PGHOST", "a,b"), ("PGPORT", "1,2")],
        &[("hosts", "a:1,b:2")],
    ),
    (
        "postgresql://",
        &[("PGHOST", "a,b"), ("PGPORT", "7")],
        &[("hosts", "a:7,b:7")],
    ),
    (
        "postgresql://",
        &[("PGHOST", "/var/run/postgresql")],
        &[("hosts", "/var/run/postgresql:5432")],
    ),
    (
        "postgresql://",
        &[("PGHOST", "a,b"), ("PGHOSTADDR", "10.0.0.1,")],
        &[("hosts", "a(10.0.0.1):5432,b:5432")],
    ),
    (
        "postgresql://",
        &[("PGHOSTADDR", "10.0.0.1,10.0.0.2")],
        &[("hosts", "10.0.0.1:5432,10.0.0.2:5432")],
    ),
    ("postgresql://", &[("PGPORT", "7")], &[("hosts", "localhost:7")]),
    // what is given wins
    (
        "postgresql://x",
        &[("PGHOST", "a"), ("PGHOSTADDR", "10.0.0.1")],
        &[("hosts", "x:5432")],
    ),
    ("postgresql://x", &[("PGPORT", "7")], &[("hosts", "x:7")]),
    ("postgresql://x:8", &[("PGPORT", "7")], &[("hosts", "x:8")]),
    (
        "postgresql://x:8,y",
        &[("PGPORT", "7")],
        &[("hosts", "x:8,y:5432")],
    ),
    ("postgresql://x,y", &[("PGPORT", "1,2")], &[("hosts", "x:1,y:2")]),
    ("port=8", &[("PGHOST", "a"), ("PGPORT", "7")], &[("hosts", "a:8")]),
    (
        "postgresql://x?hostaddr=10.0.0.1",
        &[("PGPORT", "7")],
        &[("hosts", "x(10.0.0.1):7")],
    ),
    (
        "user=me dbname=mine",
        &[("PGUSER", "app"), ("PGDATABASE", "shop")],
        &[("user", "me"), ("database", "mine")],
    ),
    (
        "application_name=svc",
        &[("PGAPPNAME", "other")],
        &[("application_name", "svc")],
    ),
    (
        "fallback_application_name=psql",
        &[("PGAPPNAME", "other")],
        &[("application_name", "other")],
    ),
    (
        "sslmode=disable",
        &[("PGSSLMODE", "allow")],
        &[("sslmode", "disable")],
    ),
    // each by its name
    (
        "postgresql://",
        &[
            ("PGUSER", "app"),
            ("PGDATABASE", "shop"),
            ("PGPASSWORD", "secret"),
        ],
        &[("user", "app"), ("database", "shop"), ("password", "redacted")],
    ),
    (
        "postgresql://",
        &[("PGUSER", "app")],
        &[("user", "app"), ("database", "app")],
    ),
    (
        "postgresql://",
        &[("PGOPTIONS", "-c geqo=off")],
        &[("options", "-c geqo=off")],
    ),
    (
        "postgresql://",
        &[("PGAPPNAME", "svc")],
        &[("application_name", "svc")],
    ),
    (
        "postgresql://",
        &[
            ("PGTARGETSESSIONATTRS", "standby"),
            ("PGLOADBALANCEHOSTS", "random"),
        ],
        &[
            ("target_session_attrs", "standby"),
            ("load_balance_hosts", "random"),
        ],
    ),
    (
        "postgresql://",
        &[("PGCONNECT_TIMEOUT", "3")],
        &[("connect_timeout", "3s")],
    ),
    (
        "postgresql://",
        &[("PGCONNECT_TIMEOUT", "0")],
        &[("connect_timeout", "36500d")],
    ),
    (
        "postgresql://",
        &[
            ("PGSSLMODE", "allow"),
            ("PGSSLNEGOTIATION", "postgres"),
            ("PGCHANNELBINDING", "disable"),
            ("PGSSLROOTCERT", "ca.pem"),
            ("PGSSLCERT", "me.pem"),
            ("PGSSLKEY", "me.key"),
        ],
        &[
            ("sslmode", "allow"),
            ("channel_binding", "disable"),
            ("sslrootcert", "ca.pem"),
            ("sslcert", "me.pem"),
            ("sslkey", "me.key"),
        ],
    ),
    (
        "postgresql://",
        &[
            ("PGCLIENTENCODING", "UTF8"),
            ("PGGSSENCMODE", "disable"),
            ("PGSSLSNI", "1"),
            ("PGSSLCOMPRESSION", "0"),
            ("PGSSLCERTMODE", "allow"),
            ("PGSSLMINPROTOCOLVERSION", "TLSv1.2"),
            ("PGSSLMAXPROTOCOLVERSION", "TLSv1.3"),
            ("PGMINPROTOCOLVERSION", "3.0"),
            ("PGMAXPROTOCOLVERSION", "latest"),
            ("PGGSSDELEGATION", "0"),
            ("PGSYSCONFDIR", "/etc"),
            ("PGLOCALEDIR", "/usr"),
        ],
        &[],
    ),
];

#[test]
fn what_is_not_given_comes_from_the_environment() {
    for (string, variables, expected) in ROWS {
        let given: Config = string.parse().expect("valid");
        let mut wanted = options(&given);
        for (name, value) in *expected {
            wanted.insert(name, (*value).to_owned());
        }
        let config = with(given, variables).unwrap_or_else(|error| panic!("{string} {variables:?}: {error}"));
        assert_eq!(options(&config), wanted, "{string} {variables:?}");
    }
}

#[test]
fn a_bad_variable_is_named_with_what_is_wrong() {
    let rows: &[(Variables, &str)] = &[
        (&[("PGPORT", "x")], "PGPORT invalid port=x"),
        (&[("PGPORT", "0")], "PGPORT invalid port=0"),
        (&[("PGHOSTADDR", "db")], "PGHOSTADDR invalid hostaddr=db"),
        (
            &[("PGCONNECT_TIMEOUT", "soon")],
            "PGCONNECT_TIMEOUT invalid connect_timeout=soon",
        ),
        (&[("PGSSLMODE", "on")], "PGSSLMODE invalid sslmode=on"),
        (
            &[("PGTARGETSESSIONATTRS", "master")],
            "PGTARGETSESSIONATTRS invalid target_session_attrs=master",
        ),
        (
            &[("PGCLIENTENCODING", "LATIN1")],
            "PGCLIENTENCODING later client_encoding",
        ),
        (&[("PGSERVICE", "db")], "PGSERVICE later service"),
        (&[("PGREQUIREAUTH", "none")], "PGREQUIREAUTH later require_auth"),
        (&[("PGREQUIREPEER", "x")], "PGREQUIREPEER later requirepeer"),
        (&[("PGREQUIRESSL", "1")], "PGREQUIRESSL later requiressl"),
        (&[("PGSSLCRL", "x")], "PGSSLCRL later sslcrl"),
        (&[("PGSSLCRLDIR", "x")], "PGSSLCRLDIR later sslcrldir"),
        (&[("PGKRBSRVNAME", "x")], "PGKRBSRVNAME later krbsrvname"),
        (&[("PGGSSLIB", "x")], "PGGSSLIB later gsslib"),
        (&[("PGTZ", "UTC")], "PGTZ later PGTZ"),
        (&[("PGDATESTYLE", "ISO")], "PGDATESTYLE later PGDATESTYLE"),
        (&[("PGGEQO", "off")], "PGGEQO later PGGEQO"),
        (
            &[("PGHOST", "a"), ("PGPORT", "1,2")],
            "url 2 ports do not fit 1 hosts: give one port for all or one for each",
        ),
        (
            &[("PGHOST", "a"), ("PGHOSTADDR", "10.0.0.1,10.0.0.2")],
            "url 2 addresses in hostaddr do not fit 1 hosts: there must be one for each, possibly empty",
        ),
    ];
    for (variables, expected) in rows {
        let error = with(Config::new(), variables).expect_err("a bad variable");
        assert_eq!(short(&error), *expected, "{variables:?}");
    }
    let error = with(Config::new(), &[("PGPORT", "x")]).expect_err("no port");
    assert_eq!(
        error.to_string(),
        "environment variable PGPORT: option port cannot be `x`: it takes a port number from 1 to 65535"
    );
}

#[test]
fn what_a_setter_gave_wins_even_if_it_is_the_default() {
    let config = Config::new()
        .user("app")
        .target_session_attrs(TargetSessionAttrs::Any)
        .load_balance_hosts(HostOrder::Listed)
        .application_name("pgsteer")
        .connect_timeout(std::time::Duration::from_secs(10))
        .ssl_mode(SslMode::Prefer);
    let expected = options(&config);
    let variables: Variables = &[
        ("PGUSER", "other"),
        ("PGTARGETSESSIONATTRS", "primary"),
        ("PGLOADBALANCEHOSTS", "random"),
        ("PGAPPNAME", "other"),
        ("PGCONNECT_TIMEOUT", "1"),
        ("PGSSLMODE", "disable"),
    ];
    assert_eq!(options(&with(config, variables).expect("valid")), expected);
}

#[test]
fn a_setter_wins_over_an_environment_read_before_it() {
    let config = with(Config::new(), &[("PGHOST", "a"), ("PGUSER", "app")]).expect("valid");
    let described = options(&config.hosts(["b"]).user("me"));
    assert_eq!(described["hosts"], "b:5432");
    assert_eq!(described["user"], "me");
}

#[test]
fn a_variable_that_counts_for_nothing_is_not_judged() {
    let config: Config = "postgresql://app@h:1".parse().expect("valid");
    assert!(with(config, &[("PGPORT", "x"), ("PGHOSTADDR", "x"), ("PGUSER", "a\0")]).is_ok());
}

#[test]
fn nothing_is_read_unless_it_is_asked_for() {
    // Cargo sets HOME and the like for tests, and this one variable is in every environment libpq users have; a
    // configuration without a request has libpq's defaults whatever the process's environment is.
    let described = options(&"postgresql://app@".parse::<Config>().expect("valid"));
    assert_eq!(described["hosts"], "localhost:5432");
    assert_eq!(described["password"], "");
}

#[test]
fn a_password_from_the_environment_is_printed_nowhere() {
    let config = with(Config::new().user("app"), &[("PGPASSWORD", "s3cret")]).expect("valid");
    let printed = format!(
        "{config:?} {} {}",
        config.describe().expect("valid"),
        config.to_url().expect("valid")
    );
    assert!(!printed.contains("s3cret"), "{printed}");
    let error = with(Config::new(), &[("PGPASSWORD", "s3cret\0")])
        .expect("judged later")
        .check()
        .expect_err("NUL");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}
