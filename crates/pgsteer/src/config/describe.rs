//! A configuration as people may see it: normalised, complete, and without its secrets.
//!
//! One list of names and values, made from the checked settings; documents and connection strings are printed from the
//! same list. A password appears in it only as the word `redacted`.

use std::fmt;
use std::time::Duration;

use pgsteer_core::breaker::BreakerOptions;
use pgsteer_core::host::HostKey;

use super::duration;
use super::error::REDACTED;
use super::{Config, ConfigError, HostOrder, Pem, RootCerts, Settings, Tls};

/// Every option of a configuration with the value it has, defaults included and secrets left out.
///
/// `Display` writes one `name = value` per line. With the feature `serde` it serialises as a map whose values read back
/// as options of a [`Config`]; where `redacted` stands, for a password and for certificates and keys given as bytes, it has to
/// be replaced or taken out before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    entries: Vec<(&'static str, Value)>,
}

/// The value of one option in a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// The option is not set and has no default.
    Unset,
    /// Text, one of a few words, or a duration with its unit.
    Text(String),
    /// A count, or whole seconds where the option's name says so.
    Number(u64),
    /// On or off.
    Flag(bool),
    /// Hosts with their ports and the addresses to dial.
    Hosts(Vec<HostKey>),
}

impl Config {
    /// What this configuration comes to, fit to be shown and logged: every option with its value, the password as
    /// `redacted`.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Config::check).
    pub fn describe(&self) -> Result<Description, ConfigError> {
        self.settings().map(|settings| Description::of(&settings))
    }
}

impl Description {
    pub(super) fn of(settings: &Settings) -> Self {
        // Taken apart, so that a setting without an entry here does not compile.
        let Settings {
            hosts,
            user,
            password,
            database,
            application_name,
            options,
            target_session_attrs,
            role_ttl,
            load_balance_hosts,
            tls:
                Tls {
                    mode,
                    negotiation,
                    channel_binding,
                    roots,
                    client_cert,
                    client_key,
                    server_name,
                    // No text can say which.
                    connector: _,
                },
            statement_timeout,
            connect_timeout,
            connect_race_delay,
            keepalives,
            tcp_user_timeout,
            load_balance,
            topology_keys,
            fallback_to_topology_keys_only,
            refresh_interval,
            failed_host_delay,
            failed_host_max_delay,
            drain_stale_addresses,
            breaker:
                BreakerOptions {
                    threshold,
                    base,
                    cap,
                    jitter,
                    // Follows from others.
                    probe_lease: _,
                },
            pool_size,
            min_idle,
            idle_timeout,
            max_lifetime,
            lifetime_jitter,
            rebalance_interval,
            rebalance_batch,
            checkout_timeout,
            socket_timeout,
            cancel_on_timeout,
            stall_timeout,
            resolve_commit,
            resolve_commit_timeout,
            statement_cache_size,
            max_dials,
            // No text can say which.
            after_connect: _,
            after_connect_timeout,
            before_checkout: _,
            on_return: _,
            recycle,
            return_cancel_after,
            return_timeout,
            leak_threshold,
            record_holders,
        } = settings;
        let probes = keepalives.as_ref();
        let entries = vec![
            ("hosts", Value::Hosts(hosts.clone())),
            ("user", text(user)),
            (
                "password",
                if password.is_set() {
                    text(REDACTED)
                } else {
                    Value::Unset
                },
            ),
            ("database", text(database)),
            ("application_name", text(application_name)),
            (
                "options",
                options.as_ref().map_or(Value::Unset, |options| text(options)),
            ),
            ("target_session_attrs", text(&target_session_attrs.to_string())),
            ("role_ttl", time(*role_ttl)),
            (
                "load_balance_hosts",
                text(match load_balance_hosts {
                    HostOrder::Listed => "disable",
                    HostOrder::Random => "random",
                }),
            ),
            ("statement_timeout", time_or_none(*statement_timeout)),
            ("sslmode", text(&mode.to_string())),
            ("sslnegotiation", text(&negotiation.to_string())),
            ("channel_binding", text(&channel_binding.to_string())),
            (
                "sslrootcert",
                match roots {
                    RootCerts::Unset => Value::Unset,
                    RootCerts::System => text("system"),
                    RootCerts::Given(roots) => file(roots),
                },
            ),
            ("sslcert", client_cert.as_ref().map_or(Value::Unset, file)),
            ("sslkey", client_key.as_ref().map_or(Value::Unset, file)),
            (
                "ssl_server_name",
                server_name.as_ref().map_or(Value::Unset, |name| text(name)),
            ),
            ("connect_timeout", time(*connect_timeout)),
            ("connect_race_delay", time_or_none(*connect_race_delay)),
            ("keepalives", Value::Flag(probes.is_some())),
            (
                "keepalives_idle",
                probes.map_or(Value::Unset, |probes| time(probes.idle)),
            ),
            (
                "keepalives_interval",
                probes.map_or(Value::Unset, |probes| time(probes.interval)),
            ),
            (
                "keepalives_count",
                probes.map_or(Value::Unset, |probes| Value::Number(probes.count.into())),
            ),
            ("tcp_user_timeout", time_or_none(*tcp_user_timeout)),
            ("load_balance", text(&load_balance.to_string())),
            ("topology_keys", text(&topology_keys.to_string())),
            (
                "fallback_to_topology_keys_only",
                Value::Flag(*fallback_to_topology_keys_only),
            ),
            (
                "yb_servers_refresh_interval",
                Value::Number(refresh_interval.as_secs()),
            ),
            (
                "failed_host_reconnect_delay_secs",
                Value::Number(failed_host_delay.as_secs()),
            ),
            (
                "failed_host_max_delay_secs",
                failed_host_max_delay.map_or_else(|| text("none"), |cap| Value::Number(cap.as_secs())),
            ),
            ("drain_stale_addresses", Value::Flag(*drain_stale_addresses)),
            ("breaker_threshold", Value::Number((*threshold).into())),
            ("breaker_base", time(*base)),
            ("breaker_cap", time(*cap)),
            ("breaker_jitter", text(&jitter.to_string())),
            ("pool_size", Value::Number((*pool_size).into())),
            ("min_idle", Value::Number((*min_idle).into())),
            ("idle_timeout", time_or_none(*idle_timeout)),
            ("max_lifetime", time(*max_lifetime)),
            ("lifetime_jitter", time(*lifetime_jitter)),
            ("rebalance_interval", time(*rebalance_interval)),
            ("rebalance_batch", Value::Number((*rebalance_batch).into())),
            ("checkout_timeout", time_or_none(*checkout_timeout)),
            ("socket_timeout", time_or_none(*socket_timeout)),
            ("cancel_on_timeout", time_or_none(*cancel_on_timeout)),
            ("stall_timeout", time_or_none(*stall_timeout)),
            ("resolve_commit", Value::Flag(*resolve_commit)),
            ("resolve_commit_timeout", time(*resolve_commit_timeout)),
            (
                "statement_cache_size",
                Value::Number((*statement_cache_size).into()),
            ),
            ("max_dials", Value::Number((*max_dials).into())),
            ("after_connect_timeout", time_or_none(*after_connect_timeout)),
            ("recycle", text(&recycle.to_string())),
            ("return_cancel_after", time(*return_cancel_after)),
            ("return_timeout", time(*return_timeout)),
            ("leak_threshold", time_or_none(*leak_threshold)),
            ("record_holders", Value::Flag(*record_holders)),
        ];
        Description { entries }
    }

    /// Every option with its value, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.entries.iter().map(|(name, value)| (*name, value))
    }

    /// The value of one option by its name; `None` if there is no such option.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A file by its path; what was given as bytes is left out, as a password is.
fn file(pem: &Pem) -> Value {
    match pem {
        Pem::File(path) => Value::Text(path.to_string_lossy().into_owned()),
        Pem::Bytes(_) => text(REDACTED),
    }
}

fn time(time: Duration) -> Value {
    Value::Text(duration::write(time))
}

fn time_or_none(limit: Option<Duration>) -> Value {
    limit.map_or_else(|| text("none"), time)
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries
            .iter()
            .try_for_each(|(name, value)| writeln!(f, "{name} = {value}"))
    }
}

impl fmt::Display for Value {
    /// The value as a connection string would have it, without any encoding; hosts as `name:port`, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unset => Ok(()),
            Value::Text(text) => f.write_str(text),
            Value::Number(number) => number.fmt(f),
            Value::Flag(on) => on.fmt(f),
            Value::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(HostKey::to_string).collect();
                f.write_str(&hosts.join(","))
            }
        }
    }
}
