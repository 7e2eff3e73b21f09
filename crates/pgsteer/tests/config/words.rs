//! Other drivers' words in every kind of string: what they are in ours, what makes no difference, and what cannot be had.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use pgsteer::config::Config;

use crate::table::{Bad, Good, accepts, refuses};

const SAME_AS_OURS: &[Good] = &[
    // every spelling of the YugabyteDB drivers
    ("yugabytedb://?load_balance=true", &[("load_balance", "any")]),
    ("yugabytedb://?load-balance=true", &[("load_balance", "any")]),
    ("yugabytedb://?loadBalance=True", &[("load_balance", "any")]),
    (
        "yugabytedb://?loadBalance=Only-RR",
        &[("load_balance", "only-rr")],
    ),
    (
        "yugabytedb://?topologyKeys=a.b.c",
        &[("topology_keys", "a.b.c:1")],
    ),
    (
        "yugabytedb://?topology-keys=a.b.c",
        &[("topology_keys", "a.b.c:1")],
    ),
    (
        "yugabytedb://?fallbackToTopologyKeysOnly=true&topologyKeys=a.b.c",
        &[
            ("topology_keys", "a.b.c:1"),
            ("fallback_to_topology_keys_only", "true"),
        ],
    ),
    (
        "yugabytedb://?ybServersRefreshInterval=60",
        &[("yb_servers_refresh_interval", "60")],
    ),
    (
        "yugabytedb://?yb-servers-refresh-interval=60",
        &[("yb_servers_refresh_interval", "60")],
    ),
    (
        "yugabytedb://?failedHostReconnectDelaySecs=9",
        &[("failed_host_reconnect_delay_secs", "9")],
    ),
    (
        "host=h failed_host_ttl_seconds=9",
        &[("hosts", "h:5432"), ("failed_host_reconnect_delay_secs", "9")],
    ),
    // pgjdbc's in libpq's strings
    (
        "postgresql://?targetServerType=master",
        &[("target_session_attrs", "read-write")],
    ),
    (
        "target-server-type=preferSecondary",
        &[("target_session_attrs", "prefer-read-only")],
    ),
    (
        "postgresql://?ApplicationName=svc",
        &[("application_name", "svc")],
    ),
    (
        "postgresql://?application-name=svc",
        &[("application_name", "svc")],
    ),
    (
        "postgresql://?currentSchema=a b",
        &[("options", r"-c search_path=a\ b")],
    ),
    ("loginTimeout=7", &[("checkout_timeout", "7s")]),
    ("postgresql://?targetServerType=any&target_session_attrs=any", &[]),
    (
        "postgresql://?targetServerType=secondary&target_session_attrs=read-only",
        &[("target_session_attrs", "read-only")],
    ),
    ("hostRecheckSeconds=30 role_ttl=30s", &[("role_ttl", "30s")]),
];

/// Accepted, and nothing is different.
const NO_DIFFERENCE: &[&str] = &[
    "client_encoding=UTF8",
    "client_encoding=utf-8",
    "client_encoding=unicode",
    "gssencmode=disable",
    "gssencmode=prefer",
    "gssdelegation=0",
    "sslcompression=0",
    "sslcertmode=allow",
    "sslsni=1",
    "ssl_min_protocol_version=TLSv1.2",
    "ssl_min_protocol_version=TLSv1",
    "ssl_max_protocol_version=TLSv1.3",
    "min_protocol_version=3.0",
    "max_protocol_version=latest",
    "replication=false",
    "replication=0",
    "prepareThreshold=5",
    "preferQueryMode=extendedForPrepared",
    "autosave=NEVER",
    "protocolVersion=3",
    "allowEncodingChanges=false",
    "jaasLogin=false",
    "useSpnego=false",
];

const REFUSED: &[Bad] = &[
    ("client_encoding=LATIN1", "later client_encoding"),
    ("client_encoding=auto", "later client_encoding"),
    ("gssencmode=require", "later gssencmode"),
    ("gssdelegation=1", "later gssdelegation"),
    ("krbsrvname=postgres", "later krbsrvname"),
    ("gsslib=gssapi", "later gsslib"),
    ("requirepeer=postgres", "later requirepeer"),
    ("require_auth=none", "later require_auth"),
    ("min_protocol_version=3.2", "later min_protocol_version"),
    ("replication=database", "later replication"),
    ("service=db", "later service"),
    ("servicefile=x", "later servicefile"),
    ("passfile=x", "later passfile"),
    ("sslkeylogfile=x", "later sslkeylogfile"),
    ("requiressl=1", "later requiressl"),
    ("tty=x", "later tty"),
    ("authtype=x", "later authtype"),
    ("oauth_issuer=x", "later oauth_issuer"),
    ("scram_client_key=x", "later scram_client_key"),
    ("localSocketAddress=10.0.0.1", "later localSocketAddress"),
    ("tcpNoDelay=false", "later tcpNoDelay"),
    ("protocolVersion=2", "later protocolVersion"),
    ("kerberosServerName=postgres", "later kerberosServerName"),
    ("jaasApplicationName=x", "later jaasApplicationName"),
    ("sslhostnameverifier=x", "later sslhostnameverifier"),
    ("hostRecheckSeconds=1.5", "invalid hostRecheckSeconds=1.5"),
    (
        "failed_host_ttl_seconds=61",
        "invalid failed_host_reconnect_delay_secs=61",
    ),
    (
        "failed_host_ttl_seconds=5 failed_host_reconnect_delay_secs=6",
        "conflict failed_host_reconnect_delay_secs: failed_host_ttl_seconds, failed_host_reconnect_delay_secs",
    ),
    (
        "targetServerType=primary target_session_attrs=any",
        "conflict target_session_attrs: targetServerType, target_session_attrs",
    ),
    (
        "application_name=a ApplicationName=a",
        "duplicate application_name",
    ),
    (
        "target_session_attr=any",
        "unknown target_session_attr->target_session_attrs",
    ),
    ("aplicationname=x", "unknown aplicationname->application_name"),
    (
        "statement-cache-capacty=1",
        "unknown statement-cache-capacty->statement_cache_capacity",
    ),
];

#[test]
fn other_drivers_words_are_put_into_ours() {
    accepts(SAME_AS_OURS);
}

#[test]
fn what_makes_no_difference_is_accepted_in_silence() {
    let plain = Config::new().describe().expect("valid");
    for string in NO_DIFFERENCE {
        let config: Config = string
            .parse()
            .unwrap_or_else(|error| panic!("{string} is refused: {error}"));
        assert_eq!(config.describe().expect("valid"), plain, "{string}");
        assert!(config.without_effect().is_empty(), "{string}");
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    refuses(REFUSED);
}

#[test]
fn what_only_another_driver_has_to_tune_is_accepted_and_told() {
    let names = [
        "adaptiveFetch",
        "binaryTransfer",
        "databaseMetadataCacheFieldsMiB",
        "defaultRowFetchSize",
        "preparedStatementCacheQueries",
        "reWriteBatchedInserts",
        "stringtype",
        "statement_cache_capacity",
    ];
    for name in names {
        let config: Config = format!("jdbc:postgresql:?{name}=1").parse().expect("accepted");
        let told = config.without_effect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with(&format!("{name} has no effect: ")),
            "{told:?}"
        );
    }
}

#[test]
fn a_refusal_says_what_to_do_instead() {
    let rows = [
        (
            "ssl=true",
            "ssl: not a parameter of libpq; write sslmode=require or, to have the server checked as well, \
             sslmode=verify-full",
        ),
        (
            "targetServerType=primary target_session_attrs=any",
            "option target_session_attrs is given twice, as targetServerType and as target_session_attrs, and they do not \
             mean the same",
        ),
        (
            "sslcert=me.pem",
            "option sslkey cannot be ``: it takes the key of the certificate in sslcert; the one is of no use without the \
             other",
        ),
        (
            "targetServerTyp=master",
            "unknown option `targetServerTyp` (did you mean targetServerType?)",
        ),
    ];
    for (string, expected) in rows {
        let error = string.parse::<Config>().expect_err("refused");
        assert_eq!(error.to_string(), expected, "{string}");
    }
}
