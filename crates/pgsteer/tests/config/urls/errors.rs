//! URLs that are refused, and why.

use crate::table::Bad;

/// For the kind `url` the row holds a part of the reason.
pub(super) const ERRORS: &[Bad] = &[
    ("", "url it must start with postgresql://"),
    ("db1", "url it must start with"),
    ("mysql://h/db", "url it must start with"),
    ("postgresql:/h/db", "url it must start with"),
    ("POSTGRESQL://h/db", "url it must start with"),
    (" postgresql://h", "url it must start with"),
    ("jdbc:mysql://h/db", "url it must start with"),
    ("mysql://h/db?a=b", "url it must start with"),
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
    ("postgresql://?Pool_Size=none", "invalid pool_size=none"),
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
    ("postgresql://?socket_timeout=soon", "invalid socket_timeout=soon"),
    ("postgresql://?socket_timeout=-1", "invalid socket_timeout=-1"),
    ("postgresql://h?hostaddr=db", "invalid hostaddr=db"),
    ("postgresql://h?hostaddr=10.0.0", "invalid hostaddr=10.0.0"),
    ("postgresql://h?hostaddr=[::1]", "invalid hostaddr=[::1]"),
    (
        "postgresql://h?hostaddr=fe80::1%25eth0",
        "invalid hostaddr=fe80::1%eth0",
    ),
    (
        "postgresql://h?hostaddr=10.0.0.1,10.0.0.2",
        "url 2 addresses in hostaddr do not fit 1 hosts",
    ),
    (
        "postgresql://a,b?hostaddr=10.0.0.1",
        "url 1 addresses in hostaddr do not fit 2 hosts",
    ),
    (
        "postgresql://?hostaddr=10.0.0.1,10.0.0.2&port=1,2,3",
        "url 3 ports do not fit 2 hosts",
    ),
    (
        "postgresql://%2Ftmp?hostaddr=10.0.0.1",
        "invalid hostaddr=10.0.0.1",
    ),
    ("postgresql://,h?hostaddr=,10.0.0.1", "invalid hosts="),
    (
        "postgresql://?targetServerTyp=primary",
        "unknown targetServerTyp->targetServerType",
    ),
    ("postgresql://?pool_size=1&pool_size=1", "duplicate pool_size"),
    ("postgresql://?pool_size=1&pool-size=2", "duplicate pool_size"),
    ("postgresql://?user=a&username=b", "conflict user: user, username"),
    (
        "postgresql://?dbname=a&database=b",
        "conflict database: dbname, database",
    ),
    (
        "postgresql://?keepalives_count=1&keepalives_retries=2",
        "conflict keepalives_count: keepalives_count, keepalives_retries",
    ),
    // values
    ("postgresql://?connect_timeout=-", "invalid connect_timeout=-"),
    ("postgresql://?connect_timeout=-1s", "invalid connect_timeout=-1s"),
    (
        "postgresql://?connect_race_delay=0",
        "invalid connect_race_delay=0",
    ),
    ("postgresql://?role_ttl=-1", "invalid role_ttl=-1"),
    ("postgresql://?role_ttl=36501d", "invalid role_ttl=36501d"),
    (
        "postgresql://?drain_stale_addresses=",
        "invalid drain_stale_addresses=",
    ),
    (
        "postgresql://?load_balance_hosts=roundrobin",
        "invalid load_balance_hosts=roundrobin",
    ),
    (
        "postgresql://?target_session_attrs=Primary",
        "invalid target_session_attrs=Primary",
    ),
    (
        "postgresql://?target_session_attrs=",
        "invalid target_session_attrs=",
    ),
    ("postgresql://?connect_timeout=1.5", "invalid connect_timeout=1.5"),
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
    (
        "postgresql://?breaker_threshold=-1",
        "invalid breaker_threshold=-1",
    ),
    ("postgresql://?breaker_base=0", "invalid breaker_base=0ms"),
    ("postgresql://?breaker_base=2min", "invalid breaker_base=2min"),
    ("postgresql://?breaker_cap=2d", "invalid breaker_cap=2d"),
    ("postgresql://?breaker_jitter=1.1", "invalid breaker_jitter=1.1"),
    ("postgresql://?breaker_jitter=1e-1", "invalid breaker_jitter=1e-1"),
    ("postgresql://?breaker_jitter=.5", "invalid breaker_jitter=.5"),
    ("postgresql://?max_dials=0", "invalid max_dials=0"),
    (
        "postgresql://?after_connect_timeout=0",
        "invalid after_connect_timeout=0",
    ),
    (
        "postgresql://?after_connect_timeout=infinity",
        "invalid after_connect_timeout=infinity",
    ),
    ("postgresql://?recycle=Clean", "invalid recycle=Clean"),
    (
        "postgresql://?return_cancel_after=36501d",
        "invalid return_cancel_after=36501d",
    ),
    ("postgresql://?return_timeout=soon", "invalid return_timeout=soon"),
    (
        "postgresql://?cancel_on_timeout=true",
        "invalid cancel_on_timeout=true",
    ),
    (
        "postgresql://?resolve_commit=maybe",
        "invalid resolve_commit=maybe",
    ),
    (
        "postgresql://?resolve_commit_timeout=none",
        "invalid resolve_commit_timeout=none",
    ),
    (
        "postgresql://?statement_cache_size=65536",
        "invalid statement_cache_size=65536",
    ),
    ("postgresql://?stall_timeout=0", "invalid stall_timeout=0"),
    ("postgresql://?leak_threshold=0", "invalid leak_threshold=0"),
    ("postgresql://?record_holders=yes", "invalid record_holders=yes"),
];
