//! Where a set of servers lives: its folder with the watcher over it, its addresses and its ports.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::failure::{During as _, Failure, Outcome};
use crate::ports::{self, Port};
use crate::programs::Programs;
use crate::server::Server;
use crate::template::{self, Kind};
use crate::tls::Authority;
use crate::watcher::Watcher;

/// The ground that one set of servers stands on. An owner's fields are dropped in order, so it comes first there: its
/// watcher ends the servers and removes their files, then the servers are reaped.
#[derive(Debug)]
pub(crate) struct Site {
    _watcher: Watcher,
    _folder: TempDir,
    _ports: Vec<Port>,
    pub(crate) programs: Arc<Programs>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) path: PathBuf,
    pub(crate) template: PathBuf,
    /// Loopback address and port of each server.
    pub(crate) addresses: Vec<(String, u16)>,
}

impl Site {
    /// Makes room for this many servers, on one port or on different ones, which is free on the `further` addresses
    /// too.
    pub(crate) fn prepare(
        kind: Kind,
        servers: usize,
        different_ports: bool,
        further: &[String],
    ) -> Outcome<Self> {
        let programs = Arc::new(Programs::find()?);
        let shared = template::shared_folder(&programs)?;
        let template = template::ready(&programs, &shared, kind)?;
        let folder = tempfile::Builder::new()
            .prefix("pgsteer-")
            .tempdir_in(template::base_folder())
            .during("cannot make a folder")?;
        let path = fs::canonicalize(folder.path()).at("cannot resolve", folder.path())?;
        programs.give(&path)?;
        let watcher = Watcher::over(&path, &programs)?;

        let authority = Arc::new(Authority::establish(&path.join("tls"), &programs)?);
        let hosts: Vec<String> = (1..=servers).map(|number| format!("127.0.0.{number}")).collect();
        let mut checked = hosts.clone();
        checked.extend_from_slice(further);
        let how_many = if different_ports { servers } else { 1 };
        let ports: Vec<Port> = (0..how_many)
            .map(|_| ports::reserve(&ports_folder(&shared), &checked))
            .collect::<Outcome<_>>()?;
        let numbers = ports.iter().map(|port| port.number).cycle();
        let addresses = hosts.into_iter().zip(numbers).collect();
        Ok(Self {
            _watcher: watcher,
            _folder: folder,
            _ports: ports,
            programs,
            authority,
            path,
            template,
            addresses,
        })
    }

    /// The folder of the server of this number.
    pub(crate) fn server_folder(&self, index: usize) -> PathBuf {
        self.path.join(index.to_string())
    }
}

/// Where port reservations are, in the folder that all test processes share.
pub(crate) fn ports_folder(shared: &Path) -> PathBuf {
    shared.join("ports")
}

/// Does the same to all servers, side by side.
pub(crate) fn for_each_at_once(
    servers: &[Server],
    step: impl Fn(usize, &Server) -> Outcome<()> + Sync,
) -> Outcome<()> {
    let step = &step;
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(index, server)| scope.spawn(move || step(index, server)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Failure::new("a step on a server panicked")))
        })
    })
}
