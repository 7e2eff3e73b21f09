//! Ports for universes that run side by side, in this process and in others. A port is reserved by a locked file for
//! as long as its universe lives; the kernel lets go of the lock when the process ends, however it ends.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::failure::{During as _, Failure, Outcome};

/// Below the range that the kernel takes outgoing ports from, so that no client socket sits on a server's port.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// One port number that no other universe uses, on any address.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

/// Reserves a port that is free on all these addresses.
pub(crate) fn reserve(folder: &Path, addresses: &[String]) -> Outcome<Port> {
    fs::create_dir_all(folder).at("cannot make the folder of port locks", folder)?;
    let start = fastrand::u16(..COUNT);
    for step in 0..COUNT {
        let number = FIRST + (start + step) % COUNT;
        if let Some(port) = try_reserve(folder, number, addresses)? {
            return Ok(port);
        }
    }
    Err(Failure::new(format!(
        "no port from {FIRST} on is free on {}",
        addresses.join(", ")
    )))
}

fn try_reserve(folder: &Path, number: u16, addresses: &[String]) -> Outcome<Option<Port>> {
    let path = folder.join(number.to_string());
    let lock = File::create(&path).at("cannot make the port lock", &path)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let free = addresses
        .iter()
        .all(|address| TcpListener::bind((address.as_str(), number)).is_ok());
    Ok(free.then_some(Port { number, _lock: lock }))
}
