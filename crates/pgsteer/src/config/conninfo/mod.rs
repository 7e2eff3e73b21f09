//! Connection strings: what kind one is, and the way back from a configuration to a string.
//!
//! Each kind has a file with its own rules; all end in names and values that the one table of options reads. No error here
//! repeats a part of the string that may belong to a password.

mod jdbc;
mod keyvalue;
mod lists;
mod npgsql;
mod parameters;
mod percent;
mod print;
mod uri;

use std::str::FromStr;

pub(super) use lists::{HostLists, read_ports};

use super::{Config, ConfigError, Family};

/// How a kind of string that has a scheme is read.
type Read = fn(Family, &str) -> Result<Config, ConfigError>;

/// The schemes understood, with the family whose defaults they stand for.
const SCHEMES: [(&str, Family, Read); 5] = [
    ("postgresql://", Family::Postgres, uri::read),
    ("postgres://", Family::Postgres, uri::read),
    ("yugabytedb://", Family::Yugabyte, uri::read),
    ("jdbc:postgresql:", Family::Postgres, jdbc::read),
    ("jdbc:yugabytedb:", Family::Yugabyte, jdbc::read),
];

/// Reads a connection string without judging the ranges of its values.
pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    for (scheme, family, read) in SCHEMES {
        if let Some(rest) = text.strip_prefix(scheme) {
            return read(family, rest);
        }
    }
    if npgsql::looks_like(text) {
        return Err(npgsql::refusal());
    }
    if keyvalue::looks_like(text) {
        return keyvalue::read(text);
    }
    Err(invalid(
        "it must start with postgresql://, postgres://, yugabytedb://, jdbc:postgresql: or jdbc:yugabytedb:, or be made of \
         name=value pairs such as host=db1 dbname=app",
    ))
}

fn invalid(reason: &str) -> ConfigError {
    ConfigError::InvalidUrl {
        reason: reason.to_owned(),
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads and judges a connection string of one of these kinds, each by the rules of the driver it comes from:
    ///
    /// * `postgresql://user:password@host1:port1,host2:port2/database?option=value&…`, also `postgres://`, and
    ///   `yugabytedb://` with YugabyteDB's defaults; everything behind the scheme is optional (libpq's rules). IPv6
    ///   addresses stand in brackets (a scope id is refused), a socket directory is percent-encoded
    ///   (`%2Fvar%2Frun%2Fpostgresql`). Everything may be percent-encoded, and what has a meaning must be: in a password
    ///   `/` (`%2F`), `?` (`%3F`), `@` (`%40`) and `%` (`%25`). A `+` is a plus.
    /// * `host=db1,db2 port=5432 user=app password='my secret'` (libpq's rules): white space around `=` is allowed, a
    ///   backslash takes the next character as it is, and an empty value is `''`.
    /// * `jdbc:postgresql://host1:port1,host2/database?user=app&password=secret&…`, and `jdbc:yugabytedb:` with
    ///   YugabyteDB's defaults (pgjdbc's rules): the `/` behind the hosts must be there, values are form-decoded (a `+` is a
    ///   space), and `ssl=true` means `sslmode=verify-full` where in `postgresql://` it means `require`.
    ///
    /// In all of them:
    ///
    /// * `host=a,b`, `hostaddr=10.0.0.1,10.0.0.2` and `port=1,2` replace the whole list of hosts, addresses or ports: as
    ///   many addresses as hosts, and one port for all or one for each.
    /// * Every option is there by its setter's name, save [`password_source`](Config::password_source) and with libpq's
    ///   names for those of TLS, in any case and with underscores, dashes or nothing between its parts; and so are other
    ///   drivers' words for them. What cannot be had is an error with the reason, what makes no difference is accepted and
    ///   told by [`without_effect`](Config::without_effect), and an unknown or repeated option is an error.
    /// * A duration is a whole number with `ns`, `us`, `ms`, `s`, `min`, `h` or `d`. Without a unit it counts seconds in
    ///   `connect_timeout`, `role_ttl`, `keepalives_idle` and `keepalives_interval`, and milliseconds in all others.
    ///   `yb_servers_refresh_interval`, `failed_host_reconnect_delay_secs` and `failed_host_max_delay_secs` are whole
    ///   seconds and take no unit. Where a setter takes `None`, the text is `none`.
    /// * Flags are `true`, `on`, `1` or `false`, `off`, `0`.
    ///
    /// `docs/connection-strings.md` lists every parameter. No file and no environment variable is read:
    /// [`with_environment`](Config::with_environment) and [`with_pgpass`](Config::with_pgpass) do that on request.
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
