//! Random histories of a pool, with what must never happen checked after every event. A failing history prints its
//! seed; `PGSTEER_SEED=<seed>` replays that one alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::Duration;

use pgsteer_core::hosts::{Fit, LoadBalance, Role, TargetSessionAttrs};
use pgsteer_core::pool::planner::PlannerOptions;

use planner_world::outside::Condition;
use planner_world::random::Random;
use planner_world::{Health, MS, Owner, SECOND, World, cluster_options};

const HISTORIES_OF_FIXED_POOLS: u64 = 6_000;
const HISTORIES_OF_ELASTIC_POOLS: u64 = 4_000;
const EVENTS: usize = 200;

/// Says which history failed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this history with PGSTEER_SEED={}", self.0);
        }
    }
}

fn histories(base: u64, count: u64, run: impl Fn(u64)) {
    let chosen = std::env::var("PGSTEER_SEED")
        .ok()
        .map(|text| text.parse::<u64>().expect("a seed is a number"));
    match chosen {
        Some(seed) => {
            let _named = Named(seed);
            run(seed);
        }
        None => {
            println!("seeds {base} to {}", base + count - 1);
            for seed in base..base + count {
                let _named = Named(seed);
                run(seed);
            }
        }
    }
}

fn millis(random: &mut Random, low: u64, high: u64) -> Duration {
    Duration::from_millis(random.between(low, high))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fixed,
    Elastic,
}

/// Options of every kind.
fn any_options(kind: Kind, random: &mut Random) -> PlannerOptions {
    let size = u32::try_from(random.between(1, 8)).unwrap();
    let fixed = kind == Kind::Fixed;
    PlannerOptions {
        size,
        min_idle: if fixed {
            size
        } else {
            u32::try_from(random.below(u64::from(size))).unwrap()
        },
        idle_timeout: random.one_in(2).then(|| millis(random, 100, 5_000)),
        max_lifetime: random.one_in(2).then(|| millis(random, 200, 30_000)),
        lifetime_jitter: if random.one_in(2) {
            Duration::ZERO
        } else {
            millis(random, 0, 5_000)
        },
        rebalance_interval: millis(random, 50, 3_000),
        rebalance_batch: u32::try_from(random.between(1, 3)).unwrap(),
        max_dials: u32::try_from(random.between(1, 8)).unwrap(),
        refill_delay: SECOND,
        login_backoff_max: 30 * SECOND,
        not_ready_max: 5 * SECOND,
        hook_keep_off: millis(random, 1_000, 3_000),
        return_cancel_after: millis(random, 0, 2_000),
        return_timeout: millis(random, 500, 4_000),
    }
}

fn any_world(kind: Kind, seed: u64) -> World {
    let mut random = Random::new(seed);
    let options = any_options(kind, &mut random);
    let mode = if random.one_in(4) {
        LoadBalance::Off
    } else {
        LoadBalance::Any
    };
    let listed = [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")];
    let mut world = World::new(
        options,
        cluster_options(mode),
        &["a", "b"],
        &listed,
        random.next(),
    );
    world.races = 8;
    if random.one_in(2) {
        world.target = TargetSessionAttrs::ALL[random.index(8)];
        world.cluster.watch_roles(world.target.asks());
    }
    world.start();
    world
}

/// One event, of any kind.
fn happen(world: &mut World) {
    match world.random.below(20) {
        0..=5 => world.something_outside(),
        6..=9 => {
            if !world.post.is_empty() {
                let which = world.random.index(world.post.len());
                world.deliver(which);
            }
        }
        10..=12 => {
            let slots: Vec<u32> = world.openers.keys().copied().collect();
            if !slots.is_empty() {
                let slot = slots[world.random.index(slots.len())];
                if world.random.one_in(40) {
                    world.vanish_opener(slot)
                } else {
                    world.step_opener(slot)
                }
            }
        }
        13 => {
            if !world.closing.is_empty() {
                let which = world.random.index(world.closing.len());
                world.finish_closing(which);
            }
        }
        14 => {
            let slots: Vec<u32> = world.cleaning.keys().copied().collect();
            if !slots.is_empty() {
                let slot = slots[world.random.index(slots.len())];
                let ok = !world.random.one_in(4);
                world.finish_cleaning(slot, ok);
            }
        }
        15 => {
            world.finish_discovery();
            if !world.probes.is_empty() {
                let which = world.random.index(world.probes.len());
                world.finish_probe(which);
            }
        }
        16 | 17 => {
            let most = if world.random.one_in(4) { 4_000 } else { 300 };
            let time = Duration::from_millis(world.random.below(most));
            world.advance(time);
        }
        18 => change_the_hosts(world),
        _ => rare(world),
    }
}

fn change_the_hosts(world: &mut World) {
    let keys: Vec<_> = world.health.keys().cloned().collect();
    let key = keys[world.random.index(keys.len())].clone();
    match world.random.below(9) {
        6 | 7 => {
            use Role::{ColdStandby, Primary, ReadOnlyPrimary, Standby};
            let role = [Primary, Primary, Standby, ReadOnlyPrimary, ColdStandby][world.random.index(5)];
            world.roles.insert(key, role);
        }
        0 => world.login_refused = !world.login_refused,
        1 => {
            if world.hook_fails_on.is_empty() {
                world.hook_fails_on.push(key);
            } else {
                world.hook_fails_on.clear();
            }
        }
        2 => {
            let listed = world.listed.iter().position(|(other, _)| *other == key);
            match listed {
                Some(which) if world.listed.len() > 1 => drop(world.listed.remove(which)),
                Some(_) => {}
                None => world.listed.push((key, "1")),
            }
        }
        _ => {
            let health = [
                Health::Up,
                Health::Up,
                Health::Down,
                Health::Rejects,
                Health::NotReady,
            ][world.random.index(5)];
            world.health.insert(key, health);
        }
    }
}

fn rare(world: &mut World) {
    match world.random.below(8) {
        0 => {
            world.planner.retire_all(&world.view, world.now);
            world.pump();
        }
        1 => {
            let keys: Vec<_> = world.health.keys().cloned().collect();
            let key = keys[world.random.index(keys.len())].clone();
            world.planner.retire_host(&key, &world.view, world.now);
            world.pump();
        }
        2 => world.rebalance(),
        3 => {
            world.cluster.refresh(world.now);
            world.pump();
        }
        4 | 5 => {
            let keys: Vec<_> = world.health.keys().cloned().collect();
            let key = keys[world.random.index(keys.len())].clone();
            match world.random.below(3) {
                0 => world.cluster.suspect(&key),
                1 => world.cluster.role_doubted(&key, world.now),
                _ => world.cluster.unresponsive(&key, world.now),
            }
            world.pump();
        }
        _ => world.view.waiting = world.view.waiting.saturating_sub(1),
    }
}

/// Everything works from now on, and nobody holds anything.
fn calm(world: &mut World) {
    world.races = 0;
    world.login_refused = false;
    world.hook_fails_on.clear();
    // what the target takes
    let role = match world.target.fit(Role::Primary) {
        Fit::Unfit => Role::Standby,
        _ => Role::Primary,
    };
    world.roles = world.health.keys().map(|key| (key.clone(), role)).collect();
    for health in world.health.values_mut() {
        *health = Health::Up;
    }
    world.listed = [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")]
        .map(|(name, zone)| (planner_world::host(name), zone))
        .into();
    give_everything_back(world);
}

fn give_everything_back(world: &mut World) {
    loop {
        world.settle();
        if let Some(slot) = world.slots_of(Owner::Parked).first().copied() {
            world.answer(slot);
        } else if let Some(slot) = world.slots_of(Owner::Leased).first().copied() {
            world.give_back(slot, Condition::Clean);
        } else {
            return;
        }
    }
}

fn is_full(world: &World) -> bool {
    let stats = world.planner.stats(&world.view);
    let wanted = world.options.min_idle.min(world.options.size) as usize;
    stats.waiting == 0 && stats.settling == 0 && stats.leased == 0 && stats.idle >= wanted
}

/// A history of everything that can happen to a pool, then peace, in which it must soon be full again.
fn live_through(kind: Kind, seed: u64) {
    let mut world = any_world(kind, seed);
    for _ in 0..EVENTS {
        happen(&mut world);
        world.check();
    }
    calm(&mut world);
    // The longest rest after refused logins, and some time to dial.
    let until = world.now + world.options.login_backoff_max + 5 * SECOND;
    while !is_full(&world) {
        assert!(
            world.now < until,
            "still not full: {:?}",
            world.planner.stats(&world.view)
        );
        world.run_for(250 * MS);
        give_everything_back(&mut world);
    }
}

#[test]
fn no_history_breaks_a_fixed_pool_and_it_is_full_again_soon_after_the_faults_stop() {
    histories(1, HISTORIES_OF_FIXED_POOLS, |seed| {
        live_through(Kind::Fixed, seed)
    });
}

#[test]
fn no_history_breaks_an_elastic_pool_and_its_floor_is_ready_again_soon_after_the_faults_stop() {
    histories(100_000, HISTORIES_OF_ELASTIC_POOLS, |seed| {
        live_through(Kind::Elastic, seed)
    });
}

#[test]
fn after_any_history_a_fixed_pool_is_spread_evenly_in_the_end() {
    histories(200_000, 300, |seed| {
        let mut world = any_world(Kind::Fixed, seed);
        for _ in 0..EVENTS {
            happen(&mut world);
        }
        calm(&mut world);
        // Every host is probed and every rest is over, and what waited has been served.
        world.run_for(40 * SECOND);
        give_everything_back(&mut world);
        world.run_for(world.options.rebalance_interval * (2 * world.options.size + 2));
        let stats = world.planner.stats(&world.view);
        let snapshot = world.snapshot();
        assert!(snapshot.failures.is_empty() && snapshot.unfit.is_empty());
        let loads = snapshot
            .placement
            .iter()
            .map(|key| stats.by_host.get(key).copied().unwrap_or(0));
        let (most, least) = (loads.clone().max().unwrap(), loads.clone().min().unwrap());
        assert!(most - least < 2, "not spread: {:?}", stats.by_host);
        assert_eq!(
            loads.sum::<usize>(),
            stats.size,
            "all are where new ones would go"
        );
    });
}

#[test]
fn after_any_history_a_pool_that_is_shut_down_ends_with_every_slot_empty_and_no_timer() {
    histories(300_000, 1_000, |seed| {
        let kind = if seed % 2 == 0 { Kind::Fixed } else { Kind::Elastic };
        let mut world = any_world(kind, seed);
        let events = world.random.index(EVENTS);
        for _ in 0..events {
            happen(&mut world);
        }
        world.planner.shutdown(&world.view, world.now);
        world.pump();
        world.view.waiting = 0;
        for slot in world.openers.keys().copied().collect::<Vec<_>>() {
            world.vanish_opener(slot);
        }
        assert!(world.openers.is_empty(), "nothing is opened after the end");
        world.races = 0;
        give_everything_back(&mut world);
        world.run_for(2 * SECOND);
        assert!(
            world.planner.is_drained(),
            "left over: {:?}",
            world.planner.stats(&world.view)
        );
        assert_eq!(world.planner.next_wake(), None);
    });
}
