//! JDBC URLs by pgjdbc's rules.

use crate::table::{Bad, Good, accepts, refuses};

const GOOD: &[Good] = &[
    ("jdbc:postgresql:", &[]),
    ("jdbc:postgresql://", &[]),
    ("jdbc:postgresql:///", &[]),
    ("jdbc:postgresql:app", &[("database", "app")]),
    ("jdbc:postgresql:my%20db", &[("database", "my db")]),
    ("jdbc:postgresql:my+db", &[("database", "my db")]),
    ("jdbc:postgresql:///app", &[("database", "app")]),
    ("jdbc:postgresql://h/", &[("hosts", "h:5432")]),
    (
        "jdbc:postgresql://h/app",
        &[("hosts", "h:5432"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://h:6000/app",
        &[("hosts", "h:6000"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://h1:1,h2:2/app",
        &[("hosts", "h1:1,h2:2"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://h1:1,h2/app",
        &[("hosts", "h1:1,h2:5432"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://[::1]:6000/app",
        &[("hosts", "[::1]:6000"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://:6000/app",
        &[("hosts", "localhost:6000"), ("database", "app")],
    ),
    (
        "jdbc:postgresql://h/a%2Fb",
        &[("hosts", "h:5432"), ("database", "a/b")],
    ),
    ("jdbc:yugabytedb:", &[]),
    (
        "jdbc:yugabytedb://h/yugabyte",
        &[("hosts", "h:5433"), ("database", "yugabyte")],
    ),
    (
        "jdbc:yugabytedb://yb1,yb2:6000/app?load-balance=true&topology-keys=gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2",
        &[
            ("hosts", "yb1:5433,yb2:6000"),
            ("database", "app"),
            ("load_balance", "any"),
            ("topology_keys", "gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2"),
        ],
    ),
    (
        "jdbc:yugabytedb://h/?load-balance=only-rr&yb-servers-refresh-interval=60&failed-host-reconnect-delay-secs=9\
         &topology-keys=a.b.*&fallback-to-topology-keys-only=true",
        &[
            ("hosts", "h:5433"),
            ("load_balance", "only-rr"),
            ("yb_servers_refresh_interval", "60"),
            ("failed_host_reconnect_delay_secs", "9"),
            ("topology_keys", "a.b.*:1"),
            ("fallback_to_topology_keys_only", "true"),
        ],
    ),
    (
        "jdbc:postgresql://h/app?user=app&password=secret",
        &[
            ("hosts", "h:5432"),
            ("database", "app"),
            ("user", "app"),
            ("password", "redacted"),
        ],
    ),
    (
        "jdbc:postgresql://h/?user=my+app",
        &[("hosts", "h:5432"), ("user", "my app")],
    ),
    (
        "jdbc:postgresql://h/?user=a%2Bb",
        &[("hosts", "h:5432"), ("user", "a+b")],
    ),
    (
        "jdbc:postgresql://h/?user=a@b",
        &[("hosts", "h:5432"), ("user", "a@b")],
    ),
    ("jdbc:postgresql://h/?", &[("hosts", "h:5432")]),
    (
        "jdbc:postgresql://h/?&&user=app&",
        &[("hosts", "h:5432"), ("user", "app")],
    ),
    (
        "jdbc:postgresql:app?user=app",
        &[("database", "app"), ("user", "app")],
    ),
    (
        "jdbc:postgresql://h/a?PGDBNAME=b&PGHOST=x,y&PGPORT=1,2",
        &[("hosts", "x:1,y:2"), ("database", "b")],
    ),
    (
        "jdbc:postgresql://node1,node2,node3/accounting?targetServerType=master",
        &[
            ("hosts", "node1:5432,node2:5432,node3:5432"),
            ("database", "accounting"),
            ("target_session_attrs", "read-write"),
        ],
    ),
    (
        "jdbc:postgresql://node1,node2,node3/accounting?targetServerType=preferSlave&loadBalanceHosts=true",
        &[
            ("hosts", "node1:5432,node2:5432,node3:5432"),
            ("database", "accounting"),
            ("target_session_attrs", "prefer-read-only"),
            ("load_balance_hosts", "random"),
        ],
    ),
    ("jdbc:postgresql:?targetServerType=any", &[]),
    (
        "jdbc:postgresql:?targetServerType=primary",
        &[("target_session_attrs", "read-write")],
    ),
    (
        "jdbc:postgresql:?targetServerType=secondary",
        &[("target_session_attrs", "read-only")],
    ),
    (
        "jdbc:postgresql:?targetServerType=slave",
        &[("target_session_attrs", "read-only")],
    ),
    (
        "jdbc:postgresql:?targetServerType=preferSecondary",
        &[("target_session_attrs", "prefer-read-only")],
    ),
    (
        "jdbc:postgresql:?targetServerType=preferPrimary",
        &[("target_session_attrs", "prefer-primary")],
    ),
    (
        "jdbc:postgresql:?targetServerType=master&target_session_attrs=read-write",
        &[("target_session_attrs", "read-write")],
    ),
    ("jdbc:postgresql:?loadBalanceHosts=false", &[]),
    ("jdbc:postgresql:?hostRecheckSeconds=30", &[("role_ttl", "30s")]),
    ("jdbc:postgresql:?hostRecheckSeconds=0", &[("role_ttl", "0ms")]),
    ("jdbc:postgresql:?connectTimeout=3", &[("connect_timeout", "3s")]),
    (
        "jdbc:postgresql:?connectTimeout=0",
        &[("connect_timeout", "36500d")],
    ),
    ("jdbc:postgresql:?loginTimeout=20", &[("checkout_timeout", "20s")]),
    ("jdbc:postgresql:?loginTimeout=0", &[("checkout_timeout", "none")]),
    (
        "jdbc:postgresql:?loginTimeout=20&checkout_timeout=20000",
        &[("checkout_timeout", "20s")],
    ),
    ("jdbc:postgresql:?tcpKeepAlive=true", &[]),
    (
        "jdbc:postgresql:?tcpKeepAlive=false",
        &[
            ("keepalives", "false"),
            ("keepalives_idle", ""),
            ("keepalives_interval", ""),
            ("keepalives_count", ""),
        ],
    ),
    ("jdbc:postgresql:?tcpKeepAlive=true&keepalives=1", &[]),
    (
        "jdbc:postgresql:?ApplicationName=My+App",
        &[("application_name", "My App")],
    ),
    (
        "jdbc:postgresql:?currentSchema=app",
        &[("options", "-c search_path=app")],
    ),
    (
        "jdbc:postgresql:?currentSchema=app,+public",
        &[("options", r"-c search_path=app,\ public")],
    ),
    (
        "jdbc:postgresql:?currentSchema=app&options=-c%20geqo%3Doff",
        &[("options", "-c search_path=app -c geqo=off")],
    ),
    (
        "jdbc:postgresql:?options=-c%20geqo=off",
        &[("options", "-c geqo=off")],
    ),
    ("jdbc:postgresql:?socketTimeout=0", &[]),
    ("jdbc:postgresql:?socketTimeout=30", &[("socket_timeout", "30s")]),
    (
        "jdbc:postgresql:?prepareThreshold=5&preferQueryMode=extended",
        &[],
    ),
    (
        "jdbc:postgresql:?autosave=never&readOnly=false&tcpNoDelay=true&gssEncMode=disable",
        &[],
    ),
    (
        "jdbc:postgresql:?reWriteBatchedInserts=true&stringtype=unspecified&loggerLevel=OFF&binaryTransfer=false",
        &[],
    ),
    ("jdbc:postgresql:?defaultRowFetchSize", &[]),
    ("jdbc:postgresql:?ssl=false", &[]),
    (
        "jdbc:postgresql:?ssl=false&sslmode=allow",
        &[("sslmode", "allow")],
    ),
    ("jdbc:postgresql:?pool_size=20", &[("pool_size", "20")]),
    ("jdbc:postgresql:?poolSize=20", &[("pool_size", "20")]),
];

const BAD: &[Bad] = &[
    (
        "jdbc:postgresql://h",
        "url in a JDBC URL a / must follow the hosts",
    ),
    (
        "jdbc:postgresql://h?user=app",
        "url in a JDBC URL a / must follow the hosts",
    ),
    (
        "jdbc:postgresql:/app",
        "url in a JDBC URL two slashes stand before the hosts",
    ),
    (
        "jdbc:postgresql://h/a/b",
        "url in a JDBC URL a / in the name of a database",
    ),
    (
        "jdbc:postgresql:h/app",
        "url in a JDBC URL a / in the name of a database",
    ),
    (
        "jdbc:postgresql://app:secret@h/db",
        "url in a JDBC URL no user or password",
    ),
    (
        "jdbc:postgresql://app@h/db",
        "url in a JDBC URL no user or password",
    ),
    ("jdbc:postgresql://h:x/db", "url a port is not a number"),
    ("jdbc:postgresql://h:0/db", "url a port is not a number"),
    ("jdbc:postgresql://::1/db", "url a host has two colons"),
    (
        "jdbc:postgresql://h%31/db",
        "url a host is not percent-encoded UTF-8",
    ),
    (
        "jdbc:postgresql://h/db%F",
        "url the database is not percent-encoded UTF-8",
    ),
    (
        "jdbc:postgresql://h/?user=%zz",
        "url a % in a parameter is not followed",
    ),
    ("jdbc:postgresql://h1,/db", "invalid hosts="),
    (
        "jdbc:postgresql://h/?targetServerTyp=master",
        "unknown targetServerTyp->targetServerType",
    ),
    (
        "jdbc:postgresql://h/?sokcetTimeout=5",
        "unknown sokcetTimeout->socket_timeout",
    ),
    ("jdbc:postgresql://h/?nope=1", "unknown nope"),
    (
        "jdbc:postgresql:?targetServerType=Primary",
        "invalid targetServerType=Primary",
    ),
    (
        "jdbc:postgresql:?targetServerType=read-write",
        "invalid targetServerType=read-write",
    ),
    (
        "jdbc:postgresql:?targetServerType=primary&target_session_attrs=primary",
        "conflict target_session_attrs: targetServerType, target_session_attrs",
    ),
    (
        "jdbc:postgresql:?targetServerType=any&targetServerType=any",
        "duplicate target_session_attrs",
    ),
    (
        "jdbc:postgresql:?loadBalanceHosts=perhaps",
        "invalid load_balance_hosts=perhaps",
    ),
    (
        "jdbc:postgresql:?hostRecheckSeconds=10s",
        "invalid hostRecheckSeconds=10s",
    ),
    ("jdbc:postgresql:?loginTimeout=-1", "invalid loginTimeout=-1"),
    (
        "jdbc:postgresql:?loginTimeout=20&checkout_timeout=20",
        "conflict checkout_timeout: loginTimeout, checkout_timeout",
    ),
    ("jdbc:postgresql:?tcpKeepAlive=yes", "invalid tcpKeepAlive=yes"),
    ("jdbc:postgresql:?currentSchema=%00", "invalid currentSchema=\0"),
    ("jdbc:postgresql:?socketTimeout=1.5", "invalid socket_timeout=1.5"),
    ("jdbc:postgresql:?prepareThreshold=0", "later prepareThreshold"),
    ("jdbc:postgresql:?preferQueryMode=simple", "later preferQueryMode"),
    ("jdbc:postgresql:?autosave=always", "later autosave"),
    ("jdbc:postgresql:?readOnly=true", "later readOnly"),
    (
        "jdbc:postgresql:?sslfactory=org.postgresql.ssl.NonValidatingFactory",
        "later sslfactory",
    ),
    (
        "jdbc:postgresql:?socketFactory=com.example.Factory",
        "later socketFactory",
    ),
    ("jdbc:postgresql:?service=mine", "later service"),
    ("jdbc:postgresql:?gssEncMode=require", "later gssEncMode"),
    ("jdbc:postgresql:?ssl=maybe", "invalid ssl=maybe"),
    ("jdbc:postgresql:?pool_size=0", "invalid pool_size=0"),
];

#[test]
fn good_urls_are_read_by_pgjdbcs_rules() {
    accepts(GOOD);
}

#[test]
fn bad_urls_are_refused_with_the_reason() {
    refuses(BAD);
}
