//! A configuration as a connection string: the shortest that reads back as the same configuration, without its password.

use std::net::Ipv6Addr;

use pgsteer_core::host::HostKey;

use super::percent;
use crate::config::{Config, ConfigError, Description, Family, Value};

/// Options that have a place of their own in a URL, or none at all.
const NOT_AMONG_OPTIONS: [&str; 4] = ["hosts", "user", "password", "database"];

impl Config {
    /// This configuration as a connection string: every option that is not at its default, and never the password.
    ///
    /// Reading it back gives the same configuration, save for what is left out: the password or password source, and
    /// certificates and a key that were given as bytes. Of a client's certificate and key
    /// both are left out if one is.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Config::check).
    pub fn to_url(&self) -> Result<String, ConfigError> {
        let settings = self.settings()?;
        let mut url = match self.family {
            Family::Postgres => "postgresql://",
            Family::Yugabyte => "yugabytedb://",
        }
        .to_owned();
        let mut options = Vec::new();
        match self.user.as_deref() {
            Some("") => options.push("user=".to_owned()),
            Some(user) => url.push_str(&format!("{}@", percent::encode(user))),
            None => {}
        }
        let hosts: Vec<String> = settings.hosts.iter().map(host).collect();
        url.push_str(&hosts.join(","));
        match self.database.as_deref() {
            Some("") => options.push("dbname=".to_owned()),
            Some(database) => url.push_str(&format!("/{}", percent::encode(database))),
            None => url.push('/'),
        }
        if settings.hosts.iter().any(|host| host.address().is_some()) {
            let addresses = settings.hosts.iter().map(HostKey::address);
            let addresses: Vec<String> = addresses
                .map(|at| at.map_or_else(String::new, |at| at.to_string()))
                .collect();
            options.push(format!("hostaddr={}", addresses.join(",")));
        }
        options.extend(self.changed(&Description::of(&settings))?);
        if !options.is_empty() {
            url.push('?');
            url.push_str(&options.join("&"));
        }
        Ok(url)
    }

    /// The options, as `name=value`, that a configuration without them would have otherwise.
    fn changed(&self, description: &Description) -> Result<Vec<String>, ConfigError> {
        // `min_idle` follows `pool_size`, so the two are compared with a pool of this size.
        let plain = Config::of(self.family)
            .user("-")
            .pool_size(self.pool_size)
            .describe()?;
        let default_size = Config::of(self.family).pool_size;
        let differs = |name, value: &Value| match name {
            "pool_size" => self.pool_size != default_size,
            _ => plain.get(name) != Some(value),
        };
        let left_out = self.tls.left_out();
        let shown = description.iter().filter(|(name, value)| {
            !NOT_AMONG_OPTIONS.contains(name)
                && !left_out.contains(name)
                && **value != Value::Unset
                && differs(name, value)
        });
        Ok(shown
            .map(|(name, value)| format!("{name}={}", percent::encode_value(&value.to_string())))
            .collect())
    }
}

fn host(key: &HostKey) -> String {
    let name = if key.name().parse::<Ipv6Addr>().is_ok() {
        format!("[{}]", key.name())
    } else {
        percent::encode(key.name())
    };
    format!("{name}:{}", key.port())
}
