//! The circuit breaker of a cluster and what it means for pools: what opens it, what is dialled while it is open, what
//! callers are told, and what closes it.

mod closing;
mod opening;
mod outages;
mod sharing;
mod telling;

use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::health::State;
use pgsteer::{BreakerStatus, Cluster, Config, Error, Pool};
use pgsteer_sim::{Discovery, Server, ServerSpec, Sim, SimBuilder};

use crate::rig::*;

/// Plain servers with these names. What they do is not kept, as there is much of it.
fn servers(names: &[&str]) -> Sim {
    let builder = names.iter().map(|name| ServerSpec::new(name));
    let sim = builder
        .fold(Sim::builder(1).log_limit(0), SimBuilder::server)
        .build();
    for server in sim.servers() {
        server.set_discovery(Discovery::Missing);
    }
    sim
}

/// These hosts in their order, and windows of 1 s, 2 s, 4 s and so on exactly.
fn exact(names: &[&str]) -> Config {
    config(names).load_balance(LoadBalance::Off).breaker_jitter(0.0)
}

fn breaker(pool: &Pool) -> BreakerStatus {
    pool.status().breaker.expect("there is a breaker")
}

fn state(cluster: &Cluster) -> State {
    cluster.breaker().expect("there is a breaker").state
}

/// Its sessions end, and connects are refused.
fn stop(server: &Server) {
    refuse(server);
    server.terminate_all();
}

fn start_again(server: &Server) {
    serve(server);
}

/// A pool of one on server `a`, whose breaker has just opened: the passes were at 0, 1, 2, 3 and 4 s.
async fn tripped(sim: &Sim, config: Config) -> Pool {
    stop(&sim.server("a"));
    let pool = start(sim, config.pool_size(1));
    until("it opens", || breaker(&pool).state == State::Open).await;
    pool
}

/// The time that a caller is told to wait, and the error of the last pass.
fn turned_away(error: Error) -> (Duration, std::sync::Arc<Error>) {
    match error {
        Error::CircuitOpen {
            retry_after,
            last_error,
        } => (retry_after, last_error),
        other => panic!("the circuit was to be open: {other}"),
    }
}
