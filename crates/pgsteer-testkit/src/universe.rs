//! A set of servers that list each other: building it, finding one's way in it, and changing what it reports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Failure, Outcome, or_fail};
use crate::listing::{Listing, Row, YbServers};
use crate::server::Server;
use crate::site::{Site, for_each_at_once};
use crate::spec::ServerSpec;
use crate::template::Kind;
use crate::tls::TlsFiles;
use crate::{DATABASE, PASSWORD, USER};

/// A set of real servers that list each other. See the [crate's page](crate).
#[derive(Debug)]
pub struct Universe {
    site: Site,
    servers: Vec<Server>,
    listing: Arc<Mutex<Listing>>,
}

/// What a universe is to be. Got from [`Universe::builder`].
#[derive(Debug)]
pub struct Builder {
    specs: Vec<ServerSpec>,
    different_ports: bool,
}

impl Builder {
    /// How many servers. Default 3, at most 20.
    #[must_use]
    pub fn servers(mut self, count: usize) -> Self {
        let known = self.specs.len();
        self.specs.truncate(count);
        self.specs.extend((known..count).map(ServerSpec::numbered));
        self
    }

    /// Placements as `cloud.region.zone`, for the first servers in order.
    ///
    /// # Panics
    /// When there are more placements than servers, or one has not three parts.
    #[must_use]
    #[track_caller]
    pub fn zones<'p>(mut self, placements: impl IntoIterator<Item = &'p str>) -> Self {
        for (index, placement) in placements.into_iter().enumerate() {
            self = self.configure(index, |spec| spec.zone(placement));
        }
        self
    }

    /// Changes what one server, counted from 0, is to be.
    ///
    /// # Panics
    /// When there is no such server; say [`Builder::servers`] first.
    #[must_use]
    #[track_caller]
    pub fn configure(mut self, index: usize, change: impl FnOnce(ServerSpec) -> ServerSpec) -> Self {
        let count = self.specs.len();
        let spec = self.specs.get_mut(index);
        let spec = or_fail(spec.ok_or_else(|| Failure::new(format!("server {index} of {count}"))));
        *spec = change(spec.clone());
        self
    }

    /// Changes what every server so far is to be.
    #[must_use]
    pub fn configure_all(mut self, change: impl Fn(ServerSpec) -> ServerSpec) -> Self {
        self.specs = self.specs.into_iter().map(change).collect();
        self
    }

    /// Gives each server a port of its own. Default: one port for all, as YugabyteDB has it.
    #[must_use]
    pub fn different_ports(mut self) -> Self {
        self.different_ports = true;
        self
    }

    /// Starts the servers, all at once, and returns when each takes logins and lists the others.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, saying what to install; when a server does not come up, with its log's end.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Universe {
        or_fail(self.try_start())
    }

    fn try_start(self) -> Outcome<Universe> {
        let further: Vec<String> = self
            .specs
            .iter()
            .filter_map(|spec| spec.public_ip.clone())
            .collect();
        let site = Site::prepare(Kind::Single, self.specs.len(), self.different_ports, &further)?;
        let placed: Vec<_> = site.addresses.iter().cloned().zip(self.specs).collect();
        let mut listing = Listing::default();
        for ((host, port), spec) in &placed {
            listing.rows.push((true, Row::of(host, *port, spec)));
        }
        let listing = Arc::new(Mutex::new(listing));
        let servers = placed.into_iter().enumerate().map(|(index, (address, spec))| {
            let listing = Some(Arc::clone(&listing));
            Server::new(&site, index, address, spec, listing)
        });
        let universe = Universe {
            servers: servers.collect(),
            site,
            listing,
        };
        let template = &universe.site.template;
        for_each_at_once(&universe.servers, |_, server| server.create(template))?;
        Ok(universe)
    }
}

impl Universe {
    /// Describes a universe: three servers in three zones of one region, unless told otherwise.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            specs: Vec::new(),
            different_ports: false,
        }
        .servers(3)
    }

    /// The server of this number, counted from 0. Server 0 is on 127.0.0.1.
    ///
    /// # Panics
    /// When there is no such server.
    #[track_caller]
    pub fn server(&self, index: usize) -> &Server {
        let count = self.servers.len();
        or_fail(
            self.servers
                .get(index)
                .ok_or_else(|| Failure::new(format!("there is no server {index} of {count}"))),
        )
    }

    /// All servers, in order.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// `host:port` of every server, with commas between.
    #[must_use]
    pub fn addresses(&self) -> String {
        self.servers
            .iter()
            .map(Server::address)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// A `postgresql://` URL with every server, user, password and database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql://{USER}:{PASSWORD}@{}/{DATABASE}", self.addresses())
    }

    /// Certificates for the clients of servers that speak TLS.
    #[must_use]
    pub fn tls_files(&self) -> &TlsFiles {
        &self.site.authority.files
    }

    /// How many sessions clients of this application name hold, by server. A server that is down holds none.
    #[track_caller]
    pub fn spread(&self, application: &str) -> Vec<usize> {
        let live = |server: &Server| {
            if server.is_running() {
                server.sessions(application)
            } else {
                0
            }
        };
        self.servers.iter().map(live).collect()
    }

    /// Takes a server out of everybody's `yb_servers()`.
    #[track_caller]
    pub fn forget(&self, index: usize) {
        self.change_row(index, |(listed, _)| *listed = false);
    }

    /// Puts it back.
    #[track_caller]
    pub fn recall(&self, index: usize) {
        self.change_row(index, |(listed, _)| *listed = true);
    }

    /// Changes one column of a server's row everywhere; `None` makes it NULL.
    ///
    /// # Panics
    /// When `yb_servers()` has no such column, or the value is not of its type.
    #[track_caller]
    pub fn set<'v>(&self, index: usize, column: &str, value: impl Into<Option<&'v str>>) {
        let changed = self.row(index).with(column, value);
        self.change_row(index, |(_, row)| *row = changed);
    }

    /// A server's row as it stands.
    #[must_use]
    #[track_caller]
    pub fn row(&self, index: usize) -> Row {
        let row = self.listing().rows.get(index).map(|(_, row)| row.clone());
        or_fail(row.ok_or_else(|| Failure::new(format!("there is no server {index}"))))
    }

    /// Adds a row to what everybody lists: a server that does not exist, or one a second time.
    #[track_caller]
    pub fn add_row(&self, row: Row) {
        self.change(|listing| listing.extra.push(row));
    }

    /// Takes away every row that [`Universe::add_row`] added.
    #[track_caller]
    pub fn remove_added_rows(&self) {
        self.change(|listing| listing.extra.clear());
    }

    /// Whether `yb_servers()` lists nothing at all, on any server.
    #[track_caller]
    pub fn list_nothing(&self, nothing: bool) {
        self.change(|listing| listing.empty = nothing);
    }

    /// Changes how `yb_servers()` behaves on every server that is not plain.
    #[track_caller]
    pub fn set_yb_servers(&self, behaviour: YbServers) {
        self.change(|listing| listing.function = behaviour);
    }

    #[track_caller]
    fn change_row(&self, index: usize, change: impl FnOnce(&mut (bool, Row))) {
        drop(self.row(index));
        self.change(|listing| {
            if let Some(row) = listing.rows.get_mut(index) {
                change(row);
            }
        });
    }

    #[track_caller]
    fn change(&self, change: impl FnOnce(&mut Listing)) {
        change(&mut self.listing());
        or_fail(for_each_at_once(&self.servers, |_, server| {
            server.bring_listing()
        }));
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
