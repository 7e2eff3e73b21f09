//! Whole pools in a small world, from filling to rebalancing: what they come to, case by case.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::Duration;

use pgsteer_core::hosts::LoadBalance;
use pgsteer_core::pool::planner::{CloseReason, PlannerOptions};
use pgsteer_core::topology::TopologyKeys;

use planner_world::outside::Condition;
use planner_world::{Health, MS, Owner, SECOND, World, cluster_options, host, options};

const ABC: [(&str, &str); 3] = [("a", "1"), ("b", "2"), ("c", "2")];

/// A pool behind the seed `lb`, in a cluster of a, b and c.
fn balanced(options: PlannerOptions) -> World {
    World::new(options, cluster_options(LoadBalance::Any), &["lb"], &ABC, 7)
}

/// A pool that uses the first of a, b and c that works.
fn unbalanced(options: PlannerOptions) -> World {
    World::new(
        options,
        cluster_options(LoadBalance::Off),
        &["a", "b", "c"],
        &ABC,
        7,
    )
}

fn started(mut world: World) -> World {
    world.start();
    world.settle();
    world
}

fn with_looks_only_when_told(size: u32) -> PlannerOptions {
    PlannerOptions {
        rebalance_interval: 600 * SECOND,
        ..options(size)
    }
}

fn idle_leased(world: &World) -> (usize, usize) {
    let stats = world.planner.stats(&world.view);
    (stats.idle, stats.leased)
}

/// Covers: E-241
#[test]
fn a_pool_fills_evenly() {
    assert_eq!(started(balanced(options(6))).by_host(), "a:2 b:2 c:2");
}

/// Covers: E-242
#[test]
fn openers_wait_for_the_first_discovery_and_leave_the_seed_alone() {
    let mut world = balanced(options(3));
    world.start();
    let opening = |world: &World| {
        let stats = world.planner.stats(&world.view);
        (stats.opening, stats.idle)
    };
    assert_eq!(opening(&world), (1, 0), "the first is alone");
    world.advance(500 * MS);
    assert_eq!(opening(&world), (3, 0), "but not for long");
    world.settle();
    assert_eq!(world.by_host(), "a:1 b:1 c:1");
    assert!(!world.dialled.contains(&host("lb")));
}

/// Covers: E-243
#[test]
fn without_load_balancing_all_go_to_the_first_host_and_stay() {
    let mut world = started(unbalanced(options(6)));
    assert_eq!(world.by_host(), "a:6");
    let before = world.ids();
    world.run_for(300 * MS);
    assert_eq!(world.ids(), before);
    let snapshot = world.snapshot();
    assert!(!snapshot.discovering && !snapshot.discovered);
}

/// Covers: E-244
#[test]
fn a_checkout_and_a_return_show_in_the_numbers() {
    let mut world = started(balanced(options(3)));
    let slot = world.take().expect("one is idle");
    assert_eq!(idle_leased(&world), (2, 1));
    world.give_back(slot, Condition::Clean);
    assert_eq!(idle_leased(&world), (3, 0));
}

/// Covers: E-245
#[test]
fn a_waiter_gets_the_connection_that_comes_back() {
    let mut world = started(balanced(options(1)));
    let slot = world.take().expect("one is idle");
    let before = world.ids();
    assert_eq!(world.take(), None);
    world.settle();
    world.give_back(slot, Condition::Clean);
    world.settle();
    assert_eq!((idle_leased(&world), world.ids()), ((0, 1), before));
}

/// Covers: E-246
#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let mut world = started(balanced(options(1)));
    let slot = world.take().expect("one is idle");
    assert_eq!(world.take(), None);
    world.settle();
    world.view.waiting -= 1;
    world.give_back(slot, Condition::Clean);
    world.settle();
    let stats = world.planner.stats(&world.view);
    assert_eq!(
        (stats.idle, stats.waiting, stats.leased, stats.opening),
        (1, 0, 0, 0)
    );
}

/// Covers: E-248
#[test]
fn a_connection_whose_holder_perished_is_closed_and_replaced() {
    let mut world = started(balanced(options(1)));
    let before = world.ids();
    let slot = world.take().expect("one is idle");
    world.give_back(slot, Condition::Discarded);
    world.settle();
    assert_eq!(world.closed.len(), 1);
    assert_eq!(idle_leased(&world), (1, 0));
    assert_ne!(world.ids(), before);
}

/// Covers: E-249, E-256
#[test]
fn a_connection_that_ends_is_replaced_on_its_host_which_is_not_marked() {
    let mut world = started(balanced(options(3)));
    let slot = (0..3)
        .find(|slot| world.tenant(*slot).host == host("a"))
        .expect("one is on a");
    let dialled = world.dialled.len();
    world.kill(slot);
    world.settle();
    assert_eq!(world.dialled[dialled..], [host("a")]);
    assert_eq!(world.by_host(), "a:1 b:1 c:1");
    assert!(world.snapshot().failures.is_empty());
}

/// Covers: E-250
#[test]
fn connections_are_replaced_at_the_end_of_their_lives_though_nobody_asks() {
    let mut world = started(balanced(PlannerOptions {
        max_lifetime: Some(200 * MS),
        ..options(3)
    }));
    let before = world.ids();
    world.run_for(3 * SECOND);
    assert!(before.iter().all(|id| !world.ids().contains(id)));
    assert_eq!(idle_leased(&world), (3, 0));
}

/// Covers: E-252
#[test]
fn with_every_host_down_waiters_fail_at_once() {
    let mut world = balanced(options(2));
    for health in world.health.values_mut() {
        *health = Health::Down;
    }
    world.start();
    assert_eq!(world.take(), None);
    world.settle();
    assert_eq!((world.failed_waiters, world.view.waiting), (1, 0));
}

/// Covers: E-257
#[test]
fn a_full_pool_does_nothing_until_a_connection_ends() {
    let mut world = started(balanced(options(1)));
    let (dialled, before) = (world.dialled.len(), world.ids());
    world.run_for(5_500 * MS);
    assert_eq!(
        (world.dialled.len(), world.closed.len(), world.ids()),
        (dialled, 0, before)
    );
    world.kill(0);
    world.settle();
    assert_eq!(world.dialled.len(), dialled + 1);
    assert!(world.snapshot().failures.is_empty());
}

/// Covers: E-259
#[test]
fn a_connection_that_ends_under_its_holder_is_replaced_when_it_comes_back() {
    let mut world = started(unbalanced(options(1)));
    let slot = world.take().expect("one is idle");
    world.kill(slot);
    world.settle();
    assert_eq!(idle_leased(&world), (0, 1));
    world.give_back(slot, Condition::Clean);
    world.settle();
    assert_eq!((idle_leased(&world), world.by_host()), ((1, 0), "a:1".to_owned()));
    assert!(world.snapshot().failures.is_empty());
}

/// Covers: E-260
#[test]
fn connections_spread_over_a_host_that_is_found_back() {
    let mut world = balanced(options(6));
    world.health.insert(host("a"), Health::Down);
    let mut world = started(world);
    assert_eq!(world.by_host(), "b:3 c:3");
    world.health.insert(host("a"), Health::Up);
    world.run_for(8 * SECOND);
    assert_eq!(world.by_host(), "a:2 b:2 c:2");
}

/// Covers: E-261
#[test]
fn a_failed_host_that_is_allowed_draws_nothing() {
    let mut cluster = cluster_options(LoadBalance::Any);
    cluster.failed_host_delay = 30 * SECOND;
    let mut world = World::new(options(6), cluster, &["lb"], &ABC, 7);
    world.health.insert(host("a"), Health::Down);
    let mut world = started(world);
    assert_eq!(world.by_host(), "b:3 c:3");
    let snapshot = world.snapshot();
    assert!(snapshot.allowed.contains(&host("a")) && snapshot.failed() == [host("a")]);
    let before = world.ids();
    world.run_for(650 * MS);
    assert_eq!(world.ids(), before);
}

fn behind_a_load_balancer_only(size: u32) -> World {
    let mut world = balanced(options(size));
    for name in ["a", "b", "c"] {
        world.health.insert(host(name), Health::Down);
    }
    started(world)
}

/// Covers: E-264
#[test]
fn a_pool_that_reaches_only_the_load_balancer_settles_there() {
    let mut world = behind_a_load_balancer_only(4);
    world.run_for(SECOND);
    assert_eq!(world.by_host(), "lb:4");
    let (before, dialled) = (world.ids(), world.dialled.len());
    world.run_for(3 * SECOND);
    assert_eq!((world.ids(), world.dialled.len()), (before, dialled));
    assert_eq!(world.snapshot().failed(), [host("a"), host("b"), host("c")]);
}

/// Covers: E-265
#[test]
fn behind_the_load_balancer_no_open_tries_the_servers_again() {
    let mut world = behind_a_load_balancer_only(1);
    world.run_for(1_200 * MS);
    let dialled = world.dialled.len();
    for _ in 0..5 {
        let slot = world.take().expect("one is idle");
        world.give_back(slot, Condition::Discarded);
        world.settle();
    }
    assert!(world.take().is_some());
    assert_eq!(world.dialled[dialled..], vec![host("lb"); 5]);
    assert_eq!(world.failed_waiters, 0);
}

/// Covers: E-267
#[test]
fn without_load_balancing_connections_gather_on_an_earlier_host_a_batch_at_a_time() {
    let mut world = started(unbalanced(with_looks_only_when_told(4)));
    world.health.insert(host("a"), Health::Down);
    for slot in 0..4 {
        world.kill(slot);
    }
    world.settle();
    for _ in 0..3 {
        world.rebalance();
        world.settle();
    }
    assert_eq!(world.by_host(), "b:4");
    assert!(!world.dialled.contains(&host("c")));
    world.health.insert(host("a"), Health::Up);
    world.run_for(1_100 * MS);
    assert_eq!(world.by_host(), "b:4");
    world.rebalance();
    world.settle();
    assert_eq!(world.by_host(), "a:2 b:2");
    world.rebalance();
    world.settle();
    assert_eq!(world.by_host(), "a:4");
}

/// Covers: E-268
#[test]
fn connections_move_to_the_preferred_place_only_once_it_takes_them() {
    let mut cluster = cluster_options(LoadBalance::Any);
    cluster.topology_keys = TopologyKeys::parse("cloud.region.1:1").unwrap();
    let mut world = World::new(options(4), cluster, &["lb"], &ABC, 7);
    world.health.insert(host("a"), Health::Rejects);
    let mut world = started(world);
    assert_eq!(world.by_host(), "b:2 c:2");
    assert_eq!(world.snapshot().rejected(), [host("a")]);
    let before = world.ids();
    world.run_for(2_500 * MS);
    assert_eq!(world.ids(), before);
    world.health.insert(host("a"), Health::Up);
    world.run_for(2 * SECOND);
    assert_eq!(world.by_host(), "a:4");
}

/// Covers: E-269
#[test]
fn connections_leave_a_server_that_is_no_longer_listed() {
    let mut world = started(balanced(options(6)));
    world.listed.retain(|(key, _)| *key != host("c"));
    world.run_for(2 * SECOND);
    assert_eq!(world.by_host(), "a:3 b:3");
    assert_eq!(world.closed, vec![(host("c"), CloseReason::Stray); 2]);
}

/// Covers: E-271
#[test]
fn a_leased_stray_drains_and_the_pool_refills_elsewhere() {
    let mut world = started(balanced(options(3)));
    while world.take().is_some() {}
    world.view.waiting = 0;
    world.listed.retain(|(key, _)| *key != host("c"));
    world.run_for(2 * SECOND);
    let stats = world.planner.stats(&world.view);
    assert_eq!((stats.leased, stats.draining), (3, 1));
    for slot in world.slots_of(Owner::Leased) {
        world.give_back(slot, Condition::Discarded);
    }
    world.settle();
    let stats = world.planner.stats(&world.view);
    assert_eq!((stats.leased, stats.draining, stats.idle), (0, 0, 3));
    assert!(!stats.by_host.contains_key(&host("c")));
}

/// Covers: E-276
#[test]
fn a_hook_that_fails_everywhere_fails_waiters_and_marks_no_host_until_it_is_mended() {
    let mut world = balanced(options(2));
    world.hook_fails_on = ["a", "b", "c"].map(host).into();
    world.start();
    assert_eq!(world.take(), None);
    world.settle();
    assert_eq!((world.failed_waiters, world.view.waiting), (1, 0));
    let stats = world.planner.stats(&world.view);
    assert_eq!((stats.opening, stats.idle, stats.leased), (0, 0, 0));
    let snapshot = world.snapshot();
    assert!(snapshot.failures.is_empty());
    assert_eq!(snapshot.placement, [host("a"), host("b"), host("c")]);
    world.hook_fails_on.clear();
    world.run_for(2 * SECOND);
    assert_eq!(idle_leased(&world), (2, 0));
}

#[test]
fn a_hook_that_fails_on_one_host_sends_its_connections_elsewhere_at_once() {
    let mut world = balanced(options(3));
    world.hook_fails_on = vec![host("c")];
    world.start();
    assert_eq!(world.take(), None);
    world.settle();
    assert_eq!((world.failed_waiters, idle_leased(&world)), (0, (2, 1)));
    assert!(!world.by_host().contains('c'));
}

#[test]
fn a_wrong_password_is_tried_by_one_opener_at_ever_longer_intervals_until_it_is_right() {
    let mut world = World::new(options(4), cluster_options(LoadBalance::Off), &["a"], &[], 7);
    world.login_refused = true;
    let mut world = started(world);
    assert_eq!(
        world.dialled.len(),
        1,
        "a single login is refused before the password is known to be wrong"
    );
    let rests: Vec<Duration> = (0..7)
        .map(|_| {
            let (before, dialled) = (world.now, world.dialled.len());
            while world.dialled.len() == dialled {
                world.run_for(100 * MS);
            }
            assert_eq!(world.dialled.len(), dialled + 1);
            world.now - before
        })
        .collect();
    assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30].map(Duration::from_secs));
    world.login_refused = false;
    world.run_for(30 * SECOND);
    assert_eq!(world.by_host(), "a:4");
}

#[test]
fn an_elastic_pool_grows_with_its_callers_and_shrinks_to_its_floor_when_they_leave() {
    let elastic = PlannerOptions {
        min_idle: 2,
        idle_timeout: Some(3 * SECOND),
        ..options(8)
    };
    let mut world = started(balanced(elastic));
    assert_eq!(idle_leased(&world), (2, 0));
    for _ in 0..5 {
        world.take();
        world.settle();
    }
    world.run_for(SECOND);
    assert_eq!(idle_leased(&world), (2, 5));
    for slot in world.slots_of(Owner::Leased) {
        world.give_back(slot, Condition::Clean);
    }
    assert_eq!(idle_leased(&world), (7, 0));
    world.run_for(5 * SECOND);
    assert_eq!(idle_leased(&world), (2, 0));
    assert!(
        world
            .closed
            .iter()
            .all(|(_, why)| *why == CloseReason::IdleTimeout)
    );
}
