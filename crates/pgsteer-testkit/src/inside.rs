//! Looking into a running server: SQL, sessions, files, its log.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::listing::literal;
use crate::log::Log;
use crate::postmaster::LIMIT;
use crate::processes::{signal, wait_until, works_in};
use crate::server::Server;
use crate::sql::{Rows, Session, SqlError};
use crate::{DATABASE, PASSWORD, USER};

impl Server {
    /// Runs SQL as superuser in [`DATABASE`] and gives the rows.
    ///
    /// # Panics
    /// When the server refuses it; see [`Server::try_sql`].
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Rows {
        or_fail(
            self.try_sql(sql)
                .map_err(|error| Failure::new(format!("{}: {error}: {sql}", self.address()))),
        )
    }

    /// Runs SQL as superuser in [`DATABASE`]. Several statements at once are one transaction.
    ///
    /// # Errors
    /// The server's refusal, or why it could not be asked.
    pub fn try_sql(&self, sql: &str) -> Result<Rows, SqlError> {
        Session::open(&self.folder, self.port, DATABASE)?.run(sql)
    }

    /// How many sessions clients of this application name hold.
    #[track_caller]
    pub fn sessions(&self, application: &str) -> usize {
        self.backends(application).len()
    }

    /// The backend processes of clients of this application name, oldest first.
    #[track_caller]
    pub fn backends(&self, application: &str) -> Vec<i32> {
        let rows = self.sql(&format!(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = {} \
             ORDER BY backend_start",
            literal(Some(application))
        ));
        rows.into_iter()
            .flatten()
            .flatten()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Ends one session as an administrator would (57P01). Returns when it is gone. False if there was no such one.
    #[track_caller]
    pub fn terminate(&self, backend: i32) -> bool {
        self.sql(&format!("SELECT pg_terminate_backend({backend}, 10000)")) == [[Some("t".to_owned())]]
    }

    /// Kills one backend process as the kernel does when memory runs out. The server then cuts all sessions off, warning
    /// them with 57P02, refuses logins with 57P03 while it recovers, and goes on, all within some tens of milliseconds.
    /// Returns as soon as the backend is gone. False if there was no such one.
    #[track_caller]
    pub fn crash(&self, backend: i32) -> bool {
        let data = self.data_folder();
        let Some(pid) = Pid::from_raw(backend).filter(|pid| works_in(*pid, &data)) else {
            return false;
        };
        signal(pid, &data, Signal::KILL);
        or_fail(if wait_until(LIMIT, || !works_in(pid, &data)) {
            Ok(true)
        } else {
            Err(Failure::new(format!("backend {backend} does not end")))
        })
    }

    /// Logs in by libpq, PostgreSQL's own client, as [`USER`] over TCP, runs SQL and gives the rows, a line each; or
    /// what libpq said. `parameters` are further connection parameters as key=value, which override the usual ones.
    ///
    /// # Panics
    /// When there is no `psql` beside the server programs, saying what to install.
    #[track_caller]
    pub fn libpq(&self, parameters: &str, sql: &str) -> Result<String, String> {
        let psql = or_fail(self.programs.further_path("psql"));
        let mut command = Command::new(psql);
        let (host, port) = (self.host(), self.port());
        command.arg("-XAtw").arg("-c").arg(sql).arg("-d").arg(format!(
            "host={host} port={port} user={USER} password={PASSWORD} dbname={DATABASE} {parameters}"
        ));
        // What the tester's own environment says about PostgreSQL is not meant for this.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        let output = or_fail(
            command
                .env("LC_ALL", "C")
                .stdin(Stdio::null())
                .output()
                .during("psql"),
        );
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// Writes a file into the data folder, readable by the server only. In an HA set, a node that rejoins gets its
    /// primary's files instead.
    #[track_caller]
    pub fn write_file(&self, name: &str, contents: &str) {
        or_fail(self.try_write_file(name, contents));
    }

    pub(crate) fn try_write_file(&self, name: &str, contents: &str) -> Outcome<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.data_folder().join(name);
        // In one step, since a server takes a file such as the one that promotes it away as soon as it sees it.
        let unfinished = self.data_folder().join(format!("{name}.new"));
        fs::write(&unfinished, contents).at("cannot write", &unfinished)?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))
            .at("cannot protect", &unfinished)?;
        self.programs.give(&unfinished)?;
        fs::rename(&unfinished, &path).at("cannot write", &path)
    }

    /// Everything it has logged so far.
    #[track_caller]
    pub fn log(&self) -> Log {
        let path = self.folder.join("log");
        let bytes = or_fail(fs::read(&path).at("cannot read", &path));
        Log::parse(&String::from_utf8_lossy(&bytes))
    }
}
