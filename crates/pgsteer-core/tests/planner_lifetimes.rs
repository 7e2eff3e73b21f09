//! The end of a connection: age, idleness, orders, and the end of the pool.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::Duration;

use pgsteer_core::pool::planner::{Action, CloseReason, PlannerOptions, ReturnReason};

use planner_world::rig::Rig;
use planner_world::{MS, Owner, SECOND, host, options};

fn closed(actions: &[Action], reason: CloseReason) -> Vec<u32> {
    let slots = actions.iter().filter_map(|action| match action {
        Action::Close { slot, why, .. } if *why == reason => Some(*slot),
        _ => None,
    });
    slots.collect()
}

fn quiet(size: u32) -> PlannerOptions {
    PlannerOptions {
        rebalance_interval: 6_000 * SECOND,
        ..options(size)
    }
}

#[test]
fn jitter_lengthens_a_life_by_nothing_to_its_bound_and_is_drawn_once() {
    let bound = Duration::from_nanos(9);
    let table = [(0, 0), (9, 9), (10, 0), (u64::MAX, u64::MAX % 10)];
    for (draw, extra) in table {
        let mut rig = Rig::started(PlannerOptions {
            lifetime_jitter: bound,
            ..quiet(1)
        });
        rig.open(0, "a", draw);
        let end = rig.now + 600 * SECOND + Duration::from_nanos(extra);
        assert_eq!(
            rig.planner.slot_info(0).unwrap().expires_at,
            Some(end),
            "draw {draw}"
        );
        rig.tick_after(SECOND);
        assert_eq!(rig.planner.slot_info(0).unwrap().expires_at, Some(end), "later");
    }
}

#[test]
fn without_a_lifetime_a_connection_has_no_end() {
    let rig = Rig::full(
        PlannerOptions {
            max_lifetime: None,
            ..quiet(1)
        },
        &["a"],
    );
    assert_eq!(rig.planner.slot_info(0).unwrap().expires_at, None);
    assert_eq!(rig.sleeps_for(), Some(6_000 * SECOND));
}

#[test]
fn at_the_end_of_its_life_an_idle_connection_is_closed_and_a_leased_one_marked() {
    let mut rig = Rig::full(quiet(3), &["a", "a", "a"]);
    rig.set(1, Owner::Leased);
    rig.park(2);
    rig.set(2, Owner::Leased);
    rig.tick();
    rig.actions();
    let actions = rig.tick_after(600 * SECOND);
    assert_eq!(closed(&actions, CloseReason::Expired), [0]);
    assert!(actions.contains(&Action::Retire { slot: 1 }) && actions.contains(&Action::Retire { slot: 2 }));
    // given no change, it is said once
    assert_eq!(rig.tick_after(SECOND), []);
}

#[test]
fn a_marked_connection_that_slipped_back_is_closed_a_little_later() {
    let mut rig = Rig::full(quiet(1), &["a"]);
    rig.set(0, Owner::Leased);
    rig.tick_after(600 * SECOND);
    rig.set(0, Owner::Idle);
    assert_eq!(rig.sleeps_for(), Some(SECOND));
    assert_eq!(
        rig.tick_after(SECOND),
        [Action::Close {
            slot: 0,
            why: CloseReason::Expired,
            claim: true
        }]
    );
}

#[test]
fn lives_that_end_shortly_after_each_other_cost_one_wake_up_a_second() {
    let mut rig = Rig::started(PlannerOptions {
        rebalance_batch: 4,
        ..quiet(8)
    });
    rig.actions();
    for slot in 0..4 {
        rig.open(slot, "a", 0);
        rig.now += 10 * MS;
    }
    rig.actions();
    // An opening only says that there is one more; the next tick works out what that means.
    rig.tick();
    rig.now = rig.planner.next_wake().unwrap();
    assert_eq!(closed(&rig.tick(), CloseReason::Expired), [0]);
    rig.set(0, Owner::Keeper);
    assert_eq!(rig.sleeps_for(), Some(SECOND));
    assert_eq!(closed(&rig.tick_after(SECOND), CloseReason::Expired), [1, 2, 3]);
}

/// Seconds of life, and how many seconds before that the lives of ten connections end, two a second being replaced.
#[test]
fn lives_that_end_together_end_a_batch_a_second_by_a_tenth_at_most_and_none_too_late() {
    let table = [
        (600, [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]),
        (20, [2, 2, 1, 1, 0, 0, 0, 0, 0, 0]),
    ];
    for (life, expected) in table {
        let life = life * SECOND;
        let mut rig = Rig::full(
            PlannerOptions {
                max_lifetime: Some(life),
                ..quiet(10)
            },
            &["a"; 10],
        );
        let end = rig.now + life;
        let mut ended = Vec::new();
        while ended.len() < 10 {
            rig.now = rig.planner.next_wake().unwrap();
            let slots = closed(&rig.tick(), CloseReason::Expired);
            for slot in &slots {
                rig.set(*slot, Owner::Keeper);
                rig.planner.socket_closed(*slot, &rig.view, rig.now).unwrap();
                rig.open(*slot, "a", 0);
            }
            rig.actions();
            ended.extend(slots.iter().map(|_| (end - rig.now).as_secs()));
        }
        assert_eq!(ended, expected, "a life of {life:?}");
    }
}

#[test]
fn no_life_ends_early_while_opens_fail() {
    let mut rig = Rig::full(quiet(10), &["a"; 10]);
    rig.now += 596 * SECOND;
    rig.set(9, Owner::Keeper);
    rig.planner.died(9, true, &rig.view, rig.now).unwrap();
    rig.planner.open_vanished(9, &rig.view, rig.now).unwrap();
    rig.actions();
    assert_eq!(rig.tick(), []);
}

/// Floor, seconds each of four connections was unused for, and which are closed with a timeout of ten.
#[test]
fn idle_connections_above_the_floor_are_closed_when_unused_for_long_enough() {
    let table: [(u32, [u64; 4], &[u32]); 6] = [
        (0, [20, 20, 20, 20], &[3, 2, 1, 0]),
        (1, [20, 20, 20, 20], &[3, 2, 1]),
        (3, [20, 20, 20, 20], &[3]),
        (4, [20, 20, 20, 20], &[]),
        (1, [20, 5, 20, 5], &[2, 0]),
        (3, [20, 5, 5, 5], &[0]),
    ];
    for (floor, unused, expected) in table {
        let mut rig = Rig::started(PlannerOptions {
            min_idle: 4,
            ..quiet(4)
        });
        rig.actions();
        let options = PlannerOptions {
            min_idle: floor,
            idle_timeout: Some(10 * SECOND),
            ..quiet(4)
        };
        let mut elastic = Rig::started(options);
        elastic.view.waiting = 4;
        elastic.planner.demand(&elastic.view, elastic.now);
        elastic.let_others_join();
        elastic.view.waiting = 0;
        for slot in 0..4 {
            elastic.open(slot, "a", 0);
        }
        elastic.actions();
        // when each is used until so long ago, the planner looking each second
        let mut actions = Vec::new();
        for second in 1..=20 {
            for (slot, unused) in (0u32..).zip(unused) {
                elastic.view.places[slot as usize].uses += u64::from(second <= 20 - unused);
            }
            actions.extend(elastic.tick_after(SECOND));
            for slot in closed(&actions, CloseReason::IdleTimeout) {
                elastic.set(slot, Owner::Keeper);
            }
        }
        assert_eq!(
            closed(&actions, CloseReason::IdleTimeout),
            expected,
            "floor {floor}, unused {unused:?}"
        );
    }
}

#[test]
fn a_connection_that_is_leased_all_the_time_is_in_use() {
    let options = PlannerOptions {
        min_idle: 0,
        idle_timeout: Some(10 * SECOND),
        ..quiet(1)
    };
    let mut rig = Rig::started(options);
    rig.view.waiting = 1;
    rig.planner.demand(&rig.view, rig.now);
    rig.view.waiting = 0;
    rig.open(0, "a", 0);
    rig.set(0, Owner::Leased);
    rig.actions();
    assert_eq!(rig.tick_after(15 * SECOND), []);
    rig.set(0, Owner::Idle);
    assert_eq!(rig.tick_after(9 * SECOND), []);
    assert_eq!(closed(&rig.tick_after(SECOND), CloseReason::IdleTimeout), [0]);
}

#[test]
fn when_all_are_told_to_go_idle_ones_go_now_leased_ones_later_and_those_opening_when_open() {
    let mut rig = Rig::full(quiet(3), &["a", "b", "a"]);
    rig.returned(2, ReturnReason::Detached).unwrap();
    rig.set(1, Owner::Leased);
    rig.actions();
    rig.planner.retire_all(&rig.view, rig.now);
    let ordered = |slot, claim| Action::Close {
        slot,
        why: CloseReason::Ordered,
        claim,
    };
    assert_eq!(rig.actions(), [ordered(0, true), Action::Retire { slot: 1 }]);
    rig.open(2, "a", 0);
    assert_eq!(rig.actions(), [ordered(2, false)]);
    rig.returned(1, ReturnReason::Retired).unwrap();
    assert_eq!(rig.actions(), [ordered(1, false)]);
}

#[test]
fn when_a_host_is_told_to_go_the_others_stay() {
    let mut rig = Rig::full(quiet(3), &["a", "b", "a"]);
    rig.set(2, Owner::Leased);
    rig.actions();
    rig.planner.retire_host(&host("a"), &rig.view, rig.now);
    let close = Action::Close {
        slot: 0,
        why: CloseReason::Ordered,
        claim: true,
    };
    assert_eq!(rig.actions(), [close, Action::Retire { slot: 2 }]);
}

#[test]
fn a_pool_that_ends_opens_nothing_and_closes_what_comes_back() {
    let mut rig = Rig::full(quiet(4), &["a", "a", "a", "a"]);
    rig.returned(3, ReturnReason::Detached).unwrap();
    rig.set(1, Owner::Leased);
    rig.returned(2, ReturnReason::Dirty).unwrap();
    rig.actions();
    rig.planner.shutdown(&rig.view, rig.now);
    let shut = |slot, claim| Action::Close {
        slot,
        why: CloseReason::Shutdown,
        claim,
    };
    assert_eq!(rig.actions(), [shut(0, true), Action::Retire { slot: 1 }]);
    rig.planner.cleaned(2, true, &rig.view, rig.now).unwrap();
    rig.returned(1, ReturnReason::Retired).unwrap();
    rig.open(3, "a", 0);
    assert_eq!(rig.actions(), [shut(2, false), shut(1, false), shut(3, false)]);
    for slot in 0..4 {
        assert!(!rig.planner.is_drained());
        rig.planner.socket_closed(slot, &rig.view, rig.now).unwrap();
    }
    assert_eq!(
        (rig.actions(), rig.planner.is_drained(), rig.sleeps_for()),
        (vec![], true, None)
    );
}
