//! `name=value` strings by libpq's rules.

use crate::table::{Bad, Good, accepts, refuses};

const GOOD: &[Good] = &[
    ("host=db1", &[("hosts", "db1:5432")]),
    (
        "host=db1 dbname=app",
        &[("hosts", "db1:5432"), ("database", "app")],
    ),
    (
        "  host = db1\tdbname\n=\r\napp  ",
        &[("hosts", "db1:5432"), ("database", "app")],
    ),
    (
        "host=a,b port=1,2 user=app",
        &[("hosts", "a:1,b:2"), ("user", "app")],
    ),
    ("host=a,b port=7", &[("hosts", "a:7,b:7")]),
    ("port=1,2 host=a,b", &[("hosts", "a:1,b:2")]),
    ("host=a,b port=,2", &[("hosts", "a:5432,b:2")]),
    ("port=6000", &[("hosts", "localhost:6000")]),
    ("host='' port=''", &[]),
    (
        "host=/var/run/postgresql",
        &[("hosts", "/var/run/postgresql:5432")],
    ),
    ("host='/my dir'", &[("hosts", "/my dir:5432")]),
    ("host=/tmp,db1 port=1,2", &[("hosts", "/tmp:1,db1:2")]),
    ("host=::1", &[("hosts", "[::1]:5432")]),
    (
        "host=::1,2001:db8::2 port=1,2",
        &[("hosts", "[::1]:1,[2001:db8::2]:2")],
    ),
    (
        "hostaddr=127.0.0.1,127.0.0.1 port=15432,16432 user=gpadmin dbname=postgres connect_timeout=2 \
         target_session_attrs=any",
        &[
            ("hosts", "127.0.0.1:15432,127.0.0.1:16432"),
            ("user", "gpadmin"),
            ("database", "postgres"),
            ("connect_timeout", "2s"),
        ],
    ),
    (
        "host=mdw,smdw hostaddr=10.0.0.1,10.0.0.2 port=5432",
        &[("hosts", "mdw(10.0.0.1):5432,smdw(10.0.0.2):5432")],
    ),
    (
        "host=mdw,smdw hostaddr=,10.0.0.2",
        &[("hosts", "mdw:5432,smdw(10.0.0.2):5432")],
    ),
    (
        "host=,smdw hostaddr=10.0.0.1,",
        &[("hosts", "10.0.0.1:5432,smdw:5432")],
    ),
    ("host=h hostaddr=''", &[("hosts", "h:5432")]),
    ("host=a%2Cb", &[("hosts", "a%2Cb:5432")]),
    ("user=a+b dbname=100%", &[("user", "a+b"), ("database", "100%")]),
    ("user='my user'", &[("user", "my user")]),
    (r"user=my\ user", &[("user", "my user")]),
    (r"user='it\'s'", &[("user", "it's")]),
    (r"user=it\'s", &[("user", "it's")]),
    (r"user='a\\b'", &[("user", r"a\b")]),
    (r"user=a\b", &[("user", "ab")]),
    (r"user=a\", &[("user", "a")]),
    ("user=it's", &[("user", "it's")]),
    // An empty one is none: the operating system's user, and the database named as that.
    ("user=''", &[]),
    ("user='' dbname=''", &[]),
    ("user=me dbname=''", &[("user", "me")]),
    ("user='a'dbname='b'", &[("user", "a"), ("database", "b")]),
    ("user='a=b' dbname=c=d", &[("user", "a=b"), ("database", "c=d")]),
    // White space may follow the equals sign, so that an empty value can only be ''.
    ("user= dbname=x", &[("user", "dbname=x")]),
    ("user=", &[]),
    ("user=donn\u{e9}es", &[("user", "donn\u{e9}es")]),
    ("user='a\u{a0}b'", &[("user", "a\u{a0}b")]),
    ("user=a\u{a0}b", &[("user", "a\u{a0}b")]),
    ("user=a\u{b}dbname=b", &[("user", "a"), ("database", "b")]),
    ("password=secret", &[("password", "redacted")]),
    (
        "password='a b' host=h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "password='a;b=c' host=h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "password=a;b=c host=h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    ("password=a;host=h", &[("password", "redacted")]),
    (
        "host=h password=x;port=1",
        &[("hosts", "h:5432"), ("password", "redacted")],
    ),
    (
        "password='postgresql://x' host=h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "password=p@ss/w?rd&x host=h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    ("user=a@b", &[("user", "a@b")]),
    (
        "options='-c geqo=off -c work_mem=8MB'",
        &[("options", "-c geqo=off -c work_mem=8MB")],
    ),
    ("application_name='my app'", &[("application_name", "my app")]),
    ("fallback_application_name=psql", &[("application_name", "psql")]),
    (
        "application_name=svc fallback_application_name=psql",
        &[("application_name", "svc")],
    ),
    ("connect_timeout=3", &[("connect_timeout", "3s")]),
    ("connect_timeout=0", &[("connect_timeout", "36500d")]),
    ("connect_timeout=-5", &[("connect_timeout", "36500d")]),
    (
        "keepalives_idle=60 keepalives_interval=5 keepalives_count=4 tcp_user_timeout=3000",
        &[
            ("keepalives_idle", "1min"),
            ("keepalives_interval", "5s"),
            ("keepalives_count", "4"),
            ("tcp_user_timeout", "3s"),
        ],
    ),
    (
        "keepalives=0",
        &[
            ("keepalives", "false"),
            ("keepalives_idle", ""),
            ("keepalives_interval", ""),
            ("keepalives_count", ""),
        ],
    ),
    (
        "host=a,b target_session_attrs=prefer-standby load_balance_hosts=random",
        &[
            ("hosts", "a:5432,b:5432"),
            ("target_session_attrs", "prefer-standby"),
            ("load_balance_hosts", "random"),
        ],
    ),
    (
        "host=yb1 port=5433 load_balance=true topology_keys=gcp.us-east1.*",
        &[
            ("hosts", "yb1:5433"),
            ("load_balance", "any"),
            ("topology_keys", "gcp.us-east1.*:1"),
        ],
    ),
    (
        "pool_size=20 checkout-timeout=2s",
        &[("pool_size", "20"), ("checkout_timeout", "2s")],
    ),
    (
        "targetServerType=primary",
        &[("target_session_attrs", "read-write")],
    ),
];

const BAD: &[Bad] = &[
    ("host=h dbname", "url a name is not followed by ="),
    ("host=h dbname user=x", "url a name is not followed by ="),
    ("host h=x", "url it must start with"),
    ("dbname", "url it must start with"),
    ("=x", "url it must start with"),
    (" ", "url it must start with"),
    ("host=h =x", "unknown "),
    ("user='a", "url a quote before a value is not closed"),
    (r"user='a\'", "url a quote before a value is not closed"),
    (
        "password=my secret words host=h",
        "url a name is not followed by =",
    ),
    ("host=h hots=b", "unknown hots->hosts"),
    ("host=h,", "invalid hosts="),
    ("host=,h", "invalid hosts="),
    (
        "host=a/b",
        "invalid hosts=text that may hold a secret (not shown)",
    ),
    ("host=h port=x", "invalid port=x"),
    ("host=h port=0", "invalid port=0"),
    ("host=h port=1,2", "url 2 ports do not fit 1 hosts"),
    ("port=1,2", "url 2 ports do not fit 0 hosts"),
    (
        "host=h hostaddr=1.1.1.1,2.2.2.2",
        "url 2 addresses in hostaddr do not fit 1 hosts",
    ),
    ("hostaddr=h", "invalid hostaddr=h"),
    ("hostaddr=1.1.1.1,", "invalid hosts="),
    ("host=h host=h", "duplicate hosts"),
    ("host=h hosts=i", "conflict hosts: host, hosts"),
    ("user=a user=a", "duplicate user"),
    ("password=a password=a", "duplicate password"),
    ("user=a\0", "invalid user=a\0"),
    ("ssl=true", "later ssl"),
    (
        "target_session_attrs=read_write",
        "invalid target_session_attrs=read_write",
    ),
    ("load_balance_hosts=maybe", "invalid load_balance_hosts=maybe"),
    ("sslmode=''", "invalid sslmode="),
    ("tcp_user_timeout=-1", "invalid tcp_user_timeout=-1"),
    ("service=mine", "later service"),
    ("passfile=/home/me/.pgpass", "later passfile"),
    // Npgsql's
    (
        "Host=db1;Username=app;Password=secret;Database=shop",
        "later Npgsql's connection strings (Host=…;Username=…)",
    ),
    (
        "Host=db1;",
        "later Npgsql's connection strings (Host=…;Username=…)",
    ),
    (
        "Server=db1;Port=5432;User Id=app",
        "later Npgsql's connection strings (Host=…;Username=…)",
    ),
    (
        "User ID=app; Host=db1",
        "later Npgsql's connection strings (Host=…;Username=…)",
    ),
    (
        "Host=a,b;Maximum Pool Size=100",
        "later Npgsql's connection strings (Host=…;Username=…)",
    ),
];

/// Covers: Q-35
#[test]
fn good_strings_are_read_by_libpqs_rules() {
    accepts(GOOD);
}

/// Covers: Q-35
#[test]
fn bad_strings_are_refused_with_the_reason() {
    refuses(BAD);
}
