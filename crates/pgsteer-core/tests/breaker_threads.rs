//! Real threads racing for one breaker. Every interleaving of three of them is in `loom_breaker`.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgsteer_core::breaker::State;

use breaker_rig::{Rig, SECOND};

/// Runs this many threads that begin together.
fn race(threads: usize, run: impl Fn() + Sync) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                run();
            });
        }
    });
}

/// Covers: B-04, B-34
#[test]
fn of_all_that_ask_when_a_window_ends_exactly_one_is_admitted() {
    for threads in [20, 1_000] {
        let rig = Rig::tripped();
        rig.advance(SECOND);
        let (ran, rejected) = (AtomicUsize::new(0), AtomicUsize::new(0));
        race(threads, || match rig.breaker.admit() {
            Ok(probe) => {
                ran.fetch_add(1, Ordering::Relaxed);
                // Kept until everybody has asked: were it given back, another might rightly be admitted.
                std::mem::forget(probe);
            }
            Err(rejection) => {
                assert!(rejection.probing);
                rejected.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!((ran.into_inner(), rejected.into_inner()), (1, threads - 1));
    }
}

#[test]
fn of_all_that_ask_when_a_lease_ends_exactly_one_is_admitted() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    std::mem::forget(rig.probe());
    rig.advance(60 * SECOND);
    let ran = AtomicUsize::new(0);
    race(100, || {
        if let Ok(probe) = rig.breaker.admit() {
            ran.fetch_add(1, Ordering::Relaxed);
            std::mem::forget(probe);
        }
    });
    assert_eq!(ran.into_inner(), 1);
}

/// Covers: B-35
#[test]
fn ten_threads_that_fail_ten_times_each_leave_it_open_for_its_first_window() {
    let rig = Rig::exact();
    race(10, || {
        for _ in 0..10 {
            if let Ok(permit) = rig.breaker.admit() {
                permit.failure("refused");
            }
        }
    });
    assert_eq!(rig.breaker.state(), State::Open);
    assert_eq!((rig.breaker.status().trips, rig.retry_after()), (1, SECOND));
}

#[test]
fn no_failure_is_lost_among_threads() {
    for _ in 0..200 {
        let rig = Rig::exact();
        race(4, || rig.admit().failure("refused"));
        assert_eq!(rig.breaker.status().streak, 4);
    }
}
