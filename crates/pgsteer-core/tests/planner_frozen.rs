//! What becomes of connections to a host that reacts to nothing any more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::{Duration, Instant};

use pgsteer_core::hosts::Snapshot;
use pgsteer_core::pool::planner::{Action, CloseReason, PlannerOptions, ReturnReason, SlotState};

use planner_world::rig::{Rig, snapshot};
use planner_world::{Owner, SECOND, host, options};

/// Slots 0 and 1 on a, the others on b.
fn pool() -> Rig {
    let options = PlannerOptions {
        rebalance_interval: 6_000 * SECOND,
        max_lifetime: None,
        ..options(4)
    };
    Rig::full(options, &["a", "a", "b", "b"])
}

fn frozen(name: &str, at: Instant) -> Snapshot {
    Snapshot {
        frozen: [(host(name), at)].into(),
        ..snapshot(&["a", "b"], &["a", "b"], &[])
    }
}

fn change(rig: &mut Rig, snapshot: &Snapshot) -> Vec<Action> {
    rig.planner.cluster_changed(snapshot, &rig.view, rig.now);
    rig.actions()
}

fn given_up(slot: u32) -> Action {
    Action::Close {
        slot,
        why: CloseReason::Frozen,
        claim: true,
    }
}

#[test]
fn idle_connections_to_a_frozen_host_are_given_up_and_their_sockets_cut_at_once() {
    let mut rig = pool();
    let now = rig.now;
    assert_eq!(change(&mut rig, &frozen("b", now)), [given_up(2), given_up(3)]);
    rig.set(2, Owner::Keeper);
    rig.set(3, Owner::Keeper);
    assert_eq!(rig.sleeps_for(), Some(Duration::ZERO));
    let cut = |slot| Action::Abort { slot, claim: false };
    assert_eq!(rig.tick(), [cut(2), cut(3)]);
    rig.planner.socket_closed(2, &rig.view, rig.now).unwrap();
    assert_eq!(rig.opened_for(), [2], "its place is taken at once");
}

#[test]
fn those_that_somebody_has_are_left_alone_and_stay_when_they_come_back_clean() {
    let mut rig = pool();
    rig.set(2, Owner::Leased);
    rig.park(3);
    let now = rig.now;
    assert_eq!(change(&mut rig, &frozen("b", now)), []);
    rig.set(2, Owner::Idle);
    rig.set(3, Owner::Idle);
    assert_eq!(
        change(&mut rig, &frozen("b", now)),
        [],
        "they have been answered since"
    );
}

#[test]
fn each_time_that_it_is_found_out_they_are_given_up_anew() {
    let mut rig = pool();
    rig.set(2, Owner::Leased);
    let now = rig.now;
    assert_eq!(change(&mut rig, &frozen("b", now)), [given_up(3)]);
    rig.set(3, Owner::Keeper);
    rig.set(2, Owner::Idle);
    assert_eq!(change(&mut rig, &frozen("b", now + SECOND)), [given_up(2)]);

    // It was back in between, and the moment is the same to the clock.
    let mut rig = pool();
    rig.set(2, Owner::Leased);
    let now = rig.now;
    change(&mut rig, &frozen("b", now));
    rig.set(2, Owner::Idle);
    assert_eq!(change(&mut rig, &snapshot(&["a", "b"], &["a", "b"], &[])), []);
    assert_eq!(change(&mut rig, &frozen("b", now)), [given_up(2)]);
}

#[test]
fn a_caller_that_is_faster_keeps_the_connection() {
    let mut rig = pool();
    rig.set(3, Owner::Leased);
    let now = rig.now;
    assert_eq!(change(&mut rig, &frozen("b", now)), [given_up(2)]);
    rig.set(2, Owner::Leased);
    rig.planner.claim_failed(2, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), []);
    let info = rig.planner.slot_info(2).unwrap();
    assert_eq!((info.state, info.draining), (SlotState::Live, None));
    rig.returned(2, ReturnReason::Closed).unwrap();
}
