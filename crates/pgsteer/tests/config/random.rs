//! Random connection strings and configurations, for the properties.

use std::time::Duration;

use pgsteer::config::{Config, HostOrder, HostSpec, LoadBalance, Pem, SslMode, TargetSessionAttrs};
use proptest::prelude::*;

/// Strings made of what connection strings are made of, so that most get past the first check.
pub(crate) fn string_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("@".to_owned()),
        Just(":".to_owned()),
        Just("/".to_owned()),
        Just("?".to_owned()),
        Just("&".to_owned()),
        Just("=".to_owned()),
        Just(",".to_owned()),
        Just("[::1]".to_owned()),
        Just("%2F".to_owned()),
        Just("%".to_owned()),
        "[a-z0-9]{1,4}",
        "[0-9]{1,6}(s|ms|min)?",
        "host|port|user|password|dbname|pool_size|min_idle|topology_keys|checkout_timeout|load_balance|sslmode",
        "hostaddr|targetServerType|currentSchema|loginTimeout|ssl|sslrootcert|ssl_server_name|ApplicationName",
        "'| |\\\\|;|\\+|10\\.0\\.0\\.1",
        any::<char>().prop_map(String::from),
    ];
    let scheme = prop_oneof![
        Just("postgresql://"),
        Just("postgres://"),
        Just("yugabytedb://"),
        Just("jdbc:postgresql:"),
        Just("jdbc:postgresql://"),
        Just("jdbc:yugabytedb://"),
        Just("host="),
        Just("")
    ];
    (scheme, prop::collection::vec(piece, 0..20))
        .prop_map(|(scheme, pieces)| format!("{scheme}{}", pieces.concat()))
}

/// Strings that are well formed, with options that often are valid.
pub(crate) fn well_formed() -> impl Strategy<Value = String> {
    let option = prop_oneof![
        (0_u32..70_000).prop_map(|size| format!("pool_size={size}")),
        (0_u32..12).prop_map(|floor| format!("min-idle={floor}")),
        (0_u32..700).prop_map(|seconds| format!("yb_servers_refresh_interval={seconds}")),
        "checkout_timeout=([0-9]{1,4}(ms|s|min|h)?|none)",
        "connect_timeout=[0-9]{1,3}(ms|us|ns|s)?",
        "load_balance=(any|true|only-rr|prefer-primary)",
        "topology_keys=[a-c]\\.[a-c]\\.([a-c]|\\*)(:[1-9])?",
        "application_name=[a-z@+%4-5]{0,6}",
        "keepalives=[01]",
    ];
    let host = prop_oneof![
        "[a-z]{1,5}(:[1-9][0-9]{0,3})?",
        Just("[fe80::1]:7".to_owned()),
        Just("%2Ftmp".to_owned())
    ];
    (
        prop_oneof![Just("postgresql"), Just("yugabytedb")],
        prop_oneof![Just(String::new()), "[a-z%4-5]{1,5}(:[a-z%4-5+]{1,5})?@"],
        prop::collection::vec(host, 0..4),
        prop_oneof![Just(String::new()), "/[a-z%4-5@]{0,6}"],
        prop::collection::vec(option, 0..4),
    )
        .prop_map(|(scheme, login, hosts, database, options)| {
            format!(
                "{scheme}://{login}{}{database}?{}",
                hosts.join(","),
                options.join("&")
            )
        })
}

/// Valid strings of every kind, with the longest rules in them.
const VALID: [&str; 9] = [
    "postgresql://app:s%40cret@db1:6000,[::1],db3/shop?pool_size=20&checkout_timeout=2s&load_balance_hosts=random",
    "postgresql://a,b/?hostaddr=10.0.0.1,2001:db8::2&port=,2&target_session_attrs=prefer-standby&options=-c%20geqo%3Doff",
    "yugabytedb://app@yb1,yb2/app?load-balance=only-rr&topologyKeys=a.b.c:1,a.b.*:2&failed_host_max_delay_secs=60",
    "host=db1,db2 port=1,2 user='my user' password='it\\'s; a=b' dbname=a\\ b connect_timeout=0 sslmode=allow",
    "hostaddr=127.0.0.1,127.0.0.1 port=15432,16432 user=gpadmin dbname=postgres connect_timeout=2 target_session_attrs=any",
    "jdbc:postgresql://node1,node2:7/accounting?targetServerType=preferSlave&loadBalanceHosts=true&user=a+b&password=c%2Bd",
    "jdbc:yugabytedb://yb1/app?load-balance=true&loginTimeout=5&currentSchema=a,+b&tcpKeepAlive=false&sslcert=a&sslkey=b",
    "host=/var/run/postgresql sslrootcert=ca.pem ssl_server_name=db keepalives_idle=60 tcp_user_timeout=3000",
    "Host=db1;Username=app;Password=secret",
];

/// A valid string with pieces cut out, put in twice, replaced and moved.
pub(crate) fn mutated() -> impl Strategy<Value = String> {
    let change = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0_u8..4,
        "[ -~é\u{0}]{0,3}",
    );
    (
        prop::sample::select(VALID.to_vec()),
        prop::collection::vec(change, 1..5),
    )
        .prop_map(|(valid, changes)| {
            let mut text: Vec<char> = valid.chars().collect();
            for (from, to, kind, put) in changes {
                if text.is_empty() {
                    break;
                }
                let (from, to) = (from.index(text.len()), to.index(text.len()));
                let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 12));
                let piece: Vec<char> = text[from..to].to_vec();
                match kind {
                    0 => drop(text.drain(from..to)),
                    1 => drop(text.splice(from..from, piece)),
                    2 => drop(text.splice(from..from, put.chars())),
                    _ => drop(text.splice(from..to, put.chars())),
                }
            }
            text.into_iter().collect()
        })
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1_u64..4_000_000).prop_map(Duration::from_millis),
        (1_u64..4_000_000).prop_map(Duration::from_nanos),
        (1_u64..100_000).prop_map(Duration::from_secs),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ -~]{0,12}"].prop_map(|text| text.replace('\0', ""))
}

/// Valid configurations, by the setters.
pub(crate) fn configuration() -> impl Strategy<Value = Config> {
    let name = prop_oneof![
        text().prop_map(|text| {
            let refused = |character: char| {
                character == '@' || character == '/' || character.is_control() || character.is_whitespace()
            };
            let text = text.replace(refused, "");
            // With a colon it may be an address, and then what follows a percent sign a scope.
            if text.contains(':') {
                text.replace('%', "")
            } else {
                text
            }
        }),
        Just("::1".to_owned()),
        Just("/tmp".to_owned()),
        Just("fe80::2".to_owned())
    ]
    .prop_map(|name| if name.is_empty() { "h".to_owned() } else { name });
    let hosts = prop::collection::vec((name, 1_u16..), 1..4);
    let login = (
        hosts,
        prop::option::of(text()),
        prop::option::of(text()),
        text(),
        prop::option::of(text()),
    );
    let cluster = (
        prop_oneof![
            Just(LoadBalance::Off),
            Just(LoadBalance::Any),
            Just(LoadBalance::PreferReplica)
        ],
        prop_oneof![Just(""), Just("a.b.c:3,a.b.*:1"), Just("É.ß.z z")],
        any::<bool>(),
        0_u64..=600,
        1_u64..=60,
        prop::option::of(60_u64..1000),
    );
    let pool = (
        1_u32..100,
        prop::option::of(0.0..=1.0),
        prop::option::of(duration()),
        duration(),
        prop::option::of(duration()),
    );
    let rest = (
        duration(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(0_u64..2_000_000_000),
    );
    let files = ("[ -~]{1,9}", "[ -~]{1,9}", "[a-z.-]{1,9}");
    let roles = (
        prop::sample::select(TargetSessionAttrs::ALL.to_vec()),
        duration(),
        prop::option::of(duration()),
        any::<bool>(),
        prop::option::of(files),
    );
    let parts = (any::<bool>(), login, cluster, pool, rest, roles);
    parts.prop_map(|(yugabyte, login, cluster, pool, rest, roles)| {
        let (hosts, user, database, application, options) = login;
        let (mode, keys, only, refresh, delay, cap) = cluster;
        let (size, floor, idle, life, wait) = pool;
        let (connect, keepalives, holders, random, statement) = rest;
        let (target, ttl, race, drain, files) = roles;
        let mut config = if yugabyte {
            Config::yugabyte()
        } else {
            Config::new()
        };
        if let Some(user) = user {
            config = config.user(user);
        }
        if let Some(database) = database {
            config = config.database(database);
        }
        if let Some(options) = options {
            config = config.options(options);
        }
        if let Some((roots, cert, name)) = files {
            config = config
                .ssl_mode(SslMode::Prefer)
                .ssl_root_cert(Pem::File(roots.into()))
                .ssl_client_cert(Pem::File(cert.clone().into()))
                .ssl_client_key(Pem::File(cert.into()))
                .ssl_server_name(name);
        }
        let hosts = hosts.into_iter().enumerate().map(|(index, (name, port))| {
            let host = HostSpec::new(name.as_str()).port(port);
            if random && index == 0 && !name.starts_with('/') {
                host.at([10, 0, 0, 1].into())
            } else {
                host
            }
        });
        config
            .hosts(hosts)
            .application_name(application)
            .target_session_attrs(target)
            .role_ttl(ttl)
            .connect_race_delay(race)
            .drain_stale_addresses(drain)
            .load_balance_hosts(if random {
                HostOrder::Random
            } else {
                HostOrder::Listed
            })
            .load_balance(mode)
            .topology_keys(keys)
            .fallback_to_topology_keys_only(only)
            .yb_servers_refresh_interval(Duration::from_secs(refresh))
            .failed_host_reconnect_delay_secs(delay)
            .failed_host_max_delay_secs(cap)
            .pool_size(size)
            .min_idle(floor.map(|share: f64| (f64::from(size) * share) as u32))
            .idle_timeout(idle)
            .max_lifetime(life)
            .checkout_timeout(wait)
            .connect_timeout(connect)
            .keepalives(keepalives)
            .record_holders(holders)
            .statement_timeout(statement.map(Duration::from_millis))
    })
}
