//! Every way to use the driver through a guard, given up at any moment: whoever has the connection next finds it clean, or
//! has another one. By far most rounds are made against a server in memory and in simulated time; those on a real
//! PostgreSQL server add what the one in memory does not know.
//!
//! Each run prints its seed; `PGSTEER_SEED=… cargo test -p pgsteer --test dropped` draws the same rounds again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod giving_up;
mod memory;
mod next;
mod real;
mod round;
mod site;
mod uses;
