//! Ten minutes without the database, two hundred tasks that go on asking, in simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pgsteer::{ConnectionHealth, Guarded};
use pgsteer_sim::{Login, ServerSpec, Sim};
use tokio::time::Instant;

use crate::log_lines::Lines;
use crate::rig::{MS, SECOND, connect, pass};

const TASKS: u64 = 200;
/// Of each task; a thousand calls a second in all.
const PAUSE: Duration = Duration::from_millis(200);
const OUTAGE: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    served: AtomicU64,
    rejected: AtomicU64,
}

/// Connects, asks and pauses, for ever.
async fn poll(sim: Sim, health: ConnectionHealth, counts: Arc<Counts>) {
    loop {
        let work = health.run_guarded(async {
            counts.begun.fetch_add(1, Ordering::Relaxed);
            connect(&sim, "a").await?.simple_query("SELECT 1").await
        });
        match work.await {
            Ok(_) => counts.served.fetch_add(1, Ordering::Relaxed),
            Err(Guarded::CircuitOpen(_)) => counts.rejected.fetch_add(1, Ordering::Relaxed),
            Err(Guarded::Failed(_)) => 0,
        };
        pass(PAUSE).await;
    }
}

/// Covers: B-20
#[tokio::test(start_paused = true)]
async fn ten_minutes_without_the_database_cost_one_attempt_a_window_and_a_handful_of_log_lines() {
    crate::log_lines::install();
    // With one subscriber alone, tracing asks whichever thread comes first whether anybody listens.
    let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let lines = Lines::listen();
    let sim = Sim::builder(1).server(ServerSpec::new("a")).build();
    let windows = Arc::new(AtomicU64::new(0));
    let told = windows.clone();
    let health = ConnectionHealth::builder()
        .on_open(move |_| {
            told.fetch_add(1, Ordering::Relaxed);
        })
        .build()
        .unwrap();
    let counts = Arc::new(Counts::default());
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| tokio::spawn(poll(sim.clone(), health.clone(), counts.clone())))
        .collect();
    pass(5 * SECOND).await;
    assert!(counts.served.load(Ordering::Relaxed) > 4_000);
    assert!(health.is_closed());

    sim.server("a").set_login(Login::fatal("57P03"));
    pass(SECOND).await;
    assert!(health.is_open());
    counts.begun.store(0, Ordering::Relaxed);
    windows.store(0, Ordering::Relaxed);
    pass(OUTAGE).await;
    let begun = counts.begun.load(Ordering::Relaxed);
    assert_eq!(begun, windows.load(Ordering::Relaxed), "one attempt a window");
    // 1, 2, 4 … 32 and then 60 s, each up to a fifth longer
    assert!((12..=16).contains(&begun), "{begun}");
    assert!(counts.rejected.load(Ordering::Relaxed) > 500_000);

    sim.server("a").set_login(Login::Work);
    let back = Instant::now();
    let window = health.retry_after().unwrap();
    while !health.is_closed() {
        pass(MS).await;
    }
    let took = back.elapsed();
    assert!(
        took <= window + PAUSE,
        "{took:?}, of a window {window:?} were left"
    );

    let seen = lines.seen();
    assert!(seen.len() <= 7, "{seen:#?}");
    assert!(
        seen[0].starts_with("WARN") && seen[0].contains("the database system is starting up"),
        "{seen:#?}"
    );
    assert!(seen.last().unwrap().starts_with("INFO"), "{seen:#?}");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}
