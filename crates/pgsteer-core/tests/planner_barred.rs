//! A planner whose opens a circuit breaker does not let begin.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::Duration;

use pgsteer_core::pool::planner::{Action, OpenFailure, PlannerOptions, SlotState};
use planner_world::rig::Rig;
use planner_world::{MS, SECOND};

fn options(size: u32) -> PlannerOptions {
    PlannerOptions {
        rebalance_interval: 600 * SECOND,
        max_lifetime: None,
        ..planner_world::options(size)
    }
}

/// A fixed pool whose first open has just failed, with a breaker that opened for this long.
fn tripped(size: u32, window: Duration) -> Rig {
    let mut rig = Rig::started(options(size));
    assert_eq!(rig.opened_for(), [0]);
    rig.planner
        .open_failed(0, OpenFailure::Hosts, &rig.view, rig.now)
        .unwrap();
    rig.planner.bar(window, rig.now);
    rig
}

#[test]
fn nothing_is_opened_until_the_window_is_over_and_then_a_single_one() {
    let mut rig = tripped(4, 7 * SECOND);
    assert_eq!(rig.tick_after(6_999 * MS), []);
    assert!(!rig.planner.can_serve());
    assert_eq!(rig.sleeps_for(), Some(MS));
    rig.tick_after(MS);
    rig.planner.demand(&rig.view, rig.now);
    assert!(rig.planner.can_serve(), "one is on its way");
    assert_eq!(rig.planner.stats(&rig.view).opening, 1);
}

#[test]
fn a_rest_that_is_longer_than_the_window_stays() {
    let rig = tripped(1, 10 * MS);
    assert_eq!(rig.sleeps_for(), Some(SECOND), "the rest after any failure");
}

#[test]
fn an_open_that_was_not_let_begin_frees_its_slot_fails_nobody_and_asks_again_when_told() {
    let mut rig = Rig::started(options(1));
    rig.actions();
    rig.view.waiting = 1;
    rig.planner.open_barred(0, 300 * MS, rig.now).unwrap();
    assert_eq!(rig.actions(), []);
    assert_eq!(rig.planner.slot_info(0).unwrap().state, SlotState::Empty);
    assert_eq!(rig.tick_after(299 * MS), []);
    rig.tick_after(MS);
    assert_eq!(rig.planner.stats(&rig.view).opening, 1);
    let odd = rig.planner.open_barred(1, SECOND, rig.now).unwrap_err();
    assert_eq!((odd.slot, odd.event), (1, "open_barred"));
}

#[test]
fn a_window_that_ends_early_is_not_waited_for() {
    let mut rig = tripped(3, 60 * SECOND);
    rig.now += SECOND;
    rig.planner.unbar(&rig.view, rig.now);
    assert_eq!(rig.opened_for(), [0], "a single one, until it has opened");
    rig.open(0, "a", 0);
    assert_eq!(rig.opened_for(), [1, 2]);
}

#[test]
fn a_rest_of_another_reason_does_not_end_with_a_window_that_never_was() {
    let mut rig = Rig::started(options(1));
    rig.actions();
    rig.planner
        .open_failed(0, OpenFailure::Hosts, &rig.view, rig.now)
        .unwrap();
    rig.planner.unbar(&rig.view, rig.now);
    assert_eq!(rig.actions(), []);
}

#[test]
fn refused_logins_are_not_tried_earlier_because_a_window_ends() {
    let mut rig = Rig::started(options(1));
    for _ in 0..4 {
        let open = rig.actions();
        assert!(matches!(open[..], [Action::Open { slot: 0, .. }]), "{open:?}");
        rig.planner
            .open_failed(0, OpenFailure::Login, &rig.view, rig.now)
            .unwrap();
        let rest = rig.sleeps_for().unwrap();
        rig.now += rest;
        rig.planner.tick(None, &rig.view, rig.now);
    }
    rig.actions();
    rig.planner.open_barred(0, SECOND, rig.now).unwrap();
    rig.planner.unbar(&rig.view, rig.now);
    assert_eq!(rig.actions(), []);
}

#[test]
fn a_pool_that_is_shutting_down_rests_for_nothing() {
    let mut rig = Rig::started(options(1));
    rig.actions();
    rig.planner.shutdown(&rig.view, rig.now);
    rig.planner.open_barred(0, SECOND, rig.now).unwrap();
    assert!(rig.planner.is_drained());
    assert_eq!(rig.planner.next_wake(), None);
}
