//! The pool on real threads: random use by several of them at once, every tenant checked to be with one owner only.
//! What loom proves of small cases is tried here on large ones, with the true processor's reorderings.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod slots_common;

use pgsteer_core::pool::{GivenBack, Lease, PassEnd, Rejected, Session, Take};
use slots_common::{Pool, Shelf, block_on, idle_pool, leased_pool, poll_once, seed};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Slots that somebody uses at this moment, to catch two owners of one.
struct InUse(Vec<AtomicBool>);

impl InUse {
    fn new(slots: u32) -> Self {
        Self((0..slots).map(|_| AtomicBool::new(false)).collect())
    }

    fn using(&self, pool: &Pool, lease: &mut Lease) {
        let flag = &self.0[lease.index() as usize];
        assert!(
            !flag.swap(true, Ordering::Relaxed),
            "two owners of slot {}",
            lease.index()
        );
        assert_eq!(pool.get(lease).home, lease.index());
        // Not atomic: a lost update would be two owners too.
        pool.get_mut(lease).used += 1;
        assert!(flag.swap(false, Ordering::Relaxed));
    }
}

/// Waits for a slot in one of the ways a caller can, some of which give up.
fn checkout(pool: &Pool, random: &mut fastrand::Rng, start: Instant) -> Option<Lease> {
    match random.u8(..) {
        0..100 => match pool.try_take() {
            Take::Leased(lease) => Some(lease),
            Take::Unfit(_) => panic!("every tenant is fit"),
            Take::Empty => None,
        },
        100..160 => block_on(pool.checkout(None)).ok(),
        160..200 => match block_on(pool.checkout(Some(start + Duration::from_millis(random.u64(..50))))) {
            Ok(lease) => Some(lease),
            Err(Rejected::TimedOut | Rejected::Failed(_)) => None,
            Err(Rejected::Closed) => panic!("nobody closes this pool"),
        },
        _ => {
            // Dropped after a random number of polls.
            let mut checkout = pool.checkout(None);
            for _ in 0..random.u8(1..4) {
                if let Poll::Ready(lease) = poll_once(&mut checkout) {
                    return lease.ok();
                }
                thread::yield_now();
            }
            None
        }
    }
}

#[test]
fn no_slot_is_lost_or_doubled_whatever_threads_do() {
    let seed = seed();
    for (slots, threads, rounds) in [(1, 4, 3_000), (3, 4, 5_000), (130, 4, 5_000)] {
        let (pool, _, shelf) = idle_pool(slots);
        let in_use = InUse::new(slots);
        let (used, running) = (AtomicU64::new(0), AtomicU64::new(threads));
        let start = Instant::now();
        thread::scope(|scope| {
            for number in 0..threads {
                let (pool, in_use, used, running) = (&pool, &in_use, &used, &running);
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        if let Some(mut lease) = checkout(pool, &mut random, start) {
                            in_use.using(pool, &mut lease);
                            used.fetch_add(1, Ordering::Relaxed);
                            pool.release(lease);
                        }
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            // The keeper: lets deadlines pass, fails waiters, claims and brings back.
            let mut random = fastrand::Rng::with_seed(!seed);
            while running.load(Ordering::Relaxed) > 0 {
                match random.u8(..) {
                    0..80 => drop(pool.expire(start + Duration::from_millis(random.u64(..60)))),
                    80..90 => pool.fail_waiters(&"no server"),
                    _ => {
                        if let Some(mut lease) = pool.claim(random.u32(..slots)) {
                            in_use.using(&pool, &mut lease);
                            used.fetch_add(1, Ordering::Relaxed);
                            pool.release(lease);
                        }
                    }
                }
                thread::yield_now();
            }
        });
        assert!(shelf.indices().is_empty());
        assert_eq!(pool.waiting(), 0);
        assert!(
            pool.idle_slots().eq(0..slots),
            "all come back: {:?}",
            pool.idle_slots().collect::<Vec<_>>()
        );
        let total: u64 = (0..slots)
            .map(|index| pool.get(&pool.claim(index).unwrap()).used)
            .sum();
        assert_eq!(total, used.load(Ordering::Relaxed));
    }
}

/// Drives one session: passes until it is closed, a random server answering with delay.
fn drive(
    pool: &Pool,
    index: u32,
    session: &Session,
    shelf: &Shelf,
    done: &AtomicBool,
    random: &mut fastrand::Rng,
) {
    while !done.load(Ordering::Relaxed) {
        session.begin_pass();
        let (busy, dirty) = (random.u8(..) < 100, random.u8(..) < 20);
        match session.end_pass(busy, dirty) {
            PassEnd::Release => pool.release(pool.unpark(index).expect("the winner finds the lease")),
            PassEnd::HandOver => {
                shelf
                    .leases
                    .lock()
                    .unwrap()
                    .push(pool.unpark(index).expect("the winner finds the lease"));
            }
            PassEnd::Again => {}
            PassEnd::Rest => {
                if random.u8(..) < 64 {
                    thread::yield_now();
                }
            }
        }
    }
    // The last pass leaves nothing parked.
    session.begin_pass();
    if let PassEnd::Release | PassEnd::HandOver = session.end_pass(false, false) {
        pool.release(pool.unpark(index).expect("the winner finds the lease"));
    }
}

#[test]
fn holders_drivers_and_keeper_share_slots_without_losing_one() {
    const SLOTS: u32 = 2;
    let seed = seed();
    let (pool, sessions, shelf) = idle_pool(SLOTS);
    let in_use = InUse::new(SLOTS);
    let (done, holders) = (AtomicBool::new(false), AtomicU64::new(2));
    thread::scope(|scope| {
        for (session, index) in sessions.iter().zip(0..) {
            let (pool, shelf, done) = (&pool, &shelf, &done);
            let mut random = fastrand::Rng::with_seed(seed.wrapping_add(u64::from(index)));
            scope.spawn(move || drive(pool, index, session, shelf, done, &mut random));
        }
        for number in 0..2 {
            let (pool, shelf, in_use, holders) = (&pool, &shelf, &in_use, &holders);
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(3).wrapping_add(number));
            scope.spawn(move || {
                for _ in 0..5_000 {
                    let mut lease = block_on(pool.checkout(None)).unwrap();
                    in_use.using(pool, &mut lease);
                    let session = Arc::clone(&pool.get(&lease).session);
                    if random.bool() {
                        session.wake();
                    }
                    if let GivenBack::Unfit(lease) = pool.give_back(lease) {
                        shelf.leases.lock().unwrap().push(lease);
                    }
                }
                holders.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // The keeper: mends what it is given, retires, and takes what stays parked too long.
        let mut random = fastrand::Rng::with_seed(!seed);
        while holders.load(Ordering::Relaxed) > 0 {
            let index = random.u32(..SLOTS);
            let session = &sessions[index as usize];
            match random.u8(..) {
                0..8 => session.retire(),
                8..64 if session.unpark() => {
                    let mut lease = pool.unpark(index).expect("the winner finds the lease");
                    in_use.using(&pool, &mut lease);
                    pool.release(lease);
                }
                _ => {}
            }
            let kept = shelf.take();
            let claimed = if session.is_retired() {
                pool.claim(index)
            } else {
                None
            };
            for mut lease in kept.into_iter().chain(claimed) {
                in_use.using(&pool, &mut lease);
                sessions[lease.index() as usize].unretire();
                pool.release(lease);
            }
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    while let Some(lease) = shelf.take() {
        pool.release(lease);
    }
    assert_eq!(pool.waiting(), 0);
    assert!(pool.idle_slots().eq(0..SLOTS), "all come back");
}

#[test]
fn every_waiting_thread_is_served_in_turn() {
    // Everybody queues before the slot comes, so each round serves all of them once, oldest first.
    const TASKS: usize = 16;
    let (pool, mut leases, _, _) = leased_pool(1);
    let mut served = [0_u32; TASKS];
    let mut waiting: VecDeque<_> = (0..TASKS).map(|task| (task, pool.checkout(None))).collect();
    for (_, checkout) in &mut waiting {
        assert!(poll_once(checkout).is_pending());
    }
    let mut lease = leases.pop();
    for round in 0..TASKS * 100 {
        pool.release(lease.take().unwrap());
        let (task, mut checkout) = waiting.pop_front().unwrap();
        let Poll::Ready(Ok(granted)) = poll_once(&mut checkout) else {
            panic!("round {round}: the oldest is served")
        };
        lease = Some(granted);
        served[task] += 1;
        drop(checkout);
        let mut again = pool.checkout(None);
        assert!(poll_once(&mut again).is_pending());
        waiting.push_back((task, again));
    }
    assert_eq!(served, [100; TASKS]);
}

#[test]
fn ten_thousand_slots_serve_threads_that_take_and_return_many() {
    const SLOTS: u32 = 10_000;
    let seed = seed();
    let (pool, _, _) = idle_pool(SLOTS);
    let in_use = InUse::new(SLOTS);
    thread::scope(|scope| {
        for number in 0..3 {
            let (pool, in_use) = (&pool, &in_use);
            let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number));
            scope.spawn(move || {
                let mut held = Vec::new();
                for _ in 0..20_000 {
                    // Each would like to hold nearly half of all, so that the pool runs empty now and then.
                    if random.bool() && held.len() < 4_500 {
                        for _ in 0..random.u8(..) {
                            let Take::Leased(mut lease) = pool.try_take() else {
                                break;
                            };
                            in_use.using(pool, &mut lease);
                            held.push(lease);
                        }
                    } else if !held.is_empty() {
                        let kept = random.usize(..held.len());
                        held.drain(kept..).for_each(|lease| pool.release(lease));
                    }
                }
                held.into_iter().for_each(|lease| pool.release(lease));
            });
        }
    });
    assert!(pool.idle_slots().eq(0..SLOTS));
}
