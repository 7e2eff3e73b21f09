//! Which connections are moved when the planner looks at where they are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use pgsteer_core::hosts::{FailureKind, Snapshot};
use pgsteer_core::pool::planner::{Action, CloseReason, PlannerOptions, ReturnReason};

use planner_world::rig::{Rig, failed, snapshot};
use planner_world::{Owner, SECOND, host, options};

const fn stray(slot: u32) -> Action {
    Action::Close {
        slot,
        why: CloseReason::Stray,
        claim: true,
    }
}

const fn spread(slot: u32) -> Action {
    Action::Close {
        slot,
        why: CloseReason::Spread,
        claim: true,
    }
}

const fn retire(slot: u32) -> Action {
    Action::Retire { slot }
}

fn pool(hosts: &[&str]) -> Rig {
    let size = u32::try_from(hosts.len()).unwrap();
    Rig::full(
        PlannerOptions {
            rebalance_interval: 6_000 * SECOND,
            ..options(size)
        },
        hosts,
    )
}

fn counted(allowed: &[&str], hosts: &[&str]) -> Snapshot {
    let mut counted = snapshot(allowed, allowed, &[]);
    for name in hosts {
        *counted.counts.entry(host(name)).or_default() += 1;
    }
    counted
}

/// Hosts of the slots, which of them are leased, where connections may stay or go, and what is moved.
type Row<'a> = (&'a [&'a str], &'a [u32], &'a [&'a str], &'a [Action]);

#[test]
fn strays_are_moved_a_batch_at_a_time_idle_ones_first() {
    let table: [Row; 8] = [
        (&["a", "b"], &[], &["a", "b"], &[]),
        (&["a", "b", "c"], &[], &["a", "b"], &[stray(2)]),
        (&["c", "c", "c", "a"], &[], &["a"], &[stray(0), stray(1)]),
        (&["c", "c", "c", "a"], &[0, 1], &["a"], &[stray(2), retire(0)]),
        (&["c", "c", "c", "a"], &[0, 1, 2], &["a"], &[retire(0), retire(1)]),
        (&["c", "c", "a", "a"], &[2, 3], &["a"], &[stray(0), stray(1)]),
        (&["a", "a", "a", "a"], &[], &[], &[]),
        (&["c", "d", "a", "a"], &[0], &["a"], &[stray(1), retire(0)]),
    ];
    for (hosts, leased, allowed, moved) in table {
        let mut rig = pool(hosts);
        for slot in leased {
            rig.set(*slot, Owner::Leased);
        }
        let actions = rig.rebalance(&counted(allowed, hosts));
        assert_eq!(
            actions, moved,
            "{hosts:?}, leased {leased:?}, allowed {allowed:?}"
        );
    }
}

#[test]
fn marks_from_earlier_cost_nothing_and_are_not_set_twice() {
    let hosts = ["c", "c", "c", "c", "c"];
    let mut rig = pool(&hosts);
    for slot in 0..5 {
        rig.set(slot, Owner::Leased);
    }
    let look = counted(&["a"], &hosts);
    assert_eq!(rig.rebalance(&look), [retire(0), retire(1)]);
    assert_eq!(rig.rebalance(&look), [retire(2), retire(3)]);
    assert_eq!(rig.rebalance(&look), [retire(4)]);
    assert_eq!(rig.rebalance(&look), []);
    assert_eq!(rig.planner.stats(&rig.view).draining, 5);
}

#[test]
fn marks_lapse_where_connections_may_stay_again_and_stay_where_nothing_is_known() {
    let hosts = ["b", "c"];
    let mut rig = pool(&hosts);
    rig.set(0, Owner::Leased);
    rig.set(1, Owner::Leased);
    assert_eq!(rig.rebalance(&counted(&["a"], &hosts)), [retire(0), retire(1)]);
    assert_eq!(rig.rebalance(&Snapshot::default()), []);
    assert_eq!(rig.planner.stats(&rig.view).draining, 2);
    let unretire = |slot| Action::Unretire { slot };
    assert_eq!(rig.rebalance(&counted(&["b"], &hosts)), [unretire(0)]);
    assert_eq!(rig.rebalance(&counted(&["b", "c"], &hosts)), [unretire(1)]);
    assert_eq!(rig.planner.stats(&rig.view).draining, 0);
}

#[test]
fn a_mark_for_another_reason_does_not_lapse() {
    let mut rig = pool(&["a"]);
    rig.set(0, Owner::Leased);
    rig.rebalance(&counted(&["b"], &["a"]));
    rig.planner.retire_all(&rig.view, rig.now);
    assert_eq!(rig.actions(), []);
    assert_eq!(rig.rebalance(&counted(&["a"], &["a"])), []);
    rig.returned(0, ReturnReason::Retired).unwrap();
    assert_eq!(
        rig.actions(),
        [Action::Close {
            slot: 0,
            why: CloseReason::Ordered,
            claim: false
        }]
    );
}

#[test]
fn a_stray_that_settles_is_closed_when_it_is_clean() {
    let mut rig = pool(&["a"]);
    rig.returned(0, ReturnReason::Dirty).unwrap();
    rig.actions();
    assert_eq!(rig.rebalance(&counted(&["b"], &["a"])), []);
    rig.planner.cleaned(0, true, &rig.view, rig.now).unwrap();
    assert_eq!(
        rig.actions(),
        [Action::Close {
            slot: 0,
            why: CloseReason::Stray,
            claim: false
        }]
    );
}

#[test]
fn connections_spread_from_the_busiest_to_the_quietest_host_when_two_apart() {
    let table: [Row; 12] = [
        (&["a", "a", "b", "c"], &[], &["a", "b", "c"], &[]),
        (&["a", "a", "b", "b"], &[], &["a", "b"], &[]),
        // Half the difference, and no more than a batch.
        (&["a", "a"], &[], &["a", "b"], &[spread(0)]),
        (&["a", "a", "a", "b"], &[], &["a", "b"], &[spread(0)]),
        (
            &["a", "a", "a", "a", "a"],
            &[],
            &["a", "b"],
            &[spread(0), spread(1)],
        ),
        (
            &["a", "a", "a", "a", "a", "a"],
            &[],
            &["a", "b"],
            &[spread(0), spread(1)],
        ),
        (&["a", "a", "a", "b"], &[0, 2], &["a", "b"], &[spread(1)]),
        // A pool in full use gives what comes back.
        (&["a", "a", "a"], &[0, 1, 2], &["a", "b"], &[retire(0)]),
        (
            &["a", "a", "a", "a"],
            &[0, 1, 2],
            &["a", "b"],
            &[spread(3), retire(0)],
        ),
        // On a tie the greatest key gives, or another if that one has nothing idle.
        (&["a", "a", "b", "b"], &[], &["a", "b", "c"], &[spread(2)]),
        (&["a", "a", "b", "b"], &[2, 3], &["a", "b", "c"], &[spread(0)]),
        // New connections go to one host only: nothing to spread.
        (&["a", "a", "b"], &[], &["a"], &[]),
    ];
    for (hosts, leased, placement, moved) in table {
        let mut rig = pool(hosts);
        for slot in leased {
            rig.set(*slot, Owner::Leased);
        }
        let look = Snapshot {
            placement: counted(placement, &[]).placement,
            ..counted(&["a", "b", "c"], hosts)
        };
        assert_eq!(
            rig.rebalance(&look),
            moved,
            "{hosts:?}, leased {leased:?}, placement {placement:?}"
        );
    }
}

#[test]
fn a_connection_marked_for_the_spread_stays_if_it_is_even_by_the_next_look() {
    let hosts = ["a", "a", "a"];
    let mut rig = pool(&hosts);
    for slot in 0..3 {
        rig.set(slot, Owner::Leased);
    }
    assert_eq!(rig.rebalance(&counted(&["a", "b"], &hosts)), [retire(0)]);
    assert_eq!(
        rig.rebalance(&counted(&["a", "b"], &["a", "a", "b"])),
        [Action::Unretire { slot: 0 }]
    );
    assert_eq!(rig.planner.stats(&rig.view).draining, 0);
}

#[test]
fn a_failed_host_draws_no_connections_however_it_failed() {
    for kind in [
        FailureKind::Down,
        FailureKind::Rejected,
        FailureKind::NotReady,
        FailureKind::Full,
    ] {
        let hosts = ["a", "a", "a", "b"];
        let look = failed(counted(&["a", "b", "c"], &hosts), "c", kind);
        let mut rig = pool(&["a", "a", "b", "b"]);
        assert_eq!(
            rig.rebalance(&failed(
                counted(&["a", "b", "c"], &["a", "a", "b", "b"]),
                "c",
                kind
            )),
            []
        );
        // given a difference among the others, it still counts
        let mut rig_of_others = pool(&hosts);
        assert_eq!(rig_of_others.rebalance(&look), [spread(0)]);
    }
}

#[test]
fn a_host_kept_off_for_its_hook_draws_no_connections_until_its_time_is_over() {
    let mut rig = Rig::started(PlannerOptions {
        rebalance_interval: 6_000 * SECOND,
        ..options(2)
    });
    rig.actions();
    rig.planner.hook_failed(0, host("b"), &rig.view, rig.now).unwrap();
    rig.open(0, "a", 0);
    rig.open(1, "a", 0);
    rig.actions();
    let look = counted(&["a", "b"], &["a", "a"]);
    assert_eq!(rig.rebalance(&look), []);
    rig.now += SECOND;
    assert_eq!(rig.rebalance(&look), [spread(0)]);
}

#[test]
fn nothing_is_spread_while_there_are_strays() {
    let hosts = ["a", "a", "a", "c"];
    let mut rig = pool(&hosts);
    let look = counted(&["a", "b"], &hosts);
    assert_eq!(rig.rebalance(&look), [stray(3)]);
}

#[test]
fn what_is_closing_already_is_not_counted_as_busy_again() {
    // given that two of four are on their way, and the cluster still counts them
    let hosts = ["a", "a", "a", "a"];
    let mut rig = pool(&hosts);
    let look = counted(&["a", "b"], &hosts);
    assert_eq!(rig.rebalance(&look), [spread(0), spread(1)]);
    rig.set(0, Owner::Keeper);
    rig.set(1, Owner::Keeper);
    // when they are replaced on b, one after the other
    rig.planner.socket_closed(0, &rig.view, rig.now).unwrap();
    rig.open(0, "b", 0);
    rig.actions();
    assert_eq!(rig.rebalance(&counted(&["a", "b"], &["a", "a", "a", "b"])), []);
}

#[test]
fn connections_on_their_way_to_the_quietest_host_are_not_followed_by_more() {
    let hosts = ["a", "a", "a"];
    let mut look = counted(&["a", "b"], &hosts);
    look.pending.insert(host("b"), 2);
    assert_eq!(pool(&hosts).rebalance(&look), []);
    look.pending.insert(host("b"), 1);
    assert_eq!(pool(&hosts).rebalance(&look), [spread(0)]);
}

#[test]
fn the_look_comes_once_an_interval_and_needs_a_snapshot() {
    let hosts = ["a", "a"];
    let mut rig = Rig::full(
        PlannerOptions {
            rebalance_interval: 10 * SECOND,
            ..options(2)
        },
        &hosts,
    );
    let look = counted(&["b"], &hosts);
    let mut tick_after = |seconds: u32, look: Option<&Snapshot>| {
        rig.now += seconds * SECOND;
        let due = rig.planner.rebalance_due(rig.now);
        rig.planner.tick(look, &rig.view, rig.now);
        (due, rig.actions().len())
    };
    assert_eq!(tick_after(9, Some(&look)), (false, 0));
    assert_eq!(tick_after(1, None), (true, 0));
    assert_eq!(tick_after(9, Some(&look)), (false, 0));
    assert_eq!(tick_after(1, Some(&look)), (true, 2));
}
