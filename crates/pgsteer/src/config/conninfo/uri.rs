//! URLs by libpq's rules: credentials, hosts, database, and options by their names.
//!
//! A password that was not percent-encoded can make any part of a URL look like another. So no error repeats anything
//! that stands before the options, and none repeats an option while an `@` is found behind the hosts. An `@` ends
//! credentials only if it stands before the first `/` or `?`.

use super::lists::HostLists;
use super::{invalid, parameters, percent};
use crate::config::options::Dialect;
use crate::config::{Config, ConfigError, Family};

pub(super) const HIDDEN: &str = "something is wrong behind the hosts, and it is not repeated here, because the @ found there may \
                      mean that a password is not percent-encoded: in a password / must be written %2F, ? %3F, @ %40 \
                      and % %25; an @ that belongs to a database or an option can be written %40 as well";

/// Reads what follows the scheme.
pub(super) fn read(family: Family, rest: &str) -> Result<Config, ConfigError> {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let mut config = Config::of(family);
    let hosts = match authority.split_once('@') {
        Some((credentials, hosts)) => {
            read_credentials(&mut config, credentials)?;
            hosts
        }
        None => authority,
    };
    let hosts = HostLists::read(hosts, percent::decode)?;
    match read_behind(&mut config, hosts, behind) {
        Err(_) if behind.contains('@') => Err(invalid(HIDDEN)),
        outcome => outcome.map(|()| config),
    }
}

/// `user:password`; an empty part is as good as none.
fn read_credentials(config: &mut Config, credentials: &str) -> Result<(), ConfigError> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let user = percent::decode_text(user);
    let user = user.ok_or_else(|| invalid("the user is not percent-encoded UTF-8"))?;
    let password = percent::decode(password);
    let password =
        password.ok_or_else(|| invalid("a % in the password is not followed by two hexadecimal digits"))?;
    let mut with = std::mem::take(config);
    if !user.is_empty() {
        with = with.user(user);
    }
    if !password.is_empty() {
        with = with.password(password);
    }
    *config = with;
    Ok(())
}

/// `/database?options`.
fn read_behind(config: &mut Config, hosts: HostLists, behind: &str) -> Result<(), ConfigError> {
    let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
    let database = path.strip_prefix('/').unwrap_or_default();
    if !database.is_empty() {
        let database = percent::decode_text(database);
        config.database = Some(database.ok_or_else(|| invalid("the database is not percent-encoded UTF-8"))?);
    }
    parameters::put(config, hosts, read_options(query)?, Dialect::Url)
}

/// The options in their order, decoded.
fn read_options(query: &str) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    // libpq lets the last option end in a separator.
    let query = query.strip_suffix('&').unwrap_or(query);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let mut options = Vec::new();
    for option in query.split('&') {
        let pair = option.split_once('=');
        let (name, value) = pair.ok_or_else(|| invalid("an option has no = between name and value"))?;
        let name = percent::decode_text(name);
        let name = name.ok_or_else(|| invalid("the name of an option is not percent-encoded UTF-8"))?;
        let value = percent::decode(value);
        let value =
            value.ok_or_else(|| invalid("a % in an option is not followed by two hexadecimal digits"))?;
        options.push((name, value.into_owned()));
    }
    Ok(options)
}
