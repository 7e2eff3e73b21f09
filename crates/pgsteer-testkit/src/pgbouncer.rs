//! PgBouncer in front of a server, for what a pooler hides from a client: logins that prove nothing, welcome packets of
//! long ago, roles that change behind it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::ports::{self, Port};
use crate::postmaster::LIMIT;
use crate::processes::wait_until;
use crate::programs::Programs;
use crate::server::Server;
use crate::sql::{ADMIN, Rows, Session, SqlError};
use crate::tools::Tool;
use crate::{DATABASE, PASSWORD, USER, site, template};

/// A PgBouncer on 127.0.0.1, on a port of its own, that passes clients on to one server. Clients log in as
/// [`USER`](crate::USER) with [`PASSWORD`](crate::PASSWORD), by SCRAM. Sessions are pooled (`pool_mode = session`)
/// unless told otherwise. It ends when it is dropped, and with its server's set at the latest.
///
/// ```no_run
/// use pgsteer_testkit::{HaSet, PgBouncer};
///
/// let set = HaSet::start();
/// let bouncer = PgBouncer::before(set.node(0));
/// println!("{}", bouncer.url());
/// bouncer.repoint(set.node(1));       // clients notice nothing but the other role
/// bouncer.stop();                     // refuses connections from now on
/// bouncer.start();
/// let quick = PgBouncer::configured(set.node(0), &[("server_login_retry", "1"), ("pool_mode", "transaction")]);
/// ```
///
/// PgBouncer is the package `pgbouncer` on Debian and Ubuntu. Calls block and panic as everywhere in this crate.
#[derive(Debug)]
pub struct PgBouncer {
    state: Mutex<State>,
    program: PathBuf,
    programs: Arc<Programs>,
    settings: Vec<(String, String)>,
    folder: TempDir,
    port: Port,
}

#[derive(Debug)]
struct State {
    process: Option<Child>,
    /// Host and port it passes clients on to.
    target: (String, u16),
}

impl PgBouncer {
    /// Starts one in front of this server and returns when it takes logins.
    ///
    /// # Panics
    /// When PgBouncer is not installed, saying what to install; when it does not come up, with its log's end.
    #[must_use]
    #[track_caller]
    pub fn before(server: &Server) -> Self {
        or_fail(Self::try_before(server, &[]))
    }

    /// The same with further settings of its `[pgbouncer]` section, which override the usual ones.
    #[must_use]
    #[track_caller]
    pub fn configured(server: &Server, settings: &[(&str, &str)]) -> Self {
        or_fail(Self::try_before(server, settings))
    }

    fn try_before(server: &Server, settings: &[(&str, &str)]) -> Outcome<Self> {
        let program = Tool::PGBOUNCER.find()?;
        let programs = Arc::clone(&server.programs);
        // Inside the set's folder, so that the set's watcher watches over it too.
        let set = server.folder.parent().unwrap_or(&server.folder);
        let folder = tempfile::Builder::new().prefix("pgbouncer-").tempdir_in(set);
        let folder = folder.at("cannot make a folder in", set)?;
        programs.give(folder.path())?;
        let locks = site::ports_folder(&template::shared_folder(&programs)?);
        let bouncer = Self {
            state: Mutex::new(State {
                process: None,
                target: (server.host().to_owned(), server.port()),
            }),
            program,
            programs,
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            port: ports::reserve(&locks, &["127.0.0.1".to_owned()])?,
            folder,
        };
        bouncer.try_start()?;
        Ok(bouncer)
    }

    /// The loopback address it listens on.
    #[must_use]
    pub fn host(&self) -> &str {
        "127.0.0.1"
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Address and port as one text, `127.0.0.1:20433`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host(), self.port())
    }

    /// A `postgresql://` URL with user, password and database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql://{USER}:{PASSWORD}@{}/{DATABASE}", self.address())
    }

    /// Starts it after a stop or a kill. Does nothing when it runs.
    #[track_caller]
    pub fn start(&self) {
        or_fail(self.try_start());
    }

    /// Stops it at once: its clients are cut off. Returns when it is gone.
    ///
    /// # Panics
    /// When it does not run.
    #[track_caller]
    pub fn stop(&self) {
        or_fail(self.end(|_| {
            // It answers by closing.
            let _ = self.ask("SHUTDOWN");
        }));
    }

    /// Kills it. Returns when it is gone.
    ///
    /// # Panics
    /// When it does not run.
    #[track_caller]
    pub fn kill(&self) {
        or_fail(self.end(|process| {
            let _ = process.kill();
        }));
    }

    /// Passes new sessions on to another server from now on. A client that has a session keeps it until it leaves, or
    /// in transaction pooling until its transaction ends.
    #[track_caller]
    pub fn repoint(&self, server: &Server) {
        self.state().target = (server.host().to_owned(), server.port());
        or_fail(
            self.write_files()
                .and_then(|()| self.ask("RELOAD").map_err(Failure::from).map(drop)),
        );
    }

    /// What its console answers to a command such as `SHOW SERVERS` or `PAUSE`.
    ///
    /// # Panics
    /// When it does not run or refuses the command.
    #[track_caller]
    pub fn console(&self, command: &str) -> Rows {
        or_fail(
            self.ask(command)
                .map_err(|error| Failure::new(format!("PgBouncer: {error}: {command}"))),
        )
    }

    /// Everything it has logged so far.
    #[must_use]
    #[track_caller]
    pub fn log(&self) -> String {
        let path = self.path("log");
        or_fail(fs::read_to_string(&path).at("cannot read", &path))
    }

    fn try_start(&self) -> Outcome<()> {
        self.write_files()?;
        let mut state = self.state();
        if state.process.as_mut().is_some_and(is_alive) {
            return Ok(());
        }
        let log = self.path("log");
        let log_file: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .at("cannot open", &log)?;
        let mut command = self.programs.command(&self.program);
        command.current_dir(self.folder.path()).arg(self.path("ini"));
        command.stdout(Stdio::null()).stderr(log_file);
        let process = state
            .process
            .insert(command.spawn().during("cannot start pgbouncer")?);
        let up = wait_until(LIMIT, || self.ask("SHOW VERSION").is_ok() || !is_alive(process));
        if up && is_alive(process) {
            return Ok(());
        }
        let _ = process.kill();
        let words = fs::read_to_string(&log).unwrap_or_default();
        Err(Failure::new(format!(
            "PgBouncer did not come up. Its log:\n{words}"
        )))
    }

    fn end(&self, how: impl FnOnce(&mut Child)) -> Outcome<()> {
        let mut state = self.state();
        let not_running = || Failure::new("PgBouncer is not running");
        let process = state.process.as_mut().ok_or_else(not_running)?;
        if !is_alive(process) {
            return Err(not_running());
        }
        how(process);
        if wait_until(LIMIT, || !is_alive(process)) {
            return Ok(());
        }
        Err(Failure::new("PgBouncer does not end"))
    }

    fn ask(&self, command: &str) -> Result<Rows, SqlError> {
        Session::open(self.folder.path(), self.port(), "pgbouncer")?.run(command)
    }

    fn write_files(&self) -> Outcome<()> {
        let (host, port) = self.state().target.clone();
        let folder = self.folder.path().display();
        let mut ini = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\n\
             unix_socket_dir = {folder}\nauth_type = hba\nauth_hba_file = {folder}/hba\nauth_file = {folder}/users\n\
             admin_users = {ADMIN}\npool_mode = session\nignore_startup_parameters = extra_float_digits,options\n",
            self.host(),
            self.port(),
        );
        for (name, value) in &self.settings {
            ini.push_str(&format!("{name} = {value}\n"));
        }
        let hba = format!("local all {ADMIN} trust\nhost all all 127.0.0.0/8 scram-sha-256\n");
        let users = format!("\"{USER}\" \"{PASSWORD}\"\n\"{ADMIN}\" \"\"\n");
        for (name, text) in [("ini", ini), ("hba", hba), ("users", users)] {
            let path = self.path(name);
            fs::write(&path, text).at("cannot write", &path)?;
            self.programs.give(&path)?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.state().process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn is_alive(process: &mut Child) -> bool {
    process.try_wait().is_ok_and(|end| end.is_none())
}
