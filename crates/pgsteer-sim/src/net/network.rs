//! The in-memory network: names, addresses and connects. A connect goes to whichever server has the address, and
//! meets whatever is wrong with it at that moment.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::cluster::{Cluster, Verdict};
use crate::log::Event;
use crate::net::link::Transport;
use crate::net::pipe::{self, Stream};
use crate::report::Resolution;
use crate::session;

/// The addresses of a name or of an address literal. Cancel safe.
pub(crate) async fn resolve(cluster: &Cluster, host: &str) -> io::Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let (resolution, latency) = {
        let mut state = cluster.state();
        *state.look_ups.entry(host.to_owned()).or_default() += 1;
        (state.names.get(host).cloned(), state.resolve_latency)
    };
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    match resolution {
        Some(Resolution::Addresses(addresses)) => Ok(addresses),
        Some(Resolution::Hang) => std::future::pending().await,
        Some(Resolution::Fail(kind)) => Err(kind.into()),
        None | Some(Resolution::Unknown) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "failed to lookup address information: no such name",
        )),
    }
}

/// Connects to a TCP address. Cancel safe: a dropped attempt leaves nothing.
pub(crate) async fn dial(cluster: &Arc<Cluster>, address: SocketAddr) -> io::Result<Stream> {
    let server = {
        let state = cluster.state();
        match state.addresses.get(&address) {
            Some(server) => server.clone(),
            None if state.addresses.keys().any(|known| known.ip() == address.ip()) => {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            None => return Err(io::ErrorKind::HostUnreachable.into()),
        }
    };
    connect(cluster, &server).await
}

/// Connects to a Unix socket by its path. Cancel safe.
pub(crate) async fn dial_socket(cluster: &Arc<Cluster>, path: &Path) -> io::Result<Stream> {
    let server = cluster.state().sockets.get(path).cloned();
    match server {
        Some(server) => connect(cluster, &server).await,
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

async fn connect(cluster: &Arc<Cluster>, server: &Arc<str>) -> io::Result<Stream> {
    cluster.record(server, 0, Event::Attempt);
    let (latency, changed) = cluster.with(server, |state| {
        state.counts.attempts += 1;
        (state.connect_latency, state.changed.clone())
    });
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    loop {
        let mut change = std::pin::pin!(changed.notified());
        change.as_mut().enable();
        match cluster.connected(server) {
            Ok(accepted) => {
                let (client, end) = pipe::pair();
                session::serve(cluster, server, Transport::Memory(end), accepted);
                return Ok(client);
            }
            Err(Verdict::Failed(kind)) => {
                cluster.record(server, 0, Event::Refused(kind));
                return Err(kind.into());
            }
            Err(_) => change.await,
        }
    }
}
