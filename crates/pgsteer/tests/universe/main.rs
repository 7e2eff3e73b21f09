//! The pool and the cluster against real PostgreSQL servers that are killed, frozen, filled up, locked and taken out of
//! the list while work goes on. It relies on `pgsteer-testkit` for the servers. Nothing here sleeps until something
//! "should have happened": tests wait for what they want to see, for as long as a slow machine may take; only where
//! silence is the point do they watch for a while.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod bounds;
mod closing;
mod discovery;
mod failover;
mod frozen;
mod hooks;
mod in_order;
mod lifecycle;
mod limits;
mod load;
mod log;
mod login;
mod outage;
mod placement;
mod plain;
mod refusals;
mod returns;
mod rig;
mod standalone;
mod telling;
mod unnamed;
