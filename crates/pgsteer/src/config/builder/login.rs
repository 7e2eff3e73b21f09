//! Setters for whom to connect to and as whom.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, HostSpec, Password, PasswordSource, TargetSessionAttrs};

impl Config {
    /// Adds a host to the list. Without any, the list is `localhost`.
    ///
    /// A name, an address literal (IPv6 without brackets) or the absolute path of a Unix socket directory, or one of
    /// them with a port of its own: `("db1", 5433)`. [`HostSpec::at`] gives a name the address to dial. The text is used as it is: not trimmed and not split at a colon.
    /// It must not be empty or contain `@`, `://`, a control character or, unless it is a path, `/` or white space: that
    /// would be a URL or a slip, and the error does not repeat it. An IPv6 scope id (`fe80::1%eth0`) is refused too. The
    /// order matters where nothing else decides.
    #[must_use]
    pub fn host(mut self, host: impl Into<HostSpec>) -> Self {
        self.hosts.get_or_insert_default().push(host.into());
        self
    }

    /// Replaces the list of hosts; see [`host`](Config::host). An empty list is an error.
    #[must_use]
    pub fn hosts<H: Into<HostSpec>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// The port of hosts given without one, 1 to 65535. Default 5432, for YugabyteDB 5433. A discovered server's port is
    /// the one discovery reports.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The user to log in as. Default, also for an empty one: the operating system's user, for YugabyteDB `yugabyte`.
    /// Must not contain NUL.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The same as [`user`](Config::user).
    #[must_use]
    pub fn username(self, user: impl Into<String>) -> Self {
        self.user(user)
    }

    /// A fixed password: any bytes but NUL, UTF-8 or not. Default none. Replaces a
    /// [`password_source`](Config::password_source). Never printed.
    #[must_use]
    pub fn password(mut self, password: impl Into<Vec<u8>>) -> Self {
        self.password = Password::Secret(password.into().into());
        self
    }

    /// Something that is asked for the password at each dial: an async closure or function, or a [`PasswordSource`].
    /// Default none. Replaces a fixed [`password`](Config::password).
    #[must_use]
    pub fn password_source(mut self, source: impl PasswordSource) -> Self {
        self.password = Password::Source(Arc::new(source));
        self
    }

    /// The database. Default, also for an empty one: the one named as the user. Must not contain NUL.
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// The same as [`database`](Config::database).
    #[must_use]
    pub fn dbname(self, database: impl Into<String>) -> Self {
        self.database(database)
    }

    /// The name shown in `pg_stat_activity`. Default `pgsteer`. May be empty, must not contain NUL.
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = Some(name.into());
        self
    }

    /// The [`application_name`](Config::application_name) if none is given: for programs that have a name of their own
    /// which a connection string may replace. Default `pgsteer`. Must not contain NUL.
    #[must_use]
    pub fn fallback_application_name(mut self, name: impl Into<String>) -> Self {
        self.fallback_application_name = Some(name.into());
        self
    }

    /// Command-line options for the server's process, such as `-c geqo=off -c work_mem=8MB`, sent when a connection
    /// starts. Default none. Must not contain NUL.
    #[must_use]
    pub fn options(mut self, options: impl Into<String>) -> Self {
        self.options = Some(options.into());
        self
    }

    /// `statement_timeout` of every connection, discovery's and probes' included: whole milliseconds, 0 to 2147483647.
    /// Zero is sent too and switches the server's own setting off. Default `None`: nothing is sent.
    #[must_use]
    pub fn statement_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.statement_timeout = limit.into();
        self
    }

    /// Which servers sessions are wanted on. The server is asked on each new connection. Default
    /// [`TargetSessionAttrs::Any`], with which nothing is asked.
    #[must_use]
    pub fn target_session_attrs(mut self, wanted: TargetSessionAttrs) -> Self {
        self.target_session_attrs = Some(wanted);
        self
    }
}
