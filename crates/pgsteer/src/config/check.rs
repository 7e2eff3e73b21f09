//! The one check of a configuration: every range, every rule between two options, every default that depends on another.
//!
//! Port and topology keys come first, then the options in the order people meet them; the first problem found is the
//! one reported.

use std::fmt::Display;
use std::time::Duration;

use pgsteer_core::host::HostKey;

use super::error::REDACTED;
use super::{Config, ConfigError, Family, HostSpec, Keepalives, Password, Settings};

/// The longest duration accepted anywhere, 100 years. It keeps sums of instants and durations far from overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The most milliseconds PostgreSQL and Linux take in a setting (a signed 32-bit number).
const MOST_MILLIS: u128 = i32::MAX as u128;
/// The most connections a pool can have.
const MOST_CONNECTIONS: u32 = 65_535;

const TEXT: &str = "text without NUL characters";
const HOSTS: &str =
    "one host or more, none of them empty or with a NUL character, each with a port from 1 to 65535 or none";
pub(super) const PORT: &str = "a port number from 1 to 65535";
const WHOLE_MILLIS: &str = "whole milliseconds from 0 to 2147483647, or none";

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
        Ok(Settings {
            hosts: self.seeds(),
            database: self.database.clone().unwrap_or_else(|| user.clone()),
            user,
            password: self.password.clone(),
            application_name: self.application_name.clone(),
            options: self.options.clone(),
            target_session_attrs: self.target_session_attrs,
            statement_timeout: self.statement_timeout,
            connect_timeout: self.connect_timeout,
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
            pool_size: self.pool_size,
            min_idle: self.min_idle.unwrap_or(self.pool_size),
            idle_timeout: self.idle_timeout,
            max_lifetime: self.max_lifetime,
            lifetime_jitter: self.lifetime_jitter,
            rebalance_interval: self.rebalance_interval,
            rebalance_batch: self.rebalance_batch,
            checkout_timeout: self.checkout_timeout,
            max_dials: self.max_dials,
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
        self.judge_cluster()?;
        self.judge_pool()
    }

    fn judge_hosts(&self) -> Result<(), ConfigError> {
        require(self.port != Some(0), "port", 0, PORT)?;
        for HostSpec { name, port } in &self.hosts {
            require(!name.is_empty() && !name.contains('\0'), "hosts", name, HOSTS)?;
            require(*port != Some(0), "hosts", 0, HOSTS)?;
        }
        Ok(())
    }

    fn judge_login(&self) -> Result<(), ConfigError> {
        let texts = [
            ("user", self.user.as_ref()),
            ("database", self.database.as_ref()),
            ("application_name", Some(&self.application_name)),
            ("options", self.options.as_ref()),
        ];
        for (name, text) in texts {
            let text = text.map_or("", String::as_str);
            require(!text.contains('\0'), name, text, TEXT)?;
        }
        if let Password::Secret(secret) = &self.password {
            require(!secret.contains(&0), "password", REDACTED, "any bytes but NUL")?;
        }
        Ok(())
    }

    fn judge_socket(&self) -> Result<(), ConfigError> {
        positive("connect_timeout", self.connect_timeout)?;
        whole_millis("statement_timeout", self.statement_timeout)?;
        whole_millis("tcp_user_timeout", self.tcp_user_timeout)?;
        for (name, time) in [
            ("keepalives_idle", self.keepalives_idle),
            ("keepalives_interval", self.keepalives_interval),
        ] {
            let fits = is_whole_seconds(time) && (1..=32_767).contains(&time.as_secs());
            require(fits, name, text(time), "whole seconds from 1 to 32767")?;
        }
        let count = self.keepalives_count;
        require(
            (1..=127).contains(&count),
            "keepalives_count",
            count,
            "a whole number from 1 to 127",
        )
    }

    fn judge_cluster(&self) -> Result<(), ConfigError> {
        let refresh = self.yb_servers_refresh_interval;
        require(
            is_whole_seconds(refresh) && refresh.as_secs() <= 600,
            "yb_servers_refresh_interval",
            text(refresh),
            "whole seconds from 0 to 600",
        )?;
        let delay = self.failed_host_reconnect_delay_secs;
        require(
            delay <= 60,
            "failed_host_reconnect_delay_secs",
            delay,
            "whole seconds from 0 to 60",
        )?;
        if let Some(cap) = self.failed_host_max_delay_secs {
            let fits = delay > 0 && cap >= delay && Duration::from_secs(cap) <= LONGEST;
            require(
                fits,
                "failed_host_max_delay_secs",
                cap,
                "none, or whole seconds from failed_host_reconnect_delay_secs (which then must not be 0) to 100 years",
            )?;
        }
        Ok(())
    }

    fn judge_pool(&self) -> Result<(), ConfigError> {
        let counts = [
            (
                "pool_size",
                self.pool_size,
                MOST_CONNECTIONS,
                "a whole number from 1 to 65535",
            ),
            (
                "rebalance_batch",
                self.rebalance_batch,
                u32::MAX,
                "a whole number from 1 to 4294967295",
            ),
            (
                "max_dials",
                self.max_dials,
                u32::MAX,
                "a whole number from 1 to 4294967295",
            ),
        ];
        for (name, count, most, allowed) in counts {
            require((1..=most).contains(&count), name, count, allowed)?;
        }
        if let Some(floor) = self.min_idle {
            require(
                floor <= self.pool_size,
                "min_idle",
                floor,
                "a whole number from 0 to pool_size",
            )?;
        }
        positive("max_lifetime", self.max_lifetime)?;
        positive("rebalance_interval", self.rebalance_interval)?;
        positive_or_none("idle_timeout", self.idle_timeout)?;
        positive_or_none("leak_threshold", self.leak_threshold)?;
        let from_zero = [
            (
                "lifetime_jitter",
                Some(self.lifetime_jitter),
                "a duration from 0 to 100 years",
            ),
            (
                "checkout_timeout",
                self.checkout_timeout,
                "a duration from 0 to 100 years, or none to wait for ever",
            ),
            (
                "return_cancel_after",
                Some(self.return_cancel_after),
                "a duration from 0 to 100 years",
            ),
            (
                "return_timeout",
                Some(self.return_timeout),
                "a duration from 0 to 100 years",
            ),
        ];
        for (name, time, allowed) in from_zero {
            let time = time.unwrap_or_default();
            require(time <= LONGEST, name, text(time), allowed)?;
        }
        Ok(())
    }

    /// The configured hosts as keys, `localhost` if there are none.
    fn seeds(&self) -> Vec<HostKey> {
        let default_port = self.port.unwrap_or(match self.family {
            Family::Postgres => 5432,
            Family::Yugabyte => 5433,
        });
        if self.hosts.is_empty() {
            return vec![HostKey::new("localhost", default_port)];
        }
        let key = |host: &HostSpec| HostKey::new(host.name.as_str(), host.port.unwrap_or(default_port));
        self.hosts.iter().map(key).collect()
    }

    fn user_or_default(&self) -> Result<String, ConfigError> {
        match (&self.user, self.family) {
            (Some(user), _) => Ok(user.clone()),
            (None, Family::Yugabyte) => Ok("yugabyte".to_owned()),
            (None, Family::Postgres) => whoami::username().map_err(|_| ConfigError::InvalidOption {
                name: "user",
                value: String::new(),
                allowed: "text; it must be given here, because the operating system does not tell the user's name",
            }),
        }
    }
}

fn require(
    holds: bool,
    name: &'static str,
    value: impl Display,
    allowed: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        Err(ConfigError::InvalidOption {
            name,
            value: value.to_string(),
            allowed,
        })
    }
}

fn positive(name: &'static str, time: Duration) -> Result<(), ConfigError> {
    let fits = !time.is_zero() && time <= LONGEST;
    require(
        fits,
        name,
        text(time),
        "a duration greater than 0, at most 100 years",
    )
}

fn positive_or_none(name: &'static str, time: Option<Duration>) -> Result<(), ConfigError> {
    let Some(time) = time else { return Ok(()) };
    let fits = !time.is_zero() && time <= LONGEST;
    require(
        fits,
        name,
        text(time),
        "a duration greater than 0, at most 100 years, or none",
    )
}

fn whole_millis(name: &'static str, time: Option<Duration>) -> Result<(), ConfigError> {
    let Some(time) = time else { return Ok(()) };
    let fits = time.subsec_nanos() % 1_000_000 == 0 && time.as_millis() <= MOST_MILLIS;
    require(fits, name, text(time), WHOLE_MILLIS)
}

fn is_whole_seconds(time: Duration) -> bool {
    time.subsec_nanos() == 0
}

fn text(time: Duration) -> String {
    format!("{time:?}")
}
