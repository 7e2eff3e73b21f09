//! The hosts of a cluster: which are known, which have failed, how many connections each carries, where the next
//! connection goes and where existing ones may stay.

mod mode;
mod snapshot;

pub use mode::{LoadBalance, Refused};
pub use snapshot::{FailureKind, HostFailure, Snapshot};
