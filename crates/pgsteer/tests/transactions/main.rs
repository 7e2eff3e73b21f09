//! Transactions on real PostgreSQL servers: conflicts and deadlocks of real ones, what a real server says of a transaction,
//! and connections that are really killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod conflicts;
mod cutting;
mod generic;
mod given_up;
mod in_time;
mod killed;
mod plain;
mod resolve;
mod resolve_crash;
mod resolve_pooler;
mod rig;
