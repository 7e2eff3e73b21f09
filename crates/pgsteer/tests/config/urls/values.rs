//! Every option of a URL by its name.

use crate::table::Good;

pub(super) const VALUES: &[Good] = &[
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
    ("postgresql://?breaker_threshold=0", &[("breaker_threshold", "0")]),
    (
        "postgresql://?breaker_base=10&breaker_cap=2s&breaker_jitter=0.25",
        &[
            ("breaker_base", "10ms"),
            ("breaker_cap", "2s"),
            ("breaker_jitter", "0.25"),
        ],
    ),
    ("postgresql://?breaker_jitter=0.0", &[("breaker_jitter", "0")]),
    ("postgresql://?breaker_jitter=1", &[("breaker_jitter", "1")]),
    ("postgresql://?max_dials=1", &[("max_dials", "1")]),
    (
        "postgresql://?after_connect_timeout=90s",
        &[("after_connect_timeout", "90s")],
    ),
    (
        "postgresql://?after_connect_timeout=none",
        &[("after_connect_timeout", "none")],
    ),
    ("postgresql://?recycle=clean", &[("recycle", "clean")]),
    (
        "postgresql://?return_cancel_after=1s&return_timeout=2s",
        &[("return_cancel_after", "1s"), ("return_timeout", "2s")],
    ),
    ("postgresql://?socket_timeout=5", &[("socket_timeout", "5s")]),
    (
        "postgresql://?socket-timeout=250ms",
        &[("socket_timeout", "250ms")],
    ),
    ("postgresql://?socketTimeout=0", &[]),
    (
        "postgresql://?cancel_on_timeout=1s&stall_timeout=1min",
        &[("cancel_on_timeout", "1s"), ("stall_timeout", "1min")],
    ),
    (
        "postgresql://?resolve_commit=true&resolve_commit_timeout=2s",
        &[("resolve_commit", "true"), ("resolve_commit_timeout", "2s")],
    ),
    (
        "postgresql://?statement_cache_size=65535",
        &[("statement_cache_size", "65535")],
    ),
    ("postgresql://?leak_threshold=1d", &[("leak_threshold", "1d")]),
    ("postgresql://?record_holders=on", &[("record_holders", "true")]),
    (
        "postgresql://?connect_timeout=0",
        &[("connect_timeout", "36500d")],
    ),
    (
        "postgresql://?connect_timeout=-1",
        &[("connect_timeout", "36500d")],
    ),
    (
        "postgresql://?connect_timeout=none",
        &[("connect_timeout", "36500d")],
    ),
    (
        "postgresql://?connect_race_delay=250",
        &[("connect_race_delay", "250ms")],
    ),
    ("postgresql://?connect_race_delay=none", &[]),
    ("postgresql://?role_ttl=30", &[("role_ttl", "30s")]),
    ("postgresql://?role_ttl=0", &[("role_ttl", "0ms")]),
    ("postgresql://?role-ttl=1500ms", &[("role_ttl", "1500ms")]),
    (
        "postgresql://?drain_stale_addresses=false",
        &[("drain_stale_addresses", "false")],
    ),
    (
        "postgresql://?load_balance_hosts=random",
        &[("load_balance_hosts", "random")],
    ),
    ("postgresql://?load_balance_hosts=disable", &[]),
    (
        "postgresql://?load_balance_hosts=true",
        &[("load_balance_hosts", "random")],
    ),
    ("postgresql://?load-balance-hosts=false", &[]),
    (
        "postgresql://?target_session_attrs=read-only",
        &[("target_session_attrs", "read-only")],
    ),
    (
        "postgresql://?target_session_attrs=primary",
        &[("target_session_attrs", "primary")],
    ),
    (
        "postgresql://?target_session_attrs=standby",
        &[("target_session_attrs", "standby")],
    ),
    (
        "postgresql://?target_session_attrs=prefer-primary",
        &[("target_session_attrs", "prefer-primary")],
    ),
    (
        "postgresql://?target_session_attrs=prefer-standby",
        &[("target_session_attrs", "prefer-standby")],
    ),
    (
        "postgresql://?target_session_attrs=prefer-read-only",
        &[("target_session_attrs", "prefer-read-only")],
    ),
    (
        "postgresql://?fallback_application_name=psql",
        &[("application_name", "psql")],
    ),
    (
        "postgresql://?fallback_application_name=psql&application_name=svc",
        &[("application_name", "svc")],
    ),
    ("postgresql://?Pool_Size=3", &[("pool_size", "3")]),
    (
        "postgresql://?keepalives_count=5&keepalives_retries=5",
        &[("keepalives_count", "5")],
    ),
    ("postgresql://?dbname=a&database=a", &[("database", "a")]),
    ("postgresql://?pool%5Fsize=3", &[("pool_size", "3")]),
    ("postgresql://?pool_size=%33", &[("pool_size", "3")]),
    ("postgresql://?pool_size=3&", &[("pool_size", "3")]),
];
