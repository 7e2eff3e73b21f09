//! Pools that follow a primary, or its standbys, through what happens to real servers: promotion, demotion, freezes,
//! lost packets, cold standbys, poolers in between, and hosts that get stuck at any point of a login. It relies on
//! `pgsteer-testkit` for the servers. Nothing here sleeps until something "should have happened": tests wait for what
//! they want to see, for as long as a slow machine may take; only where silence is the point do they watch for a while.
//! Tests that lose packets need root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod cold;
#[allow(dead_code, reason = "some of it is for a single server")]
#[path = "../transactions/cutting.rs"]
mod cutting;
mod first_host;
mod half_dead;
#[path = "../universe/log.rs"]
mod log;
mod names;
mod pooler;
mod preference;
mod promotion;
mod relay;
mod resolve;
mod rig;
mod roles;
mod single;
mod switchover;
mod unconfirmed;
mod writers;
