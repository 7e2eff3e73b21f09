//! JDBC URLs by pgjdbc's rules: `jdbc:postgresql://host1:port1,host2/database?name=value&…`.
//!
//! The `/` behind the hosts must be there, no login stands before them, and values are decoded as those of a web form are,
//! in which a `+` is a space. As in other URLs, nothing is repeated that may belong to a password.

use std::borrow::Cow;

use super::lists::HostLists;
use super::uri::HIDDEN;
use super::{invalid, parameters, percent};
use crate::config::options::Dialect;
use crate::config::{Config, ConfigError, Family};

const NO_SLASH: &str = "in a JDBC URL a / must follow the hosts, also if no database does";
const NO_LOGIN: &str =
    "in a JDBC URL no user or password stands before the hosts; write ?user=…&password=… behind the database";
const TWO_SLASHES: &str = "in a JDBC URL a / in the name of a database must be written %2F";
const ONE_SLASH: &str =
    "in a JDBC URL two slashes stand before the hosts, and none before a database without hosts";

/// Reads what follows `jdbc:postgresql:` or `jdbc:yugabytedb:`.
pub(super) fn read(family: Family, rest: &str) -> Result<Config, ConfigError> {
    let mut config = Config::of(family);
    match read_into(&mut config, rest) {
        Err(_) if rest.contains('@') && !login_before_hosts(rest) => Err(invalid(HIDDEN)),
        outcome => outcome.map(|()| config),
    }
}

fn login_before_hosts(rest: &str) -> bool {
    let (place, _) = rest.split_once('?').unwrap_or((rest, ""));
    let hosts = place.strip_prefix("//").and_then(|place| place.split('/').next());
    hosts.is_some_and(|hosts| hosts.contains('@'))
}

fn read_into(config: &mut Config, rest: &str) -> Result<(), ConfigError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = match place.strip_prefix("//") {
        // pgjdbc takes `//` and `///` for nothing at all.
        Some("") => ("", ""),
        Some(_) if login_before_hosts(rest) => return Err(invalid(NO_LOGIN)),
        Some(place) => place.split_once('/').ok_or_else(|| invalid(NO_SLASH))?,
        None if place.starts_with('/') => return Err(invalid(ONE_SLASH)),
        None => ("", place),
    };
    if database.contains('/') {
        return Err(invalid(TWO_SLASHES));
    }
    if !database.is_empty() {
        let database = percent::decode_form(database).and_then(|name| String::from_utf8(name).ok());
        config.database = Some(database.ok_or_else(|| invalid("the database is not percent-encoded UTF-8"))?);
    }
    let lists = HostLists::read(hosts, undecoded)?;
    parameters::put(config, lists, read_parameters(query)?, Dialect::Jdbc)
}

/// Hosts are taken as they stand; what looks encoded would be a host of that very name.
fn undecoded(text: &str) -> Option<Cow<'_, [u8]>> {
    (!text.contains('%')).then_some(Cow::Borrowed(text.as_bytes()))
}

/// A parameter without `=` has an empty value, and empty parameters are passed over.
fn read_parameters(query: &str) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let read = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent::decode_form(value);
        let value =
            value.ok_or_else(|| invalid("a % in a parameter is not followed by two hexadecimal digits"))?;
        Ok((name.to_owned(), value))
    };
    parameters.map(read).collect()
}
