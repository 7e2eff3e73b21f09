//! What the planner does while no host fits or none is ready, and when a host turns out to be something else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::net::IpAddr;
use std::time::Duration;

use pgsteer_core::hosts::Snapshot;
use pgsteer_core::pool::planner::{Action, CloseReason, OpenFailure, PlannerOptions, ReturnReason};

use planner_world::rig::{Rig, snapshot};
use planner_world::{MS, Owner, SECOND, host, options};

use OpenFailure::{Hosts, Login, NoFit, NotReady, Refused};

fn quiet(size: u32) -> PlannerOptions {
    PlannerOptions {
        rebalance_interval: 6_000 * SECOND,
        max_lifetime: None,
        ..options(size)
    }
}

fn fail(rig: &mut Rig, slot: u32, why: OpenFailure) -> Vec<Action> {
    rig.planner.open_failed(slot, why, &rig.view, rig.now).unwrap();
    rig.actions()
}

fn change(rig: &mut Rig, snapshot: &Snapshot) -> Vec<Action> {
    rig.planner.cluster_changed(snapshot, &rig.view, rig.now);
    rig.actions()
}

/// A snapshot in which a and b are allowed, and this is known to be unfit.
fn unfit(names: &[&str]) -> Snapshot {
    Snapshot {
        unfit: names.iter().map(|name| host(name)).collect(),
        ..snapshot(&["a", "b"], &["a", "b"], &[])
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn each_failure_has_its_own_rest_and_how_it_grows() {
    let millis =
        |rests: &[u64]| -> Vec<Duration> { rests.iter().map(|rest| Duration::from_millis(*rest)).collect() };
    let table = [
        (Hosts, millis(&[1000, 1000, 1000])),
        (Refused, millis(&[1000, 1000])),
        (NoFit, millis(&[250, 500, 1000, 2000, 2000])),
        (NotReady, millis(&[100, 200, 400, 800, 1600, 3200, 5000, 5000])),
        (Login, millis(&[1000, 2000, 4000])),
    ];
    for (why, rests) in table {
        let mut rig = Rig::started(quiet(4));
        assert_eq!(rig.opened_for(), [0]);
        for rest in rests {
            assert_eq!(fail(&mut rig, 0, why), [], "{why:?}");
            assert_eq!(rig.sleeps_for(), Some(rest), "{why:?}");
            assert_eq!(rig.tick_after(rest).len(), 1, "{why:?}: one opener asks again");
        }
        rig.open(0, "a", 0);
        assert_eq!(rig.opened_for(), [1, 2, 3], "{why:?}");
        fail(&mut rig, 1, why);
        let first = rig.sleeps_for();
        assert!(
            first.is_some_and(|rest| rest <= SECOND),
            "it begins anew: {why:?} {first:?}"
        );
    }
}

#[test]
fn a_failure_of_another_kind_begins_its_own_rest_except_that_refused_logins_must_be_accepted_first() {
    // what failed before, what fails then, how long it rests after that
    let table = [
        ([NoFit, NoFit], NotReady, 100 * MS),
        ([NotReady, NotReady], NoFit, 250 * MS),
        ([NoFit, NoFit], Hosts, SECOND),
        ([NoFit, NoFit], Login, SECOND),
        // a host that is not what is wanted let somebody in
        ([Login, Login], NoFit, 250 * MS),
        ([Login, Login], NotReady, 2 * SECOND),
        ([Login, Login], Hosts, 2 * SECOND),
    ];
    for (before, then, rest) in table {
        let mut rig = Rig::started(quiet(2));
        rig.actions();
        for why in before {
            fail(&mut rig, 0, why);
            rig.tick_after(30 * SECOND);
        }
        fail(&mut rig, 0, then);
        assert_eq!(rig.sleeps_for(), Some(rest), "{before:?} {then:?}");
    }
}

#[test]
fn openers_that_find_nothing_in_one_round_double_the_rest_once() {
    let mut rig = Rig::opening(quiet(3));
    rig.actions();
    for slot in 0..3 {
        fail(&mut rig, slot, NoFit);
    }
    assert_eq!(rig.sleeps_for(), Some(250 * MS));
    assert_eq!(rig.tick_after(250 * MS).len(), 1);
    fail(&mut rig, 0, NoFit);
    assert_eq!(rig.sleeps_for(), Some(500 * MS));
}

/// Covers: F-13
#[test]
fn nobody_who_waits_fails_while_a_host_may_fit_or_be_ready_in_a_moment() {
    for (why, fails) in [(NoFit, false), (NotReady, false), (Hosts, true), (Refused, true)] {
        let mut rig = Rig::started(quiet(2));
        rig.actions();
        rig.view.waiting = 3;
        for _ in 0..4 {
            let told = fail(&mut rig, 0, why).contains(&Action::FailWaiters);
            assert_eq!(told, fails, "{why:?}");
            rig.tick_after(5 * SECOND);
        }
    }
}

#[test]
fn a_change_ends_the_rest_of_a_pool_for_which_nothing_fitted_but_no_other() {
    for (why, asks) in [(NoFit, true), (NotReady, true), (Hosts, false), (Login, false)] {
        let mut rig = Rig::started(quiet(2));
        rig.actions();
        for _ in 0..3 {
            fail(&mut rig, 0, why);
            rig.tick_after(5 * SECOND);
        }
        fail(&mut rig, 0, why);
        rig.now += 100 * MS;
        let opens = change(&mut rig, &unfit(&[])).len();
        assert_eq!(opens, usize::from(asks), "{why:?}");
    }
}

#[test]
fn however_much_changes_a_pool_for_which_nothing_fits_asks_no_more_than_ten_times_a_second() {
    let mut rig = Rig::started(quiet(2));
    let mut asked = rig.opened_for().len();
    for _ in 0..1000 {
        if rig.planner.stats(&rig.view).opening > 0 {
            fail(&mut rig, 0, NoFit);
        }
        asked += change(&mut rig, &unfit(&[])).len();
        asked += rig.tick_after(MS).len();
    }
    assert!((9..=11).contains(&asked), "{asked}");
}

#[test]
fn a_change_opens_nothing_beside_the_opener_that_is_asking() {
    let mut rig = Rig::started(quiet(3));
    rig.actions();
    fail(&mut rig, 0, NoFit);
    rig.tick_after(250 * MS);
    assert_eq!(change(&mut rig, &unfit(&[])), []);
}

///
#[test]
fn connections_to_a_host_that_is_not_wanted_go_at_once_and_all_of_them() {
    let close = |slot| Action::Close {
        slot,
        why: CloseReason::Unfit,
        claim: true,
    };
    let hosts = ["a", "a", "a", "a", "b"];
    let mut rig = Rig::full(quiet(5), &hosts);
    for slot in [1, 3] {
        rig.set(slot, Owner::Leased);
    }
    let expected = [
        close(0),
        Action::Retire { slot: 1 },
        close(2),
        Action::Retire { slot: 3 },
    ];
    assert_eq!(change(&mut rig, &unfit(&["a"])), expected, "more than a batch");
    assert_eq!(change(&mut rig, &unfit(&["a"])), [], "nothing twice");
    // it fits again, but who holds one may have seen the server as it was not
    assert_eq!(rig.rebalance(&unfit(&[])), []);
    rig.returned(1, ReturnReason::Retired).unwrap();
    assert_eq!(
        rig.actions(),
        [Action::Close {
            slot: 1,
            why: CloseReason::Unfit,
            claim: false
        }]
    );
}

#[test]
fn a_look_at_the_hosts_retires_what_is_unfit_too_even_where_nothing_is_allowed() {
    let mut rig = Rig::full(quiet(3), &["a", "b", "b"]);
    let nowhere = Snapshot {
        allowed: Vec::new(),
        ..unfit(&["b"])
    };
    let moved = rig.rebalance(&nowhere);
    assert_eq!(moved.len(), 2, "{moved:?}");
}

#[test]
fn a_connection_somebody_took_in_the_moment_its_host_became_unfit_goes_when_it_comes_back() {
    let mut rig = Rig::full(quiet(1), &["a"]);
    change(&mut rig, &unfit(&["a"]));
    rig.set(0, Owner::Leased);
    rig.planner.claim_failed(0, &rig.view, rig.now).unwrap();
    assert_eq!(rig.actions(), [Action::Retire { slot: 0 }]);
}

/// Where the connections to a host go, what its name resolves to now, and which of them are moved.
type Moved<'a> = (&'a [Option<&'a str>], &'a [&'a str], &'a [u32]);

/// Covers: F-19
#[test]
fn a_connection_to_an_address_that_the_name_no_longer_has_is_a_stray() {
    let table: [Moved<'_>; 6] = [
        (
            &[Some("10.0.0.1"), Some("10.0.0.2")],
            &["10.0.0.1", "10.0.0.2"],
            &[],
        ),
        (&[Some("10.0.0.1"), Some("10.0.0.2")], &["10.0.0.2"], &[0]),
        (&[Some("10.0.0.1"), Some("10.0.0.2")], &["10.0.0.3"], &[0, 1]),
        (&[Some("10.0.0.1"), Some("10.0.0.2")], &[], &[]),
        (&[Some("::ffff:10.0.0.1"), None], &["10.0.0.1"], &[]),
        (&[None, None], &["10.0.0.1"], &[]),
    ];
    for (at, now_at, gone) in table {
        let mut rig = Rig::started(quiet(2));
        for to in at {
            for slot in rig.opened_for() {
                let to = to.map(address);
                rig.planner
                    .opened(slot, host("a"), to, 0, &rig.view, rig.now)
                    .unwrap();
                rig.set(slot, Owner::Idle);
            }
        }
        let mut look = snapshot(&["a"], &["a"], &[("a", 2)]);
        look.addresses
            .insert(host("a"), now_at.iter().map(|text| address(text)).collect());
        let moved: Vec<u32> = rig
            .rebalance(&look)
            .iter()
            .filter_map(|action| match action {
                Action::Close {
                    slot,
                    why: CloseReason::Stray,
                    ..
                } => Some(*slot),
                _ => None,
            })
            .collect();
        assert_eq!(moved, gone, "{at:?} {now_at:?}");
    }
}

#[test]
fn a_pool_that_is_shut_down_asks_for_nothing_whatever_changes() {
    let mut rig = Rig::started(quiet(2));
    rig.actions();
    fail(&mut rig, 0, NoFit);
    rig.planner.shutdown(&rig.view, rig.now);
    rig.now += SECOND;
    assert_eq!(change(&mut rig, &unfit(&["a"])), []);
    assert_eq!(rig.planner.next_wake(), None);
}
