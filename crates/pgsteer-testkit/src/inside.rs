//! Looking into a running server, and changing what it lets in: SQL, sessions, login rules, files, its log.

use std::fs;

use crate::DATABASE;
use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::listing::literal;
use crate::log::Log;
use crate::postmaster::LIMIT;
use crate::processes::wait_until;
use crate::server::Server;
use crate::sql::{ADMIN, Rows, Session, SqlError};

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

    /// Sets who may log in over TCP: `pg_hba.conf` lines, which replace the former ones, in force when this returns.
    /// The testkit's own way in stays.
    #[track_caller]
    pub fn set_hba(&self, lines: &[&str]) {
        or_fail(self.note_hba(Some(lines)).and_then(|()| self.reload()));
    }

    /// Puts the usual `pg_hba.conf` lines back.
    #[track_caller]
    pub fn reset_hba(&self) {
        or_fail(self.note_hba(None).and_then(|()| self.reload()));
    }

    pub(crate) fn write_hba(&self, lines: &[String]) -> Outcome<()> {
        // `all` does not stand for replication.
        let own = format!(
            "local all {ADMIN} trust\nlocal replication {ADMIN} trust\nhost all {ADMIN} all reject\n"
        );
        self.try_write_file("pg_hba.conf", &format!("{own}{}\n", lines.join("\n")))
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
        fs::write(&path, contents).at("cannot write", &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).at("cannot protect", &path)?;
        self.programs.give(&path)
    }

    /// Everything it has logged so far.
    #[track_caller]
    pub fn log(&self) -> Log {
        let path = self.folder.join("log");
        let bytes = or_fail(fs::read(&path).at("cannot read", &path));
        Log::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Makes the server read its configuration files again and waits until new sessions see them.
    pub(crate) fn reload(&self) -> Outcome<()> {
        let loaded = || self.try_sql("SELECT pg_conf_load_time()");
        let before = loaded()?;
        self.try_sql("SELECT pg_reload_conf()")?;
        if wait_until(LIMIT, || loaded().is_ok_and(|now| now != before)) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} did not read its configuration again",
            self.address()
        )))
    }
}
