//! A simulated cluster of servers that speak the PostgreSQL protocol, for demos and tests.
//!
//! Servers, sessions, transactions and faults are simulated; the protocol is the real one, so ordinary clients talk
//! to them, in memory under paused time or over loopback TCP. There is no storage and no planner: the SQL is the
//! little that a connection pool and its tests need, plus one table that shows what was really committed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pgsteer_sim::{Death, Sim};
//!
//! let sim = Sim::new(7);
//! let stream = sim.connect("a", 5433).await?;
//! let (client, connection) =
//!     tokio_postgres::Config::new().user("app").connect_raw(stream, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//! let row = client.query_one("SELECT rig_whoami()", &[]).await?;
//! assert_eq!(row.get::<_, &str>(0), "a");
//!
//! sim.server("a").kill(Death::Rst);
//! assert!(client.query("SELECT 1", &[]).await.is_err());
//! # Ok(()) }
//! ```

mod cluster;
mod control;
mod fault;
mod history;
mod log;
mod net;
mod report;
mod schedule;
mod server;
mod session;
mod sim;
mod spec;
mod sql;
mod wire;
mod world;

pub use fault::{
    Accept, Auth, Death, Discovery, DiscoveryRow, Effect, Login, LoginStage, Scope, Script, Shutdown,
};
pub use log::{End, Entry, Event};
pub use net::pipe::Stream;
pub use report::{Counts, Resolution, SessionInfo, TransactionStatus};
pub use schedule::{Breakage, Fault, Schedule, ScheduleOptions, ScheduledFault};
pub use server::Server;
pub use sim::Sim;
pub use spec::{ServerSpec, SimBuilder};
