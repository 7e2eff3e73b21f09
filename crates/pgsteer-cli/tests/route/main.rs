//! The router and its tools as real processes on loopback. What becomes of requests is told by the clients' own account of
//! them: every one of them answered, lost, doubled or crossed.

#![cfg(unix)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by panicking that it failed"
)]

mod backends;
mod certificates;
mod clients;
mod drain;
mod echo;
mod load;
mod process;
mod service;
mod tls;
mod tools;
