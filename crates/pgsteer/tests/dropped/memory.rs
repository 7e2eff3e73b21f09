//! The bulk of the rounds, a hundred thousand: servers in memory, in simulated time.

use std::time::Duration;

use pgsteer::config::{LoadBalance, Recycle};
use pgsteer::{Config, Pool};
use pgsteer_sim::{ServerSpec, Sim};
use tokio::task::JoinSet;

use crate::round::{round, seeds};
use crate::site::{Server, Site};
use crate::uses::Use;

/// Of each of the four tests.
const ROUNDS: u64 = 25_000;
const SEEDS: u64 = 5;
const CALLERS: u64 = 24;
const SIZE: u32 = 6;

/// Two servers, the second of which takes this long for each answer.
fn servers(seed: u64, latency: Duration) -> Sim {
    let sim = Sim::builder(seed)
        .log_limit(0)
        .server(ServerSpec::new("a"))
        .server(ServerSpec::new("b"))
        .build();
    sim.server("b").set_answer_latency(latency);
    sim
}

fn config() -> Config {
    Config::yugabyte()
        .hosts(["a", "b"])
        .user("app")
        .load_balance(LoadBalance::Any)
        .pool_size(SIZE)
        .checkout_timeout(Duration::from_secs(60))
}

async fn run(seed: u64, config: Config, latency: Duration) {
    let sim = servers(seed, latency);
    let pool = Pool::start_in(config, sim.world()).unwrap();
    pool.ready(SIZE, Duration::from_secs(60)).await.unwrap();
    let site = Site::new(pool.clone(), Server::Memory(sim.clone()));
    site.fill().await;
    let uses = Use::known(&site);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (site, uses) = (site.clone(), uses.clone());
        let mut random = fastrand::Rng::with_seed(seed ^ (caller << 32));
        callers.spawn(async move {
            for _ in 0..ROUNDS / SEEDS / CALLERS + 1 {
                round(&site, &uses, &mut random).await;
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    whole_again(&sim, &pool, seed).await;
}

/// Every place is free, nobody waits, the servers have what the pool has, and nothing is left once it is closed.
async fn whole_again(sim: &Sim, pool: &Pool, seed: u64) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    let status = pool.status();
    assert_eq!(
        (status.idle, status.leased, status.waiting),
        (SIZE, 0, 0),
        "seed {seed}: {status:?}"
    );
    assert_eq!(sim.live(), SIZE as usize, "seed {seed}");
    assert!(pool.cluster().snapshot().failures.is_empty(), "seed {seed}");
    let kept = sim.ledger();
    let undone = kept.values().filter(|note| note.as_deref() == Some("no"));
    assert_eq!(undone.count(), 0, "seed {seed}: what was given up is there");
    assert_eq!(
        pool.close(Duration::from_secs(5)).await.still_out,
        0,
        "seed {seed}"
    );
    assert_eq!(sim.live(), 0, "seed {seed}");
}

fn in_simulated_time(config: Config, latency: Duration) {
    for seed in seeds(SEEDS) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(seed, config.clone(), latency));
    }
}

#[test]
fn whatever_is_given_up_the_next_holder_finds_a_clean_connection() {
    in_simulated_time(config().statement_cache_size(4), Duration::ZERO);
}

#[test]
fn on_a_server_that_takes_its_time_too() {
    in_simulated_time(config(), Duration::from_micros(700));
}

#[test]
fn with_no_statement_kept_on_the_server_too() {
    in_simulated_time(config().statement_cache_size(0), Duration::from_micros(300));
}

#[test]
fn with_sessions_reset_on_each_return_too() {
    in_simulated_time(config().recycle(Recycle::Clean), Duration::ZERO);
}
