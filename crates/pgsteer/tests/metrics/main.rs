//! The pool's numbers as a recorder of the `metrics` facade gets them, in simulated time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod counters;
mod documented;
mod gauges;
mod labels;
mod recorder;
mod rig;
mod times;
