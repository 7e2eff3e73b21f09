//! The hosts of a cluster: which are known, which have failed, how many connections each carries, where the next
//! connection goes and where existing ones may stay.

mod address;
mod allowed;
mod cluster;
mod events;
mod failures;
mod load;
mod log_runs;
mod mode;
mod picker;
mod refresh;
mod role;
mod snapshot;

pub use address::{AddressChoice, Addresses, Column, DiscoveredRow, Reason, choose, key_of};
pub use cluster::{ClusterOptions, ClusterState};
pub use events::{Action, DiscoveryOutcome, LogEvent, LogLevel, NoHost};
pub use mode::{LoadBalance, Refused};
pub use role::{Fit, HostOrder, Role, TargetSessionAttrs};
pub use snapshot::{DiscoveryReport, FailureKind, HostFailure, Snapshot};
