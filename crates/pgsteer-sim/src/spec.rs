//! Puts a simulation together: which servers there are, where they are reached, and who may log in.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, Credentials, ServerState, State};
use crate::fault::{Auth, DiscoveryRow};
use crate::log::Log;
use crate::report::Resolution;
use crate::sim::Sim;

/// Entries the log keeps if nothing else is said.
const LOG_LIMIT: usize = 100_000;

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
    read_only: bool,
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
            read_only: false,
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

    /// Its sessions are read-only unless they say otherwise (`default_transaction_read_only`).
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
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
    pub(crate) fn new(seed: u64) -> Self {
        SimBuilder {
            seed,
            servers: Vec::new(),
            credentials: Credentials::default(),
            log_limit: LOG_LIMIT,
        }
    }

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

    /// Builds it. Time in the log counts from here, on the clock of the tokio runtime this is called in.
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
            live: 0,
            most_live: 0,
            live_by_application: BTreeMap::new(),
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

/// The system identifier of the first server.
const FIRST_SYSTEM: u64 = 7_300_000_000_000_000_001;

/// The address of server number `at` in one of the simulated networks.
pub(crate) fn nth_address(network: u8, at: usize) -> IpAddr {
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
    // Standbys are copies of the first server; other primaries are databases of their own.
    let copy_of = if spec.standby { 0 } else { at };
    let mut server = ServerState::new(addresses, spec.port, row, FIRST_SYSTEM + copy_of as u64);
    server.recovery = spec.standby;
    server.read_only = spec.read_only;
    state.order.push(name.clone());
    state.servers.insert(name, server);
}
