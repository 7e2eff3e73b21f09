//! Random histories: one pool over one to five servers, random work and random faults over simulated hours, from one
//! seed. What must always hold is checked as it goes, and in the end everything has to be well again.
//!
//! A seed that fails is printed, and `PGSTEER_SEED=… cargo test -p pgsteer --test simulated random_history` runs it
//! alone.

mod plan;
mod roles;
mod watch;
mod work;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pgsteer::Pool;
use pgsteer_sim::{Schedule, Sim};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rig::*;
use plan::Plan;
use watch::Watch;

/// Seeds run when none is given.
const SEEDS: u64 = 48;
/// What they have to amount to.
const LEAST_HOURS: u64 = 1000;

/// One whole history. Returns the simulated time it took.
fn one_history(seed: u64) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(live(Plan::draw(seed)))
}

async fn live(plan: Plan) -> Duration {
    let started = Instant::now();
    let sim = plan.sim();
    let pool = Pool::start_in(plan.config(), sim.world()).expect("the plan's configuration is good");
    let watch = Watch::new(&plan, &sim, &pool);
    for burst in 0..plan.bursts {
        trouble(&plan, &sim, &pool, &watch, burst).await;
        recovery(&plan, &pool, &watch).await;
        quiet(&plan, &sim, &watch).await;
    }
    let closed = pool.close(seconds(30)).await;
    assert_eq!(closed.still_out, 0, "{closed:?}");
    drop((pool, watch));
    within("nothing is left on the servers, and no task", seconds(60), || {
        sim.live() == 0 && tasks() == 0
    })
    .await;
    started.elapsed()
}

/// Everybody works while servers break and mend.
async fn trouble(plan: &Plan, sim: &Sim, pool: &Pool, watch: &Watch, burst: u64) {
    let faults = plan.faults(burst);
    watch.expect(&faults);
    let end = Instant::now() + plan.burst;
    let mut workers = JoinSet::new();
    for worker in 0..plan.workers {
        workers.spawn(work::work(
            pool.clone(),
            watch.ledger(),
            plan.seed ^ (burst << 40 | worker << 20),
            end,
        ));
    }
    let breaking = tokio::spawn({
        let sim = sim.clone();
        async move { Schedule::run(&faults, &sim).await }
    });
    loop {
        tokio::select! {
            worker = workers.join_next() => match worker {
                Some(worker) => worker.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
                None => break,
            },
            () = tokio::time::sleep(seconds(1)) => watch.check(),
        }
    }
    breaking.await.expect("the faults go their way");
}

/// All servers work again: within a bounded time the pool is full, every connection works, and all are where they
/// belong.
async fn recovery(plan: &Plan, pool: &Pool, watch: &Watch) {
    let limit = plan.time_to_recover();
    let deadline = Instant::now() + limit;
    let look = || {
        watch.check();
        // Without an interval it is opens that look for servers, and nobody opens now.
        if plan.refresh.is_zero() {
            pool.cluster().refresh();
        }
    };
    // A connection to a host that went in silence is only found out by being used.
    while !work::use_all(pool, plan.floor()).await {
        assert!(
            Instant::now() < deadline,
            "not every connection works: {:?}",
            pool.status()
        );
        look();
        tokio::time::sleep(seconds(1)).await;
    }
    while let Err(wrong) = watch.is_placed_well() {
        assert!(Instant::now() < deadline, "after {limit:?}: {wrong}");
        look();
        tokio::time::sleep(seconds(1)).await;
    }
}

/// Nobody works: nothing is sent but what looks for servers.
async fn quiet(plan: &Plan, sim: &Sim, watch: &Watch) {
    tokio::time::sleep(seconds(10)).await;
    let other = || -> u64 {
        let counts = sim.servers().into_iter().map(|server| server.counts());
        counts
            .map(|counts| counts.statements - counts.discovery_queries)
            .sum()
    };
    let before = other();
    let end = Instant::now() + plan.quiet;
    while Instant::now() < end {
        tokio::time::sleep(seconds(60)).await;
        watch.check();
        watch.check_calm();
    }
    if !plan.sets_sessions_up {
        assert_eq!(other(), before, "an idle pool sends no statement");
    }
}

fn run_alone(seed: u64) -> Result<Duration, ()> {
    std::panic::catch_unwind(|| one_history(seed)).map_err(|_| {
        eprintln!(
            "random history failed; again with: PGSTEER_SEED={seed} cargo test -p pgsteer --test simulated \
             random_history\n{:#?}",
            Plan::draw(seed)
        );
    })
}

#[test]
fn random_history() {
    if let Ok(seed) = std::env::var("PGSTEER_SEED") {
        let took = one_history(seed.parse().expect("PGSTEER_SEED is a number"));
        println!("{} simulated hours", took.as_secs() / 3600);
        return;
    }
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let simulated = Mutex::new(Duration::ZERO);
    let real = std::time::Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    match run_alone(seed) {
                        Ok(took) => *simulated.lock().unwrap() += took,
                        Err(()) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let hours = simulated.lock().unwrap().as_secs() / 3600;
    println!("{hours} simulated hours in {:?}", real.elapsed());
    assert_eq!(*failed.lock().unwrap(), [0; 0], "seeds that failed");
    assert!(hours >= LEAST_HOURS, "{hours} simulated hours");
}
