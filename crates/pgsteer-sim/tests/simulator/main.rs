//! The simulated servers, as clients meet them: one test program, so that it is linked once.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, and only of tests"
)]

mod cancelling;
mod common;
mod connecting;
mod copy;
mod deaths;
mod discovering;
mod extended;
mod histories;
mod roles;
mod scripts;
mod statements;
mod tcp;
mod transactions;
mod world;
