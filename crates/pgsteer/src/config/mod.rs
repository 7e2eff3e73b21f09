//! Options: how they are written, what each allows, and the checked settings they become.
//!
//! [`Config`] is built by value, read from a connection string or (feature `serde`) from a document; all three end in
//! one check that yields the settings the rest of the crate works with, or one [`ConfigError`]. Nothing here connects
//! to anything, and nothing here prints a password.

mod builder;
mod check;
mod conninfo;
mod describe;
mod duration;
mod effect;
mod environment;
mod error;
mod hooks;
mod hosts;
mod options;
mod passfile;
mod password;
mod recycle;
#[cfg(feature = "serde")]
mod serialized;
mod settings;
mod tls;
mod topology;

#[cfg(test)]
mod tests;

use std::time::Duration;

use pgsteer_core::breaker::BreakerOptions;

pub(crate) use check::LONGEST;
pub use describe::{Description, Value};
pub use error::{ConfigError, UnknownOption};
pub use hooks::HookError;
pub use hosts::HostSpec;
pub use password::{PasswordError, PasswordSource};
pub use pgsteer_core::hosts::{HostOrder, LoadBalance, TargetSessionAttrs};
pub use pgsteer_core::topology::TopologyKeys;
pub use recycle::Recycle;
pub use settings::Keepalives;
pub use tls::{ChannelBinding, Pem, RootCerts, SslMode, SslNegotiation};
pub use topology::TopologySpec;

pub(crate) use builder::TlsConnector;
pub(crate) use error::REDACTED;
pub(crate) use hooks::{Check, Hook};
pub(crate) use password::Password;
pub(crate) use settings::Settings;
pub(crate) use tls::Tls;
use tls::TlsGiven;

/// Whose defaults apply for port, user and database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Family {
    /// Port 5432, the operating system's user.
    #[default]
    Postgres,
    /// Port 5433, user `yugabyte`.
    Yugabyte,
}

/// How to reach a cluster and how to keep connections to it.
///
/// A value that every setter takes and gives back. Setters accept anything; values are judged together, once, when the
/// configuration is used ([`check`](Config::check) does it on demand), so the order of the setters does not matter.
///
/// ```
/// use pgsteer::config::{Config, LoadBalance};
///
/// let config = Config::yugabyte()
///     .hosts(["yb1", "yb2"])
///     .user("app")
///     .password("secret")
///     .load_balance(LoadBalance::Any)
///     .topology_keys("gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2")
///     .pool_size(20);
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    family: Family,
    hosts: Option<Vec<HostSpec>>,
    port: Option<u16>,
    user: Option<String>,
    password: Password,
    database: Option<String>,
    application_name: Option<String>,
    fallback_application_name: Option<String>,
    options: Option<String>,
    target_session_attrs: Option<TargetSessionAttrs>,
    role_ttl: Duration,
    load_balance_hosts: Option<HostOrder>,
    tls: TlsGiven,
    statement_timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    connect_race_delay: Option<Duration>,
    keepalives: bool,
    keepalives_idle: Duration,
    keepalives_interval: Duration,
    keepalives_count: u32,
    tcp_user_timeout: Option<Duration>,
    load_balance: LoadBalance,
    topology_keys: TopologySpec,
    fallback_to_topology_keys_only: bool,
    yb_servers_refresh_interval: Duration,
    failed_host_reconnect_delay_secs: u64,
    failed_host_max_delay_secs: Option<u64>,
    drain_stale_addresses: bool,
    breaker_threshold: u32,
    breaker_base: Duration,
    breaker_cap: Duration,
    breaker_jitter: f64,
    pool_size: u32,
    min_idle: Option<u32>,
    idle_timeout: Option<Duration>,
    max_lifetime: Duration,
    lifetime_jitter: Duration,
    rebalance_interval: Duration,
    rebalance_batch: u32,
    checkout_timeout: Option<Duration>,
    socket_timeout: Option<Duration>,
    cancel_on_timeout: Option<Duration>,
    stall_timeout: Option<Duration>,
    resolve_commit: bool,
    resolve_commit_timeout: Duration,
    statement_cache_size: u32,
    max_dials: u32,
    after_connect: Option<Hook>,
    after_connect_timeout: Option<Duration>,
    before_checkout: Option<Check>,
    on_return: Option<Hook>,
    recycle: Recycle,
    return_cancel_after: Duration,
    return_timeout: Duration,
    leak_threshold: Option<Duration>,
    record_holders: bool,
    /// Parameters of other drivers that were accepted and change nothing here.
    without_use: Vec<&'static str>,
}

impl Config {
    /// PostgreSQL's defaults: one host `localhost`, port 5432, the operating system's user, the database named as the
    /// user.
    pub fn new() -> Self {
        Config::of(Family::Postgres)
    }

    /// YugabyteDB's defaults: one host `localhost`, port 5433, user `yugabyte`, the database named as the user.
    pub fn yugabyte() -> Self {
        Config::of(Family::Yugabyte)
    }

    /// Sets an option from its name and a text, both as in a connection string. For settings that come from a command
    /// line or the environment.
    ///
    /// `hosts` takes a list without ports, `port` one number; `hostaddr` is for the hosts given before. Other drivers'
    /// words are understood as in a connection string. Ranges are judged with the whole configuration, later.
    ///
    /// # Errors
    ///
    /// If there is no option of this name, if it is one that this version does not have, or if the text is none of its
    /// values.
    pub fn with_option(mut self, name: &str, value: &str) -> Result<Self, ConfigError> {
        options::set(&mut self, name, value.as_bytes())?;
        Ok(self)
    }

    fn of(family: Family) -> Self {
        Config {
            family,
            hosts: None,
            port: None,
            user: None,
            password: Password::None,
            database: None,
            application_name: None,
            fallback_application_name: None,
            options: None,
            target_session_attrs: None,
            role_ttl: Duration::from_secs(10),
            load_balance_hosts: None,
            tls: TlsGiven::default(),
            statement_timeout: None,
            connect_timeout: None,
            connect_race_delay: None,
            keepalives: true,
            keepalives_idle: Duration::from_secs(30),
            keepalives_interval: Duration::from_secs(10),
            keepalives_count: 3,
            tcp_user_timeout: Some(Duration::from_secs(30)),
            load_balance: LoadBalance::Off,
            topology_keys: TopologySpec::default(),
            fallback_to_topology_keys_only: false,
            yb_servers_refresh_interval: Duration::from_secs(300),
            failed_host_reconnect_delay_secs: 5,
            failed_host_max_delay_secs: None,
            drain_stale_addresses: true,
            breaker_threshold: BreakerOptions::DEFAULT.threshold,
            breaker_base: BreakerOptions::DEFAULT.base,
            breaker_cap: BreakerOptions::DEFAULT.cap,
            breaker_jitter: BreakerOptions::DEFAULT.jitter,
            pool_size: 10,
            min_idle: None,
            idle_timeout: None,
            max_lifetime: Duration::from_secs(30 * 60),
            lifetime_jitter: Duration::from_secs(5 * 60),
            rebalance_interval: Duration::from_secs(30),
            rebalance_batch: 2,
            checkout_timeout: Some(Duration::from_secs(5)),
            socket_timeout: None,
            cancel_on_timeout: None,
            stall_timeout: None,
            resolve_commit: false,
            resolve_commit_timeout: Duration::from_secs(30),
            statement_cache_size: 256,
            max_dials: 32,
            after_connect: None,
            after_connect_timeout: Some(Duration::from_secs(60)),
            before_checkout: None,
            on_return: None,
            recycle: Recycle::Fast,
            return_cancel_after: Duration::from_millis(500),
            return_timeout: Duration::from_secs(5),
            leak_threshold: None,
            record_holders: false,
            without_use: Vec::new(),
        }
    }
}

impl Default for Config {
    /// [`Config::new`].
    fn default() -> Self {
        Config::new()
    }
}
