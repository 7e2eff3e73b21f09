//! What becomes of connections that come back dirty, busy, ended, retired or unwanted, and by when.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use pgsteer_core::pool::planner::{Action, CloseReason, PlannerOptions, ReturnReason, SlotState};

use planner_world::rig::{Rig, snapshot};
use planner_world::{MS, Owner, SECOND, options};

const ROLLBACK: Action = Action::Rollback { slot: 0 };
const CANCEL: Action = Action::Cancel { slot: 0 };
const RELEASE: Action = Action::Release { slot: 0 };
const OPEN: Action = Action::Open {
    slot: 0,
    avoid: Vec::new(),
};
const fn close(why: CloseReason) -> Action {
    Action::Close {
        slot: 0,
        why,
        claim: false,
    }
}
const fn abort(claim: bool) -> Action {
    Action::Abort { slot: 0, claim }
}

/// One leased connection; a cancel request after one second, the end after five, no looks at the hosts in between.
fn leased() -> Rig {
    let mut rig = Rig::full(
        PlannerOptions {
            rebalance_interval: 60 * SECOND,
            ..options(1)
        },
        &["a"],
    );
    rig.set(0, Owner::Leased);
    rig
}

fn state(rig: &Rig) -> SlotState {
    rig.planner.slot_info(0).unwrap().state
}

/// Why the connection comes back, whether it is marked or past its life by then, and what follows.
#[test]
fn what_follows_a_return() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Mark {
        None,
        Ordered,
        Expired,
        Shutdown,
    }
    let table = [
        (ReturnReason::Dirty, Mark::None, vec![ROLLBACK]),
        (
            ReturnReason::Dirty,
            Mark::Ordered,
            vec![close(CloseReason::Ordered)],
        ),
        (
            ReturnReason::Dirty,
            Mark::Expired,
            vec![close(CloseReason::Expired)],
        ),
        (
            ReturnReason::Dirty,
            Mark::Shutdown,
            vec![close(CloseReason::Shutdown)],
        ),
        (ReturnReason::Closed, Mark::None, vec![OPEN]),
        (ReturnReason::Closed, Mark::Ordered, vec![OPEN]),
        (ReturnReason::Closed, Mark::Shutdown, vec![]),
        (ReturnReason::Detached, Mark::None, vec![OPEN]),
        (
            ReturnReason::Discarded,
            Mark::None,
            vec![close(CloseReason::Discarded)],
        ),
        (
            ReturnReason::Refused,
            Mark::None,
            vec![close(CloseReason::Refused)],
        ),
        (
            ReturnReason::Retired,
            Mark::Ordered,
            vec![close(CloseReason::Ordered)],
        ),
        (
            ReturnReason::Retired,
            Mark::Expired,
            vec![close(CloseReason::Expired)],
        ),
        (
            ReturnReason::Retired,
            Mark::Shutdown,
            vec![close(CloseReason::Shutdown)],
        ),
        // The mark lapsed while the connection was on its way.
        (
            ReturnReason::Retired,
            Mark::None,
            vec![Action::Unretire { slot: 0 }, RELEASE],
        ),
    ];
    for (why, mark, follows) in table {
        let mut rig = leased();
        match mark {
            Mark::None => {}
            Mark::Ordered => rig.planner.retire_all(&rig.view, rig.now),
            Mark::Expired => rig.now += 600 * SECOND,
            Mark::Shutdown => rig.planner.shutdown(&rig.view, rig.now),
        }
        rig.actions();
        rig.returned(0, why).unwrap();
        assert_eq!(rig.actions(), follows, "{why:?} with {mark:?}");
    }
}

#[test]
fn a_connection_that_was_rolled_back_is_released() {
    let mut rig = leased();
    rig.returned(0, ReturnReason::Dirty).unwrap();
    assert_eq!(rig.actions(), [ROLLBACK]);
    rig.planner.cleaned(0, true, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [RELEASE]);
}

#[test]
fn a_connection_that_cannot_be_rolled_back_is_closed_and_its_slot_is_taken_until_it_is() {
    let mut rig = leased();
    rig.returned(0, ReturnReason::Dirty).unwrap();
    rig.actions();
    rig.planner.cleaned(0, false, &rig.view, rig.now).unwrap();
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.actions(), [close(CloseReason::Unclean)]);
    rig.planner.socket_closed(0, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [OPEN]);
}

#[test]
fn a_connection_that_cannot_be_made_clean_is_cut_when_its_time_since_the_return_is_over() {
    let mut rig = leased();
    rig.returned(0, ReturnReason::Dirty).unwrap();
    rig.actions();
    assert_eq!(rig.tick_after(3 * SECOND), []);
    rig.planner.cleaned(0, false, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [close(CloseReason::Unclean)]);
    assert_eq!(rig.sleeps_for(), Some(2 * SECOND));
    assert_eq!(
        rig.tick_after(2 * SECOND),
        [Action::Abort {
            slot: 0,
            claim: false
        }]
    );
}

#[test]
fn a_rollback_without_an_answer_is_cut_at_its_deadline() {
    let mut rig = leased();
    rig.returned(0, ReturnReason::Dirty).unwrap();
    rig.actions();
    assert_eq!(rig.sleeps_for(), Some(5 * SECOND));
    assert_eq!(rig.tick_after(4_999 * MS), []);
    assert_eq!(rig.tick_after(MS), [abort(false)]);
    // given the rollback's end after that, it is too late
    rig.planner.cleaned(0, true, &rig.view, rig.now).unwrap();
    assert_eq!((rig.actions(), state(&rig)), (vec![], SlotState::Closing));
}

#[test]
fn a_close_that_takes_too_long_is_cut_once() {
    let mut rig = leased();
    rig.returned(0, ReturnReason::Discarded).unwrap();
    rig.actions();
    assert_eq!(rig.tick_after(5 * SECOND), [abort(false)]);
    assert_eq!(rig.tick_after(5 * SECOND), []);
    rig.planner.socket_closed(0, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [OPEN]);
}

#[test]
fn a_connection_busy_for_too_long_is_cancelled_and_then_released() {
    let mut rig = leased();
    rig.park(0);
    assert_eq!(rig.sleeps_for(), Some(SECOND));
    assert_eq!(rig.tick_after(SECOND), [CANCEL]);
    rig.set(0, Owner::Keeper);
    rig.planner.cleaned(0, true, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [RELEASE]);
}

#[test]
fn a_transaction_found_after_the_cancel_has_what_is_left_of_the_first_deadline() {
    let mut rig = leased();
    rig.park(0);
    rig.tick_after(SECOND);
    rig.now += 3 * SECOND;
    rig.returned(0, ReturnReason::Dirty).unwrap();
    assert_eq!(rig.actions(), [ROLLBACK]);
    assert_eq!(rig.tick_after(SECOND), [abort(false)]);
}

#[test]
fn a_cancel_that_does_not_help_ends_in_a_cut() {
    let mut rig = leased();
    rig.park(0);
    assert_eq!(rig.tick_after(SECOND), [CANCEL]);
    rig.set(0, Owner::Keeper);
    assert_eq!(rig.tick_after(4 * SECOND), [abort(false)]);
}

#[test]
fn a_connection_released_in_time_is_neither_cancelled_nor_cut() {
    for owner in [Owner::Idle, Owner::Leased] {
        let mut rig = leased();
        rig.park(0);
        rig.set(0, owner);
        assert_eq!(rig.tick_after(6 * SECOND), [], "{owner:?}");
    }
}

#[test]
fn a_late_word_of_a_parking_that_is_over_changes_nothing() {
    for owner in [Owner::Idle, Owner::Leased] {
        let mut rig = leased();
        rig.set(0, owner);
        rig.planner.parked(0, &rig.view, rig.now);
        assert_eq!(rig.tick_after(6 * SECOND), []);
    }
}

#[test]
fn a_second_parking_has_its_own_time() {
    let mut rig = leased();
    rig.park(0);
    rig.now += 900 * MS;
    rig.park(0);
    assert_eq!(rig.tick_after(100 * MS), []);
    assert_eq!(rig.tick_after(900 * MS), [CANCEL]);
}

#[test]
fn a_driver_faster_than_the_cancel_or_the_cut_keeps_its_connection() {
    for (cancel_after, after, action) in [(SECOND, SECOND, CANCEL), (60 * SECOND, 5 * SECOND, abort(true))] {
        let options = PlannerOptions {
            return_cancel_after: cancel_after,
            rebalance_interval: 60 * SECOND,
            ..options(1)
        };
        let mut rig = Rig::full(options, &["a"]);
        rig.park(0);
        assert_eq!(rig.tick_after(after), [action]);
        rig.set(0, Owner::Idle);
        rig.planner.claim_failed(0, &rig.view, rig.now).unwrap();
        assert_eq!((rig.actions(), state(&rig)), (vec![], SlotState::Live));
        assert_eq!(rig.tick_after(10 * SECOND), []);
    }
}

/// Why an idle connection was to be closed, and whether it is marked when a caller got it first.
#[test]
fn an_idle_connection_that_somebody_got_first_is_marked_if_it_still_has_to_go() {
    type Cause = fn(&mut Rig) -> Vec<Action>;
    let table: [(CloseReason, Cause, bool); 6] = [
        (CloseReason::Expired, |rig| rig.tick_after(600 * SECOND), true),
        (CloseReason::IdleTimeout, |rig| rig.tick_after(60 * SECOND), false),
        (
            CloseReason::Stray,
            |rig| rig.rebalance(&snapshot(&["b"], &["b"], &[("a", 1)])),
            true,
        ),
        (
            CloseReason::Spread,
            |rig| rig.rebalance(&snapshot(&["a", "b"], &["a", "b"], &[("a", 2)])),
            false,
        ),
        (
            CloseReason::Ordered,
            |rig| {
                rig.planner.retire_all(&rig.view, rig.now);
                rig.actions()
            },
            true,
        ),
        (
            CloseReason::Shutdown,
            |rig| {
                rig.planner.shutdown(&rig.view, rig.now);
                rig.actions()
            },
            true,
        ),
    ];
    for (why, cause, marked) in table {
        let mut options = PlannerOptions {
            min_idle: 0,
            rebalance_interval: 6_000 * SECOND,
            ..options(1)
        };
        options.idle_timeout = (why == CloseReason::IdleTimeout).then_some(60 * SECOND);
        let mut rig = Rig::started(options);
        rig.view.waiting = 1;
        rig.planner.demand(&rig.view, rig.now);
        rig.view.waiting = 0;
        rig.actions();
        rig.open(0, "a", 0);
        rig.actions();
        assert_eq!(
            cause(&mut rig),
            [Action::Close {
                slot: 0,
                why,
                claim: true
            }]
        );
        rig.set(0, Owner::Leased);
        rig.planner.claim_failed(0, &rig.view, rig.now).unwrap();
        let expected = if marked {
            vec![Action::Retire { slot: 0 }]
        } else {
            vec![]
        };
        assert_eq!(rig.actions(), expected, "{why:?}");
        assert_eq!(rig.planner.slot_info(0).unwrap().draining, marked.then_some(why));
    }
}

#[test]
fn a_failed_claim_that_nobody_asked_for_is_odd() {
    let mut rig = leased();
    assert!(rig.planner.claim_failed(0, &rig.view, rig.now).is_err());
    rig.returned(0, ReturnReason::Discarded).unwrap();
    assert!(rig.planner.claim_failed(0, &rig.view, rig.now).is_err());
}

#[test]
fn the_death_of_a_leased_connection_is_only_news_until_it_comes_back() {
    let mut rig = leased();
    rig.planner.died(0, false, &rig.view, rig.now).unwrap();
    assert_eq!((rig.actions(), state(&rig)), (vec![], SlotState::Live));
    rig.returned(0, ReturnReason::Closed).unwrap();
    assert_eq!(rig.actions(), [OPEN]);
}

#[test]
fn a_connection_that_ends_while_it_settles_or_closes_leaves_an_empty_slot() {
    for why in [ReturnReason::Dirty, ReturnReason::Discarded] {
        let mut rig = leased();
        rig.returned(0, why).unwrap();
        rig.actions();
        rig.planner.died(0, true, &rig.view, rig.now).unwrap();
        assert_eq!(rig.actions(), [OPEN], "{why:?}");
    }
}
