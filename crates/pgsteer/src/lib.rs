//! A PostgreSQL connection pool that knows the cluster behind it.
//!
//! pgsteer finds the servers of a YugabyteDB, Greenplum or PostgreSQL cluster, keeps its connections spread over the
//! right ones, prefers the near zone, leaves dead servers out and brings them back. The connections it hands out are
//! ordinary [`tokio_postgres`] clients.

pub mod config;
#[cfg(any())]
mod dial;
mod error;
pub mod world;

pub use config::Config;
pub use error::{ConnectFailed, Error, Exhausted, HostTried};
pub use tokio_postgres;
