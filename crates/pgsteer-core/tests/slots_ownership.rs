//! Leases, and what the keeper sees of slots that it does not own.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod slots_common;

use pgsteer_core::pool::{GivenBack, Lane, Lease, PassEnd, Session, Take};
use slots_common::{idle_pool, leased_pool};

#[test]
fn a_new_pool_gives_one_lease_per_slot_and_has_nothing_idle() {
    for size in [1, 62, 63, 64, 126, 127, 10_000] {
        let (pool, leases, _, _) = leased_pool(size);
        assert!(leases.iter().map(Lease::index).eq(0..size));
        assert_eq!((pool.len(), pool.idle(), pool.waiting()), (size as usize, 0, 0));
        assert!(matches!(pool.try_take(), Take::Empty));
    }
}

#[test]
#[should_panic(expected = "at least one slot")]
fn a_pool_without_slots_is_refused() {
    let _ = leased_pool(0);
}

#[test]
fn every_slot_of_a_large_pool_is_taken_once_and_comes_back() {
    let (pool, _, _) = idle_pool(10_000);
    let mut leases = Vec::new();
    while let Take::Leased(lease) = pool.try_take() {
        assert_eq!(pool.get(&lease).home, lease.index());
        leases.push(lease);
    }
    assert!(
        leases.iter().map(Lease::index).eq(0..10_000),
        "lowest first, word by word"
    );
    assert_eq!(pool.idle(), 0);

    leases.into_iter().rev().for_each(|lease| pool.release(lease));
    assert!(pool.idle_slots().eq(0..10_000));
}

#[test]
fn the_lowest_idle_slot_comes_first() {
    let (pool, mut leases, _, _) = leased_pool(63);
    for index in [40, 7, 62] {
        let place = leases.iter().position(|lease| lease.index() == index).unwrap();
        pool.release(leases.swap_remove(place));
    }
    let taken: Vec<_> = std::iter::from_fn(|| match pool.try_take() {
        Take::Leased(lease) => Some(lease.index()),
        _ => None,
    })
    .collect();
    assert_eq!(taken, [7, 40, 62]);
}

#[test]
fn a_slot_of_the_lane_comes_first_and_any_other_when_it_has_none_left() {
    for size in [7, 63, 64, 130] {
        let (pool, _, _) = idle_pool(size);
        let mut taken: Vec<u32> = std::iter::from_fn(|| match pool.try_take_near(Lane::new(1, 3)) {
            Take::Leased(lease) => Some(lease.index()),
            _ => None,
        })
        .collect();

        let near = |index: &u32| Lane::number_of(*index, 3) == 1;
        let (ours, others): (Vec<u32>, Vec<u32>) = (0..size).partition(near);
        // Which word the others are looked for in first is where the last of ours was.
        taken[ours.len()..].sort_unstable();
        assert_eq!(taken, [ours, others].concat(), "{size} slots");
    }
}

#[test]
fn every_slot_is_in_one_lane_and_lanes_are_as_long_as_each_other_but_for_a_slot_in_each_word() {
    for of in [1, 2, 3, 8] {
        let counts: Vec<usize> = (0..of)
            .map(|number| {
                (0..126)
                    .filter(|slot| Lane::number_of(*slot, of) == number)
                    .count()
            })
            .collect();
        assert_eq!(counts.iter().sum::<usize>(), 126);
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 2, "{counts:?}");
    }
}

#[test]
fn a_lane_without_slots_takes_any() {
    let (pool, _, _) = idle_pool(2);
    let Take::Leased(lease) = pool.try_take_near(Lane::new(99, 100)) else {
        panic!("two are idle")
    };
    assert_eq!(lease.index(), 0);
}

#[test]
fn a_retired_slot_is_not_handed_out_but_offered_to_the_keeper() {
    let (pool, sessions, _) = idle_pool(2);
    sessions[0].retire();
    let Take::Unfit(lease) = pool.try_take() else {
        panic!("the lowest is retired")
    };
    assert_eq!(lease.index(), 0);
    let Take::Leased(lease) = pool.try_take() else {
        panic!("the next is fit")
    };
    assert_eq!(lease.index(), 1);
}

#[test]
fn the_keeper_claims_idle_slots_only() {
    let (pool, mut leases, _, _) = leased_pool(70);
    assert!(pool.claim(69).is_none(), "leased");
    pool.release(leases.pop().unwrap());
    assert!(pool.is_idle(69) && !pool.is_idle(68) && !pool.is_idle(70));
    assert_eq!(pool.claim(69).map(|lease| lease.index()), Some(69));
    assert!(pool.claim(69).is_none(), "claimed already");
    assert!(pool.claim(70).is_none(), "no such slot");
}

#[test]
fn uses_count_checkouts_and_not_claims() {
    let (pool, _, _) = idle_pool(1);
    for _ in 0..3 {
        let Take::Leased(lease) = pool.try_take() else {
            panic!("it is idle")
        };
        pool.release(lease);
        pool.release(pool.claim(0).unwrap());
    }
    assert_eq!((pool.uses(0), pool.uses(1)), (3, 0));
}

#[test]
fn a_parked_slot_is_unparked_once() {
    let (pool, mut leases, _, _) = leased_pool(1);
    assert!(pool.unpark(0).is_none(), "leased");
    pool.park(leases.pop().unwrap());
    assert!(matches!(pool.try_take(), Take::Empty));
    assert_eq!(pool.unpark(0).map(|lease| lease.index()), Some(0));
    assert!(pool.unpark(0).is_none());
    assert!(pool.unpark(1).is_none(), "no such slot");
}

#[test]
fn tenants_move_in_and_out() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let lease = &mut leases[0];
    pool.get_mut(lease).used = 5;
    let tenant = pool.take(lease).unwrap();
    assert_eq!(tenant.used, 5);
    assert!(pool.tenant(lease).is_none() && !pool.fits(lease));
    assert!(pool.put(lease, tenant).is_none());
    assert!(pool.fits(lease));
}

#[test]
#[should_panic(expected = "does not belong to")]
fn a_lease_cannot_be_released_into_another_pool() {
    let (_, mut strangers, _, _) = leased_pool(1);
    let (pool, _, _, _) = leased_pool(1);
    pool.release(strangers.pop().unwrap());
}

#[test]
#[should_panic(expected = "does not belong to")]
fn a_lease_of_a_pool_that_is_gone_does_not_open_the_next_one() {
    let mut stranger = leased_pool(1).1.pop().unwrap();
    let (pool, _leases, _, _) = leased_pool(1);
    pool.get_mut(&mut stranger).used += 1;
}

#[test]
#[should_panic(expected = "does not belong to")]
fn a_wait_cannot_be_polled_with_another_pool() {
    use pgsteer_core::pool::Wait;
    use std::task::{Context, Waker};
    let (first, _leases, _, _) = leased_pool(1);
    let (second, _more, _, _) = leased_pool(1);
    let (mut wait, mut other) = (Wait::default(), Wait::default());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(second.poll_take(&mut other, &mut cx, None).is_pending());
    assert!(first.poll_take(&mut wait, &mut cx, None).is_pending());
    let _ = second.poll_take(&mut wait, &mut cx, None);
}

/// What a return comes to, by the state of the session, and what the driver does after its next pass.
#[test]
fn a_return_follows_the_state_of_the_session() {
    type Prepare = fn(&Session);
    let table: [(&str, Prepare, &str); 9] = [
        ("quiet", |_| {}, "released"),
        ("woken", |session| session.wake(), "parked"),
        ("polling", |session| session.begin_pass(), "parked"),
        ("busy", |session| pass(session, true, false), "parked"),
        ("busy and dirty", |session| pass(session, true, true), "parked"),
        ("dirty", |session| pass(session, false, true), "unfit"),
        ("closed", |session| assert!(!session.close()), "unfit"),
        ("retired", |session| session.retire(), "unfit"),
        (
            "retired while busy",
            |session| {
                pass(session, true, false);
                session.retire();
            },
            "unfit",
        ),
    ];
    for (state, prepare, expected) in table {
        let (pool, mut leases, sessions, _) = leased_pool(1);
        prepare(&sessions[0]);
        let became = match pool.give_back(leases.pop().unwrap()) {
            GivenBack::Released => "released",
            GivenBack::Parked => "parked",
            GivenBack::Unfit(_) => "unfit",
        };
        assert_eq!(became, expected, "{state}");
        assert_eq!(pool.is_idle(0), expected == "released", "{state}");
        assert_eq!(sessions[0].is_parked(), expected == "parked", "{state}");
        assert_eq!(pool.unpark(0).is_some(), expected == "parked", "{state}");
    }
}

fn pass(session: &Session, busy: bool, dirty: bool) {
    session.begin_pass();
    assert_eq!(session.end_pass(busy, dirty), PassEnd::Rest);
}

#[test]
fn an_empty_slot_that_is_given_back_is_unfit() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let mut lease = leases.pop().unwrap();
    pool.take(&mut lease);
    assert!(matches!(pool.give_back(lease), GivenBack::Unfit(_)));
}

#[test]
fn leases_guards_and_waits_may_move_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<slots_common::Pool>();
    shared::<Lease>();
    shared::<Session>();
    sent::<pgsteer_core::pool::Checkout<'_, slots_common::Connection, &'static str>>();
}
