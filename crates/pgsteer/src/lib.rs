//! A PostgreSQL connection pool that knows the cluster behind it.
//!
//! pgsteer finds the servers of a YugabyteDB, Greenplum or PostgreSQL cluster, keeps its connections spread over the
//! right ones, prefers the near zone, follows the primary through a failover, leaves dead servers out and brings them
//! back. It knows which server is the primary
//! and follows it through a failover. The connections it hands out are ordinary [`tokio_postgres`] clients.

mod cluster;
pub mod config;
mod dial;
mod error;
pub mod health;
mod pool;
mod transaction;
pub mod world;

pub use cluster::{BreakerStatus, Cluster, ClusterConnection};
pub use config::Config;
pub use error::{CommitAborted, CommitUnknown, ConnectFailed, ConnectionLost, Error, Exhausted, HostTried};
pub use health::{CircuitOpen, ConnectionHealth, Guarded};
pub use pgsteer_core::commit::Doubt as CommitDoubt;
pub use pgsteer_core::host::{HostKey, NodeType, Server};
pub use pgsteer_core::hosts::{
    FailureKind, HostFailure, LoadBalance, Refused, Role, RoleSeen, Snapshot, TargetSessionAttrs,
};
pub use pgsteer_core::topology::{Placement, TopologyKeys};
pub use pool::{
    Candidate, Closed, Closes, Conn, ConnRef, ConnectionEnd, EndCause, GenericClient, Get, GetRef, Holder,
    HookFailed, HookFailure, LastEnd, Pool, Status, Totals, TransactionStatus,
};
pub use tokio_postgres;
pub use transaction::{Attempt, AttemptEnd, TransactionOptions, Tx, TxClient};
