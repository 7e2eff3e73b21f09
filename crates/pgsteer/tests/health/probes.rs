//! Probes that are cancelled, panic, never end or end with something else: the guard goes on working.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer::Guarded;
use pgsteer::health::{Finding, State};

use crate::rig::{DOWN, Failure, MS, OTHER, SECOND, exact, fail, pass, rejected, run, succeed, tripped};

/// The same window again, then a probe, which closes it.
async fn assert_tried_again(health: &pgsteer::ConnectionHealth) {
    assert_eq!(health.state(), State::Open);
    assert_eq!(health.retry_after(), Some(SECOND));
    pass(SECOND - MS).await;
    rejected(health).await;
    pass(MS).await;
    succeed(health).await;
    assert!(health.is_closed());
}

/// Covers: B-01
#[tokio::test(start_paused = true)]
async fn a_probe_that_runs_into_the_callers_time_limit_is_tried_again() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    let limited = tokio::time::timeout(10 * SECOND, health.run_guarded(pending::<Result<u32, Failure>>()));
    assert!(limited.await.is_err());
    assert_tried_again(&health).await;
}

/// Covers: B-01
#[tokio::test(start_paused = true)]
async fn a_probe_that_loses_a_select_is_tried_again() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    tokio::select! {
        _ = health.run_guarded(pending::<Result<u32, Failure>>()) => panic!("it never ends"),
        () = pass(3 * SECOND) => {}
    }
    assert_tried_again(&health).await;
}

/// Covers: B-01
#[tokio::test(start_paused = true)]
async fn a_probe_whose_task_is_aborted_is_tried_again() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    let probing = health.clone();
    let task = tokio::spawn(async move { probing.run_guarded(pending::<Result<u32, Failure>>()).await });
    pass(MS).await;
    assert_eq!(health.state(), State::HalfOpen);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_tried_again(&health).await;
}

/// Covers: B-01
#[test]
fn a_probe_whose_runtime_is_shut_down_is_tried_again() {
    crate::log_lines::install();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
    };
    let health = exact().base(MS).build().unwrap();
    let first = runtime();
    first.block_on(async {
        fail(&health, 5).await;
        pass(5 * MS).await;
        let probing = health.clone();
        tokio::spawn(async move { probing.run_guarded(pending::<Result<u32, Failure>>()).await });
        pass(5 * MS).await;
    });
    assert_eq!(health.state(), State::HalfOpen);
    drop(first);
    assert_eq!(health.state(), State::Open);
    runtime().block_on(async {
        pass(5 * MS).await;
        succeed(&health).await;
    });
    assert!(health.is_closed());
}

/// Covers: B-02
#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_is_tried_again_and_its_panic_goes_on() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    let work = async {
        tokio::task::yield_now().await;
        panic!("within the probe");
        #[allow(unreachable_code, reason = "it gives the block its type")]
        Ok::<u32, Failure>(1)
    };
    let panicked = std::panic::AssertUnwindSafe(health.run_guarded(work))
        .catch_unwind()
        .await;
    assert_eq!(
        panicked.unwrap_err().downcast_ref::<&str>(),
        Some(&"within the probe")
    );
    assert_tried_again(&health).await;
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_panics_leaves_the_probe_given_up() {
    crate::log_lines::install();
    let health = exact()
        .threshold(1)
        .judge(|error| match error.to_string().as_str() {
            "connection refused" => Finding::Down,
            _ => panic!("a judge"),
        })
        .build()
        .unwrap();
    fail(&health, 1).await;
    pass(SECOND).await;
    let judged = std::panic::AssertUnwindSafe(run(&health, Err(OTHER)))
        .catch_unwind()
        .await;
    assert!(judged.is_err());
    assert_tried_again(&health).await;
}

/// Covers: B-03
#[tokio::test(start_paused = true)]
async fn a_probe_that_never_ends_is_replaced_when_its_lease_is_over_and_its_late_end_counts_nowhere() {
    crate::log_lines::install();
    let ends: [Result<u32, Failure>; 3] = [Ok(1), Err(DOWN), Err(OTHER)];
    for end in ends {
        let health = exact().probe_lease(30 * SECOND).build().unwrap();
        fail(&health, 5).await;
        pass(SECOND).await;
        let (go_on, gate) = tokio::sync::oneshot::channel::<()>();
        let (lost, expected) = (health.clone(), end.clone());
        let lost = tokio::spawn(async move {
            lost.run_guarded(async {
                gate.await.unwrap();
                end
            })
            .await
        });
        pass(30 * SECOND - MS).await;
        assert!(rejected(&health).await.probing);
        pass(MS).await;
        succeed(&health).await;
        assert!(health.is_closed());
        fail(&health, 4).await;

        go_on.send(()).unwrap();
        assert_eq!(
            lost.await.unwrap(),
            expected.map_err(Guarded::Failed),
            "its caller has its result all the same"
        );
        assert_eq!(health.status().streak, 4);
    }
}

/// Covers: B-30
#[tokio::test(start_paused = true)]
async fn a_probe_that_ends_with_another_error_is_tried_again() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    assert_eq!(run(&health, Err(OTHER)).await, Err(Guarded::Failed(OTHER)));
    assert_tried_again(&health).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_answered_or_refused_closes_it() {
    crate::log_lines::install();
    for finding in [Finding::Answered, Finding::Refused] {
        let health = tripped().await;
        pass(SECOND).await;
        let text = "an answer";
        let _ = run(&health, Err(Failure { finding, text })).await;
        assert!(health.is_closed(), "{finding:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_probe_is_on_its_way_it_is_neither_open_nor_closed() {
    crate::log_lines::install();
    let health = tripped().await;
    pass(SECOND).await;
    let probe = health.run_guarded(async {
        pass(Duration::from_millis(500)).await;
        Ok::<_, Failure>(1)
    });
    let meanwhile = async {
        pass(100 * MS).await;
        assert!(!health.is_open() && !health.is_closed());
        assert_eq!(health.state(), State::HalfOpen);
        let open = rejected(&health).await;
        assert!(open.probing);
        assert_eq!(open.retry_after, SECOND);
    };
    let (value, ()) = tokio::join!(probe, meanwhile);
    assert_eq!(value, Ok(1));
}
