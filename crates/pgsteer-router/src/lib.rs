//! A TCP router for backends that speak length-prefixed frames: warm connections to each backend, every request to the
//! least loaded for its weight, and a backend that fails left out until a probe has found it well again.
//!
//! What decides is in `pgsteer-core`: the slots that connections live in, the planner that says what is opened and closed,
//! the circuit breaker, and the choice between backends. This crate moves bytes and keeps time.
//!
//! - [`frame`] is the wire format.
//! - [`backend`] is one backend's pool of connections, and the set of backends that requests are spread over.
//! - [`server`] is the router itself, between clients and backends; [`tls`] is TLS on either side.
//! - [`config`] is a router's configuration as people write it.

mod admin;
mod aside;
pub mod backend;
pub mod config;
pub mod frame;
mod metrics;
pub mod server;
mod threads;
pub mod tls;
