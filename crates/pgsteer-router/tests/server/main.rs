//! The router between clients and backends: in memory under paused time where nothing depends on the system, over loopback
//! where something does.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says by panicking that it failed"
)]

mod deadlines;
mod draining;
mod errors;
mod histories;
mod limits;
mod metrics;
mod pipelining;
mod relaying;
mod reloading;
mod retrying;
mod rig;
mod threads;
mod tls;
