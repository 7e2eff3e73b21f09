//! The handle to one simulated server: everything that can be done to it and asked of it, at any time.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::{Cluster, ServerState};
use crate::fault::{Accept, Death, Discovery, DiscoveryRow, Login, Script, Shutdown};
use crate::net::tcp;
use crate::report::{Counts, SessionInfo};

/// A handle to one server of a [`Sim`](crate::Sim). Cheap to clone.
///
/// A change takes effect at once for whatever begins later. Sessions that it ends are tasks of their own: they are gone,
/// and no longer counted, once those have run, which takes no time on the clock.
#[derive(Clone)]
pub struct Server {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) name: Arc<str>,
}

impl Server {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.with(|state| state.port)
    }

    /// Where it listens on real TCP, if it does.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.with(|state| state.listening.as_ref().map(|(address, _)| *address))
    }

    fn with<T: Default>(&self, act: impl FnOnce(&mut ServerState) -> T) -> T {
        self.cluster.with(&self.name, act)
    }

    fn fault(&self, words: impl Into<String>, act: impl FnOnce(&mut ServerState)) {
        self.cluster.fault(&self.name, words.into(), act);
    }

    /// What connects meet from now on. Connections there are stay as they are.
    pub fn set_accept(&self, accept: Accept) {
        self.fault(format!("connects: {accept:?}"), |state| state.accept = accept);
    }

    /// What logins meet from now on.
    pub fn set_login(&self, login: Login) {
        self.fault(format!("logins: {login:?}"), |state| state.login = login);
    }

    /// More sessions than this are refused with 53300. Default no limit.
    pub fn set_max_connections(&self, most: Option<usize>) {
        self.fault(format!("max_connections: {most:?}"), |state| {
            state.max_connections = most
        });
    }

    /// How long every connect takes. Default zero.
    pub fn set_connect_latency(&self, latency: Duration) {
        self.fault(format!("connect latency: {latency:?}"), |state| {
            state.connect_latency = latency
        });
    }

    /// How long every answer takes: each time before something is sent, steps of the login among them. Default zero.
    pub fn set_answer_latency(&self, latency: Duration) {
        self.fault(format!("answer latency: {latency:?}"), |state| {
            state.answer_latency = latency
        });
    }

    /// What `yb_servers()` gives on this server.
    pub fn set_discovery(&self, discovery: Discovery) {
        self.fault(format!("discovery: {discovery:?}"), |state| {
            state.discovery = discovery
        });
    }

    /// Adds a script. Several may act on one statement, in the order they were added.
    pub fn script(&self, script: Script) {
        self.fault(format!("script: {script:?}"), |state| state.scripts.push(script));
    }

    /// Takes all scripts away.
    pub fn clear_scripts(&self) {
        self.fault("no scripts", |state| state.scripts.clear());
    }

    /// Ends recovery: it takes writes from now on, and its sessions are told. Its timeline is then a new one, higher
    /// than those of all servers. Without effect on a primary.
    pub fn promote(&self) {
        if !self.is_in_recovery() {
            return;
        }
        let highest = {
            let state = self.cluster.state();
            state.servers.values().map(|server| server.timeline).max()
        };
        self.with(|state| state.timeline = highest.unwrap_or_default().saturating_add(1));
        self.set_recovery(false);
    }

    /// Makes it a standby in recovery, which refuses writes with 25006. Its sessions stay, and are told.
    pub fn demote(&self) {
        self.set_recovery(true);
    }

    fn set_recovery(&self, recovery: bool) {
        self.fault(if recovery { "demoted" } else { "promoted" }, |state| {
            state.recovery = recovery
        });
        for control in self.cluster.controls(&self.name) {
            control.report();
        }
    }

    /// Writes a checkpoint, as it does every few minutes.
    pub fn checkpoint(&self) {
        let now = self.cluster.now();
        self.fault("checkpoint", |state| state.history.checkpoint(now));
    }

    /// Whether sessions that begin from now on are read-only unless they say otherwise. Default no.
    pub fn set_read_only(&self, read_only: bool) {
        self.fault(format!("default_transaction_read_only: {read_only}"), |state| {
            state.read_only = read_only
        });
    }

    /// The timeline it writes on, as a primary. 1 unless it was promoted.
    pub fn timeline(&self) -> u32 {
        self.with(|state| state.timeline)
    }

    /// Whether it is in recovery.
    pub fn is_in_recovery(&self) -> bool {
        self.with(|state| state.recovery)
    }

    /// It dies without a word, with all its connections. Connects are refused until [`start`](Self::start); after a
    /// death in silence they are not answered at all.
    pub fn kill(&self, how: Death) {
        self.cluster.kill(&self.name, how);
    }

    /// An administrator shuts it down: its sessions are dismissed and connects refused until [`start`](Self::start).
    pub fn shut_down(&self, how: Shutdown) {
        let now = self.cluster.now();
        self.fault(format!("shut down ({how})"), |state| {
            if state.down.replace(Death::Fin).is_none() {
                match how {
                    Shutdown::Fast => state.history.stop(now),
                    Shutdown::Immediate => state.history.crash(false, now),
                    Shutdown::Crash => state.history.crash(true, now),
                }
            }
        });
        for control in self.cluster.controls(&self.name) {
            control.dismiss(how);
        }
    }

    /// Starts it again, without any of its old sessions. Peers of connections that died in silence find that out at
    /// their next packet. Nothing else that was set is undone. Without effect on a server that runs, save for that.
    pub fn start(&self) {
        let remains = self.with(|state| std::mem::take(&mut state.remains));
        let now = self.cluster.now();
        self.fault("started", |state| {
            if state.down.take().is_some() {
                state.history.start(now);
            }
        });
        remains.into_iter().for_each(crate::net::link::Remains::forget);
    }

    /// Shuts it down and starts it at once: old sessions are dismissed, new ones may come.
    pub fn restart(&self, how: Shutdown) {
        self.shut_down(how);
        self.start();
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.with(|state| Some(state.down.is_none())).unwrap_or(false)
    }

    /// Dismisses every session with FATAL 57P01; new ones may come.
    pub fn terminate_all(&self) {
        self.fault("all sessions terminated", |_| {});
        for control in self.cluster.controls(&self.name) {
            control.dismiss(Shutdown::Fast);
        }
    }

    /// Stops the process: nothing is answered and connects do not complete until [`thaw`](Self::thaw). Over real TCP the
    /// operating system completes connects for a stopped process as well, and then nothing comes.
    pub fn freeze(&self) {
        self.fault("frozen", |state| state.frozen.shut());
    }

    /// Lets it go on where it was frozen.
    pub fn thaw(&self) {
        self.fault("thawed", |state| state.frozen.open());
    }

    /// Cuts it off from its clients: nothing arrives in either direction, though the server goes on. Connects do not
    /// complete, save over real TCP, where the operating system completes them and nothing comes.
    pub fn partition(&self) {
        self.fault("cut off", |state| state.partition.shut());
    }

    /// Undoes [`partition`](Self::partition): what was on its way arrives.
    pub fn heal(&self) {
        let remains = self.with(|state| {
            // Connections that ended meanwhile: their peers could not be told.
            if state.down == Some(Death::Silence) {
                Vec::new()
            } else {
                std::mem::take(&mut state.remains)
            }
        });
        self.fault("reachable again", |state| state.partition.open());
        remains.into_iter().for_each(crate::net::link::Remains::forget);
    }

    /// Undoes every fault, and starts it if it is down. What it is (its row, role and rights) stays.
    pub fn mend(&self) {
        self.heal();
        self.thaw();
        self.fault("mended", |state| {
            state.accept = Accept::default();
            state.login = Login::default();
            state.discovery = Discovery::default();
            state.max_connections = None;
            state.connect_latency = Duration::ZERO;
            state.answer_latency = Duration::ZERO;
            state.scripts.clear();
        });
        if !self.is_up() {
            self.start();
        }
    }

    /// Its row, as the shared table has it while it is listed.
    pub fn row(&self) -> DiscoveryRow {
        self.with(|state| state.row.clone())
    }

    /// Changes its row, in the shared table too if it is listed there.
    pub fn change_row(&self, change: impl FnOnce(&mut DiscoveryRow)) {
        let row = self.with(|state| {
            change(&mut state.row);
            state.row.clone()
        });
        for listed in &mut self.cluster.state().table {
            if listed.uuid == row.uuid {
                *listed = row.clone();
            }
        }
    }

    /// Takes it out of the shared table.
    pub fn unlist(&self) {
        let uuid = self.row().uuid;
        self.fault("unlisted", |_| {});
        self.cluster.state().table.retain(|row| row.uuid != uuid);
    }

    /// Puts it back into the shared table, at the end, if it is not there.
    pub fn list(&self) {
        let row = self.row();
        self.fault("listed", |_| {});
        let mut state = self.cluster.state();
        if !state.table.iter().any(|listed| listed.uuid == row.uuid) {
            state.table.push(row);
        }
    }

    /// What it has counted so far.
    pub fn counts(&self) -> Counts {
        self.with(|state| {
            let received = state.received.load(Ordering::Relaxed);
            Counts {
                received,
                ..state.counts.clone()
            }
        })
    }

    /// Its sessions, oldest first.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let state = self.cluster.state();
        let own = state
            .connections
            .values()
            .filter(|connection| connection.server == self.name);
        own.filter_map(|connection| connection.session.clone()).collect()
    }

    /// Listens on real TCP as well. Port 0 takes a free one. Its row in `yb_servers()` has this address from then on.
    /// A server that listens already keeps its address, which is returned. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Those of binding a socket.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        if let Some(address) = self.listening() {
            return Ok(address);
        }
        let (address, task) = tcp::listen(&self.cluster, &self.name, address).await?;
        self.with(|state| state.listening = Some((address, task)));
        self.change_row(|row| {
            row.host = Some(address.ip().to_string());
            row.port = Some(address.port().into());
        });
        Ok(address)
    }

    /// Stops listening on real TCP. Connections there are stay.
    pub fn stop_listening(&self) {
        if let Some((_, task)) = self.with(|state| state.listening.take()) {
            task.abort();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.name).finish()
    }
}
