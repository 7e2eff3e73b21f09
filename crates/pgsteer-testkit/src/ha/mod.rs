//! A primary and its streaming standbys: building the set, finding one's way in it, looking at its state. What changes
//! who is who is in `roles`. Replication runs over Unix sockets, so neither login rules nor TLS nor a cut of the
//! loopback network reach it: a test breaks what clients see, and nothing else.

mod roles;

use std::fs;

use crate::failure::{Failure, Outcome, or_fail};
use crate::postmaster::LIMIT;
use crate::processes::wait_until;
use crate::server::Server;
use crate::site::{Site, for_each_at_once};
use crate::spec::ServerSpec;
use crate::template::Kind;
use crate::tls::TlsFiles;
use crate::{DATABASE, PASSWORD, USER};

pub use roles::Rejoined;

/// A primary and its streaming standbys, each a real server on a loopback address of its own.
///
/// Node 0, on 127.0.0.1, starts as the primary; the others follow it as hot standbys. A node is a [`Server`], so
/// whatever breaks and mends a server works on it: kill, stop, freeze, thaw, restart, login rules, SQL, logs. The set
/// adds what is about roles. Tests log in as [`USER`] with [`PASSWORD`] to [`DATABASE`], by SCRAM.
///
/// ```no_run
/// use pgsteer_testkit::{HaSet, Rejoined};
///
/// let set = HaSet::start();
/// set.node(0).sql("CREATE TABLE t (n int)");
/// set.wait_caught_up(1, 0);
///
/// set.node(0).kill();                              // the primary dies
/// set.promote(1);                                  // takes writes when this returns, on timeline 2
/// set.follow(2, 1);
/// assert_eq!(set.rejoin(0, 1), Rejoined::Rewound); // the old primary comes back as a standby
/// assert_eq!((set.is_primary(1), set.timeline(1)), (true, 2));
///
/// set.set_hot_standby(2, false);                   // a cold standby: answers every login with 57P03
/// set.set_synchronous(1, true);                    // each commit waits for a standby
/// set.promote(0);                                  // split brain: two primaries
/// assert_eq!(set.spread("my-pool"), [0, 0, 0]);
/// // Dropping the set stops its servers and removes their files.
/// ```
///
/// As everywhere in this crate, calls block until what they say has happened, and panic at the caller's line when it
/// cannot.
#[derive(Debug)]
pub struct HaSet {
    // First, so that the servers are ended before they are reaped.
    site: Site,
    nodes: Vec<Server>,
}

/// What an HA set is to be. Got from [`HaSet::builder`].
#[derive(Debug)]
pub struct HaBuilder {
    specs: Vec<ServerSpec>,
    different_ports: bool,
}

impl HaBuilder {
    /// How many standbys. Default 2, at most 8.
    ///
    /// # Panics
    /// When there are to be more than 8.
    #[must_use]
    #[track_caller]
    pub fn standbys(mut self, count: usize) -> Self {
        if count > 8 {
            or_fail(Err(Failure::new(format!("at most 8 standbys, not {count}"))))
        }
        let known = self.specs.len();
        self.specs.truncate(count + 1);
        self.specs.extend((known..=count).map(ServerSpec::numbered));
        self
    }

    /// Changes what one node, counted from 0, is to be. Placement, [`ServerSpec::read_replica`] and
    /// [`ServerSpec::plain`] say what a universe's servers list about each other; these list nothing.
    ///
    /// # Panics
    /// When there is no such node; say [`HaBuilder::standbys`] first.
    #[must_use]
    #[track_caller]
    pub fn configure(mut self, node: usize, change: impl FnOnce(ServerSpec) -> ServerSpec) -> Self {
        let count = self.specs.len();
        let spec = self.specs.get_mut(node);
        let spec = or_fail(spec.ok_or_else(|| Failure::new(format!("node {node} of {count}"))));
        *spec = change(spec.clone());
        self
    }

    /// Changes what every node so far is to be.
    #[must_use]
    pub fn configure_all(mut self, change: impl Fn(ServerSpec) -> ServerSpec) -> Self {
        self.specs = self.specs.into_iter().map(change).collect();
        self
    }

    /// Gives each node a port of its own. Default: one port for all, on different addresses.
    #[must_use]
    pub fn different_ports(mut self) -> Self {
        self.different_ports = true;
        self
    }

    /// Starts the nodes, all at once, and returns when each takes logins and every standby streams from node 0.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, saying what to install; when a node does not come up, with its log's end.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> HaSet {
        or_fail(self.try_start())
    }

    fn try_start(self) -> Outcome<HaSet> {
        let further: Vec<String> = self
            .specs
            .iter()
            .filter_map(|spec| spec.public_ip.clone())
            .collect();
        let site = Site::prepare(Kind::Replicated, self.specs.len(), self.different_ports, &further)?;
        let placed = site.addresses.iter().cloned().zip(self.specs).enumerate();
        let nodes = placed.map(|(index, (address, spec))| Server::new(&site, index, address, spec, None));
        let set = HaSet {
            nodes: nodes.collect(),
            site,
        };
        // All begin as the same cleanly stopped primary, so a standby needs no backup of it.
        for_each_at_once(&set.nodes, |index, node| {
            node.lay_out(&set.site.template)?;
            if index > 0 {
                set.set_to_follow(index, 0)?;
            }
            node.try_start()
        })?;
        set.nodes[0].suit_password()?;
        for standby in 1..set.nodes.len() {
            set.wait_streaming(standby, 0)?;
        }
        Ok(set)
    }
}

impl HaSet {
    /// Starts a primary and two standbys. See [`HaBuilder::start`].
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Describes a set: a primary and two standbys, unless told otherwise.
    #[must_use]
    pub fn builder() -> HaBuilder {
        HaBuilder {
            specs: Vec::new(),
            different_ports: false,
        }
        .standbys(2)
    }

    /// The node of this number, counted from 0. Node 0 is on 127.0.0.1.
    ///
    /// # Panics
    /// When there is no such node.
    #[track_caller]
    pub fn node(&self, index: usize) -> &Server {
        or_fail(self.try_node(index))
    }

    fn try_node(&self, index: usize) -> Outcome<&Server> {
        let count = self.nodes.len();
        let node = self.nodes.get(index);
        node.ok_or_else(|| Failure::new(format!("there is no node {index} of {count}")))
    }

    /// All nodes, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// `host:port` of every node, with commas between.
    #[must_use]
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(Server::address).collect();
        addresses.join(",")
    }

    /// A `postgresql://` URL with every node, user, password and database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql://{USER}:{PASSWORD}@{}/{DATABASE}", self.addresses())
    }

    /// Certificates for the clients of servers that speak TLS.
    #[must_use]
    pub fn tls_files(&self) -> &TlsFiles {
        &self.site.authority.files
    }

    /// How many sessions clients of this application name hold, by node. A node that is down or a cold standby holds
    /// none.
    ///
    /// # Panics
    /// When a node is frozen.
    #[track_caller]
    pub fn spread(&self, application: &str) -> Vec<usize> {
        let live = |node: &Server| {
            let takes_sessions = node.is_running() && !node.is_cold();
            if takes_sessions {
                node.sessions(application)
            } else {
                0
            }
        };
        self.nodes.iter().map(live).collect()
    }

    /// Whether the node takes writes. False also when it is down, frozen or a cold standby.
    #[must_use]
    #[track_caller]
    pub fn is_primary(&self, node: usize) -> bool {
        let node = self.node(node);
        node.is_running() && !node.is_frozen() && is_writable(node)
    }

    /// The timeline that the node is on: 1 at first, one more after each promotion.
    ///
    /// # Panics
    /// When the node takes no sessions.
    #[must_use]
    #[track_caller]
    pub fn timeline(&self, node: usize) -> u32 {
        // What a primary writes on is not yet in its control file just after a promotion.
        let sql = if self.is_primary(node) {
            "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
        } else {
            "SELECT coalesce((SELECT received_tli FROM pg_stat_wal_receiver), timeline_id) \
             FROM pg_control_checkpoint()"
        };
        let rows = self.node(node).sql(sql);
        let timeline = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        or_fail(timeline.ok_or_else(|| Failure::new(format!("node {node} tells no timeline: {rows:?}"))))
    }

    /// Waits until a standby has replayed all that another node has committed or replayed up to now. The two must
    /// share a history: after a split brain the comparison means nothing.
    ///
    /// # Panics
    /// When it does not get there, or one of them takes no sessions.
    #[track_caller]
    pub fn wait_caught_up(&self, standby: usize, with: usize) {
        // Not the place of the next record: after a switch of segments that lies behind a page header, which no
        // standby has until there is a record.
        let written = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
                       ELSE pg_current_wal_flush_lsn() END";
        let target = self.node(with).sql(written);
        let target = target.into_iter().flatten().flatten().next().unwrap_or_default();
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{target}'");
        let node = self.node(standby);
        let is_there = wait_until(LIMIT, || is_true(node, &sql));
        or_fail(if is_there {
            Ok(())
        } else {
            Err(self.stuck(
                standby,
                &format!("does not catch up with node {with} at {target}"),
            ))
        });
    }

    /// A failure with the end of the node's log.
    fn stuck(&self, node: usize, what: &str) -> Failure {
        let log = self.nodes.get(node).map(|node| node.folder.join("log"));
        let log = log
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(8)..].join("\n");
        Failure::new(format!("node {node} {what}. Its log ends:\n{tail}"))
    }
}

fn is_writable(node: &Server) -> bool {
    is_true(node, "SELECT NOT pg_is_in_recovery()")
}

fn is_true(node: &Server, sql: &str) -> bool {
    node.try_sql(sql)
        .is_ok_and(|rows| rows == [[Some("t".to_owned())]])
}
