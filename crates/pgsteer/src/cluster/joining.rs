//! Whether a pool may be put on a cluster: what belongs to the cluster must be the same in both configurations, since
//! the pool's connections are opened by the cluster.

use crate::config::{ConfigError, REDACTED, Settings};

const ALLOWED: &str = "the value that the cluster was started with";

/// Checks that the pool's configuration says of the cluster what the cluster's own does.
///
/// # Errors
///
/// The first option that differs.
pub(super) fn check(cluster: &Settings, pool: &Settings) -> Result<(), ConfigError> {
    let hosts: Vec<String> = pool.hosts.iter().map(ToString::to_string).collect();
    let differs = |name, same: bool, value: String| match same {
        true => Ok(()),
        false => Err(ConfigError::InvalidOption {
            name,
            value,
            allowed: ALLOWED,
        }),
    };
    macro_rules! same {
        ($($($field:ident).+ as $name:literal),* $(,)?) => {
            $(differs($name, cluster.$($field).+ == pool.$($field).+, format!("{:?}", pool.$($field).+))?;)*
        };
    }
    differs("hosts", cluster.hosts == pool.hosts, hosts.join(","))?;
    differs("user", cluster.user == pool.user, pool.user.clone())?;
    differs(
        "password",
        cluster.password.is_same(&pool.password),
        REDACTED.to_owned(),
    )?;
    differs(
        "database",
        cluster.database == pool.database,
        pool.database.clone(),
    )?;
    differs(
        "topology_keys",
        cluster.topology_keys == pool.topology_keys,
        pool.topology_keys.to_string(),
    )?;
    let options = "other options".to_owned();
    differs("options", cluster.options == pool.options, options)?;
    same!(
        application_name as "application_name",
        role_ttl as "role_ttl",
        load_balance_hosts as "load_balance_hosts",
        statement_timeout as "statement_timeout",
        connect_timeout as "connect_timeout",
        connect_race_delay as "connect_race_delay",
        keepalives as "keepalives",
        tcp_user_timeout as "tcp_user_timeout",
        load_balance as "load_balance",
        fallback_to_topology_keys_only as "fallback_to_topology_keys_only",
        refresh_interval as "yb_servers_refresh_interval",
        failed_host_delay as "failed_host_reconnect_delay_secs",
        failed_host_max_delay as "failed_host_max_delay_secs",
        drain_stale_addresses as "drain_stale_addresses",
        breaker.threshold as "breaker_threshold",
        breaker.base as "breaker_base",
        breaker.cap as "breaker_cap",
        breaker.jitter as "breaker_jitter",
    );
    let mode = format!("{:?}", pool.tls.mode);
    differs("sslmode", cluster.tls.mode == pool.tls.mode, mode)?;
    let others = "other certificates, names or ways of negotiation".to_owned();
    differs("the other ssl options", cluster.tls == pool.tls, others)
}
