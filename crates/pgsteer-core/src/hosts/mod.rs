//! The hosts of a cluster: which are known, which have failed, how many connections each carries, where the next
//! connection goes and where existing ones may stay.

mod address;
mod allowed;
mod cluster;
mod events;
pub(crate) mod failures;
mod load;
mod log_runs;
mod mixed;
mod mode;
mod names;
mod picker;
mod probes;
mod refresh;
mod role;
mod roles;
mod search;
mod silence;
mod snapshot;
mod split_brain;

pub use address::{AddressChoice, Addresses, Column, DiscoveredRow, Reason, choose, key_of};
pub use cluster::{ClusterOptions, ClusterState};
pub use events::{Action, DiscoveryOutcome, LogEvent, LogLevel, NoHost};
pub use mode::{LoadBalance, Refused};
pub use probes::Answer;
pub use role::{Fit, HostOrder, Role, TargetSessionAttrs};
pub use roles::RoleSeen;
pub use search::Search;
pub use snapshot::{DiscoveryReport, FailureKind, HostFailure, Snapshot};
