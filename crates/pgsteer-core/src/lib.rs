//! Every decision pgsteer makes, with no I/O in it.
//!
//! This crate holds no socket, reads no clock, draws no random number and spawns no task. Its state machines take
//! `now` and random draws as arguments and answer with what is to be done; the `pgsteer` crate carries it out. That
//! makes every rule testable in microseconds, with time as an argument, and lets whole histories be replayed.

pub mod balance;
pub mod breaker;
pub mod commit;
pub mod host;
pub mod hosts;
pub mod pool;
pub mod topology;
pub mod transaction;
pub mod verdict;
