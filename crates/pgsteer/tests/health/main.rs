//! The guard for people's own work on a database, in simulated time. One test program, so that it is linked once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod callbacks;
mod guarding;
mod judging;
#[allow(unreachable_pub, reason = "it is shared with another test program")]
#[path = "../simulated/log_lines.rs"]
mod log_lines;
mod numbers;
mod outage;
mod probes;
mod rig;
