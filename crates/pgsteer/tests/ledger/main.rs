//! The ledger on real servers: what callers of transactions are told is true, whatever is done to the servers under them.
//! A short run of every kind of fault; the program of the benchmarks makes long ones. It needs root, to lose packets.
//!
//! The seed is printed; `PGSTEER_SEED=… cargo test -p pgsteer --test ledger` draws the same faults and transfers again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod judging;
mod real;
mod run;
