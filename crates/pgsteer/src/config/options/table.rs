//! The table itself: every option that text can set, in the order a configuration is described.

use std::time::Duration;

use super::read::{
    addresses, decimal, file, flag, host_order, limit, load_balance, millis, number, or_none, roots, seconds,
    seconds_or_off, store, topology_keys,
};
use super::{OptionRule, Set};
use crate::config::{
    ChannelBinding, HostSpec, Password, Recycle, SslMode, SslNegotiation, TargetSessionAttrs,
};

const TEXT: &str = "text in UTF-8 without NUL characters";
const POSITIVE: &str = "a duration greater than 0 and at most 100 years, such as 500ms, 30s or 5min";
const POSITIVE_OR_NONE: &str =
    "a duration greater than 0 and at most 100 years, such as 500ms, 30s or 5min; or none";
const FROM_ZERO: &str = "a duration from 0 to 100 years, such as 500ms, 30s or 5min";
const AT_LEAST_ONE: &str = "a whole number from 1 to 4294967295";
const FLAG: &str = "true or false";

/// Every option.
pub(in crate::config) const OPTIONS: &[OptionRule] = &[
    OptionRule {
        name: "hosts",
        aliases: &["host"],
        allowed: "one host or more, separated by commas: names, addresses, or paths of socket directories that begin \
                  with /, in UTF-8; none of them may be empty, a URL, or have an @, a / in a name, white space or a \
                  control character in it",
        set: Set::Text(|config, text| config.hosts = Some(text.split(',').map(HostSpec::new).collect())),
    },
    OptionRule {
        name: "hostaddr",
        aliases: &[],
        allowed: "one IP address for each host, separated by commas, each possibly empty; IPv6 without brackets or scope",
        set: Set::Plain(addresses),
    },
    OptionRule {
        name: "port",
        aliases: &[],
        allowed: "a port number from 1 to 65535",
        set: Set::Plain(|config, text| store(&mut config.port, number(text).map(Some))),
    },
    OptionRule {
        name: "user",
        aliases: &["username"],
        allowed: TEXT,
        set: Set::Text(|config, text| config.user = Some(text.to_owned())),
    },
    OptionRule {
        name: "password",
        aliases: &[],
        allowed: "text, or any bytes but NUL",
        set: Set::Secret(|config, secret| config.password = Password::Secret(secret.into())),
    },
    OptionRule {
        name: "database",
        aliases: &["dbname"],
        allowed: TEXT,
        set: Set::Text(|config, text| config.database = Some(text.to_owned())),
    },
    OptionRule {
        name: "application_name",
        aliases: &[],
        allowed: TEXT,
        set: Set::Text(|config, text| config.application_name = Some(text.to_owned())),
    },
    OptionRule {
        name: "fallback_application_name",
        aliases: &[],
        allowed: TEXT,
        set: Set::Text(|config, text| config.fallback_application_name = Some(text.to_owned())),
    },
    OptionRule {
        name: "options",
        aliases: &[],
        allowed: TEXT,
        set: Set::Text(|config, text| config.options = Some(text.to_owned())),
    },
    OptionRule {
        name: "target_session_attrs",
        aliases: &[],
        allowed: "any, read-write, read-only, primary, standby, prefer-primary, prefer-standby or prefer-read-only",
        set: Set::Plain(|config, text| {
            store(
                &mut config.target_session_attrs,
                TargetSessionAttrs::parse_text(text).map(Some),
            )
        }),
    },
    OptionRule {
        name: "role_ttl",
        aliases: &[],
        allowed: "seconds, or a whole number with a unit such as 500ms or 30s, from 0 to 100 years",
        set: Set::Plain(|config, text| store(&mut config.role_ttl, seconds(text))),
    },
    OptionRule {
        name: "load_balance_hosts",
        aliases: &[],
        allowed: "disable or random (false and true mean the same)",
        set: Set::Plain(|config, text| store(&mut config.load_balance_hosts, host_order(text).map(Some))),
    },
    OptionRule {
        name: "statement_timeout",
        aliases: &[],
        allowed: "milliseconds, or a whole number with a unit such as 500ms or 30s, from 0 to 2147483647 ms; or none",
        set: Set::Plain(|config, text| store(&mut config.statement_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "sslmode",
        aliases: &[],
        allowed: "disable, allow, prefer, require, verify-ca or verify-full",
        set: Set::Plain(|config, text| store(&mut config.tls.mode, SslMode::parse_text(text).map(Some))),
    },
    OptionRule {
        name: "sslnegotiation",
        aliases: &[],
        allowed: "postgres or direct",
        set: Set::Plain(|config, text| {
            store(
                &mut config.tls.negotiation,
                SslNegotiation::parse_text(text).map(Some),
            )
        }),
    },
    OptionRule {
        name: "channel_binding",
        aliases: &[],
        allowed: "disable, prefer or require",
        set: Set::Plain(|config, text| {
            store(
                &mut config.tls.channel_binding,
                ChannelBinding::parse_text(text).map(Some),
            )
        }),
    },
    OptionRule {
        name: "sslrootcert",
        aliases: &["ssl_root_cert"],
        allowed: "system, or the path of a file with certificates in PEM form",
        set: Set::Text(|config, text| config.tls.roots = roots(text)),
    },
    OptionRule {
        name: "sslcert",
        aliases: &["ssl_client_cert"],
        allowed: "the path of a file with a certificate, and its chain, in PEM form",
        set: Set::Text(|config, text| config.tls.client_cert = file(text)),
    },
    OptionRule {
        name: "sslkey",
        aliases: &["ssl_client_key"],
        allowed: "the path of a file with a key in PEM form, not encrypted",
        set: Set::Text(|config, text| config.tls.client_key = file(text)),
    },
    OptionRule {
        name: "ssl_server_name",
        aliases: &[],
        allowed: "a DNS name or an IP address, without a port",
        set: Set::Text(|config, text| config.tls.server_name = Some(text.to_owned())),
    },
    OptionRule {
        name: "connect_timeout",
        aliases: &[],
        allowed: "seconds, or a whole number with a unit such as 500ms or 30s, at most 100 years; 0, none or a negative \
                  number for the longest",
        set: Set::Plain(|config, text| store(&mut config.connect_timeout, limit(text).map(Some))),
    },
    OptionRule {
        name: "connect_race_delay",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.connect_race_delay, or_none(text, millis))),
    },
    OptionRule {
        name: "keepalives",
        aliases: &[],
        allowed: FLAG,
        set: Set::Plain(|config, text| store(&mut config.keepalives, flag(text))),
    },
    OptionRule {
        name: "keepalives_idle",
        aliases: &[],
        allowed: "whole seconds from 1 to 32767",
        set: Set::Plain(|config, text| store(&mut config.keepalives_idle, seconds(text))),
    },
    OptionRule {
        name: "keepalives_interval",
        aliases: &[],
        allowed: "whole seconds from 1 to 32767",
        set: Set::Plain(|config, text| store(&mut config.keepalives_interval, seconds(text))),
    },
    OptionRule {
        name: "keepalives_count",
        aliases: &["keepalives_retries"],
        allowed: "a whole number from 1 to 127",
        set: Set::Plain(|config, text| store(&mut config.keepalives_count, number(text))),
    },
    OptionRule {
        name: "tcp_user_timeout",
        aliases: &[],
        allowed: "milliseconds, or a whole number with a unit such as 500ms or 30s, up to 2147483647 ms; 0 or none \
                  leaves it to the operating system",
        set: Set::Plain(|config, text| store(&mut config.tcp_user_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "load_balance",
        aliases: &[],
        allowed: "true, false, any, only-primary, only-rr, prefer-primary or prefer-rr",
        set: Set::Plain(|config, text| store(&mut config.load_balance, load_balance(text))),
    },
    OptionRule {
        name: "topology_keys",
        aliases: &[],
        allowed: "cloud.region.zone:preference, separated by commas",
        set: Set::Plain(|config, text| {
            config.topology_keys = topology_keys(text)?;
            Ok(())
        }),
    },
    OptionRule {
        name: "fallback_to_topology_keys_only",
        aliases: &[],
        allowed: FLAG,
        set: Set::Plain(|config, text| store(&mut config.fallback_to_topology_keys_only, flag(text))),
    },
    OptionRule {
        name: "yb_servers_refresh_interval",
        aliases: &[],
        allowed: "whole seconds from 0 to 600",
        set: Set::Plain(|config, text| {
            store(
                &mut config.yb_servers_refresh_interval,
                number(text).map(Duration::from_secs),
            )
        }),
    },
    OptionRule {
        name: "failed_host_reconnect_delay_secs",
        aliases: &[],
        allowed: "whole seconds from 0 to 60",
        set: Set::Plain(|config, text| store(&mut config.failed_host_reconnect_delay_secs, number(text))),
    },
    OptionRule {
        name: "failed_host_max_delay_secs",
        aliases: &[],
        allowed: "none, or whole seconds from failed_host_reconnect_delay_secs (which then must not be 0) to 100 years",
        set: Set::Plain(|config, text| store(&mut config.failed_host_max_delay_secs, or_none(text, number))),
    },
    OptionRule {
        name: "drain_stale_addresses",
        aliases: &[],
        allowed: FLAG,
        set: Set::Plain(|config, text| store(&mut config.drain_stale_addresses, flag(text))),
    },
    OptionRule {
        name: "breaker_threshold",
        aliases: &[],
        allowed: "a whole number from 0 (never) to 4294967295",
        set: Set::Plain(|config, text| store(&mut config.breaker_threshold, number(text))),
    },
    OptionRule {
        name: "breaker_base",
        aliases: &[],
        allowed: "a duration from 1ms to breaker_cap",
        set: Set::Plain(|config, text| store(&mut config.breaker_base, millis(text))),
    },
    OptionRule {
        name: "breaker_cap",
        aliases: &[],
        allowed: "a duration from breaker_base, and at least 1ms, to 24h",
        set: Set::Plain(|config, text| store(&mut config.breaker_cap, millis(text))),
    },
    OptionRule {
        name: "breaker_jitter",
        aliases: &[],
        allowed: "a number from 0 to 1, such as 0.2",
        set: Set::Plain(|config, text| store(&mut config.breaker_jitter, decimal(text))),
    },
    OptionRule {
        name: "pool_size",
        aliases: &[],
        allowed: "a whole number from 1 to 65535",
        set: Set::Plain(|config, text| store(&mut config.pool_size, number(text))),
    },
    OptionRule {
        name: "min_idle",
        aliases: &[],
        allowed: "a whole number from 0 to pool_size",
        set: Set::Plain(|config, text| store(&mut config.min_idle, number(text).map(Some))),
    },
    OptionRule {
        name: "idle_timeout",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.idle_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "max_lifetime",
        aliases: &[],
        allowed: POSITIVE,
        set: Set::Plain(|config, text| store(&mut config.max_lifetime, millis(text))),
    },
    OptionRule {
        name: "lifetime_jitter",
        aliases: &[],
        allowed: FROM_ZERO,
        set: Set::Plain(|config, text| store(&mut config.lifetime_jitter, millis(text))),
    },
    OptionRule {
        name: "rebalance_interval",
        aliases: &[],
        allowed: POSITIVE,
        set: Set::Plain(|config, text| store(&mut config.rebalance_interval, millis(text))),
    },
    OptionRule {
        name: "rebalance_batch",
        aliases: &[],
        allowed: AT_LEAST_ONE,
        set: Set::Plain(|config, text| store(&mut config.rebalance_batch, number(text))),
    },
    OptionRule {
        name: "checkout_timeout",
        aliases: &[],
        allowed: "a duration from 0 to 100 years, such as 500ms, 30s or 5min; or none, to wait for ever",
        set: Set::Plain(|config, text| store(&mut config.checkout_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "socket_timeout",
        aliases: &[],
        allowed: "seconds, or a whole number with a unit such as 500ms or 30s, greater than 0 and at most 100 years; 0 or \
                  none for no limit",
        set: Set::Plain(|config, text| store(&mut config.socket_timeout, seconds_or_off(text))),
    },
    OptionRule {
        name: "cancel_on_timeout",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.cancel_on_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "stall_timeout",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.stall_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "resolve_commit",
        aliases: &[],
        allowed: FLAG,
        set: Set::Plain(|config, text| store(&mut config.resolve_commit, flag(text))),
    },
    OptionRule {
        name: "resolve_commit_timeout",
        aliases: &[],
        allowed: POSITIVE,
        set: Set::Plain(|config, text| store(&mut config.resolve_commit_timeout, millis(text))),
    },
    OptionRule {
        name: "statement_cache_size",
        aliases: &[],
        allowed: "a whole number from 0 to 65535",
        set: Set::Plain(|config, text| store(&mut config.statement_cache_size, number(text))),
    },
    OptionRule {
        name: "max_dials",
        aliases: &[],
        allowed: AT_LEAST_ONE,
        set: Set::Plain(|config, text| store(&mut config.max_dials, number(text))),
    },
    OptionRule {
        name: "after_connect_timeout",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.after_connect_timeout, or_none(text, millis))),
    },
    OptionRule {
        name: "recycle",
        aliases: &[],
        allowed: "fast or clean",
        set: Set::Plain(|config, text| store(&mut config.recycle, Recycle::parse_text(text))),
    },
    OptionRule {
        name: "return_cancel_after",
        aliases: &[],
        allowed: FROM_ZERO,
        set: Set::Plain(|config, text| store(&mut config.return_cancel_after, millis(text))),
    },
    OptionRule {
        name: "return_timeout",
        aliases: &[],
        allowed: FROM_ZERO,
        set: Set::Plain(|config, text| store(&mut config.return_timeout, millis(text))),
    },
    OptionRule {
        name: "leak_threshold",
        aliases: &[],
        allowed: POSITIVE_OR_NONE,
        set: Set::Plain(|config, text| store(&mut config.leak_threshold, or_none(text, millis))),
    },
    OptionRule {
        name: "record_holders",
        aliases: &[],
        allowed: FLAG,
        set: Set::Plain(|config, text| store(&mut config.record_holders, flag(text))),
    },
];
