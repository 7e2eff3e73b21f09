//! When connections are opened, how many at once, and what a failed open leads to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use pgsteer_core::pool::planner::{Action, OpenFailure, PlannerOptions, PoolView, ReturnReason, SlotState};

use planner_world::rig::Rig;
use planner_world::{MS, Owner, SECOND, host, options};

fn fail(rig: &mut Rig, slot: u32, why: OpenFailure) -> Vec<Action> {
    rig.planner.open_failed(slot, why, &rig.view, rig.now).unwrap();
    rig.actions()
}

#[test]
fn nothing_is_opened_before_the_start() {
    let mut rig = Rig::started(options(2));
    let mut planner = pgsteer_core::pool::planner::Planner::new(options(2));
    planner.demand(&rig.view, rig.now);
    assert_eq!((planner.next_action(), planner.next_wake()), (None, None));
    assert_eq!(rig.opened_for(), [0]);
}

fn with_looks_only_when_told(size: u32) -> PlannerOptions {
    PlannerOptions {
        rebalance_interval: 600 * SECOND,
        max_lifetime: None,
        ..options(size)
    }
}

/// Until a login has succeeded the password may be wrong, and a crowd of refused logins locks accounts out.
#[test]
fn the_first_connection_is_opened_alone_and_all_others_as_soon_as_it_is_open() {
    let mut rig = Rig::started(options(4));
    assert_eq!(rig.opened_for(), [0]);
    rig.view.waiting = 4;
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.tick_after(499 * MS), [], "whatever happens meanwhile");
    rig.open(0, "a", 0);
    assert_eq!(rig.opened_for(), [1, 2, 3]);
}

/// How the first opener fails, and how long filling then rests, twice. One opener goes on, at its own pace.
#[test]
fn a_first_connection_that_fails_was_the_only_one_and_so_is_the_next() {
    let table = [
        (OpenFailure::Login, [SECOND, 2 * SECOND]),
        (OpenFailure::Hosts, [SECOND, SECOND]),
        (OpenFailure::Refused, [SECOND, SECOND]),
    ];
    for (why, rests) in table {
        let mut rig = Rig::started(with_looks_only_when_told(4));
        assert_eq!(rig.opened_for(), [0]);
        for rest in rests {
            assert_eq!(fail(&mut rig, 0, why), [], "{why:?}");
            assert_eq!(rig.sleeps_for(), Some(rest), "{why:?}");
            assert_eq!(rig.tick_after(rest).len(), 1, "{why:?}");
        }
        assert_eq!(rig.tick_after(10 * SECOND), [], "nobody joins it: {why:?}");
        rig.open(0, "a", 0);
        assert_eq!(rig.opened_for(), [1, 2, 3], "{why:?}");
    }
}

#[test]
fn a_first_connection_that_takes_longer_than_half_a_second_is_joined_by_the_others() {
    let mut rig = Rig::started(with_looks_only_when_told(4));
    assert_eq!(rig.opened_for(), [0]);
    assert_eq!(rig.sleeps_for(), Some(500 * MS));
    rig.tick_after(500 * MS);
    assert_eq!(rig.planner.stats(&rig.view).opening, 4);
    assert_eq!(
        rig.sleeps_for(),
        Some(599_500 * MS),
        "once is enough: the look at the hosts is next"
    );
}

/// An elastic pool without a floor opens nothing at its start: what counts is when the first opener begins.
#[test]
fn the_first_opener_has_its_half_second_whenever_it_begins() {
    let mut rig = Rig::started(PlannerOptions {
        min_idle: 0,
        ..with_looks_only_when_told(4)
    });
    assert_eq!(rig.tick_after(10 * SECOND), []);
    rig.view.waiting = 4;
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.opened_for(), [0]);
    assert_eq!(rig.sleeps_for(), Some(500 * MS));
    assert_eq!(rig.tick_after(500 * MS).len(), 3);
}

/// Neither an opener that vanished nor a hook that failed gave a connection: the next one is alone as well.
#[test]
fn a_first_opener_without_an_outcome_is_followed_by_one_that_is_alone_too() {
    let mut rig = Rig::started(options(4));
    rig.actions();
    rig.planner.open_vanished(0, &rig.view, rig.now).unwrap();
    assert_eq!(rig.tick_after(SECOND).len(), 1);
    rig.planner.hook_failed(0, host("a"), &rig.view, rig.now).unwrap();
    assert_eq!(rig.opened_for(), [0]);
    assert_eq!(rig.tick_after(499 * MS), []);
    assert_eq!(rig.tick_after(MS).len(), 3);
}

#[test]
fn a_running_pool_told_to_replace_everything_opens_all_at_once() {
    let mut rig = Rig::full(options(4), &["a", "a", "a", "a"]);
    rig.planner.retire_all(&rig.view, rig.now);
    rig.actions();
    for slot in 0..4 {
        rig.set(slot, Owner::Keeper);
        rig.planner.socket_closed(slot, &rig.view, rig.now).unwrap();
    }
    assert_eq!(rig.opened_for(), [0, 1, 2, 3]);
}

#[test]
fn a_pool_opens_no_more_at_once_than_it_may_dial_and_goes_on_as_they_open() {
    let mut rig = Rig::opening(PlannerOptions {
        max_dials: 2,
        ..options(5)
    });
    assert_eq!(rig.opened_for(), [0, 1]);
    rig.open(1, "a", 0);
    assert_eq!(rig.opened_for(), [2]);
}

/// (floor, idle, leased, waiting) and how many are then opened in a pool of eight.
#[test]
fn an_elastic_pool_keeps_its_floor_idle_and_opens_for_those_who_wait() {
    let table = [
        ((0, 0, 0, 0), 0),
        ((2, 0, 0, 0), 2),
        ((2, 2, 0, 0), 0),
        ((2, 2, 3, 0), 0),
        ((2, 1, 3, 0), 1),
        ((2, 0, 3, 0), 2),
        ((2, 0, 3, 4), 4),
        ((0, 0, 3, 4), 4),
        ((0, 0, 3, 9), 5),
        ((4, 0, 6, 0), 2),
        ((2, 0, 8, 3), 0),
        ((8, 1, 1, 0), 6),
        ((20, 0, 0, 0), 8),
    ];
    for ((floor, idle, leased, waiting), opened) in table {
        // given that many connections
        let mut rig = Rig::started(PlannerOptions {
            min_idle: floor,
            ..options(8)
        });
        rig.view.waiting = 8;
        rig.planner.demand(&rig.view, rig.now);
        rig.let_others_join();
        for slot in 0..idle + leased {
            rig.open(slot, "a", 0);
            rig.set(slot, if slot < idle { Owner::Idle } else { Owner::Leased });
        }
        for slot in idle + leased..8 {
            rig.planner.open_vanished(slot, &rig.view, rig.now).unwrap();
        }
        rig.actions();
        // when the rest is over
        rig.view.waiting = waiting;
        let mut opens = rig.tick_after(SECOND).len();
        // The first of all is alone at the beginning.
        opens += rig.tick_after(500 * MS).len();
        assert_eq!(
            opens, opened,
            "floor {floor}, {idle} idle, {leased} leased, {waiting} waiting"
        );
    }
}

#[test]
fn a_connection_that_opens_in_an_elastic_pool_does_not_bring_another() {
    let mut rig = Rig::started(PlannerOptions {
        min_idle: 1,
        ..options(4)
    });
    assert_eq!(rig.opened_for(), [0]);
    rig.open(0, "a", 0);
    assert_eq!(rig.actions(), [Action::Release { slot: 0 }]);
    rig.set(0, Owner::Leased);
    rig.returned(0, ReturnReason::Dirty).unwrap();
    assert_eq!(rig.actions(), [Action::Rollback { slot: 0 }]);
    rig.planner.cleaned(0, true, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [Action::Release { slot: 0 }]);
}

#[test]
fn a_parked_connection_is_expected_back_so_nothing_is_opened_for_its_next_user() {
    let mut rig = Rig::started(PlannerOptions {
        min_idle: 0,
        ..options(2)
    });
    rig.view.waiting = 1;
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.opened_for(), [0]);
    rig.open(0, "a", 0);
    rig.actions();
    rig.park(0);
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.actions(), []);
}

#[test]
fn after_a_failed_open_nothing_is_opened_for_a_second_whatever_happens() {
    let mut rig = Rig::full(options(3), &["a", "a", "a"]);
    rig.returned(0, ReturnReason::Detached).unwrap();
    assert_eq!(rig.opened_for(), [0]);
    assert_eq!(fail(&mut rig, 0, OpenFailure::Hosts), []);
    rig.returned(1, ReturnReason::Detached).unwrap();
    rig.planner.demand(&rig.view, rig.now);
    assert_eq!(rig.actions(), []);
    assert_eq!(rig.tick_after(999 * MS), []);
    assert_eq!(rig.tick_after(MS).len(), 1);
}

/// A failed open has tried every host: a crowd of openers would learn no more, and meet the first server to come back.
#[test]
fn after_a_failed_open_one_opener_tries_until_it_succeeds_and_then_all_do() {
    for why in [OpenFailure::Hosts, OpenFailure::Refused] {
        let mut rig = Rig::opening(options(4));
        assert_eq!(rig.opened_for(), [0, 1, 2, 3]);
        for slot in 0..4 {
            fail(&mut rig, slot, why);
        }
        for _ in 0..3 {
            assert_eq!(rig.tick_after(SECOND).len(), 1, "{why:?}");
            assert_eq!(fail(&mut rig, 0, why), []);
        }
        assert_eq!(rig.tick_after(SECOND).len(), 1);
        rig.open(0, "a", 0);
        assert_eq!(rig.opened_for(), [1, 2, 3], "{why:?}");
    }
}

/// What else there is, how the open fails, and whether waiters then fail.
#[test]
fn waiters_fail_only_if_nothing_can_come_or_the_login_was_refused() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Other {
        Nothing,
        Leased,
        Parked,
        Settling,
        Opening,
        Closing,
    }
    let table = [
        (Other::Nothing, OpenFailure::Hosts, true),
        (Other::Nothing, OpenFailure::Refused, true),
        (Other::Nothing, OpenFailure::Login, true),
        (Other::Leased, OpenFailure::Hosts, false),
        (Other::Leased, OpenFailure::Refused, false),
        (Other::Leased, OpenFailure::Login, true),
        (Other::Parked, OpenFailure::Hosts, false),
        (Other::Settling, OpenFailure::Hosts, false),
        (Other::Opening, OpenFailure::Hosts, false),
        (Other::Opening, OpenFailure::Login, true),
        (Other::Closing, OpenFailure::Hosts, true),
    ];
    for (other, why, fails) in table {
        let mut rig = Rig::opening(options(2));
        if other != Other::Opening && other != Other::Nothing {
            rig.open(1, "a", 0);
        }
        match other {
            Other::Nothing => rig.planner.open_vanished(1, &rig.view, rig.now).unwrap(),
            Other::Leased => rig.set(1, Owner::Leased),
            Other::Parked => rig.park(1),
            Other::Settling => rig.returned(1, ReturnReason::Dirty).unwrap(),
            Other::Closing => rig.returned(1, ReturnReason::Discarded).unwrap(),
            Other::Opening => {}
        }
        rig.view.waiting = 1;
        rig.actions();
        let failed = fail(&mut rig, 0, why).contains(&Action::FailWaiters);
        assert_eq!(failed, fails, "beside {other:?}, failing by {why:?}");
    }
}

#[test]
fn an_opener_that_vanished_frees_its_slot_and_fails_nobody() {
    let mut rig = Rig::started(options(1));
    rig.view.waiting = 1;
    rig.actions();
    rig.planner.open_vanished(0, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), []);
    assert_eq!(
        rig.sleeps_for(),
        Some(100 * MS),
        "the look at the hosts comes first"
    );
    assert_eq!(
        rig.tick_after(SECOND),
        [Action::Open {
            slot: 0,
            avoid: vec![]
        }]
    );
}

#[test]
fn refused_logins_of_one_round_double_the_rest_only_once() {
    let mut rig = Rig::opening(options(3));
    rig.actions();
    for slot in 0..3 {
        fail(&mut rig, slot, OpenFailure::Login);
    }
    assert_eq!(rig.planner.login_back_off(), Some(SECOND));
    assert_eq!(
        rig.tick_after(SECOND).len(),
        1,
        "one opener while logins are refused"
    );
    fail(&mut rig, 0, OpenFailure::Login);
    assert_eq!(rig.planner.login_back_off(), Some(2 * SECOND));
    assert_eq!(rig.tick_after(1_999 * MS), []);
    assert_eq!(rig.tick_after(MS).len(), 1);
    // given that it succeeds, all are opened again
    rig.open(0, "a", 0);
    assert_eq!(rig.planner.login_back_off(), None);
    assert_eq!(rig.opened_for(), [1, 2]);
}

#[test]
fn a_hook_failure_is_replaced_at_once_elsewhere_though_filling_rests() {
    let mut rig = Rig::opening(options(2));
    rig.actions();
    fail(&mut rig, 0, OpenFailure::Hosts);
    rig.view.waiting = 1;
    rig.planner.hook_failed(1, host("a"), &rig.view, rig.now).unwrap();
    assert_eq!(
        rig.actions(),
        [Action::Open {
            slot: 1,
            avoid: vec![host("a")]
        }]
    );
    // given nothing but the avoided host, it is a failed open
    rig.planner.hook_failed(1, host("a"), &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [Action::FailWaiters]);
}

#[test]
fn a_host_is_kept_off_until_its_time_is_over_or_its_hook_passes() {
    let mut rig = Rig::opening(PlannerOptions {
        hook_keep_off: 3 * SECOND,
        ..options(3)
    });
    rig.actions();
    rig.planner.hook_failed(0, host("a"), &rig.view, rig.now).unwrap();
    rig.planner.hook_failed(1, host("b"), &rig.view, rig.now).unwrap();
    rig.actions();
    rig.open(0, "b", 0);
    rig.actions();
    rig.returned(0, ReturnReason::Detached).unwrap();
    assert_eq!(
        rig.actions(),
        [Action::Open {
            slot: 0,
            avoid: vec![host("a")]
        }]
    );
    rig.now += 3 * SECOND;
    rig.open(0, "b", 0);
    rig.returned(0, ReturnReason::Detached).unwrap();
    assert!(rig.actions().contains(&Action::Open {
        slot: 0,
        avoid: vec![]
    }));
}

#[test]
fn a_server_that_lets_everybody_in_only_to_throw_them_out_is_not_dialled_in_a_circle() {
    let mut rig = Rig::full(options(2), &["a", "a"]);
    let mut dials = 0;
    for _ in 0..20 {
        rig.set(0, Owner::Keeper);
        rig.planner.died(0, true, &rig.view, rig.now).unwrap();
        let opens = rig.opened_for();
        dials += opens.len();
        if opens.is_empty() {
            break;
        }
        rig.open(0, "a", 0);
    }
    assert_eq!(dials, 2, "as many at once as there are slots, then a rest");
    assert_eq!(rig.tick_after(SECOND).len(), 1);
}

#[test]
fn an_application_that_refuses_every_connection_has_no_host_dialled_in_a_circle() {
    let mut rig = Rig::full(options(2), &["a", "a"]);
    let mut dials = 0;
    for _ in 0..20 {
        rig.set(0, Owner::Keeper);
        rig.returned(0, ReturnReason::Refused).unwrap();
        rig.planner.socket_closed(0, &rig.view, rig.now).unwrap();
        let opens = rig.opened_for();
        dials += opens.len();
        if opens.is_empty() {
            break;
        }
        rig.open(0, "a", 0);
    }
    assert_eq!(dials, 2, "as many at once as there are slots, then a rest");
    assert_eq!(rig.tick_after(SECOND).len(), 1);
}

#[test]
fn connections_that_end_after_a_while_are_all_replaced_at_once() {
    let mut rig = Rig::full(options(4), &["a", "a", "a", "a"]);
    rig.now += SECOND;
    for round in 0..2 {
        for slot in 0..4 {
            rig.set(slot, Owner::Keeper);
            rig.planner.died(slot, true, &rig.view, rig.now).unwrap();
        }
        assert_eq!(rig.opened_for(), [0, 1, 2, 3], "round {round}");
        for slot in 0..4 {
            rig.open(slot, "a", 0);
        }
        rig.now += SECOND;
    }
}

#[test]
fn a_full_fixed_pool_is_woken_only_by_its_looks_and_the_end_of_a_life() {
    let long = PlannerOptions {
        rebalance_interval: 50 * SECOND,
        max_lifetime: Some(60 * SECOND),
        ..options(1)
    };
    let mut rig = Rig::full(long, &["a"]);
    assert_eq!(rig.sleeps_for(), Some(50 * SECOND));
    rig.tick_after(50 * SECOND);
    assert_eq!(rig.sleeps_for(), Some(10 * SECOND));
}

#[test]
fn an_elastic_pool_looks_after_its_floor_each_second_until_it_is_full() {
    let mut rig = Rig::started(PlannerOptions {
        min_idle: 1,
        rebalance_interval: 50 * SECOND,
        ..options(2)
    });
    rig.actions();
    rig.open(0, "a", 0);
    rig.actions();
    assert_eq!(rig.sleeps_for(), Some(SECOND));
    rig.set(0, Owner::Leased);
    assert_eq!(
        rig.tick_after(SECOND),
        [Action::Open {
            slot: 1,
            avoid: vec![]
        }]
    );
    rig.open(1, "a", 0);
    assert_eq!(rig.sleeps_for(), Some(49 * SECOND));
}

#[test]
fn events_that_make_no_sense_are_ignored_and_told() {
    type Event = fn(&mut Rig, u32) -> Option<&'static str>;
    let events: [(&str, Event, &[SlotState]); 8] = [
        (
            "opened",
            |rig, slot| {
                rig.planner
                    .opened(slot, host("a"), None, 0, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Opening],
        ),
        (
            "open_failed",
            |rig, slot| {
                rig.planner
                    .open_failed(slot, OpenFailure::Hosts, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Opening],
        ),
        (
            "hook_failed",
            |rig, slot| {
                rig.planner
                    .hook_failed(slot, host("a"), &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Opening],
        ),
        (
            "open_vanished",
            |rig, slot| {
                rig.planner
                    .open_vanished(slot, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Opening],
        ),
        (
            "returned",
            |rig, slot| {
                let why = ReturnReason::Closed;
                rig.planner
                    .returned(slot, why, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Live, SlotState::Settling],
        ),
        (
            "cleaned",
            |rig, slot| {
                rig.planner
                    .cleaned(slot, true, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Settling, SlotState::Closing],
        ),
        (
            "socket_closed",
            |rig, slot| {
                rig.planner
                    .socket_closed(slot, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Closing],
        ),
        (
            "died",
            |rig, slot| {
                rig.planner
                    .died(slot, true, &rig.view, rig.now)
                    .err()
                    .map(|odd| odd.event)
            },
            &[SlotState::Live, SlotState::Settling, SlotState::Closing],
        ),
    ];
    for (name, event, sensible) in events {
        for slot in 0..6 {
            // given one slot in each state: empty, opening, live, settling, closing, and one that does not exist
            let mut rig = Rig::opening(options(5));
            for live in 2..5 {
                rig.open(live, "a", 0);
            }
            rig.set(2, Owner::Leased);
            rig.returned(3, ReturnReason::Dirty).unwrap();
            rig.returned(4, ReturnReason::Discarded).unwrap();
            rig.planner.open_vanished(0, &rig.view, rig.now).unwrap();
            rig.actions();
            let before = rig.planner.slot_info(slot);
            let state = before.as_ref().map_or(SlotState::Unknown, |info| info.state);
            let oddity = event(&mut rig, slot);
            if sensible.contains(&state) {
                assert_eq!(oddity, None, "{name} while {state}");
            } else {
                assert_eq!(oddity, Some(name), "{name} while {state}");
                assert_eq!(
                    rig.planner.slot_info(slot),
                    before,
                    "{name} while {state} changes nothing"
                );
                assert_eq!(rig.actions(), [], "{name} while {state} does nothing");
            }
        }
    }
}

#[test]
fn the_numbers_add_up_in_every_state() {
    let mut rig = Rig::opening(options(6));
    for slot in 1..6 {
        rig.open(slot, if slot % 2 == 0 { "a" } else { "b" }, 0);
    }
    rig.set(2, Owner::Leased);
    rig.park(3);
    rig.returned(4, ReturnReason::Dirty).unwrap();
    rig.returned(5, ReturnReason::Discarded).unwrap();
    rig.view.waiting = 7;
    let stats = rig.planner.stats(&rig.view);
    assert_eq!(
        (stats.size, stats.opening, stats.idle, stats.leased),
        (6, 1, 1, 1)
    );
    assert_eq!(
        (stats.settling, stats.closing, stats.waiting, stats.draining),
        (2, 1, 7, 0)
    );
    assert_eq!(stats.by_host, [(host("a"), 2), (host("b"), 2)].into());
    assert_eq!(rig.view.idle(), 1);
}
