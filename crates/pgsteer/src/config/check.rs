//! The one check of a configuration: every range, every rule between two options, every default that depends on another.
//!
//! Port and topology keys come first, then the options in the order people meet them; the first problem found is the
//! one reported.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use pgsteer_core::breaker::BreakerOptions;
use pgsteer_core::host::HostKey;

use super::error::{REDACTED, holds_a_password, shown};
use super::{Config, ConfigError, Family, HostSpec, Keepalives, Password, Settings, duration, options};

/// The longest duration accepted anywhere, 100 years. It keeps sums of instants and durations far from overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The most milliseconds PostgreSQL and Linux take in a setting (a signed 32-bit number).
const MOST_MILLIS: u128 = i32::MAX as u128;
/// How long one attempt to connect may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest a breaker waits for its probe, which is the most it takes.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// What is wrong with a text that sets a password.
const NO_PASSWORD: &str = "text that sets no password: parameters are separated by & in URLs and by spaces in name=value \
                           strings, not by semicolons or commas";
/// The most connections a pool can have.
const MOST_CONNECTIONS: u32 = 65_535;

/// The most statements that a connection may keep.
const MOST_STATEMENTS: u32 = 65_535;

impl Config {
    /// Checks every option, as using the configuration does.
    ///
    /// The operating system is asked for its user's name only if no user is given and the family is PostgreSQL.
    ///
    /// # Errors
    ///
    /// The first problem found, as a [`ConfigError`] that names the option and what it allows.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.settings().map(drop)
    }

    /// Everything checked and filled in.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        self.judge()?;
        let user = self.user_or_default()?;
        let database = given(&self.database).unwrap_or(&user).to_owned();
        let hosts = self.seeds();
        let password = match &self.password {
            Password::File(file) => match file.password(&hosts, &database, &user)? {
                Some(secret) => Password::Secret(secret),
                None => Password::None,
            },
            password => password.clone(),
        };
        Ok(Settings {
            hosts,
            database,
            user,
            password,
            application_name: self.application_name_or_default(),
            options: self.options.clone(),
            target_session_attrs: self.target_session_attrs.unwrap_or_default(),
            role_ttl: self.role_ttl,
            load_balance_hosts: self.load_balance_hosts.unwrap_or_default(),
            tls: self.tls.resolve(),
            statement_timeout: self.statement_timeout,
            connect_timeout: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            connect_race_delay: self.connect_race_delay,
            keepalives: self.keepalives.then_some(Keepalives {
                idle: self.keepalives_idle,
                interval: self.keepalives_interval,
                count: self.keepalives_count,
            }),
            tcp_user_timeout: self.tcp_user_timeout.filter(|limit| !limit.is_zero()),
            load_balance: self.load_balance,
            topology_keys: self.topology_keys.keys()?,
            fallback_to_topology_keys_only: self.fallback_to_topology_keys_only,
            refresh_interval: self.yb_servers_refresh_interval,
            failed_host_delay: Duration::from_secs(self.failed_host_reconnect_delay_secs),
            failed_host_max_delay: self.failed_host_max_delay_secs.map(Duration::from_secs),
            drain_stale_addresses: self.drain_stale_addresses,
            breaker: self.breaker(),
            pool_size: self.pool_size,
            min_idle: self.min_idle.unwrap_or(self.pool_size),
            idle_timeout: self.idle_timeout,
            max_lifetime: self.max_lifetime,
            lifetime_jitter: self.lifetime_jitter,
            rebalance_interval: self.rebalance_interval,
            rebalance_batch: self.rebalance_batch,
            checkout_timeout: self.checkout_timeout,
            socket_timeout: self.socket_timeout,
            cancel_on_timeout: self.cancel_on_timeout,
            stall_timeout: self.stall_timeout,
            resolve_commit: self.resolve_commit,
            resolve_commit_timeout: self.resolve_commit_timeout,
            statement_cache_size: self.statement_cache_size,
            max_dials: self.max_dials,
            after_connect: self.after_connect.clone(),
            after_connect_timeout: self.after_connect_timeout,
            before_checkout: self.before_checkout.clone(),
            on_return: self.on_return.clone(),
            recycle: self.recycle,
            return_cancel_after: self.return_cancel_after,
            return_timeout: self.return_timeout,
            leak_threshold: self.leak_threshold,
            record_holders: self.record_holders,
        })
    }

    /// Everything that can be wrong with what was given; the operating system is not asked for anything.
    pub(super) fn judge(&self) -> Result<(), ConfigError> {
        self.judge_hosts()?;
        self.topology_keys.keys()?;
        self.judge_login()?;
        self.judge_socket()?;
        self.tls
            .judge(self.hosts.iter().flatten().any(HostSpec::is_socket))?;
        self.judge_cluster()?;
        self.judge_breaker()?;
        self.judge_pool()
    }

    fn judge_hosts(&self) -> Result<(), ConfigError> {
        require(self.port != Some(0), "port", 0)?;
        require(
            self.hosts.as_ref().is_none_or(|hosts| !hosts.is_empty()),
            "hosts",
            "an empty list",
        )?;
        self.hosts.iter().flatten().try_for_each(HostSpec::judge)
    }

    fn judge_login(&self) -> Result<(), ConfigError> {
        let texts = [
            ("user", self.user.as_ref()),
            ("database", self.database.as_ref()),
            ("application_name", self.application_name.as_ref()),
            (
                "fallback_application_name",
                self.fallback_application_name.as_ref(),
            ),
            ("options", self.options.as_ref()),
        ];
        for (name, text) in texts {
            let text = text.map_or("", String::as_str);
            require(!text.contains('\0'), name, text)?;
            // `-c my.password=…` is a setting of the server's
            if holds_a_password(text) && (name != "options" || text.contains(';')) {
                return Err(ConfigError::InvalidOption {
                    name,
                    value: shown(text).to_owned(),
                    allowed: NO_PASSWORD,
                });
            }
        }
        match &self.password {
            Password::Secret(secret) => require(!secret.contains(&0), "password", REDACTED),
            Password::None | Password::Source(_) | Password::File(_) => Ok(()),
        }
    }

    fn judge_socket(&self) -> Result<(), ConfigError> {
        positive("connect_timeout", self.connect_timeout)?;
        positive("connect_race_delay", self.connect_race_delay)?;
        whole_millis("statement_timeout", self.statement_timeout)?;
        whole_millis("tcp_user_timeout", self.tcp_user_timeout)?;
        whole_seconds("keepalives_idle", self.keepalives_idle, 1..=32_767)?;
        whole_seconds("keepalives_interval", self.keepalives_interval, 1..=32_767)?;
        require(
            (1..=127).contains(&self.keepalives_count),
            "keepalives_count",
            self.keepalives_count,
        )
    }

    fn judge_cluster(&self) -> Result<(), ConfigError> {
        not_too_long("role_ttl", Some(self.role_ttl))?;
        whole_seconds(
            "yb_servers_refresh_interval",
            self.yb_servers_refresh_interval,
            0..=600,
        )?;
        let delay = self.failed_host_reconnect_delay_secs;
        require(delay <= 60, "failed_host_reconnect_delay_secs", delay)?;
        match self.failed_host_max_delay_secs {
            None => Ok(()),
            Some(cap) => {
                let fits = delay > 0 && cap >= delay && Duration::from_secs(cap) <= LONGEST;
                require(fits, "failed_host_max_delay_secs", cap)
            }
        }
    }

    fn judge_breaker(&self) -> Result<(), ConfigError> {
        let Err(bad) = self.breaker().check() else {
            return Ok(());
        };
        let given = match bad.name {
            "breaker_base" => duration::write(self.breaker_base),
            "breaker_cap" => duration::write(self.breaker_cap),
            _ => self.breaker_jitter.to_string(),
        };
        require(false, bad.name, given)
    }

    /// The breaker's numbers, unjudged. Its probe is one pass over the hosts, each within `connect_timeout`; one that has
    /// taken a second longer than that for a host is taken for lost.
    fn breaker(&self) -> BreakerOptions {
        let host = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        BreakerOptions {
            threshold: self.breaker_threshold,
            base: self.breaker_base,
            cap: self.breaker_cap,
            // Zero has a sign; without one it reads back from its text.
            jitter: self.breaker_jitter + 0.0,
            probe_lease: host.saturating_add(Duration::from_secs(1)).min(LONGEST_LEASE),
        }
    }

    fn judge_pool(&self) -> Result<(), ConfigError> {
        require(
            (1..=MOST_CONNECTIONS).contains(&self.pool_size),
            "pool_size",
            self.pool_size,
        )?;
        require(self.rebalance_batch > 0, "rebalance_batch", self.rebalance_batch)?;
        require(self.max_dials > 0, "max_dials", self.max_dials)?;
        let floor = self.min_idle.unwrap_or(0);
        require(floor <= self.pool_size, "min_idle", floor)?;
        positive("max_lifetime", Some(self.max_lifetime))?;
        positive("rebalance_interval", Some(self.rebalance_interval))?;
        positive("idle_timeout", self.idle_timeout)?;
        let statements = self.statement_cache_size;
        require(statements <= MOST_STATEMENTS, "statement_cache_size", statements)?;
        positive("socket_timeout", self.socket_timeout)?;
        positive("cancel_on_timeout", self.cancel_on_timeout)?;
        positive("stall_timeout", self.stall_timeout)?;
        positive("resolve_commit_timeout", Some(self.resolve_commit_timeout))?;
        positive("leak_threshold", self.leak_threshold)?;
        positive("after_connect_timeout", self.after_connect_timeout)?;
        not_too_long("lifetime_jitter", Some(self.lifetime_jitter))?;
        not_too_long("checkout_timeout", self.checkout_timeout)?;
        not_too_long("return_cancel_after", Some(self.return_cancel_after))?;
        not_too_long("return_timeout", Some(self.return_timeout))
    }

    /// The configured hosts as keys, `localhost` if there are none.
    fn seeds(&self) -> Vec<HostKey> {
        let default_port = self.port.unwrap_or(match self.family {
            Family::Postgres => 5432,
            Family::Yugabyte => 5433,
        });
        match &self.hosts {
            Some(hosts) => hosts.iter().map(|host| host.key(default_port)).collect(),
            None => vec![HostKey::new("localhost", default_port)],
        }
    }

    fn application_name_or_default(&self) -> String {
        let name = self
            .application_name
            .as_ref()
            .or(self.fallback_application_name.as_ref());
        name.map_or_else(|| "pgsteer".to_owned(), String::clone)
    }

    fn user_or_default(&self) -> Result<String, ConfigError> {
        match (given(&self.user), self.family) {
            (Some(user), _) => Ok(user.to_owned()),
            (None, Family::Yugabyte) => Ok("yugabyte".to_owned()),
            (None, Family::Postgres) => whoami::username().map_err(|_| ConfigError::InvalidOption {
                name: "user",
                value: String::new(),
                allowed: "text; it must be given here, because the operating system does not tell the user's name",
            }),
        }
    }
}

/// A text, if there is anything in it: to libpq an empty user or database is as good as none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The error about `name` unless the rule holds; what is allowed comes from the table of options.
fn require(holds: bool, name: &'static str, value: impl Display) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::InvalidOption {
        name,
        value: shown(&value.to_string()).to_owned(),
        allowed: options::allowed(name),
    })
}

fn not_too_long(name: &'static str, time: Option<Duration>) -> Result<(), ConfigError> {
    let time = time.unwrap_or_default();
    require(time <= LONGEST, name, duration::write(time))
}

fn positive(name: &'static str, time: Option<Duration>) -> Result<(), ConfigError> {
    let Some(time) = time else { return Ok(()) };
    if time.is_zero() {
        // In any unit it is zero, so it is shown without one, as people mostly write it.
        return require(false, name, 0);
    }
    require(time <= LONGEST, name, duration::write(time))
}

fn whole_millis(name: &'static str, time: Option<Duration>) -> Result<(), ConfigError> {
    let Some(time) = time else { return Ok(()) };
    let fits = time.subsec_nanos() % 1_000_000 == 0 && time.as_millis() <= MOST_MILLIS;
    require(fits, name, duration::write(time))
}

fn whole_seconds(name: &'static str, time: Duration, range: RangeInclusive<u64>) -> Result<(), ConfigError> {
    let whole = time.subsec_nanos() == 0;
    // Without a unit where it was most likely given without one, so that people recognise what they wrote.
    let shown = if whole {
        time.as_secs().to_string()
    } else {
        duration::write(time)
    };
    require(whole && range.contains(&time.as_secs()), name, shown)
}
