//! From a host to the addresses it can be dialled at, and from a name to the one address it is compared by.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use pgsteer_core::host::HostKey;
use pgsteer_core::verdict::Stage;

use super::error::{Failure, Observed};
use crate::world::{Endpoint, World};

/// Every address of the host, in the resolver's order, each once. Never empty. A socket directory, an address
/// literal and a name whose address was given with it are not looked up.
pub(super) async fn endpoints(world: &World, host: &HostKey) -> Result<Vec<Endpoint>, Failure> {
    if host.is_unix_socket() {
        return Ok(vec![Endpoint::Unix(
            Path::new(host.name()).join(format!(".s.PGSQL.{}", host.port())),
        )]);
    }
    let looked_up = match host.address() {
        Some(address) => Ok(vec![address]),
        None => addresses(world, host.name()).await,
    };
    let addresses = match looked_up {
        Ok(addresses) => addresses,
        Err(error) => {
            let text = format!("the name could not be resolved: {error}");
            return Err(Failure::new(Stage::Resolve, Observed::NoSuchName, text));
        }
    };
    let mut endpoints = Vec::with_capacity(addresses.len());
    for address in addresses {
        let endpoint = Endpoint::Tcp(SocketAddr::new(address.to_canonical(), host.port()));
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    if endpoints.is_empty() {
        return Err(Failure::new(
            Stage::Resolve,
            Observed::NoSuchName,
            "the name has no address",
        ));
    }
    Ok(endpoints)
}

/// The address by which two names are compared: the first IPv4 address, else the first IPv6 one; an IPv4 address
/// mapped into IPv6 counts as the IPv4 one. `None` if the name does not resolve.
pub(super) async fn comparable_address(world: &World, name: &str) -> Option<IpAddr> {
    let addresses = addresses(world, name).await.ok()?;
    let mut canonical = addresses.iter().map(IpAddr::to_canonical);
    canonical
        .clone()
        .find(IpAddr::is_ipv4)
        .or_else(|| canonical.next())
}

async fn addresses(world: &World, name: &str) -> io::Result<Vec<IpAddr>> {
    match name.parse() {
        Ok(literal) => Ok(vec![literal]),
        Err(_) => world.resolver().resolve(name).await,
    }
}
