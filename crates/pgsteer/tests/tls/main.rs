//! TLS against real PostgreSQL servers: what is checked on pool, discovery and probe connections, channel binding
//! through a man in the middle, client certificates, cancel requests, and certificates renewed under a running pool. It
//! relies on `pgsteer-testkit` for servers, authorities and certificates; tests wait for what they want to see.

#![cfg(feature = "tls")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod binding;
mod checks;
mod clients;
mod connector;
mod failover;
#[path = "../universe/log.rs"]
mod log;
mod middle;
mod modes;
mod renewal;
mod rig;
mod sessions;
