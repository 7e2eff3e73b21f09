//! Hosts, addresses and ports as libpq keeps them: three lists, each of which a parameter replaces as a whole.

use std::borrow::Cow;
use std::net::IpAddr;

use super::invalid;
use crate::config::{Config, ConfigError, HostSpec, hosts};

const BAD_PORT: &str = "a port is not a number from 1 to 65535 (it is not repeated here, as it may belong to a password: \
                        in a password / must be written %2F, ? %3F, @ %40 and % %25)";

/// The three lists; an empty one was not given.
#[derive(Default)]
pub(in crate::config) struct HostLists {
    pub(in crate::config) names: Vec<String>,
    /// What `hostaddr` has for each host.
    pub(in crate::config) addresses: Vec<Option<IpAddr>>,
    /// One for all, or one for each; `None` where the default port is meant.
    pub(in crate::config) ports: Vec<Option<u16>>,
}

impl HostLists {
    /// `host1:port1,host2` as it stands in a URL, read by `decode`.
    pub(super) fn read(text: &str, decode: fn(&str) -> Option<Cow<'_, [u8]>>) -> Result<Self, ConfigError> {
        let mut lists = HostLists::default();
        if text.is_empty() {
            return Ok(lists);
        }
        if text.contains('@') {
            return Err(invalid(
                "an @ in a user, a password or a host must be written %40",
            ));
        }
        for element in text.split(',') {
            let (name, port) = split_port(element)?;
            let name = decode(name).and_then(|name| String::from_utf8(name.into_owned()).ok());
            lists
                .names
                .push(name.ok_or_else(|| invalid("a host is not percent-encoded UTF-8"))?);
            let port = decode(port).and_then(|port| read_port(&port));
            lists.ports.push(port.ok_or_else(|| invalid(BAD_PORT))?);
        }
        if lists.names.iter().all(String::is_empty) && lists.names.len() == 1 {
            lists.names.clear();
        }
        if lists.ports.iter().all(Option::is_none) {
            lists.ports.clear();
        }
        Ok(lists)
    }

    /// Puts the lists together: as many addresses as hosts, and one port for all or one for each.
    pub(in crate::config) fn store(self, config: &mut Config) -> Result<(), ConfigError> {
        let HostLists {
            names,
            addresses,
            ports,
        } = self;
        let mut specs: Vec<HostSpec> = names.into_iter().map(HostSpec::new).collect();
        if !addresses.is_empty() {
            specs = hosts::dialled_at(specs, addresses)?;
        }
        match ports.as_slice() {
            [] => {}
            [port] => config.port = *port,
            _ if ports.len() == specs.len() => {
                for (host, port) in specs.iter_mut().zip(&ports) {
                    host.port = *port;
                }
            }
            _ => {
                let (ports, hosts) = (ports.len(), specs.len());
                let reason =
                    format!("{ports} ports do not fit {hosts} hosts: give one port for all or one for each");
                return Err(ConfigError::InvalidUrl { reason });
            }
        }
        if !specs.is_empty() {
            config.hosts = Some(specs);
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
pub(in crate::config) fn read_ports(list: &[u8]) -> Option<Vec<Option<u16>>> {
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
