//! The numbers of a guard, its clock and its random draws.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgsteer::ConnectionHealth;
use pgsteer::health::Finding;
use pgsteer::world::Draw;

use crate::rig::{DOWN, MS, SECOND, exact, fail, pass, rejected, run, succeed};

struct Always(u64);

impl Draw for Always {
    fn draw(&self) -> u64 {
        self.0
    }
}

/// Covers: B-25
#[tokio::test(start_paused = true)]
async fn without_numbers_given_it_opens_at_five_failures_for_one_second_and_at_most_a_fifth_more() {
    crate::log_lines::install();
    for _ in 0..100 {
        let health = ConnectionHealth::default();
        for failures in 0..5 {
            assert!(health.is_closed(), "after {failures}");
            let _ = health
                .run_guarded_by(async { Err::<(), _>("down") }, |_| Finding::Down)
                .await;
        }
        let window = health.retry_after().unwrap();
        assert!((SECOND..1_200 * MS).contains(&window), "{window:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn windows_double_up_to_the_cap() {
    crate::log_lines::install();
    let health = exact().threshold(2).base(100 * MS).cap(300 * MS).build().unwrap();
    fail(&health, 2).await;
    for window in [100, 200, 300, 300] {
        assert_eq!(health.retry_after(), Some(window * MS));
        pass(window * MS).await;
        fail(&health, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_comes_from_the_draws_given() {
    crate::log_lines::install();
    let half = exact().jitter(0.5).draw(Always(1 << 63)).build().unwrap();
    fail(&half, 5).await;
    assert_eq!(half.retry_after(), Some(1_250 * MS));
    let none = exact().jitter(0.5).draw(Always(0)).build().unwrap();
    fail(&none, 5).await;
    assert_eq!(none.retry_after(), Some(SECOND));
}

#[tokio::test]
async fn it_goes_by_the_clock_it_is_given() {
    crate::log_lines::install();
    let started = Instant::now();
    let elapsed = Arc::new(AtomicU64::new(0));
    let hand = elapsed.clone();
    let health = exact()
        .clock(move || started + Duration::from_millis(elapsed.load(Ordering::Relaxed)))
        .build()
        .unwrap();
    fail(&health, 5).await;
    hand.store(999, Ordering::Relaxed);
    rejected(&health).await;
    hand.store(1_000, Ordering::Relaxed);
    succeed(&health).await;
}

/// Covers: B-12
#[tokio::test]
async fn a_clock_that_jumps_back_only_makes_it_wait_longer() {
    crate::log_lines::install();
    let started = Instant::now();
    let elapsed = Arc::new(AtomicU64::new(60_000));
    let hand = elapsed.clone();
    let health = exact()
        .clock(move || started + Duration::from_millis(elapsed.load(Ordering::Relaxed)))
        .build()
        .unwrap();
    fail(&health, 5).await;
    hand.store(0, Ordering::Relaxed);
    assert_eq!(rejected(&health).await.retry_after, SECOND);
    hand.store(60_999, Ordering::Relaxed);
    rejected(&health).await;
    hand.store(61_000, Ordering::Relaxed);
    succeed(&health).await;
    assert!(health.is_closed());
}

#[tokio::test(start_paused = true)]
async fn the_lowest_and_the_highest_threshold_are_thresholds() {
    crate::log_lines::install();
    let one = exact().threshold(1).build().unwrap();
    fail(&one, 1).await;
    assert!(one.is_open());
    let most = exact().threshold(u32::MAX).build().unwrap();
    fail(&most, 1_000).await;
    assert!(most.is_closed());
    assert_eq!(most.status().streak, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_base_that_is_the_cap_gives_windows_of_one_length() {
    crate::log_lines::install();
    let health = exact().threshold(1).base(SECOND).cap(SECOND).build().unwrap();
    for _ in 0..4 {
        fail(&health, 1).await;
        assert_eq!(health.retry_after(), Some(SECOND));
        pass(SECOND).await;
    }
}

#[test]
fn it_needs_no_runtime() {
    crate::log_lines::install();
    use futures_util::FutureExt;
    let health = exact().build().unwrap();
    for _ in 0..5 {
        assert!(run(&health, Err(DOWN)).now_or_never().unwrap().is_err());
    }
    assert!(health.is_open());
}

/// Covers: B-17
#[tokio::test(start_paused = true)]
async fn a_threshold_of_zero_turns_it_off() {
    crate::log_lines::install();
    let health = exact().threshold(0).build().unwrap();
    fail(&health, 1_000).await;
    assert!(health.is_closed());
}

#[test]
fn a_number_out_of_its_range_is_refused_by_its_name_with_what_is_allowed() {
    crate::log_lines::install();
    let table = [
        (
            exact().base(Duration::ZERO),
            "option breaker_base cannot be `0ns`: it takes a duration from 1 ms to breaker_cap",
        ),
        (
            exact().cap(Duration::MAX),
            "option breaker_cap cannot be `18446744073709551615.999999999s`: it takes a duration from 1 ms to 24 h",
        ),
        (
            exact().base(2 * SECOND).cap(SECOND),
            "option breaker_base cannot be `2s`: it takes a duration from 1 ms to breaker_cap",
        ),
        (
            exact().jitter(f64::NAN),
            "option breaker_jitter cannot be `NaN`: it takes a number from 0 to 1",
        ),
        (
            exact().jitter(-f64::EPSILON),
            "option breaker_jitter cannot be `-2.220446049250313e-16`: it takes a number from 0 to 1",
        ),
        (
            exact().jitter(f64::INFINITY),
            "option breaker_jitter cannot be `inf`: it takes a number from 0 to 1",
        ),
        (
            exact().jitter(1.5),
            "option breaker_jitter cannot be `1.5`: it takes a number from 0 to 1",
        ),
        (
            exact().probe_lease(Duration::ZERO),
            "option breaker_probe_lease cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
    ];
    for (builder, expected) in table {
        assert_eq!(builder.build().unwrap_err().to_string(), expected);
    }
}
