//! Ten minutes of outage under load, in simulated time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pgsteer::health::State;
use pgsteer::{Error, Pool};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{breaker, servers, start_again, stop};
use crate::log_lines::Lines;
use crate::rig::*;

/// Tasks that call.
const TASKS: usize = 200;

#[derive(Default)]
struct Seen {
    served: AtomicU64,
    turned_away: AtomicU64,
    other_errors: Mutex<Vec<Error>>,
    /// The longest that somebody waited to be turned away, in microseconds of simulated time.
    slowest_away: AtomicU64,
}

/// Tasks that call again 200 ms after each answer, which makes 1 000 calls a second.
fn callers(pool: &Pool) -> (JoinSet<()>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS as u64 {
        let (pool, seen) = (pool.clone(), seen.clone());
        tasks.spawn(async move {
            sleep(millis(task)).await;
            loop {
                let asked = Instant::now();
                match pool.get().await {
                    Ok(_) => {
                        seen.served.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::CircuitOpen { .. }) => {
                        let took = asked.elapsed().as_micros() as u64;
                        seen.slowest_away.fetch_max(took, Ordering::Relaxed);
                        seen.turned_away.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => seen.other_errors.lock().unwrap().push(error),
                }
                sleep(millis(200)).await;
            }
        });
    }
    (tasks, seen)
}

/// Covers: B-20
#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_minutes_costs_a_pass_a_window_a_handful_of_lines_and_nobody_any_time() {
    let sim = servers(&["a", "b", "c"]);
    let config = config(&["a", "b", "c"]).load_balance(pgsteer::LoadBalance::Off);
    let pool = full(&sim, config.pool_size(10)).await;
    let lines = Lines::listen();
    let (_tasks, seen) = callers(&pool);
    pass(seconds(5)).await;
    assert!(seen.served.load(Ordering::Relaxed) > 4_000);
    lines.all();

    sim.servers().iter().for_each(stop);
    until("it opens", || breaker(&pool).state == State::Open).await;
    pass(millis(50)).await;
    let dialled = ["a", "b", "c"].map(|name| (name, attempts(&sim, name)));
    let served = seen.served.load(Ordering::Relaxed);
    let (trips, passes) = (breaker(&pool).trips, pool.status().totals.open_failures);
    pass(seconds(600)).await;

    let now = breaker(&pool);
    let windows = u64::from(now.trips - trips);
    assert_eq!(
        pool.status().totals.open_failures - passes,
        windows,
        "a pass a window"
    );
    for (name, before) in dialled {
        let dials = attempts(&sim, name) - before;
        // The refresh that a failed connect starts may probe the others beside the pass.
        assert!(
            (windows..=2 * windows).contains(&dials),
            "{name}: {dials} dials in {windows} windows"
        );
    }
    assert!((12..=16).contains(&now.trips), "1, 2, 4 … 60, 60 s: {now:?}");
    assert_eq!(seen.served.load(Ordering::Relaxed), served);
    let turned_away = seen.turned_away.load(Ordering::Relaxed);
    assert!(turned_away > 590_000, "{turned_away}");
    assert_eq!(seen.slowest_away.load(Ordering::Relaxed), 0, "in simulated time");
    assert_eq!(pool.status().totals.circuit_open, turned_away);
    let told = lines.seen();
    assert!(told.len() <= 12, "{} lines: {told:#?}", told.len());

    sim.servers().iter().for_each(start_again);
    let left = breaker(&pool).retry_after.expect("it is open");
    let back = Instant::now();
    until_served(&seen, served).await;
    assert!(
        back.elapsed() <= left + millis(210),
        "{:?}, {left:?}",
        back.elapsed()
    );
    pass(seconds(2)).await;
    assert_eq!((breaker(&pool).state, pool.status().size), (State::Closed, 10));
    let errors = seen.other_errors.lock().unwrap();
    assert!(
        errors.len() <= 2 * TASKS,
        "only until it opened: {}",
        errors.len()
    );
}

async fn until_served(seen: &Seen, before: u64) {
    within("somebody is served", seconds(80), || {
        seen.served.load(Ordering::Relaxed) > before
    })
    .await;
}

/// Covers: B-09
#[tokio::test(start_paused = true)]
async fn while_one_host_of_three_is_down_for_ten_minutes_nobody_notices() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(9)).await;
    let (_tasks, seen) = callers(&pool);
    pass(seconds(5)).await;
    stop(&sim.server("b"));
    for _ in 0..600 {
        pass(seconds(1)).await;
        // Replaced all the time, so that there are passes.
        pool.retire_all();
        assert_eq!(breaker(&pool).state, State::Closed);
    }
    assert_eq!(seen.turned_away.load(Ordering::Relaxed), 0);
    let errors = seen.other_errors.lock().unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(pool.status().totals.opened > 5_000, "{:?}", pool.status().totals);
}
