//! What one server of a universe is to be: placement, role, limits, logins. Plain data; nothing here starts anything.

use std::collections::BTreeMap;

use crate::tls::Tls;

/// What one server is to be. Starts out as a primary in `gcp.us-east1`, zone `us-east1-b` for the first server, `-c`
/// for the second and so on, with scram-sha-256 logins and 100 connections.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    pub(crate) placement: [String; 3],
    pub(crate) read_replica: bool,
    pub(crate) plain: bool,
    pub(crate) auth: String,
    pub(crate) public_ip: Option<String>,
    pub(crate) sessions: u32,
    pub(crate) tls: Option<Tls>,
    pub(crate) settings: BTreeMap<String, String>,
}

impl ServerSpec {
    pub(crate) fn numbered(index: usize) -> Self {
        let letter = char::from(b'b' + u8::try_from(index % 24).unwrap_or(0));
        Self {
            placement: [
                "gcp".to_owned(),
                "us-east1".to_owned(),
                format!("us-east1-{letter}"),
            ],
            read_replica: false,
            plain: false,
            auth: "scram-sha-256".to_owned(),
            public_ip: None,
            sessions: SESSIONS,
            tls: None,
            settings: BTreeMap::new(),
        }
    }

    /// Where the server says it is, as `cloud.region.zone`.
    ///
    /// # Panics
    /// When the text has not exactly three parts.
    #[must_use]
    #[track_caller]
    pub fn zone(mut self, placement: &str) -> Self {
        let parts: Vec<&str> = placement.split('.').collect();
        let [cloud, region, zone] = parts[..] else {
            return crate::failure::or_fail(Err(crate::failure::Failure::new(format!(
                "a placement is cloud.region.zone, got {placement:?}"
            ))));
        };
        self.placement = [cloud.to_owned(), region.to_owned(), zone.to_owned()];
        self
    }

    /// Lists the server as a read replica instead of a primary.
    #[must_use]
    pub fn read_replica(mut self) -> Self {
        self.read_replica = true;
        self
    }

    /// A plain PostgreSQL server: it has no `yb_servers()` function. The others list it all the same.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// How TCP logins are checked: `scram-sha-256` (the default), `md5`, `password` or `trust`.
    #[must_use]
    pub fn auth(mut self, method: &str) -> Self {
        self.auth = method.to_owned();
        self
    }

    /// Speaks TLS. Default: none, so an SSLRequest is answered with `N`.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// A second loopback address, such as `127.0.0.21`, that the server listens on and reports as its public IP.
    /// Default: the server reports an empty text, as a YugabyteDB server without one does.
    #[must_use]
    pub fn public_ip(mut self, address: &str) -> Self {
        self.public_ip = Some(address.to_owned());
        self
    }

    /// How many sessions the server takes, beside three kept back for the testkit. Default 100; in an HA set 1 to 100.
    #[must_use]
    pub fn max_connections(mut self, limit: u32) -> Self {
        self.sessions = limit;
        self
    }

    /// Logs each statement, and how long each protocol message took, for [`Log::statements`](crate::Log::statements)
    /// and [`Log::activity`](crate::Log::activity).
    #[must_use]
    pub fn log_statements(self) -> Self {
        self.setting("log_statement", "all")
            .setting("log_min_duration_statement", "0")
    }

    /// Any other server setting, given on the server's command line.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// Sessions that only a superuser may take, so that the testkit can look into a server that is full.
pub(crate) const RESERVED_SESSIONS: u32 = 3;

/// Sessions that a server takes beside those kept back, unless told otherwise.
pub(crate) const SESSIONS: u32 = 100;
