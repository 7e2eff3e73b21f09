//! Connection strings, one row each: the string, and the options that differ from the family's defaults or what is wrong
//! with it.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use pgsteer::config::{Config, ConfigError};

/// The options of a description as text, without those that have no value.
fn options(config: &Config) -> BTreeMap<&'static str, String> {
    let description = config.describe().expect("the row's configuration is valid");
    description
        .iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

/// What a string without any option means, changed by a row.
fn expected(url: &str, changes: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
    let plain = if url.starts_with("yugabytedb:") {
        Config::yugabyte()
    } else {
        Config::new()
    };
    let mut expected = options(&plain);
    for (name, value) in changes {
        assert!(expected.contains_key(name), "{name} is an option");
        expected.insert(name, (*value).to_owned());
        // Two defaults follow another option.
        match *name {
            "user" => expected.insert("database", (*value).to_owned()),
            "pool_size" => expected.insert("min_idle", (*value).to_owned()),
            _ => None,
        };
    }
    expected
}

/// An error in short: its kind, the option, the value.
fn short(error: &ConfigError) -> String {
    match error {
        ConfigError::UnknownOptions { names } => {
            let names = names.iter().map(|unknown| match unknown.nearest {
                Some(nearest) => format!("{}->{nearest}", unknown.name),
                None => unknown.name.clone(),
            });
            format!("unknown {}", names.collect::<Vec<_>>().join(" "))
        }
        ConfigError::InvalidOption { name, value, .. } => format!("invalid {name}={value}"),
        ConfigError::DuplicateOption { name } => format!("duplicate {name}"),
        ConfigError::InvalidTopologyKey { part } => format!("key {part}"),
        ConfigError::InvalidUrl { reason } => format!("url {reason}"),
        ConfigError::NotInThisVersion { name, .. } => format!("later {name}"),
        other => panic!("a kind of error the table does not know: {other:?}"),
    }
}

type Good = (&'static str, &'static [(&'static str, &'static str)]);

const HOSTS: &[Good] = &[
    ("postgresql://?&", &[]),
    ("postgresql://", &[]),
    ("postgres://", &[]),
    ("yugabytedb://", &[]),
    ("postgresql:///", &[]),
    ("postgresql://?", &[]),
    ("postgresql:///?", &[]),
    ("postgresql://db1", &[("hosts", "db1:5432")]),
    ("postgresql://db1/", &[("hosts", "db1:5432")]),
    ("yugabytedb://db1", &[("hosts", "db1:5433")]),
    ("postgresql://db1:6000", &[("hosts", "db1:6000")]),
    ("postgresql://db1:65535", &[("hosts", "db1:65535")]),
    ("postgresql://db1:0006000", &[("hosts", "db1:6000")]),
    ("postgresql://db1:", &[("hosts", "db1:5432")]),
    ("postgresql://:6000", &[("hosts", "localhost:6000")]),
    (
        "postgresql://:6000/db",
        &[("hosts", "localhost:6000"), ("database", "db")],
    ),
    ("postgresql://h1,h2", &[("hosts", "h1:5432,h2:5432")]),
    (
        "postgresql://h1:1,h2/db",
        &[("hosts", "h1:1,h2:5432"), ("database", "db")],
    ),
    ("postgresql://h1,h2:2", &[("hosts", "h1:5432,h2:2")]),
    ("yugabytedb://h1:1,h2,h3:3", &[("hosts", "h1:1,h2:5433,h3:3")]),
    ("postgresql://h1,h1", &[("hosts", "h1:5432,h1:5432")]),
    ("postgresql://DB1.Example", &[("hosts", "DB1.Example:5432")]),
    ("postgresql://10.0.0.1:5000", &[("hosts", "10.0.0.1:5000")]),
    ("postgresql://[::1]", &[("hosts", "[::1]:5432")]),
    (
        "postgresql://[::1]:5433/db",
        &[("hosts", "[::1]:5433"), ("database", "db")],
    ),
    (
        "postgresql://[2001:db8::1],[2001:db8::2]:7",
        &[("hosts", "[2001:db8::1]:5432,[2001:db8::2]:7")],
    ),
    (
        "postgresql://%2Fvar%2Frun%2Fpostgresql/db",
        &[("hosts", "/var/run/postgresql:5432"), ("database", "db")],
    ),
    ("postgresql://%2Ftmp:6000", &[("hosts", "/tmp:6000")]),
    ("postgresql://d%C3%A9p%C3%B4t", &[("hosts", "dépôt:5432")]),
    ("postgresql://dépôt", &[("hosts", "dépôt:5432")]),
    ("postgresql://h%2C1", &[("hosts", "h,1:5432")]),
    ("postgresql://h:%36000", &[("hosts", "h:6000")]),
    ("postgresql://?host=a", &[("hosts", "a:5432")]),
    ("postgresql:///?host=a,b", &[("hosts", "a:5432,b:5432")]),
    (
        "postgresql:///db?host=a,b&port=1,2",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    (
        "postgresql:///db?port=1,2&host=a,b",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    (
        "postgresql://h1,h2/db?port=1,2",
        &[("hosts", "h1:1,h2:2"), ("database", "db")],
    ),
    (
        "postgresql://h1,h2/db?port=7",
        &[("hosts", "h1:7,h2:7"), ("database", "db")],
    ),
    (
        "postgresql://u@h1:1,h2/db?port=5",
        &[("user", "u"), ("hosts", "h1:5,h2:5"), ("database", "db")],
    ),
    ("postgresql://h1,h2?port=,2", &[("hosts", "h1:5432,h2:2")]),
    ("postgresql://h1:1,h2:2/?host=a,b", &[("hosts", "a:1,b:2")]),
    ("postgresql://h1:1/?host=a,b", &[("hosts", "a:1,b:1")]),
    (
        "postgresql://x:9/db?host=a,b&port=1,2",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    ("postgresql://h1,h2?host=a", &[("hosts", "a:5432")]),
    ("postgresql://?port=6000", &[("hosts", "localhost:6000")]),
    ("postgresql://?host=%2Ftmp", &[("hosts", "/tmp:5432")]),
    ("postgresql://?host=/tmp", &[("hosts", "/tmp:5432")]),
    ("postgresql://?host=::1", &[("hosts", "[::1]:5432")]),
    ("postgresql://?hosts=a,b", &[("hosts", "a:5432,b:5432")]),
];

const LOGINS: &[Good] = &[
    ("postgresql://app@h", &[("user", "app"), ("hosts", "h:5432")]),
    ("postgresql://app@", &[("user", "app")]),
    ("postgresql://app@/db", &[("user", "app"), ("database", "db")]),
    ("postgresql://@h", &[("hosts", "h:5432")]),
    ("postgresql://app:@h", &[("user", "app"), ("hosts", "h:5432")]),
    (
        "postgresql://app:secret@h/db",
        &[
            ("user", "app"),
            ("password", "redacted"),
            ("hosts", "h:5432"),
            ("database", "db"),
        ],
    ),
    (
        "postgresql://:secret@h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:a:b:c@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:%40%2F%3F%25@h:1",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:1")],
    ),
    (
        "postgresql://app:%FF%FE@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:p+w@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    ("postgresql://a%40b@h", &[("user", "a@b"), ("hosts", "h:5432")]),
    ("postgresql://a%3Ab@h", &[("user", "a:b"), ("hosts", "h:5432")]),
    ("postgresql://a+b@h", &[("user", "a+b"), ("hosts", "h:5432")]),
    (
        "postgresql://donn%C3%A9es@h",
        &[("user", "données"), ("hosts", "h:5432")],
    ),
    (
        "yugabytedb://app@h/db",
        &[("user", "app"), ("hosts", "h:5433"), ("database", "db")],
    ),
    ("yugabytedb://h/db", &[("hosts", "h:5433"), ("database", "db")]),
    (
        "postgresql://h/my%20db",
        &[("hosts", "h:5432"), ("database", "my db")],
    ),
    (
        "postgresql://h/donn%C3%A9es",
        &[("hosts", "h:5432"), ("database", "données")],
    ),
    (
        "postgresql://h/a%2Fb",
        &[("hosts", "h:5432"), ("database", "a/b")],
    ),
    ("postgresql://h/a/b", &[("hosts", "h:5432"), ("database", "a/b")]),
    (
        "postgresql://h/a%3Fb",
        &[("hosts", "h:5432"), ("database", "a?b")],
    ),
    (
        "postgresql://h/db@x",
        &[("hosts", "h:5432"), ("database", "db@x")],
    ),
    ("postgresql://h?user=app", &[("hosts", "h:5432"), ("user", "app")]),
    (
        "postgresql://h?username=app",
        &[("hosts", "h:5432"), ("user", "app")],
    ),
    (
        "postgresql://app@h?user=other",
        &[("hosts", "h:5432"), ("user", "other")],
    ),
    (
        "postgresql://h/a?dbname=b",
        &[("hosts", "h:5432"), ("database", "b")],
    ),
    (
        "postgresql://h/a?database=b",
        &[("hosts", "h:5432"), ("database", "b")],
    ),
    (
        "postgresql://h?password=secret",
        &[("hosts", "h:5432"), ("password", "redacted")],
    ),
    ("postgresql://h?user=", &[("hosts", "h:5432"), ("user", "")]),
    ("postgresql://h?user=a@b", &[("hosts", "h:5432"), ("user", "a@b")]),
    (
        "postgresql://h?application_name=a@b",
        &[("hosts", "h:5432"), ("application_name", "a@b")],
    ),
    (
        "postgresql://h/?application_name=svc%20one",
        &[("hosts", "h:5432"), ("application_name", "svc one")],
    ),
    (
        "postgresql://h/?application_name=",
        &[("hosts", "h:5432"), ("application_name", "")],
    ),
    (
        "postgresql://h/?application_name=a+b",
        &[("hosts", "h:5432"), ("application_name", "a+b")],
    ),
    (
        "postgresql://h?options=-c%20geqo%3Doff",
        &[("hosts", "h:5432"), ("options", "-c geqo=off")],
    ),
    (
        "postgresql://h?options=-c geqo=off",
        &[("hosts", "h:5432"), ("options", "-c geqo=off")],
    ),
    (
        "postgresql://h?target_session_attrs=read-write",
        &[("hosts", "h:5432"), ("target_session_attrs", "read-write")],
    ),
    ("postgresql://h?target_session_attrs=any", &[("hosts", "h:5432")]),
];

const VALUES: &[Good] = &[
    ("postgresql://?connect_timeout=3", &[("connect_timeout", "3s")]),
    (
        "postgresql://?connect_timeout=1500ms",
        &[("connect_timeout", "1500ms")],
    ),
    ("postgresql://?connect-timeout=60", &[("connect_timeout", "1min")]),
    (
        "postgresql://?statement_timeout=2500",
        &[("statement_timeout", "2500ms")],
    ),
    (
        "postgresql://?statement_timeout=0",
        &[("statement_timeout", "0ms")],
    ),
    (
        "postgresql://?statement_timeout=2147483647",
        &[("statement_timeout", "2147483647ms")],
    ),
    ("postgresql://?statement_timeout=none", &[]),
    (
        "postgresql://?tcp_user_timeout=3000",
        &[("tcp_user_timeout", "3s")],
    ),
    (
        "postgresql://?tcp_user_timeout=0",
        &[("tcp_user_timeout", "none")],
    ),
    (
        "postgresql://?tcp_user_timeout=none",
        &[("tcp_user_timeout", "none")],
    ),
    (
        "postgresql://?keepalives_idle=60&keepalives_interval=5",
        &[("keepalives_idle", "1min"), ("keepalives_interval", "5s")],
    ),
    ("postgresql://?keepalives_count=5", &[("keepalives_count", "5")]),
    ("postgresql://?keepalives_retries=5", &[("keepalives_count", "5")]),
    (
        "postgresql://?keepalives=0",
        &[
            ("keepalives", "false"),
            ("keepalives_idle", ""),
            ("keepalives_interval", ""),
            ("keepalives_count", ""),
        ],
    ),
    ("postgresql://?keepalives=1", &[]),
    ("postgresql://?load_balance=true", &[("load_balance", "any")]),
    ("postgresql://?load-balance=ANY", &[("load_balance", "any")]),
    ("postgresql://?load_balance=false", &[]),
    (
        "postgresql://?load_balance=only-primary",
        &[("load_balance", "only-primary")],
    ),
    (
        "postgresql://?load_balance=Only-RR",
        &[("load_balance", "only-rr")],
    ),
    (
        "postgresql://?load_balance=Prefer-Primary",
        &[("load_balance", "prefer-primary")],
    ),
    (
        "postgresql://?load_balance=prefer-rr",
        &[("load_balance", "prefer-rr")],
    ),
    (
        "postgresql://?topology_keys=gcp.us-east1.*",
        &[("topology_keys", "gcp.us-east1.*:1")],
    ),
    (
        "yugabytedb://?topology-keys=GCP.us-east1.us-east1-b:1,%20gcp.us-east1.*:2",
        &[("topology_keys", "gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2")],
    ),
    ("postgresql://?topology_keys=", &[]),
    (
        "postgresql://?fallback-to-topology-keys-only=true",
        &[("fallback_to_topology_keys_only", "true")],
    ),
    ("postgresql://?fallback_to_topology_keys_only=OFF", &[]),
    (
        "postgresql://?yb_servers_refresh_interval=0",
        &[("yb_servers_refresh_interval", "0")],
    ),
    (
        "postgresql://?yb-servers-refresh-interval=600",
        &[("yb_servers_refresh_interval", "600")],
    ),
    (
        "postgresql://?failed_host_reconnect_delay_secs=0",
        &[("failed_host_reconnect_delay_secs", "0")],
    ),
    (
        "postgresql://?failed-host-reconnect-delay-secs=60",
        &[("failed_host_reconnect_delay_secs", "60")],
    ),
    (
        "postgresql://?failed_host_max_delay_secs=5",
        &[("failed_host_max_delay_secs", "5")],
    ),
    ("postgresql://?failed_host_max_delay_secs=none", &[]),
    ("postgresql://?pool_size=20", &[("pool_size", "20")]),
    (
        "postgresql://?pool-size=20&min-idle=4",
        &[("pool_size", "20"), ("min_idle", "4")],
    ),
    ("postgresql://?min_idle=0", &[("min_idle", "0")]),
    ("postgresql://?idle_timeout=5min", &[("idle_timeout", "5min")]),
    ("postgresql://?idle_timeout=60000", &[("idle_timeout", "1min")]),
    ("postgresql://?idle_timeout=None", &[]),
    (
        "postgresql://?max_lifetime=1h&lifetime_jitter=0",
        &[("max_lifetime", "1h"), ("lifetime_jitter", "0ms")],
    ),
    (
        "postgresql://?rebalance_interval=100&rebalance_batch=9",
        &[("rebalance_interval", "100ms"), ("rebalance_batch", "9")],
    ),
    (
        "postgresql://?checkout_timeout=250ms",
        &[("checkout_timeout", "250ms")],
    ),
    (
        "postgresql://?checkout_timeout=none",
        &[("checkout_timeout", "none")],
    ),
    ("postgresql://?checkout_timeout=0", &[("checkout_timeout", "0ms")]),
    ("postgresql://?max_dials=1", &[("max_dials", "1")]),
    (
        "postgresql://?return_cancel_after=1s&return_timeout=2s",
        &[("return_cancel_after", "1s"), ("return_timeout", "2s")],
    ),
    ("postgresql://?leak_threshold=1d", &[("leak_threshold", "1d")]),
    ("postgresql://?record_holders=on", &[("record_holders", "true")]),
    ("postgresql://?sslmode=disable", &[]),
    ("postgresql://?sslmode=allow", &[]),
    ("postgresql://?sslmode=prefer", &[]),
    ("postgresql://?pool%5Fsize=3", &[("pool_size", "3")]),
    ("postgresql://?pool_size=%33", &[("pool_size", "3")]),
    ("postgresql://?pool_size=3&", &[("pool_size", "3")]),
];

/// For the kind `url` the row holds a part of the reason.
const ERRORS: &[(&str, &str)] = &[
    ("", "url it must start with postgresql://"),
    ("db1", "url it must start with"),
    ("mysql://h/db", "url it must start with"),
    ("postgresql:/h/db", "url it must start with"),
    ("POSTGRESQL://h/db", "url it must start with"),
    (" postgresql://h", "url it must start with"),
    ("jdbc:postgresql://h/db", "later JDBC URLs"),
    ("jdbc:yugabytedb://h/db?load-balance=true", "later JDBC URLs"),
    ("host=h dbname=db", "later key=value connection strings"),
    ("host = 'h'", "later key=value connection strings"),
    // hosts and ports
    ("postgresql://h:0", "url a port is not a number from 1 to 65535"),
    ("postgresql://h:65536", "url a port is not a number"),
    ("postgresql://h:-1", "url a port is not a number"),
    ("postgresql://h:+5", "url a port is not a number"),
    ("postgresql://h: 5", "url a port is not a number"),
    ("postgresql://h:5432x/db", "url a port is not a number"),
    ("postgresql://h1:1,h2:x", "url a port is not a number"),
    ("postgresql://::1/db", "url a host has two colons"),
    (
        "postgresql://[::1/db",
        "url a bracket before an IPv6 address is not closed",
    ),
    (
        "postgresql://[]:5/db",
        "url there is no address between the brackets",
    ),
    (
        "postgresql://[::1]x/db",
        "url only a port can follow an address in brackets",
    ),
    ("postgresql://h1,,h2", "invalid hosts="),
    ("postgresql://h1,", "invalid hosts="),
    ("postgresql://,", "invalid hosts="),
    ("postgresql://db%FF", "url a host is not percent-encoded UTF-8"),
    ("postgresql://db%0", "url a host is not percent-encoded UTF-8"),
    (
        "postgresql://db%00",
        "invalid hosts=text that may hold a secret (not shown)",
    ),
    ("postgresql://[fe80::1%25eth0]", "later hosts=fe80::1%eth0"),
    ("postgresql://?host=a,fe80::1%25lo", "later hosts=fe80::1%lo"),
    (
        "postgresql://?host=a/b",
        "invalid hosts=text that may hold a secret (not shown)",
    ),
    ("postgresql://?host=", "invalid hosts="),
    ("postgresql://?host=a,,b", "invalid hosts="),
    ("postgresql://?host=db%FF", "invalid hosts=db\u{fffd}"),
    ("postgresql://?port=0", "invalid port=0"),
    ("postgresql://?port=65536", "invalid port=65536"),
    ("postgresql://?port=a", "invalid port=a"),
    ("postgresql://?host=a&port=1,2", "url 2 ports do not fit 1 hosts"),
    (
        "postgresql://h1:1,h2:2,h3:3/?host=a,b",
        "url 3 ports do not fit 2 hosts",
    ),
    ("postgresql://?port=1,2", "url 2 ports do not fit 0 hosts"),
    // credentials and database
    ("postgresql://u%zz@h", "url the user is not percent-encoded UTF-8"),
    (
        "postgresql://caf%E9@h",
        "url the user is not percent-encoded UTF-8",
    ),
    ("postgresql://u%00@h", "invalid user=u\0"),
    ("postgresql://u:%g1@h", "url a % in the password is not followed"),
    ("postgresql://u:x%@h", "url a % in the password is not followed"),
    ("postgresql://u:a%00b@h", "invalid password=redacted"),
    (
        "postgresql://u:p@ss@h",
        "url an @ in a user, a password or a host must be written %40",
    ),
    ("postgresql://u:pa/ss@h/db", "url a port is not a number"),
    ("postgresql://u:pa?ss@h/db", "url a port is not a number"),
    (
        "postgresql://h/db%FF",
        "url the database is not percent-encoded UTF-8",
    ),
    (
        "postgresql://h/db%0",
        "url the database is not percent-encoded UTF-8",
    ),
    ("postgresql://h/d%00", "invalid database=d\0"),
    ("postgresql://?dbname=app%C3", "invalid database=app\u{fffd}"),
    ("postgresql://?user=caf%E9", "invalid user=caf\u{fffd}"),
    (
        "postgresql://?application_name=a%00",
        "invalid application_name=a\0",
    ),
    ("postgresql://?options=%00", "invalid options=\0"),
    ("postgresql://?password=a%00", "invalid password=redacted"),
    // the form of the options
    (
        "postgresql://?pool_size",
        "url an option has no = between name and value",
    ),
    ("postgresql://?pool_size=1&&min_idle=1", "url an option has no ="),
    ("postgresql://?=1", "unknown "),
    (
        "postgresql://?pool_size=%3",
        "url a % in an option is not followed",
    ),
    (
        "postgresql://?pool%zz=1",
        "url the name of an option is not percent-encoded UTF-8",
    ),
    (
        "postgresql://h/db?pool_szie=1#frag@x",
        "url something is wrong behind the hosts",
    ),
    // names
    ("postgresql://?pool_szie=5", "unknown pool_szie->pool_size"),
    (
        "postgresql://?zzz=1&pasword=x&aaa=",
        "unknown aaa pasword->password zzz",
    ),
    ("postgresql://?pool_size=x&nope=1", "unknown nope"),
    ("postgresql://?Pool_Size=5", "unknown Pool_Size->pool_size"),
    (
        "postgresql://?health_check_interval=5000",
        "unknown health_check_interval",
    ),
    (
        "postgresql://?health_check_timeout=5000",
        "unknown health_check_timeout",
    ),
    ("postgresql://?connect_attempts=3", "unknown connect_attempts"),
    ("postgresql://?after_connect=SELECT", "unknown after_connect"),
    ("postgresql://?socket_timeout=5", "unknown socket_timeout"),
    ("postgresql://?hostaddr=10.0.0.1", "unknown hostaddr"),
    ("postgresql://?targetServerTyp=primary", "unknown targetServerTyp"),
    ("postgresql://?pool_size=1&pool_size=1", "duplicate pool_size"),
    ("postgresql://?pool_size=1&pool-size=2", "duplicate pool_size"),
    ("postgresql://?user=a&username=b", "duplicate user"),
    ("postgresql://?dbname=a&database=b", "duplicate database"),
    (
        "postgresql://?keepalives_count=1&keepalives_retries=1",
        "duplicate keepalives_count",
    ),
    // TLS
    ("postgresql://?sslmode=require", "later sslmode=require"),
    ("postgresql://?sslmode=verify-ca", "later sslmode=verify-ca"),
    ("postgresql://?sslmode=verify-full", "later sslmode=verify-full"),
    ("postgresql://?sslmode=yes", "invalid sslmode=yes"),
    ("postgresql://?sslmode=", "invalid sslmode="),
    ("postgresql://?ssl=true", "later ssl"),
    ("postgresql://?sslrootcert=ca.pem", "later sslrootcert"),
    (
        "postgresql://?ssl-min-protocol-version=TLSv1.3",
        "later ssl-min-protocol-version",
    ),
    // values
    ("postgresql://?connect_timeout=0", "invalid connect_timeout=0"),
    ("postgresql://?connect_timeout=-1", "invalid connect_timeout=-1"),
    ("postgresql://?connect_timeout=1.5", "invalid connect_timeout=1.5"),
    (
        "postgresql://?connect_timeout=none",
        "invalid connect_timeout=none",
    ),
    ("postgresql://?connect_timeout=", "invalid connect_timeout="),
    (
        "postgresql://?connect_timeout=36501d",
        "invalid connect_timeout=36501d",
    ),
    (
        "postgresql://?connect_timeout=99999999999999999999",
        "invalid connect_timeout=99999999999999999999",
    ),
    (
        "postgresql://?statement_timeout=2147483648",
        "invalid statement_timeout=2147483648ms",
    ),
    (
        "postgresql://?statement_timeout=1us",
        "invalid statement_timeout=1us",
    ),
    (
        "postgresql://?tcp_user_timeout=2147483648",
        "invalid tcp_user_timeout=2147483648ms",
    ),
    ("postgresql://?keepalives=maybe", "invalid keepalives=maybe"),
    ("postgresql://?keepalives_idle=0", "invalid keepalives_idle=0"),
    (
        "postgresql://?keepalives_idle=32768",
        "invalid keepalives_idle=32768",
    ),
    (
        "postgresql://?keepalives_interval=500ms",
        "invalid keepalives_interval=500ms",
    ),
    ("postgresql://?keepalives_count=0", "invalid keepalives_count=0"),
    (
        "postgresql://?keepalives_count=128",
        "invalid keepalives_count=128",
    ),
    (
        "postgresql://?load_balance=sometimes",
        "invalid load_balance=sometimes",
    ),
    (
        "postgresql://?load_balance=only_primary",
        "invalid load_balance=only_primary",
    ),
    ("postgresql://?load_balance=", "invalid load_balance="),
    ("postgresql://?topology_keys=nope", "key nope"),
    ("postgresql://?topology_keys=a.b.c,gcp..z", "key gcp..z"),
    ("postgresql://?topology_keys=a.b.c:11", "key a.b.c:11"),
    (
        "postgresql://?fallback_to_topology_keys_only=2",
        "invalid fallback_to_topology_keys_only=2",
    ),
    (
        "postgresql://?yb_servers_refresh_interval=601",
        "invalid yb_servers_refresh_interval=601",
    ),
    (
        "postgresql://?yb_servers_refresh_interval=-1",
        "invalid yb_servers_refresh_interval=-1",
    ),
    (
        "postgresql://?yb_servers_refresh_interval=1.5",
        "invalid yb_servers_refresh_interval=1.5",
    ),
    (
        "postgresql://?yb_servers_refresh_interval=30s",
        "invalid yb_servers_refresh_interval=30s",
    ),
    (
        "postgresql://?failed_host_reconnect_delay_secs=61",
        "invalid failed_host_reconnect_delay_secs=61",
    ),
    (
        "postgresql://?failed_host_reconnect_delay_secs=-1",
        "invalid failed_host_reconnect_delay_secs=-1",
    ),
    (
        "postgresql://?failed_host_reconnect_delay_secs=0.5",
        "invalid failed_host_reconnect_delay_secs=0.5",
    ),
    (
        "postgresql://?failed_host_max_delay_secs=4",
        "invalid failed_host_max_delay_secs=4",
    ),
    (
        "postgresql://?failed_host_max_delay_secs=forever",
        "invalid failed_host_max_delay_secs=forever",
    ),
    (
        "postgresql://?failed_host_reconnect_delay_secs=0&failed_host_max_delay_secs=0",
        "invalid failed_host_max_delay_secs=0",
    ),
    (
        "postgresql://?target_session_attrs=primary",
        "invalid target_session_attrs=primary",
    ),
    (
        "postgresql://?target_session_attrs=read_write",
        "invalid target_session_attrs=read_write",
    ),
    ("postgresql://?pool_size=0", "invalid pool_size=0"),
    ("postgresql://?pool_size=-1", "invalid pool_size=-1"),
    ("postgresql://?pool_size=65536", "invalid pool_size=65536"),
    (
        "postgresql://?pool_size=4294967296",
        "invalid pool_size=4294967296",
    ),
    ("postgresql://?pool_size=", "invalid pool_size="),
    ("postgresql://?pool_size= 5", "invalid pool_size= 5"),
    ("postgresql://?min_idle=11", "invalid min_idle=11"),
    ("postgresql://?pool_size=3&min_idle=4", "invalid min_idle=4"),
    ("postgresql://?idle_timeout=0", "invalid idle_timeout=0"),
    ("postgresql://?max_lifetime=0", "invalid max_lifetime=0"),
    ("postgresql://?max_lifetime=none", "invalid max_lifetime=none"),
    ("postgresql://?lifetime_jitter=5m", "invalid lifetime_jitter=5m"),
    (
        "postgresql://?rebalance_interval=0",
        "invalid rebalance_interval=0",
    ),
    ("postgresql://?rebalance_batch=0", "invalid rebalance_batch=0"),
    (
        "postgresql://?checkout_timeout=infinity",
        "invalid checkout_timeout=infinity",
    ),
    ("postgresql://?max_dials=0", "invalid max_dials=0"),
    (
        "postgresql://?return_cancel_after=36501d",
        "invalid return_cancel_after=36501d",
    ),
    ("postgresql://?return_timeout=soon", "invalid return_timeout=soon"),
    ("postgresql://?leak_threshold=0", "invalid leak_threshold=0"),
    ("postgresql://?record_holders=yes", "invalid record_holders=yes"),
];

fn check(rows: &[Good]) {
    for (url, changes) in rows {
        let config: Config = url
            .parse()
            .unwrap_or_else(|error| panic!("{url} is refused: {error}"));
        assert_eq!(options(&config), expected(url, changes), "{url}");
    }
}

/// Covers: E-009, E-010
#[test]
fn hosts_and_ports_are_read_by_libpqs_rules() {
    check(HOSTS);
}

/// Covers: E-002, E-003, E-053, E-054, E-164
#[test]
fn credentials_database_and_texts_are_decoded() {
    check(LOGINS);
}

/// Covers: E-019, E-021, E-027, E-028, E-030, E-032, E-041
#[test]
fn every_option_is_read_by_its_name() {
    check(VALUES);
}

/// Covers: E-005, E-008, E-013, E-014, E-016, E-017, E-023, E-025, E-029, E-031, E-033, E-039, E-040, E-042, E-056, E-058, E-165
#[test]
fn a_bad_string_is_refused_with_the_reason() {
    for (url, expected) in ERRORS {
        let error = match url.parse::<Config>() {
            Ok(config) => panic!("{url} is accepted as {config:?}"),
            Err(error) => short(&error),
        };
        let holds = if expected.starts_with("url ") {
            error.starts_with(expected)
        } else {
            error == *expected
        };
        assert!(holds, "{url}\n  gives     {error}\n  and not   {expected}");
    }
}

#[test]
fn a_plain_string_has_the_familys_defaults() {
    let yugabyte = "yugabytedb://".parse::<Config>().expect("valid");
    assert_eq!(options(&yugabyte)["hosts"], "localhost:5433");
    assert_eq!(options(&yugabyte)["user"], "yugabyte");
    assert_eq!(options(&yugabyte)["database"], "yugabyte");
    let postgres = "postgresql://".parse::<Config>().expect("valid");
    assert_eq!(options(&postgres)["hosts"], "localhost:5432");
    assert_ne!(options(&postgres)["user"], "");
    assert_eq!(options(&postgres)["database"], options(&postgres)["user"]);
}

#[test]
fn every_row_prints_as_a_string_that_reads_back_the_same() {
    for (url, _) in HOSTS.iter().chain(LOGINS).chain(VALUES) {
        let config: Config = url.parse().expect("the table's rows are valid");
        let printed = config.to_url().expect("a valid configuration prints");
        let again: Config = printed
            .parse()
            .unwrap_or_else(|error| panic!("{url} prints as {printed}: {error}"));
        let mut expected = options(&config);
        expected.insert("password", String::new());
        assert_eq!(options(&again), expected, "{url} prints as {printed}");
    }
}

#[test]
fn the_string_converts_by_every_usual_way() {
    let text = "postgresql://app@h/db";
    let expected = options(&text.parse().expect("valid"));
    assert_eq!(options(&Config::try_from(text).expect("valid")), expected);
    assert_eq!(
        options(&Config::try_from(text.to_owned()).expect("valid")),
        expected
    );
    assert_eq!(
        options(&Config::try_from(&text.to_owned()).expect("valid")),
        expected
    );
}
