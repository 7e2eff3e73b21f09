//! Starts, breaks and mends real PostgreSQL servers for tests.
//!
//! A [`Universe`] is a set of independent servers, each on a loopback address of its own (127.0.0.1, 127.0.0.2, …),
//! each with a `yb_servers()` function that lists all of them, so that to a client they look like one YugabyteDB
//! cluster. They share no data. A test can kill, freeze, stop and restart any of them, change what they report, and
//! read what their logs say about a client.
//!
//! ```no_run
//! use pgsteer_testkit::Universe;
//!
//! let universe = Universe::builder().servers(3).start();
//! universe.server(1).kill();                       // every socket of that server closes, without a goodbye
//! universe.forget(2);                              // the others no longer list the third server
//! universe.set(0, "zone", "us-east1-x");
//! assert_eq!(universe.server(0).sessions("my-pool"), 0);
//! universe.server(1).start();
//! // Dropping the universe stops its servers and removes their files.
//! ```
//!
//! An [`HaSet`] is a primary with streaming standbys, for tests of failover. A [`FakePg`] is no server at all: it stops
//! at a chosen point of the login. A [`PgBouncer`] stands in front of a server, and a [`Blackhole`] swallows what goes
//! to an address or comes from it.
//!
//! **Every call blocks** until what it says has happened, for a few milliseconds up to a few hundred. None needs a
//! runtime, so a call may stand directly in a `#[tokio::test(flavor = "multi_thread")]`; where a pool on the same
//! thread must go on working meanwhile, wrap the call in `tokio::task::block_in_place` or `spawn_blocking`. All
//! methods take `&self`, and a [`Universe`] is `Send + Sync`, so an `Arc` of it may be shared among tasks.
//!
//! **Every call panics** when it cannot do what it says, at the caller's line and with the server's own words. A
//! missing PostgreSQL is such a panic too: tests never skip. The server programs are those in the folder
//! `PGSTEER_PG_BIN` names, else in `PATH`, else the newest under `/usr/lib/postgresql`.
//!
//! Servers run as an unprivileged account when the test runs as root. They are stopped when their set is dropped,
//! also by a panic, and by a small watcher process when the test process itself is killed. Linux only: processes are
//! recognised by their working folder in `/proc`.

mod blackhole;
mod failure;
mod fake;
mod ha;
mod inside;
mod listing;
mod log;
mod pgbouncer;
mod ports;
mod postmaster;
mod processes;
mod programs;
mod server;
mod settings;
mod site;
mod spec;
mod sql;
mod template;
mod tls;
mod tools;
mod universe;
mod watcher;

pub use blackhole::Blackhole;
pub use fake::{Fake, FakePg, Refusal, Severity};
pub use ha::{HaBuilder, HaSet, Rejoined};
pub use listing::{Row, YbServers};
pub use log::{Log, LogLine};
pub use pgbouncer::PgBouncer;
pub use server::Server;
pub use spec::ServerSpec;
pub use sql::{Rows, SqlError};
pub use tls::{Tls, TlsFiles};
pub use universe::{Builder, Universe};

/// The role that tests log in as. It is no superuser, so it meets connection limits as an application does.
pub const USER: &str = "yugabyte";

/// The password of [`USER`].
pub const PASSWORD: &str = "yugabyte";

/// The database that [`USER`] owns and that has `yb_servers()`.
pub const DATABASE: &str = "yugabyte";
