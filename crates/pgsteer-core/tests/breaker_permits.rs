//! Permits that come late, are dropped, forgotten or lost: none counts in the wrong place, none wedges the breaker.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use pgsteer_core::breaker::{Cause, Event, Permit, State};

use breaker_rig::{MS, Rig, SECOND, Why, windows};

const LEASE: std::time::Duration = std::time::Duration::from_secs(60);

/// The same window again, from now.
fn assert_given_up(rig: &Rig) {
    assert_eq!(rig.breaker.state(), State::Open);
    assert_eq!(rig.retry_after(), SECOND);
    rig.advance(SECOND - MS);
    assert!(rig.rejects());
    rig.advance(MS);
    assert!(rig.breaker.admit().is_ok_and(|permit| permit.is_probe()));
}

#[test]
fn a_dropped_probe_begins_the_same_window_again_from_the_moment_it_is_dropped() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.probe();
    rig.advance(30 * SECOND);
    drop(probe);
    assert_given_up(&rig);
}

/// Covers: B-01
#[test]
fn a_probe_whose_future_is_dropped_is_given_up() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    {
        let mut work = pin!(async {
            let probe = rig.probe();
            std::future::pending::<()>().await;
            probe.success();
        });
        let pending = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(pending.is_pending());
        assert_eq!(rig.breaker.state(), State::HalfOpen);
    }
    assert_given_up(&rig);
}

/// Covers: B-02
#[test]
fn a_probe_that_panics_is_given_up_and_the_panic_goes_on() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.breaker.admit_owned().unwrap();
    let panicked = std::thread::spawn(move || {
        let _probe: Permit<'static, Why> = probe;
        panic!("within the probe");
    })
    .join();
    assert_eq!(
        panicked.unwrap_err().downcast_ref::<&str>(),
        Some(&"within the probe")
    );
    assert_given_up(&rig);
}

/// Covers: B-11
#[test]
fn a_probe_given_up_again_and_again_never_lengthens_the_window() {
    let rig = Rig::tripped();
    for _ in 0..100 {
        rig.advance(SECOND);
        drop(rig.probe());
    }
    let told = windows(&rig.told());
    assert_eq!(told[0], (SECOND, Cause::Threshold));
    assert_eq!(told[1..], [(SECOND, Cause::Abandoned); 100]);
    assert_eq!(rig.breaker.status().trips, 1);
}

/// Covers: B-03
#[test]
fn a_forgotten_probe_is_replaced_when_its_lease_is_over() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    std::mem::forget(rig.probe());
    rig.advance(LEASE - MS);
    assert!(rig.rejects());
    rig.told();
    rig.advance(MS);
    rig.probe().success();
    assert_eq!(rig.breaker.state(), State::Closed);
    assert!(
        matches!(rig.told()[..], [Event::HalfOpened(half_opened), Event::Closed(_)] if half_opened.replaces_lost)
    );
}

#[test]
fn a_probe_that_renews_its_lease_is_not_replaced_however_long_it_takes() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.probe();
    for _ in 0..10 {
        rig.advance(LEASE - MS);
        assert!(rig.rejects());
        probe.renew();
    }
    rig.advance(LEASE - MS);
    assert!(rig.rejects());
    assert_eq!(
        rig.breaker.admit().unwrap_err().retry_after,
        MS,
        "of the lease as it was last renewed"
    );
    rig.advance(MS);
    assert!(rig.probe().is_probe(), "and one that stops renewing it is lost");
    probe.success();
    assert_eq!(rig.breaker.state(), State::Open, "given up by its successor");
}

#[test]
fn a_renewal_that_comes_too_late_or_from_no_probe_changes_nothing() {
    let rig = Rig::exact();
    let early = rig.admit();
    early.renew();
    assert_eq!(rig.clock_reads(), 0);
    rig.fail(5);
    rig.advance(300 * MS);
    early.renew();
    assert_eq!(rig.retry_after(), 700 * MS);

    rig.advance(SECOND);
    let lost = rig.probe();
    rig.advance(LEASE);
    let second = rig.probe();
    rig.advance(LEASE - MS);
    lost.renew();
    rig.advance(MS);
    assert!(rig.probe().is_probe(), "the second one's lease is its own");
    drop((early, lost, second));
}

/// Covers: B-03
#[test]
fn a_lost_probe_that_comes_back_changes_nothing() {
    type End = fn(Permit<'static, Why>);
    let endings: [(&str, End); 4] = [
        ("success", Permit::success),
        ("failure", |lost| lost.failure("late")),
        ("neutral", Permit::neutral),
        ("dropped", |lost| drop(lost)),
    ];
    for (name, end) in endings {
        let rig = Rig::tripped();
        rig.advance(SECOND);
        let lost = rig.breaker.admit_owned().unwrap();
        rig.advance(LEASE);
        let second = rig.probe();
        rig.told();

        end(lost);
        assert_eq!(rig.breaker.state(), State::HalfOpen, "{name}");
        assert!(rig.rejects(), "{name}: the second one is still out");
        assert_eq!(rig.told(), [], "{name}");

        second.failure("on its own account");
        assert_eq!(
            windows(&rig.told()),
            [(2 * SECOND, Cause::Probe)],
            "{name}: the second one decides"
        );
    }
}

/// Covers: B-03
#[test]
fn a_lost_probe_that_ends_after_its_successor_changes_nothing() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let lost = rig.probe();
    rig.advance(LEASE);
    rig.probe().success();
    rig.fail(4);
    lost.failure("a fifth, if it counted");
    assert_eq!(rig.breaker.state(), State::Closed);
}

/// Covers: B-05, B-31
#[test]
fn what_began_before_the_trip_and_ends_after_it_changes_nothing() {
    let rig = Rig::exact();
    let early: Vec<_> = (0..20).map(|_| rig.admit()).collect();
    rig.fail(5);
    rig.advance(300 * MS);
    rig.told();
    for (number, straggler) in early.into_iter().enumerate() {
        match number % 4 {
            0 => straggler.success(),
            1 => straggler.failure("late"),
            2 => straggler.neutral(),
            _ => drop(straggler),
        }
    }
    assert_eq!(rig.breaker.state(), State::Open);
    assert_eq!(rig.retry_after(), 700 * MS);
    assert_eq!(rig.breaker.status().trips, 1);
    assert_eq!(rig.told(), []);
}

#[test]
fn a_straggler_does_not_settle_the_probe() {
    let rig = Rig::exact();
    let (first, second) = (rig.admit(), rig.admit());
    rig.fail(5);
    rig.advance(SECOND);
    let probe = rig.probe();
    first.success();
    second.failure("late");
    assert_eq!(rig.breaker.state(), State::HalfOpen);
    probe.success();
    assert_eq!(rig.breaker.state(), State::Closed);
}

/// Covers: B-06
#[test]
fn what_began_before_an_outage_counts_neither_way_after_it() {
    let rig = Rig::exact();
    let (fails, succeeds) = (rig.admit(), rig.admit());
    rig.fail(5);
    rig.advance(SECOND);
    rig.probe().success();
    rig.fail(3);

    fails.failure("of before the outage");
    assert_eq!(rig.breaker.status().streak, 3);
    succeeds.success();
    assert_eq!(rig.breaker.status().streak, 3);
}

#[test]
fn a_permit_may_outlive_every_other_handle() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.breaker.admit_owned().unwrap();
    let watched = Arc::downgrade(&rig.breaker);
    drop(rig);
    assert!(watched.upgrade().is_some());
    drop(probe);
    assert!(watched.upgrade().is_none(), "and keeps nothing alive afterwards");
}

/// Whatever panics on the way of an outcome: the probe is not lost for the length of its lease.
#[test]
fn a_draw_that_panics_leaves_the_probe_given_up() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.breaker.admit_owned().unwrap();
    rig.draws_panic(true);
    let panicked = std::thread::spawn(move || probe.failure("still refused")).join();
    assert!(panicked.is_err());
    rig.draws_panic(false);
    assert_given_up(&rig);
}
