//! What is run and what is rejected, and that results pass through unchanged.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgsteer::health::{Finding, State};
use pgsteer::{CircuitOpen, ConnectionHealth, Guarded};

use crate::rig::{DOWN, Failure, MS, OTHER, SECOND, fail, guard, pass, rejected, run, succeed, tripped};

/// Covers: B-21, B-22
#[tokio::test(start_paused = true)]
async fn the_value_of_the_work_passes_through() {
    crate::log_lines::install();
    let health = ConnectionHealth::new();
    assert!(health.is_closed());
    let value = health.run_guarded(async { Ok::<_, Failure>("value") }).await;
    assert_eq!(value, Ok("value"));
}

/// Covers: B-15, B-25
#[tokio::test(start_paused = true)]
async fn errors_of_the_work_pass_through_unchanged_the_one_that_opens_it_too() {
    crate::log_lines::install();
    let health = guard();
    for _ in 0..5 {
        assert!(health.is_closed());
        assert_eq!(run(&health, Err(DOWN)).await, Err(Guarded::Failed(DOWN)));
    }
    assert!(health.is_open());
}

/// Covers: B-26
#[tokio::test(start_paused = true)]
async fn while_open_work_is_dropped_without_being_begun() {
    crate::log_lines::install();
    let health = tripped().await;
    let begun = AtomicUsize::new(0);
    for _ in 0..100 {
        let work = async {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Failure>(())
        };
        assert!(matches!(
            health.run_guarded(work).await,
            Err(Guarded::CircuitOpen(_))
        ));
    }
    assert_eq!(begun.into_inner(), 0);
    assert_eq!(health.status().rejected, 100);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_says_when_to_come_back_and_what_was_wrong() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(300 * MS).await;
    let open = rejected(&health).await;
    assert_eq!(open.retry_after, 700 * MS);
    assert_eq!(health.retry_after(), Some(700 * MS));
    assert_eq!(&*open.last_error, "connection refused");
    assert_eq!(
        open.to_string(),
        "the database is taken to be down, ask again in 700ms; the last attempt said: connection refused"
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_as_long_as_told_is_let_through() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(250 * MS).await;
    pass(rejected(&health).await.retry_after).await;
    succeed(&health).await;
    assert!(health.is_closed());
    assert_eq!(health.retry_after(), None);
}

/// Covers: B-23
#[tokio::test(start_paused = true)]
async fn errors_that_are_not_the_databases_leave_it_closed() {
    crate::log_lines::install();
    let health = guard();
    for _ in 0..10_000 {
        assert_eq!(run(&health, Err(OTHER)).await, Err(Guarded::Failed(OTHER)));
    }
    assert!(health.is_closed());
}

/// Covers: B-24
#[tokio::test(start_paused = true)]
async fn a_success_or_an_answer_ends_the_row_of_failures() {
    crate::log_lines::install();
    let answer = Failure {
        finding: Finding::Answered,
        text: "syntax error",
    };
    for result in [Ok(1), Err(answer)] {
        let health = guard();
        fail(&health, 4).await;
        let _ = run(&health, result).await;
        fail(&health, 4).await;
        assert!(health.is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_neither_counts_nor_ends_the_row_of_failures() {
    crate::log_lines::install();
    let refused = Failure {
        finding: Finding::Refused,
        text: "too many clients",
    };
    let health = guard();
    for _ in 0..100 {
        let _ = run(&health, Err(refused.clone())).await;
    }
    assert!(health.is_closed());
    fail(&health, 4).await;
    let _ = run(&health, Err(refused)).await;
    fail(&health, 1).await;
    assert!(health.is_open());
}

/// Covers: B-27, B-28
#[tokio::test(start_paused = true)]
async fn the_window_ends_on_the_millisecond_and_its_end_belongs_to_the_probe() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(999 * MS).await;
    rejected(&health).await;
    pass(MS).await;
    succeed(&health).await;
}

/// Covers: B-29
#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_doubles_the_window() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    fail(&health, 1).await;
    pass(SECOND).await;
    rejected(&health).await;
    pass(SECOND).await;
    succeed(&health).await;
}

/// Covers: B-05, B-31
#[tokio::test(start_paused = true)]
async fn work_that_began_before_the_trip_and_succeeds_after_it_does_not_close_it() {
    crate::log_lines::install();
    let health = guard();
    let straggler = health.run_guarded(async {
        pass(500 * MS).await;
        Ok::<_, Failure>("late")
    });
    let trip = async {
        pass(100 * MS).await;
        fail(&health, 5).await;
    };
    let (late, ()) = tokio::join!(straggler, trip);
    assert_eq!(late, Ok("late"));
    assert!(health.is_open());
    assert_eq!(health.retry_after(), Some(600 * MS));
}

#[tokio::test(start_paused = true)]
async fn asking_is_done_when_the_future_is_polled_and_not_when_it_is_made() {
    crate::log_lines::install();
    let health = guard();
    let work = health.run_guarded(async { Ok::<u32, Failure>(1) });
    fail(&health, 5).await;
    assert!(matches!(work.await, Err(Guarded::CircuitOpen(_))));
}

/// Each thread has a runtime of its own, and all have one guard.
#[test]
fn a_guard_is_one_to_several_runtimes() {
    crate::log_lines::install();
    let health = crate::rig::exact().base(3_600 * SECOND).cap(3_600 * SECOND);
    let health = health.build().unwrap();
    let on_its_own = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let _ = run(&health, Err(DOWN)).await;
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(on_its_own);
        }
    });
    assert!(health.is_open());
    on_its_own();
    assert_eq!(health.status().rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn a_guard_within_a_guard_is_one_of_its_own() {
    crate::log_lines::install();
    let (outer, inner) = (guard(), guard());
    let work = outer.run_guarded_by(run(&inner, Err(DOWN)), |_| Finding::Answered);
    assert_eq!(work.await, Err(Guarded::Failed(Guarded::Failed(DOWN))));
    assert_eq!((outer.status().streak, inner.status().streak), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn clones_are_one_guard() {
    crate::log_lines::install();
    let health = guard();
    let other = health.clone();
    fail(&health, 3).await;
    fail(&other, 2).await;
    assert!(health.is_open() && other.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_or_a_hand_closes_it_at_once() {
    crate::log_lines::install();
    let met = tripped().await;
    met.sign_of_life();
    assert!(met.is_closed());
    let by_hand = tripped().await;
    by_hand.reset();
    assert!(by_hand.is_closed());
    succeed(&by_hand).await;
}

/// Real threads: exactly one of those that come when the window ends is let through.
///
/// Covers: B-34
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_tasks_that_come_when_the_window_ends_one_runs() {
    crate::log_lines::install();
    let health = crate::rig::exact().base(MS).build().unwrap();
    fail(&health, 5).await;
    pass(20 * MS).await;
    let start = Arc::new(tokio::sync::Barrier::new(20));
    let (entered, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let (all_asked, wait) = tokio::sync::watch::channel(false);
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (health, start, entered, mut wait) =
                (health.clone(), start.clone(), entered.clone(), wait.clone());
            tokio::spawn(async move {
                start.wait().await;
                let work = async {
                    entered.send(()).unwrap();
                    wait.wait_for(|all_asked| *all_asked).await.unwrap();
                    Ok::<_, Failure>(())
                };
                health.run_guarded(work).await.is_ok()
            })
        })
        .collect();
    // The one that runs does not end before the others were turned away.
    while health.status().rejected < 19 {
        tokio::task::yield_now().await;
    }
    all_asked.send(true).unwrap();
    let mut ran = 0;
    for task in tasks {
        ran += usize::from(task.await.unwrap());
    }
    assert_eq!(ran, 1);
    assert_eq!(begun.recv().await, Some(()));
    assert!(begun.try_recv().is_err());
    assert!(health.is_closed());
}

/// Covers: B-35
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_tasks_that_fail_ten_times_leave_it_open() {
    crate::log_lines::install();
    let health = guard();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let health = health.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let _ = run(&health, Err(DOWN)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(health.state(), State::Open);
    assert_eq!(health.status().trips, 1);
}

#[tokio::test(start_paused = true)]
async fn both_kinds_of_error_are_found_by_looking_at_the_source() {
    crate::log_lines::install();
    let health = tripped().await;
    let error: Box<dyn std::error::Error> = Box::new(run(&health, Ok(1)).await.unwrap_err());
    assert!(error.source().unwrap().is::<CircuitOpen>());
    let failed: Guarded<Failure> = Guarded::Failed(DOWN);
    assert!(failed.source().unwrap().is::<Failure>());
    assert_eq!(failed.to_string(), "connection refused");
    assert_eq!(failed.failed(), Some(DOWN));
}

#[tokio::test(start_paused = true)]
async fn errors_that_are_no_error_types_are_judged_by_the_caller() {
    crate::log_lines::install();
    let health = guard();
    for _ in 0..5 {
        let judged = health.run_guarded_by(async { Err::<(), _>("down") }, |text| {
            assert_eq!(*text, "down");
            Finding::Down
        });
        assert_eq!(judged.await, Err(Guarded::Failed("down")));
    }
    assert_eq!(&*rejected(&health).await.last_error, "down");
}

#[derive(Debug)]
struct Within(Failure);

impl std::fmt::Display for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cannot fetch jobs")
    }
}

impl std::error::Error for Within {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_that_is_kept_names_the_cause() {
    crate::log_lines::install();
    let health = ConnectionHealth::builder()
        .threshold(1)
        .judge(|_| Finding::Down)
        .build()
        .unwrap();
    let _ = health.run_guarded(async { Err::<u32, _>(Within(DOWN)) }).await;
    assert_eq!(
        &*rejected(&health).await.last_error,
        "cannot fetch jobs: connection refused"
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_megabyte_of_text_little_is_kept() {
    crate::log_lines::install();
    let health = ConnectionHealth::builder().threshold(1).build().unwrap();
    let text = "x".repeat(1_000_000);
    let _ = health
        .run_guarded_by(async { Err::<(), _>(text) }, |_| Finding::Down)
        .await;
    assert!(rejected(&health).await.last_error.len() < 600);
}

#[derive(Debug)]
struct Unprintable;

impl std::fmt::Display for Unprintable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("nobody is to print it")
    }
}

impl std::error::Error for Unprintable {}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_error_is_not_even_asked_for_unless_it_is_kept() {
    crate::log_lines::install();
    for finding in [Finding::Answered, Finding::Refused, Finding::Nothing] {
        let health = ConnectionHealth::builder()
            .judge(move |_| finding)
            .build()
            .unwrap();
        let work = health.run_guarded(async { Err::<(), _>(Unprintable) });
        assert!(work.await.is_err(), "{finding:?}");
    }
}
