//! Whole histories: the same from the same seed, and schedules that break and mend as they promise.

use std::time::Duration;

use crate::common::{PORT, config};
use pgsteer_sim::{Breakage, Fault, Schedule, ScheduleOptions, Sim};
use tokio_postgres::NoTls;

/// A client that keeps writing to one server, whatever happens to it.
async fn writer(sim: Sim, host: &'static str, first: i64) {
    let limit = Duration::from_secs(2);
    for id in first..first + 40 {
        let attempt = async {
            let stream = sim.connect(host, PORT).await.ok()?;
            let (client, connection) = config().connect_raw(stream, NoTls).await.ok()?;
            let connection = tokio::spawn(connection);
            let outcome = client.execute("INSERT INTO ledger VALUES ($1)", &[&id]).await;
            connection.abort();
            outcome.ok()
        };
        let _ = tokio::time::timeout(limit, attempt).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

fn history(seed: u64) -> (String, Vec<i64>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let sim = Sim::new(seed);
        let options = ScheduleOptions {
            breakages: 30,
            ..ScheduleOptions::new(&["a", "b", "c"])
        };
        let schedule = Schedule::random(seed, &options);
        let writers = [("a", 0), ("b", 1000), ("c", 2000)];
        let tasks: Vec<_> = writers
            .into_iter()
            .map(|(host, first)| tokio::spawn(writer(sim.clone(), host, first)))
            .collect();
        schedule.run(&sim).await;
        for task in tasks {
            task.await.unwrap();
        }
        (sim.log_text(), sim.ledger().into_keys().collect())
    })
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    for seed in [3, 4] {
        println!("seed {seed}");
        let (log, ledger) = history(seed);
        let (again, ledger_again) = history(seed);
        assert!(!ledger.is_empty());
        assert!(log.lines().count() > 300, "{log}");
        for (first, second) in log.lines().zip(again.lines()) {
            assert_eq!(first, second);
        }
        assert_eq!((log.len(), ledger), (again.len(), ledger_again));
    }
    assert_ne!(history(3).0, history(4).0);
}

#[test]
fn a_schedule_keeps_its_promises() {
    for seed in 0..200 {
        let options = ScheduleOptions {
            spare: 2,
            ..ScheduleOptions::new(&["a", "b", "c", "d"])
        };
        let schedule = Schedule::random(seed, &options);
        assert_eq!(schedule, Schedule::random(seed, &options), "seed {seed}");
        let mut broken: Vec<(&str, Breakage)> = Vec::new();
        let mut last = Duration::ZERO;
        for step in &schedule.steps {
            assert!(last <= step.at && step.at <= options.length, "seed {seed}");
            last = step.at;
            match step.fault {
                Fault::Break(kind) => broken.push((&step.server, kind)),
                Fault::Mend(kind) => {
                    let at = broken.iter().position(|entry| *entry == (&*step.server, kind));
                    broken
                        .remove(at.unwrap_or_else(|| panic!("seed {seed}: mends what is whole: {schedule}")));
                }
            }
            assert!(broken.len() <= 2, "seed {seed}: too few are whole: {schedule}");
        }
        assert!(
            broken.is_empty(),
            "seed {seed}: something stays broken: {schedule}"
        );
        assert_eq!(schedule.steps.len() % 2, 0);
        assert!(schedule.steps.len() >= 10, "seed {seed}: {schedule}");
    }
}

#[test]
fn a_schedule_without_room_is_empty() {
    let nothing = |options: &ScheduleOptions| assert!(Schedule::random(1, options).steps.is_empty());
    nothing(&ScheduleOptions::new(&[]));
    nothing(&ScheduleOptions::new(&["a"]));
    nothing(&ScheduleOptions {
        kinds: Vec::new(),
        ..ScheduleOptions::new(&["a", "b"])
    });
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_breakage_is_wholly_mended() {
    for kind in Breakage::ALL {
        let sim = Sim::new(1);
        let step = |fault| pgsteer_sim::ScheduledFault {
            at: Duration::ZERO,
            server: "a".into(),
            fault,
        };
        step(Fault::Break(kind)).apply(&sim);
        step(Fault::Mend(kind)).apply(&sim);
        let start = tokio::time::Instant::now();
        crate::common::client(&sim, "a")
            .await
            .batch_execute("INSERT INTO ledger VALUES (1)")
            .await
            .unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "{kind:?}");
        assert_eq!(sim.table().len(), 3, "{kind:?}");
    }
}
