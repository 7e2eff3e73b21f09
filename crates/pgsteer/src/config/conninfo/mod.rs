//! Connection strings: what kind one is, and the way back from a configuration to a string.
//!
//! Only URLs are read in this version; other kinds are recognised, so that the error can say what to write instead.
//! No error here repeats a part of the string that may belong to a password.

mod percent;
mod print;
mod uri;

use std::str::FromStr;

use super::{Config, ConfigError, Family};

/// The schemes understood, with the family whose defaults they stand for.
const SCHEMES: [(&str, Family); 3] = [
    ("postgresql://", Family::Postgres),
    ("postgres://", Family::Postgres),
    ("yugabytedb://", Family::Yugabyte),
];

const WRITE_A_URL: &str = "not supported in this version; write postgresql://user@host:port/database?option=value, or \
                           yugabytedb:// for YugabyteDB's defaults";

/// Reads a connection string without judging the ranges of its values.
pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    for (scheme, family) in SCHEMES {
        if let Some(rest) = text.strip_prefix(scheme) {
            return uri::read(family, rest);
        }
    }
    if text.starts_with("jdbc:") {
        return Err(ConfigError::NotInThisVersion {
            name: "JDBC URLs".to_owned(),
            reason: WRITE_A_URL,
        });
    }
    if !text.contains("://") && text.contains('=') {
        let name = "key=value connection strings".to_owned();
        return Err(ConfigError::NotInThisVersion {
            name,
            reason: WRITE_A_URL,
        });
    }
    Err(invalid(
        "it must start with postgresql://, postgres:// or yugabytedb://",
    ))
}

fn invalid(reason: &str) -> ConfigError {
    ConfigError::InvalidUrl {
        reason: reason.to_owned(),
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads and judges a connection string, `postgresql://`, `postgres://` or `yugabytedb://`, by libpq's rules:
    ///
    /// * `scheme://user:password@host1:port1,host2:port2/database?option=value&…`, everything optional. A host without
    ///   a port has the default port. IPv6 addresses stand in brackets (a scope id is refused), a socket directory is percent-encoded
    ///   (`%2Fvar%2Frun%2Fpostgresql`).
    /// * Everything may be percent-encoded, and what has a meaning must be: in a password `/` (`%2F`), `?` (`%3F`),
    ///   `@` (`%40`) and `%` (`%25`). A `+` is a plus.
    /// * `host=a,b` and `port=1,2` among the options replace the whole list of hosts or of ports; `user`, `password` and
    ///   `dbname` replace theirs.
    /// * Every option is there by its setter's name, with underscores or dashes, save
    ///   [`password_source`](Config::password_source). An unknown or repeated option is an error.
    /// * A duration is a whole number with `ns`, `us`, `ms`, `s`, `min`, `h` or `d`. Without a unit it counts seconds in
    ///   `connect_timeout`, `keepalives_idle` and `keepalives_interval`, and milliseconds in all others.
    ///   `yb_servers_refresh_interval`, `failed_host_reconnect_delay_secs` and `failed_host_max_delay_secs` are whole
    ///   seconds and take no unit. Where a setter takes `None`, the text is `none`.
    /// * Flags are `true`, `on`, `1` or `false`, `off`, `0`. `load_balance` is `true`, `false`, `any`, `only-primary`,
    ///   `only-rr`, `prefer-primary` or `prefer-rr`; `target_session_attrs` is `any` or `read-write`.
    /// * `sslmode` may be `disable`, `allow` or `prefer`, all of which connect without TLS, which this version does not
    ///   have; anything that asks for TLS is an error.
    ///
    /// ```
    /// use pgsteer::config::Config;
    ///
    /// let config: Config = "postgresql://app:s%40cret@db1,db2:5433/app?pool_size=20&checkout_timeout=2s".parse()?;
    /// assert_eq!(config.to_url()?, "postgresql://app@db1:5432,db2:5433/app?pool_size=20&checkout_timeout=2s");
    /// # Ok::<(), pgsteer::config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first thing wrong with the string or a value in it. No password is ever repeated in an error.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let config = read(text)?;
        config.judge()?;
        Ok(config)
    }
}

impl TryFrom<&str> for Config {
    type Error = ConfigError;

    fn try_from(text: &str) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl TryFrom<&String> for Config {
    type Error = ConfigError;

    fn try_from(text: &String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl TryFrom<String> for Config {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}
