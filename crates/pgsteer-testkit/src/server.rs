//! One server of a universe: its process, its files, and what a test may do to it. Signals go only to processes seen
//! to work in this server's own data folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal};

use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::listing::{Listing, literal};
use crate::postmaster::{LIMIT, Process, Readiness, start_bare};
use crate::processes::{is_stopped, signal, signal_others, wait_until, working_in};
use crate::programs::Programs;
use crate::settings::Wanted;
use crate::site::Site;
use crate::spec::ServerSpec;
use crate::tls::Authority;
use crate::{DATABASE, PASSWORD, USER};

/// One PostgreSQL server. Got from [`Universe::server`](crate::Universe::server) or
/// [`HaSet::node`](crate::HaSet::node).
#[derive(Debug)]
pub struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) spec: ServerSpec,
    pub(crate) programs: Arc<Programs>,
    /// What it lists; `None` for a node of an HA set, which lists nothing and may be a standby.
    pub(crate) listing: Option<Arc<Mutex<Listing>>>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) wanted: Wanted,
    process: Option<Process>,
    frozen: bool,
}

impl Server {
    pub(crate) fn new(
        site: &Site,
        index: usize,
        (host, port): (String, u16),
        spec: ServerSpec,
        listing: Option<Arc<Mutex<Listing>>>,
    ) -> Self {
        let state = Mutex::new(State {
            wanted: Wanted::new(&spec),
            process: None,
            frozen: false,
        });
        Self {
            host,
            port,
            spec,
            programs: Arc::clone(&site.programs),
            listing,
            authority: Arc::clone(&site.authority),
            folder: site.server_folder(index),
            state,
        }
    }

    /// Makes its files from the template.
    pub(crate) fn lay_out(&self, template: &Path) -> Outcome<()> {
        fs::create_dir(&self.folder).at("cannot make", &self.folder)?;
        self.programs.give(&self.folder)?;
        crate::template::copy(&self.programs, template, &self.data_folder())?;
        self.issue_certificate()
    }

    /// Makes its files from the template and starts it.
    pub(crate) fn create(&self, template: &Path) -> Outcome<()> {
        self.lay_out(template)?;
        self.try_start()?;
        self.suit_password()
    }

    /// Stores the role's password in the way that the login rules check it.
    pub(crate) fn suit_password(&self) -> Outcome<()> {
        if self.spec.auth == "md5" {
            // The template holds a scram-sha-256 secret, which md5 lines would be checked by too.
            let password = literal(Some(PASSWORD));
            self.try_sql(&format!(
                "SET password_encryption = 'md5'; ALTER ROLE {USER} PASSWORD {password}"
            ))?;
        }
        Ok(())
    }

    /// The loopback address it listens on.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Address and port as one text, `127.0.0.1:20433`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// A `postgresql://` URL with user, password and database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql://{USER}:{PASSWORD}@{}/{DATABASE}", self.address())
    }

    /// The data folder, for certificates and the like; see [`Server::write_file`].
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of its Unix socket.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its process runs, frozen or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().process.as_mut().is_some_and(Process::is_alive)
    }

    /// Starts it, after a stop or a kill, with its data and settings as they were, and brings its list of servers up
    /// to date. Does nothing when it runs.
    #[track_caller]
    pub fn start(&self) {
        or_fail(self.try_start());
    }

    pub(crate) fn try_start(&self) -> Outcome<()> {
        let mut state = self.state();
        if state.process.as_mut().is_some_and(Process::is_alive) {
            return Ok(());
        }
        // A base backup or a rewind brings another server's files.
        self.write_configuration(&state.wanted)?;
        let settings = self.start_settings(&state.wanted)?;
        let readiness = if self.is_made_cold(&state) {
            Readiness::Replaying
        } else {
            Readiness::Sessions
        };
        let settings: Vec<(String, String)> = settings.into_iter().collect();
        let (data, log) = (self.data_folder(), self.folder.join("log"));
        state.process = Some(start_bare(
            &self.programs,
            &data,
            &self.folder,
            &log,
            self.port,
            &settings,
            readiness,
        )?);
        state.frozen = false;
        drop(state);
        self.bring_listing()
    }

    /// Kills it as a power cut would: every process dies at once, sockets close without any last message. Returns
    /// when all are gone. What was not committed is lost; the next start recovers the rest.
    #[track_caller]
    pub fn kill(&self) {
        or_fail(self.end(|postmaster, data| {
            // The postmaster is held still while its children die, or it would start new ones, and then told to quit
            // rather than killed, since only it can give its shared memory back.
            signal(postmaster, data, Signal::STOP);
            let _ = wait_until(LIMIT, || is_stopped(postmaster));
            signal_others(postmaster, data, Signal::KILL);
            let _ = wait_until(LIMIT, || working_in(data).len() <= 1);
            signal(postmaster, data, Signal::QUIT);
            signal(postmaster, data, Signal::CONT);
        }));
    }

    /// Stops it in fast mode, as an operator would: sessions are told 57P01 and end. Returns when all are gone.
    #[track_caller]
    pub fn stop_fast(&self) {
        or_fail(self.try_stop_fast());
    }

    pub(crate) fn try_stop_fast(&self) -> Outcome<()> {
        self.end(|postmaster, data| {
            for pid in working_in(data) {
                signal(pid, data, Signal::CONT);
            }
            signal(postmaster, data, Signal::INT);
        })
    }

    /// Stops it in immediate mode: sessions are warned with 57P02 and cut off. Returns when all are gone.
    #[track_caller]
    pub fn stop_immediate(&self) {
        or_fail(self.end(|postmaster, data| {
            for pid in working_in(data) {
                signal(pid, data, Signal::CONT);
            }
            signal(postmaster, data, Signal::QUIT);
        }));
    }

    /// Stops and starts it.
    #[track_caller]
    pub fn restart(&self) {
        or_fail(self.try_stop_fast().and_then(|()| self.try_start()));
    }

    /// Freezes every process of it. The kernel still accepts connections for it until its backlog is full; nothing is
    /// ever answered. SQL on it would wait in vain, so changes of the list reach it when it thaws.
    #[track_caller]
    pub fn freeze(&self) {
        or_fail(self.try_freeze());
    }

    fn try_freeze(&self) -> Outcome<()> {
        let mut state = self.state();
        let postmaster = state.postmaster(self)?;
        let data = self.data_folder();
        signal(postmaster, &data, Signal::STOP);
        // A child that was being forked shows up in the next look.
        let all_stopped = wait_until(LIMIT, || {
            let moving: Vec<Pid> = working_in(&data)
                .into_iter()
                .filter(|pid| !is_stopped(*pid))
                .collect();
            for pid in &moving {
                signal(*pid, &data, Signal::STOP);
            }
            moving.is_empty()
        });
        state.frozen = true;
        if all_stopped {
            Ok(())
        } else {
            Err(Failure::new(format!("{} does not freeze", self.address())))
        }
    }

    /// Lets a frozen server go on.
    #[track_caller]
    pub fn thaw(&self) {
        or_fail(self.try_thaw());
    }

    fn try_thaw(&self) -> Outcome<()> {
        let mut state = self.state();
        state.postmaster(self)?;
        let data = self.data_folder();
        for pid in working_in(&data) {
            signal(pid, &data, Signal::CONT);
        }
        state.frozen = false;
        drop(state);
        self.bring_listing()
    }

    /// Signals its postmaster only.
    pub(crate) fn tell_postmaster(&self, what: Signal) -> Outcome<()> {
        let mut state = self.state();
        let postmaster = state.postmaster(self)?;
        if state.frozen {
            return Err(Failure::new(format!(
                "the server {} is frozen; thaw it first",
                self.address()
            )));
        }
        signal(postmaster, &self.data_folder(), what);
        Ok(())
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.state().frozen
    }

    /// Whether it is a standby that takes no sessions, running or not.
    pub(crate) fn is_cold(&self) -> bool {
        self.is_made_cold(&self.state())
    }

    fn is_made_cold(&self, state: &State) -> bool {
        state
            .wanted
            .settings
            .get("hot_standby")
            .is_some_and(|value| value == "off")
            && self.is_set_to_follow()
    }

    /// Whether its files make it a standby at its next start.
    pub(crate) fn is_set_to_follow(&self) -> bool {
        self.data_folder().join("standby.signal").exists()
    }

    /// Gives the server the universe's current list, if it is there to take it.
    pub(crate) fn bring_listing(&self) -> Outcome<()> {
        let Some(listing) = &self.listing else {
            return Ok(());
        };
        {
            let mut state = self.state();
            if state.frozen || !state.process.as_mut().is_some_and(Process::is_alive) {
                return Ok(());
            }
        }
        let sql = listing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sql(self.spec.plain);
        self.try_sql(&sql)?;
        Ok(())
    }

    fn end(&self, how: impl FnOnce(Pid, &Path)) -> Outcome<()> {
        let mut state = self.state();
        let postmaster = state.postmaster(self)?;
        let data = self.data_folder();
        how(postmaster, &data);
        state.frozen = false;
        match &mut state.process {
            Some(process) => process.wait_for_end(&data),
            None => Ok(()),
        }
    }

    /// A test that panicked in the middle of a call must still be able to clean up, so poison means nothing here.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn postmaster(&mut self, server: &Server) -> Outcome<Pid> {
        let pid = self.process.as_mut().and_then(Process::living_pid);
        pid.ok_or_else(|| Failure::new(format!("the server {} is not running", server.address())))
    }
}
