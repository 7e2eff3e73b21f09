//! The program as people run it: its binary, with simulated servers on loopback TCP where it needs some, and the parts
//! of it that can be driven alone.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by panicking that it failed"
)]

mod bench;
mod demo;
mod rig;
mod topology;
mod url;
mod usage;
mod view;
