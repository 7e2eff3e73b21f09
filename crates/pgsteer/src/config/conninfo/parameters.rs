//! Names and values of a connection string, whatever its kind, put into a configuration.

use super::lists::{HostLists, read_ports};
use crate::config::options::{self, Dialect, Given};
use crate::config::{Config, ConfigError, hosts};

/// Puts the parameters into the configuration; hosts, addresses and ports among them replace those in `lists`, each list
/// as a whole.
///
/// # Errors
///
/// All unknown names, or the first thing wrong with a value.
pub(super) fn put(
    config: &mut Config,
    mut lists: HostLists,
    parameters: Vec<(String, Vec<u8>)>,
    dialect: Dialect,
) -> Result<(), ConfigError> {
    let known = options::resolve(parameters.iter().map(|(name, _)| name.as_str()));
    let known = known.map_err(|error| veil(error, &parameters))?;
    let given = known
        .into_iter()
        .zip(parameters)
        .map(|(known, (written, value))| Given {
            written,
            known,
            value,
        });
    let settled = options::settle(given.collect(), dialect)?;
    for (rule, value) in settled.options {
        let text = || std::str::from_utf8(&value).map_err(|_| rule.invalid(&value));
        match rule.name {
            // An empty list is as good as none, as in libpq.
            "hosts" if value.is_empty() => lists.names.clear(),
            "hosts" => lists.names = text()?.split(',').map(str::to_owned).collect(),
            "hostaddr" if value.is_empty() => lists.addresses.clear(),
            "hostaddr" => lists.addresses = hosts::addresses(text()?).ok_or_else(|| rule.invalid(&value))?,
            "port" => lists.ports = read_ports(&value).ok_or_else(|| rule.invalid(&value))?,
            _ => rule.apply(config, &value)?,
        }
    }
    config.without_use.extend(settled.without_use);
    lists.store(config)
}

/// An unknown name behind a password may be the rest of the password, cut off at a separator; and so may one that is made
/// of other signs than names are.
fn veil(error: ConfigError, parameters: &[(String, Vec<u8>)]) -> ConfigError {
    let ConfigError::UnknownOptions { names: mut unknown } = error else {
        return error;
    };
    let secret = |name: &str| matches!(name.to_ascii_lowercase().as_str(), "password" | "sslpassword");
    let password = parameters.iter().position(|(name, _)| secret(name));
    let behind = password.map_or(&[][..], |password| &parameters[password..]);
    let sign = |sign: char| !sign.is_alphanumeric() && !matches!(sign, '_' | '-' | ' ' | '.');
    for option in &mut unknown {
        if option.nearest.is_none() && behind.iter().any(|(name, _)| *name == option.name) {
            option.name = "(not repeated: it follows the password)".to_owned();
        } else if option.nearest.is_none() && option.name.contains(sign) {
            option.name = "(not repeated: it may belong to a password)".to_owned();
        }
    }
    unknown.sort();
    unknown.dedup();
    ConfigError::UnknownOptions { names: unknown }
}
