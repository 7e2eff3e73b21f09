//! The simulation as a whole: built from a seed and a list of servers, then asked and changed through [`Sim`]. What
//! can be done to one server is in `server.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::fault::{DiscoveryRow, Shutdown};
use crate::log::Entry;
use crate::net::network;
use crate::net::pipe::Stream;
use crate::report::{Resolution, SessionInfo};
use crate::server::Server;
use crate::spec::{ServerSpec, SimBuilder, nth_address};

/// A simulated cluster. Cheap to clone; all clones are the same cluster.
///
/// In memory everything runs on tokio's clock, so that under paused time a history takes no real time and, on a
/// single-threaded runtime, is the same every time it is run from the same seed.
#[derive(Clone)]
pub struct Sim {
    pub(crate) cluster: Arc<Cluster>,
}

impl Sim {
    /// The usual small cluster: primaries `a`, `b` and `c` on port 5433, in `gcp.us-east1` zones `us-east1-b`, `-c` and
    /// `-d`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let server = |name, zone| ServerSpec::new(name).placement("gcp", "us-east1", zone);
        Sim::builder(seed)
            .server(server("a", "us-east1-b"))
            .server(server("b", "us-east1-c"))
            .server(server("c", "us-east1-d"))
            .build()
    }

    /// Starts with no server at all. Everything random in the simulation comes from `seed`.
    #[must_use]
    pub fn builder(seed: u64) -> SimBuilder {
        SimBuilder::new(seed)
    }

    /// The seed it was built from.
    pub fn seed(&self) -> u64 {
        self.cluster.seed
    }

    /// Time since it was built.
    pub fn elapsed(&self) -> Duration {
        self.cluster.now()
    }

    /// The server of this name.
    ///
    /// # Panics
    ///
    /// If there is none, as indexing would. [`find`](Self::find) does not panic.
    #[track_caller]
    pub fn server(&self, name: &str) -> Server {
        match self.find(name) {
            Some(server) => server,
            #[expect(
                clippy::panic,
                reason = "documented, like indexing: the caller built the servers it names"
            )]
            None => panic!("there is no server {name:?} in this simulation"),
        }
    }

    /// The server of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<Server> {
        let name = self.cluster.state().servers.get_key_value(name)?.0.clone();
        Some(Server {
            cluster: self.cluster.clone(),
            name,
        })
    }

    /// All servers, in the order they were given.
    pub fn servers(&self) -> Vec<Server> {
        let names = self.cluster.state().order.clone();
        names
            .into_iter()
            .map(|name| Server {
                cluster: self.cluster.clone(),
                name,
            })
            .collect()
    }

    /// What a name resolves to from now on.
    pub fn set_name(&self, name: &str, resolution: Resolution) {
        self.cluster.state().names.insert(name.to_owned(), resolution);
    }

    /// How long every look-up of a name takes. Default zero.
    pub fn set_resolve_latency(&self, latency: Duration) {
        self.cluster.state().resolve_latency = latency;
    }

    /// How often a name was looked up. Address literals are not counted.
    pub fn look_ups(&self, name: &str) -> u64 {
        self.cluster.state().look_ups.get(name).copied().unwrap_or(0)
    }

    /// The rows all servers give for `yb_servers()`, unless told otherwise.
    pub fn table(&self) -> Vec<DiscoveryRow> {
        self.cluster.state().table.clone()
    }

    /// Replaces those rows.
    pub fn set_table(&self, rows: Vec<DiscoveryRow>) {
        self.cluster.state().table = rows;
    }

    /// The sessions there are now, oldest first.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let state = self.cluster.state();
        state
            .connections
            .values()
            .filter_map(|connection| connection.session.clone())
            .collect()
    }

    /// Ends a session as `pg_terminate_backend` does: FATAL 57P01, then closed. Whether there was one.
    pub fn terminate(&self, session: u64) -> bool {
        self.with_session(session, |control| control.dismiss(Shutdown::Fast))
    }

    /// Cancels what a session runs, as a cancel request does. Whether there was such a session.
    pub fn cancel(&self, session: u64) -> bool {
        self.with_session(session, crate::control::Control::cancel)
    }

    /// A session dies without a word. Whether there was one.
    pub fn kill_session(&self, session: u64, how: crate::fault::Death) -> bool {
        self.with_session(session, |control| control.kill(how))
    }

    fn with_session(&self, session: u64, act: impl FnOnce(&crate::control::Control)) -> bool {
        let state = self.cluster.state();
        let found = state
            .connections
            .get(&session)
            .filter(|connection| connection.session.is_some());
        found.map(|connection| act(&connection.control)).is_some()
    }

    /// Sessions now, over all servers.
    pub fn live(&self) -> usize {
        self.sessions().len()
    }

    /// The most sessions there were at one moment, over all servers.
    pub fn most_live(&self) -> usize {
        self.cluster.state().most_live
    }

    /// The same, of clients that logged in by this application name.
    pub fn most_live_of(&self, application_name: &str) -> usize {
        self.cluster
            .state()
            .most_live_by_application
            .get(application_name)
            .copied()
            .unwrap_or(0)
    }

    /// What happened so far.
    pub fn log(&self) -> Vec<Entry> {
        self.cluster.state().log.entries()
    }

    /// The log as text, an entry a line: what two runs from one seed are compared by.
    pub fn log_text(&self) -> String {
        self.log().iter().map(|entry| format!("{entry}\n")).collect()
    }

    /// Forgets what happened so far. Counters stay.
    pub fn clear_log(&self) {
        self.cluster.state().log.clear();
    }

    /// The committed rows of the ledger: ids and notes.
    pub fn ledger(&self) -> BTreeMap<i64, Option<String>> {
        self.cluster.state().ledger.clone()
    }

    /// The addresses of a name, as [`world`](Self::world) resolves it. Cancel safe.
    ///
    /// # Errors
    ///
    /// `NotFound` for a name that does not exist, or what [`Resolution::Fail`] says.
    pub async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        network::resolve(&self.cluster, host).await
    }

    /// Connects in memory. Must be called within a tokio runtime. Cancel safe: a dropped attempt leaves nothing.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` and what [`Accept::Fail`](crate::Accept::Fail) says; `HostUnreachable` for an address no
    /// server has.
    pub async fn dial(&self, address: SocketAddr) -> io::Result<Stream> {
        network::dial(&self.cluster, address).await
    }

    /// Resolves, and connects in memory to the first address.
    ///
    /// # Errors
    ///
    /// Those of [`resolve`](Self::resolve) and [`dial`](Self::dial).
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        match self.resolve(host).await?.first() {
            Some(address) => self.dial(SocketAddr::new(*address, port)).await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lets every server listen on loopback TCP: the first on 127.0.0.1, the next on 127.0.0.2 and so on, or all on
    /// 127.0.0.1 where the system has no more, each on a free port. `yb_servers()` lists those addresses from then on.
    /// Goes on until [`Server::stop_listening`] or the end of the runtime. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Those of binding a socket. Servers that listen already keep doing so.
    pub async fn listen(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for (at, server) in self.servers().into_iter().enumerate() {
            let own = SocketAddr::new(nth_address(127, at), 0);
            let common = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
            addresses.push(match server.listen(own).await {
                Ok(address) => address,
                Err(_) => server.listen(common).await?,
            });
        }
        Ok(addresses)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("seed", &self.seed())
            .finish_non_exhaustive()
    }
}
