//! The state all simulated servers share, behind one lock: servers with their faults and counters, connections, the
//! ledger and the log. It is never locked across an await, and ordered maps keep every walk over it the same from run
//! to run.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::control::Control;
use crate::fault::{Accept, Auth, Death, Discovery, DiscoveryRow, Effect, Login, Script};
use crate::history::History;
use crate::log::{Entry, Event, Log};
use crate::net::gate::Gate;
use crate::net::link::Remains;
use crate::report::{Counts, Resolution, SessionInfo};
use crate::sql::ledger::Rows;

/// Locks even after a panic elsewhere: a test that failed while it held the lock must not hide its own message.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who may log in, and how that is checked.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) auth: Auth,
    /// Everybody, if not set.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    /// Every name is a database, if not set.
    pub(crate) database: Option<String>,
    /// What the server knows of the password for SCRAM.
    pub(crate) verifier: Option<String>,
}

/// All there is.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) seed: u64,
    pub(crate) epoch: Instant,
    pub(crate) credentials: Credentials,
    state: Mutex<State>,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) random: fastrand::Rng,
    pub(crate) servers: BTreeMap<Arc<str>, ServerState>,
    /// Server names in the order they were given.
    pub(crate) order: Vec<Arc<str>>,
    pub(crate) addresses: BTreeMap<SocketAddr, Arc<str>>,
    pub(crate) sockets: BTreeMap<PathBuf, Arc<str>>,
    pub(crate) names: BTreeMap<String, Resolution>,
    pub(crate) look_ups: BTreeMap<String, u64>,
    pub(crate) resolve_latency: Duration,
    pub(crate) table: Vec<DiscoveryRow>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) ledger: Rows,
    pub(crate) log: Log,
    pub(crate) last_connection: u64,
    pub(crate) live: usize,
    pub(crate) most_live: usize,
    pub(crate) live_by_application: BTreeMap<String, usize>,
    pub(crate) most_live_by_application: BTreeMap<String, usize>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: u16,
    /// What its row of `yb_servers()` says, whether it is listed or not.
    pub(crate) row: DiscoveryRow,
    pub(crate) accept: Accept,
    pub(crate) login: Login,
    /// How it went down; `None` while it runs.
    pub(crate) down: Option<Death>,
    pub(crate) connect_latency: Duration,
    pub(crate) answer_latency: Duration,
    pub(crate) max_connections: Option<usize>,
    pub(crate) recovery: bool,
    /// What `default_transaction_read_only` is for sessions that begin.
    pub(crate) read_only: bool,
    /// The timeline it writes on, as a primary.
    pub(crate) timeline: u32,
    pub(crate) history: History,
    pub(crate) discovery: Discovery,
    pub(crate) scripts: Vec<Script>,
    pub(crate) frozen: Arc<Gate>,
    pub(crate) partition: Arc<Gate>,
    /// Told whenever whether and how connects complete may have changed.
    pub(crate) changed: Arc<Notify>,
    pub(crate) received: Arc<AtomicU64>,
    pub(crate) remains: Vec<Remains>,
    pub(crate) counts: Counts,
    /// Where it listens on real TCP, and the task that does.
    pub(crate) listening: Option<(SocketAddr, tokio::task::AbortHandle)>,
}

/// One connection, from when it is accepted until its end.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: Arc<str>,
    pub(crate) control: Arc<Control>,
    pub(crate) key: i32,
    /// Set once somebody is logged in.
    pub(crate) session: Option<SessionInfo>,
}

/// What becomes of a connection attempt right now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted(Accept),
    Failed(std::io::ErrorKind),
    /// Nothing, until something changes.
    Wait,
}

/// A connection that a server has taken.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) id: u64,
    pub(crate) control: Arc<Control>,
    /// What becomes of it.
    pub(crate) accept: Accept,
}

impl ServerState {
    pub(crate) fn new(addresses: Vec<IpAddr>, port: u16, row: DiscoveryRow, system: u64) -> Self {
        ServerState {
            addresses,
            port,
            row,
            accept: Accept::default(),
            login: Login::default(),
            down: None,
            connect_latency: Duration::ZERO,
            answer_latency: Duration::ZERO,
            max_connections: None,
            recovery: false,
            read_only: false,
            timeline: 1,
            history: History::new(system),
            discovery: Discovery::default(),
            scripts: Vec::new(),
            frozen: Arc::default(),
            partition: Arc::default(),
            changed: Arc::default(),
            received: Arc::default(),
            remains: Vec::new(),
            counts: Counts::default(),
            listening: None,
        }
    }

    /// What a connect meets now.
    pub(crate) fn verdict(&self) -> Verdict {
        use std::io::ErrorKind::ConnectionRefused;
        if self.partition.is_shut() || self.down == Some(Death::Silence) {
            return Verdict::Wait;
        }
        if self.down.is_some() {
            return Verdict::Failed(ConnectionRefused);
        }
        match &self.accept {
            Accept::Refuse => Verdict::Failed(ConnectionRefused),
            Accept::Fail(kind) => Verdict::Failed(*kind),
            Accept::Blackhole => Verdict::Wait,
            _ if self.frozen.is_shut() => Verdict::Wait,
            accept => Verdict::Accepted(accept.clone()),
        }
    }
}

impl Cluster {
    pub(crate) fn new(seed: u64, credentials: Credentials, state: State) -> Self {
        Cluster {
            seed,
            epoch: Instant::now(),
            credentials,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Records an event; `connection` 0 stands for none.
    pub(crate) fn record(&self, server: &Arc<str>, connection: u64, event: Event) {
        let at = self.now();
        self.state().log.push(Entry {
            at,
            server: server.clone(),
            connection,
            event,
        });
    }

    /// Reads or changes one server. The name comes from a handle, so it is always there; should it not be, nothing
    /// happens.
    pub(crate) fn with<T: Default>(&self, server: &str, act: impl FnOnce(&mut ServerState) -> T) -> T {
        self.state().servers.get_mut(server).map(act).unwrap_or_default()
    }

    /// Changes one server, records it under these words, and lets waiting connects look again.
    pub(crate) fn fault(&self, server: &Arc<str>, words: String, act: impl FnOnce(&mut ServerState)) {
        let changed = self.with(server, |state| {
            act(state);
            Some(state.changed.clone())
        });
        self.record(server, 0, Event::Fault(words));
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }

    /// The controls of a server's connections, in the order they were accepted.
    pub(crate) fn controls(&self, server: &str) -> Vec<Arc<Control>> {
        let state = self.state();
        let of_server = state
            .connections
            .values()
            .filter(|connection| &*connection.server == server);
        of_server.map(|connection| connection.control.clone()).collect()
    }

    /// The server goes without a word, with all its connections.
    pub(crate) fn kill(&self, server: &Arc<str>, how: Death) {
        let now = self.now();
        self.fault(server, format!("killed ({how})"), |state| {
            // What is down already has crashed, or has stopped, before.
            if state.down.replace(how).is_none() {
                state.history.crash(false, now);
            }
        });
        for control in self.controls(server) {
            control.kill(how);
        }
    }

    /// A new connection, if the server takes one now. That is looked at and the connection noted in one step, so that
    /// whatever ends the server's connections finds this one, or comes first and turns it away.
    ///
    /// # Errors
    ///
    /// What the connect meets instead.
    pub(crate) fn connected(&self, server: &Arc<str>) -> Result<Accepted, Verdict> {
        let control = Arc::new(Control::default());
        let (id, accept) = {
            let mut state = self.state();
            let refused = Verdict::Failed(std::io::ErrorKind::HostUnreachable);
            let accept = match state.servers.get(server).map_or(refused, ServerState::verdict) {
                Verdict::Accepted(accept) => accept,
                other => return Err(other),
            };
            state.last_connection += 1;
            let key = state.random.i32(..);
            let id = state.last_connection;
            let connection = Connection {
                server: server.clone(),
                control: control.clone(),
                key,
                session: None,
            };
            state.connections.insert(id, connection);
            (id, accept)
        };
        self.record(server, id, Event::Connected);
        Ok(Accepted { id, control, accept })
    }

    /// Keeps what remains of a connection that went silently, until its server is started again.
    pub(crate) fn keep(&self, server: &str, remains: Remains) {
        self.with(server, |state| state.remains.push(remains));
    }

    /// Makes a connection a session, if there is room for one.
    pub(crate) fn begin_session(&self, info: SessionInfo) -> Result<i32, ()> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(server) = state.servers.get_mut(&info.server) else {
            return Err(());
        };
        let Some(connection) = state.connections.get_mut(&info.id) else {
            return Err(());
        };
        if server
            .max_connections
            .is_some_and(|most| server.counts.live >= most)
        {
            return Err(());
        }
        server.counts.live += 1;
        server.counts.most_live = server.counts.most_live.max(server.counts.live);
        server.counts.logins += 1;
        *server
            .counts
            .logins_by_application
            .entry(info.application_name.clone())
            .or_default() += 1;
        let (key, application) = (connection.key, info.application_name.clone());
        connection.session = Some(info);
        // Counted, not walked: ten thousand sessions may begin one after the other.
        state.live += 1;
        state.most_live = state.most_live.max(state.live);
        let of_application = state.live_by_application.entry(application.clone()).or_default();
        *of_application += 1;
        let most = state.most_live_by_application.entry(application).or_default();
        *most = (*most).max(*of_application);
        Ok(key)
    }

    /// Changes what is shown of a session.
    pub(crate) fn note_session(&self, id: u64, change: impl FnOnce(&mut SessionInfo)) {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(session) = state
            .connections
            .get_mut(&id)
            .and_then(|connection| connection.session.as_mut())
        {
            let before = session.application_name.clone();
            change(session);
            if session.application_name != before {
                let after = session.application_name.clone();
                count_out(&mut state.live_by_application, &before);
                *state.live_by_application.entry(after).or_default() += 1;
            }
        }
    }

    /// A connection is over: it no longer counts, even if its peer has not noticed yet.
    pub(crate) fn ended(&self, id: u64) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(connection) = state.connections.remove(&id) else {
            return;
        };
        if let Some(session) = connection.session {
            if let Some(server) = state.servers.get_mut(&connection.server) {
                server.counts.live = server.counts.live.saturating_sub(1);
            }
            state.live = state.live.saturating_sub(1);
            count_out(&mut state.live_by_application, &session.application_name);
        }
    }

    /// Cancels what backend `pid` of this server runs, if the key is right.
    pub(crate) fn cancel(&self, server: &str, pid: i32, key: i32) {
        let mut state = self.state();
        if let Some(server) = state.servers.get_mut(server) {
            server.counts.cancel_requests += 1;
        }
        let target = state.connections.values().find(|connection| {
            &*connection.server == server
                && connection.key == key
                && connection
                    .session
                    .as_ref()
                    .is_some_and(|session| session.pid == pid)
        });
        if let Some(connection) = target {
            connection.control.cancel();
        }
    }

    /// The control of this server's backend `pid`.
    pub(crate) fn backend(&self, server: &str, pid: i64) -> Option<Arc<Control>> {
        let state = self.state();
        let found = state.connections.values().find(|connection| {
            &*connection.server == server
                && connection
                    .session
                    .as_ref()
                    .is_some_and(|session| i64::from(session.pid) == pid)
        });
        found.map(|connection| connection.control.clone())
    }

    /// The effects scripted for this statement, in the order the scripts were added.
    pub(crate) fn effects(&self, server: &str, sql: &str) -> Vec<Effect> {
        self.with(server, |state| {
            if state.scripts.is_empty() {
                return Vec::new();
            }
            let sql = sql.to_lowercase();
            let mut effects = Vec::new();
            for script in &mut state.scripts {
                if script.fires(&sql) {
                    effects.push(script.effect.clone());
                }
            }
            state.scripts.retain(|script| script.times != Some(0));
            effects
        })
    }
}

/// One fewer by this name; names without any are absent.
fn count_out(counts: &mut BTreeMap<String, usize>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(name);
        }
    }
}
