//! The simulation as a whole: built from a seed and a list of servers, then asked and changed through [`Sim`]. What
//! can be done to one server is in `server.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, Credentials, ServerState, State};
use crate::fault::{Auth, DiscoveryRow, Shutdown};
use crate::log::{Entry, Log};
use crate::net::network;
use crate::net::pipe::Stream;
use crate::server::Server;

/// Entries the log keeps if nothing else is said.
const LOG_LIMIT: usize = 100_000;

/// A simulated cluster. Cheap to clone; all clones are the same cluster.
///
/// In memory everything runs on tokio's clock, so that under paused time a history takes no real time and, on a
/// single-threaded runtime, is the same every time it is run from the same seed.
#[derive(Clone)]
pub struct Sim {
    pub(crate) cluster: Arc<Cluster>,
}

/// What a name resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// These addresses, in this order.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    Unknown,
    /// The resolver fails with this kind of error.
    Fail(io::ErrorKind),
    /// The resolver never answers.
    Hang,
}

/// What a server has counted since the simulation was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connects that were begun, whatever came of them; those for cancel requests are among them.
    pub attempts: u64,
    /// Sessions that began.
    pub logins: u64,
    /// The same, by the name the client gave itself.
    pub logins_by_application: BTreeMap<String, u64>,
    /// Cancel requests.
    pub cancel_requests: u64,
    /// Statements that were begun.
    pub statements: u64,
    /// Those among them that asked for `yb_servers()`.
    pub discovery_queries: u64,
    /// Sessions now.
    pub live: usize,
    /// The most sessions there were at one moment.
    pub most_live: usize,
    /// Bytes received over all connections.
    pub received: u64,
}

/// A session as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The connection's number in the log.
    pub id: u64,
    /// The server's name.
    pub server: Arc<str>,
    /// The backend's process id, as `pg_backend_pid()` gives it.
    pub pid: i32,
    /// Who is logged in.
    pub user: String,
    /// To which database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// When the session began, since the simulation was built.
    pub since: Duration,
    /// As the last ReadyForQuery told it.
    pub transaction_status: TransactionStatus,
    /// The statement that runs, if one does.
    pub running: Option<String>,
    /// Whether it has ever asked for `yb_servers()`.
    pub asked_for_servers: bool,
}

/// The status byte of ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionStatus {
    /// Outside of a transaction.
    Idle = b'I',
    /// In a transaction.
    InTransaction = b'T',
    /// In a transaction that has failed.
    Failed = b'E',
}

/// A server to be simulated. By default a primary on port 5433 that is listed in `yb_servers()` under its name,
/// without a public address, in `gcp.us-east1.us-east1-b`.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    name: String,
    host: Option<String>,
    port: u16,
    address: Option<IpAddr>,
    row: DiscoveryRow,
    listed: bool,
    standby: bool,
    socket: Option<PathBuf>,
}

impl ServerSpec {
    /// A server by this name; the name also resolves to its address.
    pub fn new(name: &str) -> Self {
        let text = |text: &str| Some(text.to_owned());
        let row = DiscoveryRow {
            node_type: text("primary"),
            cloud: text("gcp"),
            region: text("us-east1"),
            zone: text("us-east1-b"),
            public_ip: text(""),
            ..DiscoveryRow::default()
        };
        ServerSpec {
            name: name.to_owned(),
            host: None,
            port: 5433,
            address: None,
            row,
            listed: true,
            standby: false,
            socket: None,
        }
    }

    /// The port. Default 5433.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Its address. Default 10.0.0.1 for the first server, and so on.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// What its row says for a host. Default its name. Resolves to its address.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Where it runs.
    #[must_use]
    pub fn placement(mut self, cloud: &str, region: &str, zone: &str) -> Self {
        self.row.cloud = Some(cloud.to_owned());
        self.row.region = Some(region.to_owned());
        self.row.zone = Some(zone.to_owned());
        self
    }

    /// It is a YugabyteDB read replica.
    #[must_use]
    pub fn read_replica(mut self) -> Self {
        self.row.node_type = Some("read_replica".to_owned());
        self
    }

    /// Its public name or address. It can be reached there as well; a name resolves to 34.0.0.1 for the first server,
    /// and so on.
    #[must_use]
    pub fn public_ip(mut self, public: &str) -> Self {
        self.row.public_ip = Some(public.to_owned());
        self
    }

    /// It is a standby in recovery.
    #[must_use]
    pub fn standby(mut self) -> Self {
        self.standby = true;
        self
    }

    /// It is not listed in `yb_servers()`, as a load balancer would not be.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        self.listed = false;
        self
    }

    /// It can also be reached over a Unix socket of this path (the socket, not its directory). In memory only.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }
}

/// Puts a simulation together.
#[derive(Debug)]
pub struct SimBuilder {
    seed: u64,
    servers: Vec<ServerSpec>,
    credentials: Credentials,
    log_limit: usize,
}

impl SimBuilder {
    /// Adds a server. A second one by the same name takes the place of the first.
    #[must_use]
    pub fn server(mut self, spec: ServerSpec) -> Self {
        self.servers.retain(|known| known.name != spec.name);
        self.servers.push(spec);
        self
    }

    /// Who may log in, and how that is checked. Default: everybody.
    #[must_use]
    pub fn login(mut self, auth: Auth, user: &str, password: &str) -> Self {
        self.credentials.auth = auth;
        self.credentials.user = Some(user.to_owned());
        password.clone_into(&mut self.credentials.password);
        let hash = || postgres_protocol::password::scram_sha_256(password.as_bytes());
        self.credentials.verifier = (auth == Auth::Scram).then(hash);
        self
    }

    /// The only database there is; others are refused with 3D000. Default: every name is one.
    #[must_use]
    pub fn database(mut self, database: &str) -> Self {
        self.credentials.database = Some(database.to_owned());
        self
    }

    /// Entries the log keeps; the oldest go first. Default 100,000.
    #[must_use]
    pub fn log_limit(mut self, entries: usize) -> Self {
        self.log_limit = entries;
        self
    }

    /// Builds it. Time in the log counts from here.
    #[must_use]
    pub fn build(self) -> Sim {
        let mut state = State {
            random: fastrand::Rng::with_seed(self.seed),
            servers: BTreeMap::new(),
            order: Vec::new(),
            addresses: BTreeMap::new(),
            sockets: BTreeMap::new(),
            names: BTreeMap::new(),
            look_ups: BTreeMap::new(),
            resolve_latency: Duration::ZERO,
            table: Vec::new(),
            connections: BTreeMap::new(),
            ledger: BTreeMap::new(),
            log: Log::new(self.log_limit),
            last_connection: 0,
            most_live: 0,
            most_live_by_application: BTreeMap::new(),
        };
        for (at, spec) in self.servers.into_iter().enumerate() {
            add(&mut state, at, spec);
        }
        Sim {
            cluster: Arc::new(Cluster::new(self.seed, self.credentials, state)),
        }
    }
}

/// The address of server number `at` in one of the simulated networks.
fn nth_address(network: u8, at: usize) -> IpAddr {
    let [high, low] = (at as u16).saturating_add(1).to_be_bytes();
    Ipv4Addr::new(network, 0, high, low).into()
}

fn add(state: &mut State, at: usize, spec: ServerSpec) {
    let name: Arc<str> = spec.name.as_str().into();
    let address = spec.address.unwrap_or_else(|| nth_address(10, at));
    let mut addresses = vec![address];
    let host = spec.host.unwrap_or(spec.name);
    let mut name_address = |text: &str, address: IpAddr| {
        if !text.is_empty() && text.parse::<IpAddr>().is_err() {
            state
                .names
                .insert(text.to_owned(), Resolution::Addresses(vec![address]));
        }
    };
    name_address(&name, address);
    name_address(&host, address);
    let public = spec.row.public_ip.clone().unwrap_or_default();
    if !public.is_empty() {
        let public_address = public.parse().unwrap_or_else(|_| nth_address(34, at));
        name_address(&public, public_address);
        addresses.push(public_address);
    }
    let row = DiscoveryRow {
        host: Some(host),
        port: Some(spec.port.into()),
        uuid: Some(format!("{:032x}", state.random.u128(..))),
        ..spec.row
    };
    for address in &addresses {
        state
            .addresses
            .insert(SocketAddr::new(*address, spec.port), name.clone());
    }
    if let Some(path) = spec.socket {
        state.sockets.insert(path, name.clone());
    }
    if spec.listed {
        state.table.push(row.clone());
    }
    let mut server = ServerState::new(addresses, spec.port, row);
    server.recovery = spec.standby;
    state.order.push(name.clone());
    state.servers.insert(name, server);
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
        SimBuilder {
            seed,
            servers: Vec::new(),
            credentials: Credentials::default(),
            log_limit: LOG_LIMIT,
        }
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
