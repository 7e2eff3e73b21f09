//! Options of TLS: their texts, the rules between them, and what a build without TLS says to them.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use pgsteer::config::{ChannelBinding, Config, ConfigError, Pem, RootCerts, SslMode, SslNegotiation};

use crate::table::{Bad, Good, accepts, refuses};

/// Whether this build can speak TLS.
const TLS: bool = cfg!(feature = "tls");
/// The mode without any option.
pub(crate) const DEFAULT_MODE: &str = if TLS { "prefer" } else { "disable" };

const ACCEPTED: &[Good] = &[
    ("postgresql://?sslmode=disable", &[("sslmode", "disable")]),
    ("postgresql://?sslmode=allow", &[("sslmode", "allow")]),
    ("postgresql://?sslmode=prefer", &[("sslmode", "prefer")]),
    ("postgresql://?ssl-mode=allow", &[("sslmode", "allow")]),
    ("jdbc:postgresql:?sslMode=allow", &[("sslmode", "allow")]),
    ("sslmode=prefer", &[("sslmode", "prefer")]),
    (
        "host=/tmp sslmode=prefer",
        &[("hosts", "/tmp:5432"), ("sslmode", "prefer")],
    ),
    ("postgresql://?sslrootcert=ca.pem", &[("sslrootcert", "ca.pem")]),
    (
        "postgresql://?ssl_root_cert=%2Fetc%2Fdb ca.pem",
        &[("sslrootcert", "/etc/db ca.pem")],
    ),
    ("sslrootcert='' sslcert='' sslkey=''", &[]),
    (
        "sslcert=me.pem sslkey=me.key",
        &[("sslcert", "me.pem"), ("sslkey", "me.key")],
    ),
    (
        "jdbc:postgresql:?sslcert=me.pem&sslkey=me.key&sslrootcert=ca.pem",
        &[
            ("sslcert", "me.pem"),
            ("sslkey", "me.key"),
            ("sslrootcert", "ca.pem"),
        ],
    ),
    ("ssl_server_name=db.example", &[("ssl_server_name", "db.example")]),
    (
        "postgresql://?sslServerName=10.0.0.1",
        &[("ssl_server_name", "10.0.0.1")],
    ),
    ("postgresql://?sslnegotiation=postgres", &[]),
    ("jdbc:postgresql:?sslNegotiation=postgres", &[]),
    (
        "postgresql://?channel_binding=disable",
        &[("channel_binding", "disable")],
    ),
    ("jdbc:postgresql:?channelBinding=prefer", &[]),
    (
        "jdbc:postgresql:?ssl=false&sslmode=disable",
        &[("sslmode", "disable")],
    ),
];

const ACCEPTED_WITH_TLS: &[Good] = &[
    ("postgresql://?sslmode=require", &[("sslmode", "require")]),
    (
        "host=/tmp sslmode=require",
        &[("hosts", "/tmp:5432"), ("sslmode", "require")],
    ),
    (
        "postgresql://?sslmode=verify-ca&sslrootcert=/ca.pem",
        &[("sslmode", "verify-ca"), ("sslrootcert", "/ca.pem")],
    ),
    ("sslmode=verify-full", &[("sslmode", "verify-full")]),
    // What `ssl=true` means is decided by the kind of string.
    ("postgresql://?ssl=true", &[("sslmode", "require")]),
    ("yugabytedb://?ssl=true", &[("sslmode", "require")]),
    (
        "postgresql://?ssl=true&sslmode=verify-ca&sslrootcert=/ca.pem",
        &[("sslmode", "verify-ca"), ("sslrootcert", "/ca.pem")],
    ),
    (
        "postgresql://?sslmode=verify-full&ssl=true",
        &[("sslmode", "verify-full")],
    ),
    ("jdbc:postgresql:?ssl=true", &[("sslmode", "verify-full")]),
    ("jdbc:postgresql:?ssl", &[("sslmode", "verify-full")]),
    ("jdbc:yugabytedb:?ssl=true", &[("sslmode", "verify-full")]),
    (
        "jdbc:postgresql:?ssl=true&sslmode=require",
        &[("sslmode", "require")],
    ),
    (
        "sslrootcert=system",
        &[("sslrootcert", "system"), ("sslmode", "verify-full")],
    ),
    (
        "postgresql://?sslrootcert=system&sslmode=verify-full",
        &[("sslrootcert", "system"), ("sslmode", "verify-full")],
    ),
    (
        "postgresql://?sslmode=require&sslnegotiation=direct",
        &[("sslmode", "require"), ("sslnegotiation", "direct")],
    ),
    ("channel_binding=require", &[("channel_binding", "require")]),
    (
        "channel_binding=require sslmode=require",
        &[("channel_binding", "require"), ("sslmode", "require")],
    ),
];

const REFUSED: &[Bad] = &[
    ("postgresql://?sslmode=yes", "invalid sslmode=yes"),
    ("postgresql://?sslmode=", "invalid sslmode="),
    ("postgresql://?sslmode=REQUIRE", "invalid sslmode=REQUIRE"),
    ("postgresql://?ssl=yes", "invalid ssl=yes"),
    ("postgresql://?ssl=false", "invalid ssl=false"),
    ("ssl=true", "later ssl"),
    (
        "postgresql://?ssl=true&sslmode=prefer",
        "conflict sslmode: sslmode, ssl",
    ),
    (
        "jdbc:postgresql:?ssl=true&sslmode=disable",
        "conflict sslmode: sslmode, ssl",
    ),
    ("jdbc:postgresql:?ssl=1", "invalid ssl=1"),
    ("sslnegotiation=direct", "invalid sslnegotiation=direct"),
    (
        "sslnegotiation=direct sslmode=prefer",
        "invalid sslnegotiation=direct",
    ),
    ("sslnegotiation=tls", "invalid sslnegotiation=tls"),
    ("channel_binding=always", "invalid channel_binding=always"),
    ("sslcert=me.pem", "invalid sslkey="),
    ("sslkey=me.key", "invalid sslcert="),
    ("sslcert=me.pem sslkey=''", "invalid sslkey="),
    ("sslrootcert=system sslmode=prefer", "invalid sslmode=prefer"),
    (
        "sslrootcert=system sslmode=verify-ca",
        "invalid sslmode=verify-ca",
    ),
    (
        "sslrootcert='-----BEGIN CERTIFICATE-----'",
        "invalid sslrootcert=redacted",
    ),
    (
        "sslcert=a sslkey='-----BEGIN PRIVATE KEY-----'",
        "invalid sslkey=redacted",
    ),
    ("sslrootcert=a\0", "invalid sslrootcert="),
    ("host=/tmp sslmode=verify-ca", "invalid sslmode=verify-ca"),
    ("host=db,/tmp sslmode=verify-full", "invalid sslmode=verify-full"),
    (
        "host=/tmp channel_binding=require",
        "invalid channel_binding=require",
    ),
    ("ssl_server_name=''", "invalid ssl_server_name="),
    ("ssl_server_name='a b'", "invalid ssl_server_name=a b"),
    (
        "ssl_server_name=postgresql://x",
        "invalid ssl_server_name=text that may hold a secret (not shown)",
    ),
    ("sslpassword=x", "later sslpassword"),
    ("sslcrl=revoked.pem", "later sslcrl"),
    ("sslcrldir=revoked", "later sslcrldir"),
    ("sslsni=0", "later sslsni"),
    ("sslcompression=1", "later sslcompression"),
    ("sslcertmode=require", "later sslcertmode"),
    (
        "ssl_min_protocol_version=TLSv1.3",
        "later ssl_min_protocol_version",
    ),
    (
        "ssl_max_protocol_version=TLSv1.2",
        "later ssl_max_protocol_version",
    ),
    ("require_auth=scram-sha-256", "later require_auth"),
    ("sslrootcrt=ca.pem", "unknown sslrootcrt->sslrootcert"),
];

const REFUSED_WITH_TLS: &[Bad] = &[
    (
        "channel_binding=require sslmode=disable",
        "invalid channel_binding=require",
    ),
    ("sslmode=verify-ca", "invalid sslmode=verify-ca"),
];

const REFUSED_WITHOUT_TLS: &[Bad] = &[
    ("postgresql://?sslmode=require", "later sslmode=require"),
    ("sslmode=verify-ca", "later sslmode=verify-ca"),
    ("jdbc:postgresql:?ssl=true", "later sslmode=verify-full"),
    ("postgresql://?ssl=true", "later sslmode=require"),
    ("sslrootcert=system", "later sslmode=verify-full"),
    ("channel_binding=require", "later channel_binding=require"),
    (
        "channel_binding=require sslmode=disable",
        "later channel_binding=require",
    ),
];

#[test]
fn options_of_tls_are_read_in_every_kind_of_string() {
    accepts(ACCEPTED);
    if TLS {
        accepts(ACCEPTED_WITH_TLS);
    }
}

#[test]
fn options_of_tls_that_do_not_go_together_are_refused() {
    refuses(REFUSED);
    refuses(if TLS {
        REFUSED_WITH_TLS
    } else {
        REFUSED_WITHOUT_TLS
    });
}

#[test]
fn the_setters_mean_the_same_as_the_texts() {
    let from_setters = Config::new()
        .ssl_mode(SslMode::Allow)
        .ssl_negotiation(SslNegotiation::Postgres)
        .channel_binding(ChannelBinding::Disable)
        .ssl_root_cert(Pem::File("ca.pem".into()))
        .ssl_client_cert(Pem::File("me.pem".into()))
        .ssl_client_key(Pem::File("me.key".into()))
        .ssl_server_name("db");
    let from_text: Config =
        "sslmode=allow sslnegotiation=postgres channel_binding=disable sslrootcert=ca.pem \
                             sslcert=me.pem sslkey=me.key ssl_server_name=db"
            .parse()
            .expect("valid");
    assert_eq!(
        from_setters.describe().expect("valid"),
        from_text.describe().expect("valid")
    );
}

#[test]
fn what_was_set_can_be_unset() {
    let config = Config::new()
        .ssl_root_cert(Pem::File("ca.pem".into()))
        .ssl_root_cert(RootCerts::Unset)
        .ssl_client_cert(Pem::File("me.pem".into()))
        .ssl_client_cert(None);
    assert_eq!(
        config.describe().expect("valid"),
        Config::new().describe().expect("valid")
    );
}

#[test]
fn what_is_given_as_bytes_is_neither_shown_nor_printed() {
    let bytes = |text: &str| Pem::Bytes(text.as_bytes().into());
    let config = Config::new()
        .user("app")
        .ssl_mode(SslMode::Prefer)
        .ssl_root_cert(bytes("s3cret roots"))
        .ssl_client_cert(Pem::File("me.pem".into()))
        .ssl_client_key(bytes("s3cret key"));
    let description = config.describe().expect("valid");
    for name in ["sslrootcert", "sslkey"] {
        assert_eq!(description.get(name).expect("an option").to_string(), "redacted");
    }
    let url = config.to_url().expect("valid");
    assert!(
        !url.contains("sslkey") && !url.contains("sslcert") && !url.contains("redacted"),
        "{url}"
    );
    assert!(url.parse::<Config>().is_ok(), "{url}");
    let printed = format!("{config:?} {description} {description:?} {url}");
    assert!(
        !printed.contains("s3cret") && !printed.contains("115, 51, 99"),
        "{printed}"
    );
}

#[test]
fn every_mode_reads_back_from_its_text() {
    for mode in [
        "disable",
        "allow",
        "prefer",
        "require",
        "verify-ca",
        "verify-full",
    ] {
        let read = SslMode::parse_text(mode).expect("a mode");
        assert_eq!(read.to_string(), mode);
    }
    assert_eq!(SslMode::parse_text("no"), None);
    assert!(SslMode::VerifyCa.insists() && !SslMode::Prefer.insists());
}

#[test]
fn a_build_without_tls_names_the_feature() {
    if TLS {
        assert!(Config::new().ssl_mode(SslMode::Require).check().is_ok());
        return;
    }
    let error = Config::new()
        .ssl_mode(SslMode::Require)
        .check()
        .expect_err("no TLS");
    assert!(matches!(error, ConfigError::NotInThisVersion { .. }), "{error:?}");
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}
