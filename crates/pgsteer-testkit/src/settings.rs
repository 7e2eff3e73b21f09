//! What a server is set to, from its next start on or at once: settings, login rules, its limit of sessions, TLS. The
//! wanted state is kept here rather than in the data folder, which a base backup or a rewind replaces.

use std::collections::BTreeMap;

use crate::failure::{Failure, Outcome, or_fail};
use crate::listing::literal;
use crate::postmaster::LIMIT;
use crate::processes::wait_until;
use crate::server::Server;
use crate::spec::{RESERVED_SESSIONS, SESSIONS, ServerSpec};
use crate::sql::ADMIN;
use crate::tls::Tls;

/// A file that the template's configuration includes, of what may change without a restart.
pub(crate) const RELOADED: &str = "testkit.conf";

/// What a server is to be set to.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Given on the command line, in force until the next start.
    pub(crate) settings: BTreeMap<String, String>,
    /// In [`RELOADED`], in force from the next reload on.
    reloaded: BTreeMap<String, String>,
    /// How many sessions it takes beside those kept back for the testkit.
    sessions: u32,
    tls: Option<Tls>,
    /// Lines of `pg_hba.conf` after the testkit's own; `None` for the usual ones.
    hba: Option<Vec<String>>,
}

impl Wanted {
    pub(crate) fn new(spec: &ServerSpec) -> Self {
        Self {
            settings: spec.settings.clone(),
            reloaded: BTreeMap::new(),
            sessions: spec.sessions,
            tls: spec.tls.clone(),
            hba: None,
        }
    }
}

impl Server {
    /// Restarts it with another limit of sessions, not counting those kept back for the testkit.
    ///
    /// # Panics
    /// When a node of an HA set is to take none or more than 100.
    #[track_caller]
    pub fn set_max_connections(&self, limit: u32) {
        self.state().wanted.sessions = limit;
        or_fail(self.try_stop_fast().and_then(|()| self.try_start()));
    }

    /// Restarts it with another value of any setting.
    #[track_caller]
    pub fn set_setting(&self, name: &str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.state().wanted.settings.insert(name, value);
        or_fail(self.try_stop_fast().and_then(|()| self.try_start()));
    }

    /// Changes settings without a restart; an empty value goes back to the default. In force when this returns, if
    /// the server runs, else from its next start on.
    ///
    /// # Panics
    /// When the server is frozen or takes no sessions. A setting that needs a restart stays as it was; see
    /// [`Server::set_setting`].
    #[track_caller]
    pub fn reload_settings(&self, settings: &[(&str, &str)]) {
        or_fail(self.try_reload_settings(settings));
    }

    /// Sets who may log in over TCP: `pg_hba.conf` lines, which replace the former ones, in force when this returns,
    /// if the server runs. The testkit's own way in stays.
    #[track_caller]
    pub fn set_hba(&self, lines: &[&str]) {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        self.state().wanted.hba = Some(lines);
        or_fail(self.apply());
    }

    /// Puts the usual `pg_hba.conf` lines back.
    #[track_caller]
    pub fn reset_hba(&self) {
        self.state().wanted.hba = None;
        or_fail(self.apply());
    }

    /// Gives the server other TLS, a new certificate in any case, or none; new sessions meet it when this returns, if
    /// the server runs. The usual login rules suit themselves to it.
    #[track_caller]
    pub fn set_tls(&self, tls: impl Into<Option<Tls>>) {
        self.state().wanted.tls = tls.into();
        or_fail(self.issue_certificate().and_then(|()| self.apply()));
    }

    pub(crate) fn try_reload_settings(&self, settings: &[(&str, &str)]) -> Outcome<()> {
        self.note_settings(settings);
        self.apply()
    }

    /// Has these settings in force from the next start on.
    pub(crate) fn note_settings(&self, settings: &[(&str, &str)]) {
        let reloaded = &mut self.state().wanted.reloaded;
        for (name, value) in settings {
            match *value {
                "" => reloaded.remove(*name),
                value => reloaded.insert((*name).to_owned(), value.to_owned()),
            };
        }
    }

    /// Makes the certificate of the wanted TLS, if it is to have any.
    pub(crate) fn issue_certificate(&self) -> Outcome<()> {
        let Some(tls) = self.state().wanted.tls.clone() else {
            return Ok(());
        };
        let own = std::iter::once(self.host.as_str()).chain(self.spec.public_ip.as_deref());
        let own: Vec<&str> = own.collect();
        self.authority
            .issue_for_server(&tls, &own, &self.folder, &self.programs)
    }

    /// The settings for its command line.
    pub(crate) fn start_settings(&self, wanted: &Wanted) -> Outcome<BTreeMap<String, String>> {
        let mut settings = wanted.settings.clone();
        let (name, value) = self.limit(wanted.sessions)?;
        settings.entry(name.to_owned()).or_insert(value.to_string());
        let addresses: Vec<&str> = std::iter::once(self.host.as_str())
            .chain(self.spec.public_ip.as_deref())
            .collect();
        settings.insert("listen_addresses".to_owned(), addresses.join(","));
        settings.insert("port".to_owned(), self.port.to_string());
        Ok(settings)
    }

    /// The setting that limits sessions to this many.
    fn limit(&self, sessions: u32) -> Outcome<(&'static str, u32)> {
        if self.listing.is_some() {
            return Ok(("max_connections", sessions + RESERVED_SESSIONS));
        }
        // A standby must have as many slots as its primary, so they stay and more of them are kept back.
        if (1..=SESSIONS).contains(&sessions) {
            return Ok((
                "superuser_reserved_connections",
                SESSIONS + RESERVED_SESSIONS - sessions,
            ));
        }
        Err(Failure::new(format!(
            "a node of an HA set takes 1 to {SESSIONS} sessions, not {sessions}"
        )))
    }

    /// Writes the files that hold what can change while it runs.
    pub(crate) fn write_configuration(&self, wanted: &Wanted) -> Outcome<()> {
        let tls = wanted
            .tls
            .as_ref()
            .map(|tls| tls.settings(&self.folder))
            .unwrap_or_default();
        let lines = wanted
            .reloaded
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(tls.iter().map(|(name, value)| (*name, value.as_str())))
            .map(|(name, value)| format!("{name} = {}\n", literal(Some(value))));
        self.try_write_file(RELOADED, &lines.collect::<String>())?;
        let hba = wanted
            .hba
            .clone()
            .unwrap_or_else(|| usual_hba(&self.spec.auth, wanted.tls.as_ref()));
        // `all` does not stand for replication.
        let own = format!(
            "local all {ADMIN} trust\nlocal replication {ADMIN} trust\nhost all {ADMIN} all reject\n"
        );
        self.try_write_file("pg_hba.conf", &format!("{own}{}\n", hba.join("\n")))
    }

    /// Writes them and, if the server runs, makes it read them and waits until new sessions see them.
    fn apply(&self) -> Outcome<()> {
        self.write_configuration(&self.state().wanted)?;
        if !self.is_running() {
            return Ok(());
        }
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

/// The lines of `pg_hba.conf` that a test starts with.
fn usual_hba(auth: &str, tls: Option<&Tls>) -> Vec<String> {
    let tcp = match tls {
        Some(tls) => tls.hba(auth),
        None => format!("host all all 127.0.0.0/8 {auth}"),
    };
    vec![format!("local all all {auth}"), tcp]
}
