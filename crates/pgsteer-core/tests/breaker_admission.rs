//! Who is admitted when, what opens the breaker and what closes it.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use pgsteer_core::breaker::{BreakerOptions, Cause, ClosedBy, State};

use breaker_rig::{MS, Rig, SECOND, ends, exact, windows};

/// Covers: B-22
#[test]
fn it_starts_closed_and_admits_everybody() {
    let rig = Rig::exact();
    let permits: Vec<_> = (0..100).map(|_| rig.admit()).collect();
    assert!(permits.iter().all(|permit| !permit.is_probe()));
    assert_eq!(rig.breaker.state(), State::Closed);
    assert_eq!(rig.breaker.retry_after(), None);
}

/// Covers: B-25
#[test]
fn it_opens_at_the_threshold_and_not_before() {
    let rig = Rig::exact();
    rig.fail(4);
    assert_eq!(rig.breaker.state(), State::Closed);
    rig.fail(1);
    assert_eq!(rig.breaker.state(), State::Open);
    assert!(rig.rejects());
}

/// Covers: B-08, B-24
#[test]
fn a_success_ends_the_row_of_failures() {
    let rig = Rig::exact();
    rig.fail(4);
    rig.admit().success();
    rig.fail(4);
    assert_eq!(rig.breaker.state(), State::Closed);
    assert_eq!(rig.breaker.status().streak, 4);
}

/// Covers: B-23
#[test]
fn what_is_neither_failure_nor_success_counts_nowhere_while_closed() {
    let rig = Rig::exact();
    for _ in 0..10_000 {
        rig.admit().neutral();
        drop(rig.admit());
    }
    assert_eq!(rig.breaker.status().streak, 0);

    rig.fail(4);
    rig.admit().neutral();
    drop(rig.admit());
    assert_eq!(
        rig.breaker.status().streak,
        4,
        "nor does it end a row of failures"
    );
}

#[test]
fn a_rejection_says_when_to_ask_again_and_what_failed_last() {
    let rig = Rig::exact();
    rig.fail(4);
    rig.admit().failure("host unreachable");
    rig.advance(300 * MS);
    let rejected = rig.breaker.admit().unwrap_err();
    assert_eq!(rejected.retry_after, 700 * MS);
    assert_eq!(rejected.last_error, "host unreachable");
    assert!(!rejected.probing);
}

/// Covers: B-12, B-27
#[test]
fn the_window_ends_on_the_millisecond_and_its_end_belongs_to_the_probe() {
    let rig = Rig::tripped();
    rig.advance(999 * MS);
    assert!(rig.rejects());
    assert_eq!(rig.retry_after(), MS);
    rig.advance(MS);
    assert!(rig.retry_after().is_zero());
    assert!(rig.admit().is_probe());
}

#[test]
fn it_stays_open_after_its_window_until_somebody_asks() {
    let rig = Rig::tripped();
    rig.advance(3600 * SECOND);
    assert_eq!(rig.breaker.state(), State::Open);
    let probe = rig.probe();
    assert_eq!(rig.breaker.state(), State::HalfOpen);
    drop(probe);
}

#[test]
fn while_a_probe_is_out_nobody_else_is_admitted() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.probe();
    let rejected = rig.breaker.admit().unwrap_err();
    assert!(rejected.probing);
    assert_eq!(
        rejected.retry_after, SECOND,
        "the base window: nobody knows better"
    );
    probe.success();
    assert!(!rig.admit().is_probe());
}

#[test]
fn a_wait_for_a_probe_is_never_said_to_be_longer_than_its_lease() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let _probe = rig.probe();
    rig.advance(60 * SECOND - 10 * MS);
    assert_eq!(rig.breaker.admit().unwrap_err().retry_after, 10 * MS);
}

/// Covers: B-28
#[test]
fn a_probe_that_succeeds_closes_it_and_forgets_the_outage() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().success();
    assert_eq!(rig.breaker.state(), State::Closed);
    let status = rig.breaker.status();
    assert_eq!((status.streak, status.trips, status.last_error), (0, 0, None));
    rig.fail(4);
    assert_eq!(rig.breaker.state(), State::Closed, "the row begins anew");
}

#[test]
fn a_probe_that_is_answered_closes_it_whatever_the_answer() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().neutral();
    assert_eq!(rig.breaker.state(), State::Closed);
}

/// Covers: B-29
#[test]
fn a_probe_that_fails_opens_it_for_twice_as_long() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().failure("still refused");
    rig.advance(SECOND);
    assert!(rig.rejects(), "the first window is not enough");
    rig.advance(SECOND);
    assert!(rig.admit().is_probe());
}

#[test]
fn a_rejection_after_a_failed_probe_tells_of_the_probe() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().failure("still refused");
    assert_eq!(rig.breaker.admit().unwrap_err().last_error, "still refused");
}

/// Covers: B-07
#[test]
fn five_attempts_that_meet_one_hiccup_open_it_for_one_window() {
    let rig = Rig::exact();
    let openers: Vec<_> = (0..5).map(|_| rig.admit()).collect();
    openers.into_iter().for_each(|opener| opener.failure("hiccup"));
    assert_eq!(rig.breaker.state(), State::Open);
    rig.advance(SECOND);
    rig.probe().success();
    assert_eq!(rig.breaker.state(), State::Closed);
    assert_eq!(windows(&rig.told()), [(SECOND, Cause::Threshold)]);
}

#[test]
fn a_sign_of_life_closes_it_before_its_window_is_over() {
    let rig = Rig::tripped();
    rig.advance(200 * MS);
    rig.breaker.sign_of_life();
    assert_eq!(rig.breaker.state(), State::Closed);
    let end = ends(&rig.told());
    assert_eq!(end.len(), 1);
    assert_eq!((end[0].outage, end[0].by), (200 * MS, ClosedBy::SignOfLife));
}

#[test]
fn a_sign_of_life_ends_a_row_of_failures() {
    let rig = Rig::exact();
    rig.fail(4);
    rig.breaker.sign_of_life();
    rig.fail(4);
    assert_eq!(rig.breaker.state(), State::Closed);
}

#[test]
fn after_a_sign_of_life_the_probe_that_was_out_no_longer_counts() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    let probe = rig.probe();
    rig.breaker.sign_of_life();
    probe.failure("late");
    assert_eq!(rig.breaker.status().streak, 0);
}

#[test]
fn closed_by_hand_it_counts_nothing_that_was_under_way() {
    let open = Rig::tripped();
    open.breaker.reset();
    assert_eq!(open.breaker.state(), State::Closed);
    assert_eq!(ends(&open.told())[0].by, ClosedBy::Reset);

    let closed = Rig::exact();
    closed.fail(4);
    let under_way = closed.admit();
    closed.breaker.reset();
    under_way.failure("from before");
    assert_eq!(closed.breaker.status().streak, 0);
}

#[test]
fn a_threshold_of_one_opens_at_the_first_failure() {
    let rig = Rig::new(BreakerOptions {
        threshold: 1,
        ..exact()
    });
    rig.fail(1);
    assert_eq!(rig.breaker.state(), State::Open);
}

/// Covers: B-17
#[test]
fn a_threshold_of_zero_turns_it_off() {
    let rig = Rig::new(BreakerOptions {
        threshold: 0,
        ..exact()
    });
    rig.fail(10_000);
    assert_eq!(rig.breaker.state(), State::Closed);
    assert_eq!(rig.breaker.status().streak, 0);
    assert_eq!(rig.told(), []);
}

#[test]
fn while_closed_neither_admission_nor_success_reads_the_clock() {
    let rig = Rig::exact();
    for _ in 0..100 {
        rig.admit().success();
        rig.admit().neutral();
        drop(rig.admit());
        rig.breaker.sign_of_life();
        rig.breaker.admit_owned().unwrap().success();
    }
    assert_eq!(rig.clock_reads(), 0);
    rig.fail(1);
    assert_eq!(rig.clock_reads(), 1);
}

#[test]
fn rejections_are_counted_one_by_one() {
    let rig = Rig::tripped();
    for _ in 0..1_000 {
        assert!(rig.rejects());
    }
    rig.advance(SECOND);
    let probe = rig.probe();
    assert!(rig.rejects());
    assert_eq!(rig.breaker.status().rejected, 1_001);
    drop(probe);
}

#[test]
fn outages_are_counted_and_not_their_windows() {
    let rig = Rig::exact();
    for outages in 1..=3 {
        rig.fail(5);
        for _ in 0..4 {
            rig.advance(60 * SECOND);
            rig.probe().failure("still refused");
        }
        assert_eq!(rig.breaker.status().outages, outages);
        rig.breaker.reset();
    }
    assert_eq!(rig.breaker.status().outages, 3);
}

#[test]
fn its_status_tells_where_an_outage_stands() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().failure("second");
    rig.advance(500 * MS);
    let status = rig.breaker.status();
    assert_eq!((status.state, status.trips, status.streak), (State::Open, 2, 0));
    assert_eq!(status.retry_after, Some(1_500 * MS));
    assert_eq!(status.down_for, Some(1_500 * MS));
    assert_eq!(status.last_error, Some("second"));
}
