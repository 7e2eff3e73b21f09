//! URLs by libpq's rules: credentials, hosts, database, and options by their names.
//!
//! A password that was not percent-encoded can make any part of a URL look like another. So no error repeats anything
//! that stands before the options, and none repeats an option while an `@` is found behind the hosts.

use super::{invalid, percent};
use crate::config::options::{self, OptionRule};
use crate::config::{Config, ConfigError, Family, HostSpec};

const BAD_PORT: &str = "a port is not a number from 1 to 65535 (it is not repeated here, as it may belong to a password: \
                        in a password / must be written %2F, ? %3F, @ %40 and % %25)";
const HIDDEN: &str = "something is wrong behind the hosts, and it is not repeated here, because the @ found there may \
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
    let hosts = Hosts::read(hosts)?;
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
fn read_behind(config: &mut Config, mut hosts: Hosts, behind: &str) -> Result<(), ConfigError> {
    let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
    let database = path.strip_prefix('/').unwrap_or_default();
    if !database.is_empty() {
        let database = percent::decode_text(database);
        config.database = Some(database.ok_or_else(|| invalid("the database is not percent-encoded UTF-8"))?);
    }
    for (rule, value) in read_options(query)? {
        match rule.name {
            "hosts" => {
                let names = String::from_utf8(value.clone()).map_err(|_| rule.invalid(&value))?;
                hosts.names = names.split(',').map(str::to_owned).collect();
            }
            "port" => hosts.ports = read_ports(&value).ok_or_else(|| rule.invalid(&value))?,
            _ => rule.apply(config, &value)?,
        }
    }
    hosts.store(config)
}

/// The options in their order, names resolved and values decoded.
fn read_options(query: &str) -> Result<Vec<(&'static OptionRule, Vec<u8>)>, ConfigError> {
    // libpq lets the last option end in a separator.
    let query = query.strip_suffix('&').unwrap_or(query);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    let mut values = Vec::new();
    for option in query.split('&') {
        let pair = option.split_once('=');
        let (name, value) = pair.ok_or_else(|| invalid("an option has no = between name and value"))?;
        let name = percent::decode_text(name);
        names.push(name.ok_or_else(|| invalid("the name of an option is not percent-encoded UTF-8"))?);
        let value = percent::decode(value);
        let value =
            value.ok_or_else(|| invalid("a % in an option is not followed by two hexadecimal digits"))?;
        values.push(value.into_owned());
    }
    let rules = options::resolve(names.iter().map(String::as_str)).map_err(|error| veil(error, &names))?;
    Ok(rules.into_iter().zip(values).collect())
}

/// An unknown name behind a password may be the rest of the password, cut off at a `&`.
fn veil(error: ConfigError, names: &[String]) -> ConfigError {
    let ConfigError::UnknownOptions { names: mut unknown } = error else {
        return error;
    };
    let password = names
        .iter()
        .position(|name| name == "password")
        .unwrap_or(names.len());
    for option in &mut unknown {
        if option.nearest.is_none() && names[password..].contains(&option.name) {
            option.name = "(not repeated: it follows the password)".to_owned();
        }
    }
    unknown.sort();
    unknown.dedup();
    ConfigError::UnknownOptions { names: unknown }
}

/// Hosts and ports as libpq keeps them: two lists, each of which an option replaces as a whole.
struct Hosts {
    names: Vec<String>,
    ports: Vec<Option<u16>>,
}

impl Hosts {
    /// `host1:port1,host2`.
    fn read(text: &str) -> Result<Self, ConfigError> {
        let mut hosts = Hosts {
            names: Vec::new(),
            ports: Vec::new(),
        };
        if text.is_empty() {
            return Ok(hosts);
        }
        if text.contains('@') {
            return Err(invalid(
                "an @ in a user, a password or a host must be written %40",
            ));
        }
        for element in text.split(',') {
            let (name, port) = split_port(element)?;
            let name = percent::decode_text(name);
            hosts
                .names
                .push(name.ok_or_else(|| invalid("a host is not percent-encoded UTF-8"))?);
            let port = percent::decode(port).and_then(|port| read_port(&port));
            hosts.ports.push(port.ok_or_else(|| invalid(BAD_PORT))?);
        }
        if hosts.names.iter().all(String::is_empty) && hosts.names.len() == 1 {
            hosts.names.clear();
        }
        if hosts.ports.iter().all(Option::is_none) {
            hosts.ports.clear();
        }
        Ok(hosts)
    }

    /// Puts the two lists together: one port for all, or one for each.
    fn store(self, config: &mut Config) -> Result<(), ConfigError> {
        let Hosts { names, ports } = self;
        match ports.as_slice() {
            [] if names.is_empty() => {}
            [] => config.hosts = Some(names.into_iter().map(HostSpec::new).collect()),
            [port] => {
                config.port = *port;
                if !names.is_empty() {
                    config.hosts = Some(names.into_iter().map(HostSpec::new).collect());
                }
            }
            _ if ports.len() == names.len() => {
                let pairs = names.into_iter().zip(ports);
                config.hosts = Some(pairs.map(|(name, port)| HostSpec { name, port }).collect());
            }
            _ => {
                let (ports, hosts) = (ports.len(), names.len());
                let reason =
                    format!("{ports} ports do not fit {hosts} hosts: give one port for all or one for each");
                return Err(ConfigError::InvalidUrl { reason });
            }
        }
        Ok(())
    }
}

/// Host and port of one element, still encoded; the port is empty if there is none.
fn split_port(element: &str) -> Result<(&str, &str), ConfigError> {
    if let Some(bracketed) = element.strip_prefix('[') {
        let closed = bracketed.split_once(']');
        let (name, port) = closed.ok_or_else(|| invalid("a bracket before an IPv6 address is not closed"))?;
        if name.is_empty() {
            return Err(invalid("there is no address between the brackets"));
        }
        return match port.strip_prefix(':') {
            Some(port) => Ok((name, port)),
            None if port.is_empty() => Ok((name, "")),
            None => Err(invalid("only a port can follow an address in brackets")),
        };
    }
    let (name, port) = element.split_once(':').unwrap_or((element, ""));
    if port.contains(':') {
        return Err(invalid(
            "a host has two colons; an IPv6 address must be written in brackets",
        ));
    }
    Ok((name, port))
}

/// One port per element, `None` for an empty one.
fn read_ports(list: &[u8]) -> Option<Vec<Option<u16>>> {
    list.split(|byte| *byte == b',').map(read_port).collect()
}

/// `Some(None)` if there is nothing, `None` if it is no port.
fn read_port(text: &[u8]) -> Option<Option<u16>> {
    if text.is_empty() {
        return Some(None);
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port: u16 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (port != 0).then_some(Some(port))
}
