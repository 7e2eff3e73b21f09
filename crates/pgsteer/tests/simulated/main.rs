//! The whole stack in simulated time: the real tokio-postgres, tap, driver, pool and cluster against simulated servers
//! in memory, under tokio's paused clock.
//!
//! Nothing here waits for real time, so hours take milliseconds and every run is the same; the one exception says so.
//! What is decided without I/O is tested in `pgsteer-core`; here it is shown that real tasks and timers carry it out.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "helpers of tests, and only of tests"
)]

mod addresses;
mod avoiding_failures;
mod bounds;
mod breaker;
mod cancellation;
mod closes;
mod cold_standby;
mod dying;
mod ending;
mod faults;
mod finding_servers;
mod histories;
mod holding;
mod hooks;
mod hooks_before_checkout;
mod hooks_failing;
mod hooks_on_return;
mod ledger;
mod log_lines;
mod lookouts;
mod mixed_names;
mod moving;
mod moving_names;
mod pooling;
mod preparing;
mod probing;
mod promotion;
mod queueing;
mod racing;
mod reasons;
mod refusals;
mod rig;
mod roles;
mod round_trips;
mod runtimes;
mod seeds;
mod sharing;
mod sizes;
mod stages;
mod stalling;
mod storms;
mod telling;
mod transactions;
mod transactions_commit;
mod transactions_kept;
mod transactions_lost;
mod transactions_resolve;
mod unresponsive;
