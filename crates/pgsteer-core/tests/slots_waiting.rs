//! What somebody who waits for a slot can rely on: order, deadlines, hand-over, failing and closing.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod slots_common;

use pgsteer_core::pool::{Lane, Rejected, Take, Wait};
use slots_common::{Wakes, idle_pool, leased_pool, poll_once};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Covers: E-245
#[test]
fn a_waiter_gets_the_very_slot_that_comes_back() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let lease = leases.pop().unwrap();
    let mut waiter = pool.checkout(None);
    assert!(poll_once(&mut waiter).is_pending());

    pool.release(lease);

    let Poll::Ready(Ok(lease)) = poll_once(&mut waiter) else {
        panic!("it was handed over")
    };
    assert_eq!(lease.index(), 0);
    assert_eq!((pool.idle(), pool.waiting()), (0, 0));
}

/// Covers: E-246
#[test]
fn a_waiter_whose_deadline_is_over_leaves_no_trace() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let now = Instant::now();
    let mut waiter = pool.checkout(Some(now + Duration::from_millis(100)));
    assert!(poll_once(&mut waiter).is_pending());

    assert_eq!(
        pool.expire(now + Duration::from_millis(99)),
        Some(now + Duration::from_millis(100))
    );
    assert!(poll_once(&mut waiter).is_pending());
    assert_eq!(pool.expire(now + Duration::from_millis(100)), None);

    let Poll::Ready(Err(Rejected::TimedOut)) = poll_once(&mut waiter) else {
        panic!("it was timed out")
    };
    pool.release(leases.pop().unwrap());
    assert_eq!((pool.idle(), pool.waiting()), (1, 0));
}

#[test]
fn the_keeper_is_told_of_each_deadline_that_is_earlier_than_the_last_it_knows_of() {
    let (pool, _leases, _, shelf) = leased_pool(1);
    let now = Instant::now();
    let at = |seconds| Some(now + Duration::from_secs(seconds));
    let mut waiters: Vec<_> = [at(30), at(40), None, at(10), at(10), at(20)]
        .map(|at| pool.checkout(at))
        .into();
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    let told: Vec<_> = shelf.due.lock().unwrap().drain(..).map(Some).collect();
    assert_eq!(told, [at(30), at(10)]);

    assert_eq!(pool.expire(now + Duration::from_secs(10)), at(20));
    waiters.push(pool.checkout(at(15)));
    assert!(poll_once(waiters.last_mut().unwrap()).is_pending());
    assert_eq!(shelf.due.lock().unwrap().last().copied(), at(15));
}

#[test]
fn the_keeper_is_told_of_a_deadline_behind_one_that_has_run_out_and_gone() {
    let (pool, _leases, _, shelf) = leased_pool(1);
    let now = Instant::now();
    let at = |seconds| Some(now + Duration::from_secs(seconds));
    // The first waits for ever, so what is behind it stays in the queue's ring.
    let mut waiters = [pool.checkout(None), pool.checkout(at(10)), pool.checkout(at(20))];
    assert!(poll_once(&mut waiters[0]).is_pending());
    assert!(poll_once(&mut waiters[1]).is_pending());
    assert_eq!(pool.expire(now + Duration::from_secs(10)), None);

    assert!(poll_once(&mut waiters[2]).is_pending());

    assert_eq!(shelf.due.lock().unwrap().last().copied(), at(20));
}

#[test]
fn waiters_with_mixed_deadlines_time_out_in_order_of_deadline() {
    let (pool, _leases, _, _) = leased_pool(1);
    let now = Instant::now();
    let mut random = fastrand::Rng::with_seed(slots_common::seed());
    let mut waiters: Vec<_> = (0..200)
        .map(|_| {
            let after = random.u64(1..=50);
            (after, pool.checkout(Some(now + Duration::from_millis(after))))
        })
        .collect();
    for (_, waiter) in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    // Some leave from the middle.
    for _ in 0..50 {
        drop(waiters.swap_remove(random.usize(..waiters.len())));
    }

    for passed in 1..=50 {
        let next = pool.expire(now + Duration::from_millis(passed));
        let later = waiters
            .iter()
            .map(|(after, _)| *after)
            .filter(|&after| after > passed);
        assert_eq!(next, later.min().map(|after| now + Duration::from_millis(after)));
        waiters.retain_mut(|(after, waiter)| {
            let over = poll_once(waiter).is_ready();
            assert_eq!(over, *after <= passed);
            !over
        });
    }
    assert!(waiters.is_empty());
}

#[test]
fn a_granted_slot_is_kept_past_the_deadline_until_its_waiter_comes() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let now = Instant::now();
    let mut waiter = pool.checkout(Some(now));
    assert!(poll_once(&mut waiter).is_pending());
    pool.release(leases.pop().unwrap());

    assert_eq!(pool.expire(now + Duration::from_secs(1)), None);

    assert!(matches!(poll_once(&mut waiter), Poll::Ready(Ok(_))));
}

#[test]
fn a_newcomer_gets_nothing_while_somebody_waits() {
    let (pool, mut leases, _, _) = leased_pool(130);
    let mut waiters = [pool.checkout(None), pool.checkout(None)];
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    pool.release(leases.swap_remove(100));
    assert!(matches!(pool.try_take(), Take::Empty), "the second still waits");
    assert!(
        matches!(pool.try_take_near(Lane::new(0, 2)), Take::Empty),
        "whatever is near"
    );
    pool.release(leases.swap_remove(3));
    pool.release(leases.swap_remove(1));
    assert!(
        matches!(pool.try_take(), Take::Leased(_)),
        "nobody waits any more"
    );
}

#[test]
fn a_waiter_that_gives_up_passes_its_slot_to_the_next() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let (mut first, mut second) = (pool.checkout(None), pool.checkout(None));
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut second).is_pending());
    pool.release(leases.pop().unwrap());

    drop(first);

    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
}

#[test]
fn unfit_slots_go_to_the_keeper_and_not_to_waiters() {
    let (pool, mut leases, sessions, shelf) = leased_pool(2);
    let mut waiter = pool.checkout(None);
    assert!(poll_once(&mut waiter).is_pending());
    sessions[1].retire();
    pool.release(leases.pop().unwrap());
    assert!(poll_once(&mut waiter).is_pending());
    assert_eq!(shelf.indices(), [1]);

    pool.release(leases.pop().unwrap());

    let Poll::Ready(Ok(lease)) = poll_once(&mut waiter) else {
        panic!("the fit one is handed over")
    };
    assert_eq!(lease.index(), 0);
}

#[test]
fn a_slot_without_a_tenant_is_not_handed_out() {
    let (pool, mut leases, _, shelf) = leased_pool(2);
    let mut empty = leases.pop().unwrap();
    assert!(pool.take(&mut empty).is_some());
    pool.release(empty);
    let Take::Unfit(empty) = pool.try_take() else {
        panic!("it has no tenant")
    };
    pool.release(empty);

    let mut waiter = pool.checkout(None);
    assert!(poll_once(&mut waiter).is_pending());

    assert_eq!(shelf.indices(), [1], "the waiter found it on its first look");
}

#[test]
fn waiters_whose_granted_slots_became_unfit_keep_their_places() {
    let (pool, mut leases, sessions, shelf) = leased_pool(3);
    let mut waiters: Vec<_> = (0..4).map(|_| pool.checkout(None)).collect();
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    // All but the last are granted one, and all of these become unfit before anybody looks.
    leases.drain(..).for_each(|lease| pool.release(lease));
    sessions.iter().for_each(|session| session.retire());

    // They come for them youngest first.
    for place in [2, 0, 1] {
        assert!(poll_once(&mut waiters[place]).is_pending());
    }
    assert_eq!(shelf.indices().len(), 3);
    assert_eq!(pool.waiting(), 4);

    // The keeper mends them one by one: each goes to the oldest.
    sessions.iter().for_each(|session| session.unretire());
    for place in 0..3 {
        pool.release(shelf.take().unwrap());
        let served: Vec<_> = waiters
            .iter_mut()
            .map(|waiter| poll_once(waiter).is_ready())
            .collect();
        assert_eq!(
            served.iter().position(|&served| served),
            Some(0),
            "waiter {place} is the oldest"
        );
        assert_eq!(served.iter().filter(|&&served| served).count(), 1);
        drop(waiters.remove(0));
    }
}

#[test]
fn a_waiter_whose_granted_slot_became_unfit_takes_an_idle_one_at_once() {
    let (pool, mut leases, sessions, shelf) = leased_pool(2);
    let (second, first) = (leases.pop().unwrap(), leases.pop().unwrap());
    let mut waiter = pool.checkout(None);
    assert!(poll_once(&mut waiter).is_pending());
    pool.release(first);
    pool.release(second);
    sessions[0].retire();

    let Poll::Ready(Ok(lease)) = poll_once(&mut waiter) else {
        panic!("the other one is idle and fit")
    };

    assert_eq!(lease.index(), 1);
    assert_eq!(shelf.indices(), [0]);
    pool.release(lease);
    assert!(
        matches!(pool.try_take(), Take::Leased(_)),
        "nobody waits any more"
    );
}

#[test]
fn failing_the_waiters_spares_whoever_has_been_granted_a_slot_and_whoever_comes_later() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let (mut served, mut failed, mut later) = (pool.checkout(None), pool.checkout(None), pool.checkout(None));
    assert!(poll_once(&mut served).is_pending());
    assert!(poll_once(&mut failed).is_pending());
    pool.release(leases.pop().unwrap());

    pool.fail_waiters(&"no server");

    assert!(poll_once(&mut later).is_pending());
    let Poll::Ready(Err(error)) = poll_once(&mut failed) else {
        panic!("it was failed")
    };
    assert_eq!(error, Rejected::Failed("no server"));
    let Poll::Ready(Ok(lease)) = poll_once(&mut served) else {
        panic!("it was granted a slot before")
    };
    pool.release(lease);
    assert!(matches!(poll_once(&mut later), Poll::Ready(Ok(_))));
}

#[test]
fn closing_rejects_everybody_and_sends_what_comes_back_to_the_keeper() {
    let (pool, mut leases, _, shelf) = leased_pool(130);
    pool.release(leases.swap_remove(70));
    let (mut granted, mut waiting) = (pool.checkout(None), pool.checkout(None));
    let Poll::Ready(Ok(lease)) = poll_once(&mut granted) else {
        panic!("one is idle")
    };
    let mut granted = pool.checkout(None);
    assert!(poll_once(&mut granted).is_pending());
    assert!(poll_once(&mut waiting).is_pending());
    pool.release(lease);

    pool.close();

    for waiter in [&mut granted, &mut waiting, &mut pool.checkout(None)] {
        let Poll::Ready(Err(Rejected::Closed)) = poll_once(waiter) else {
            panic!("the pool is closed")
        };
    }
    assert!(matches!(pool.try_take(), Take::Empty));
    assert_eq!(shelf.indices(), [70], "granted and not collected");
    pool.release(leases.swap_remove(100));
    pool.release(leases.swap_remove(0));
    assert_eq!(shelf.indices().len(), 3);
    assert_eq!((pool.idle(), pool.waiting(), pool.is_closed()), (0, 0, true));
}

#[test]
fn idle_slots_of_a_closed_pool_are_the_keepers_to_claim() {
    let (pool, _, _) = idle_pool(2);
    pool.close();
    assert!(matches!(pool.try_take(), Take::Empty));
    assert_eq!(pool.claim(1).map(|lease| lease.index()), Some(1));
    assert_eq!(pool.idle_slots().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_wait_that_is_over_can_be_used_again() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let mut wait = Wait::default();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pool.poll_take(&mut wait, &mut cx, None).is_pending());
    pool.release(leases.pop().unwrap());
    for _ in 0..2 {
        let Poll::Ready(Ok(lease)) = pool.poll_take(&mut wait, &mut cx, None) else {
            panic!("it is free")
        };
        pool.cancel(&mut wait);
        pool.release(lease);
    }
    assert_eq!(pool.uses(0), 2);
}

#[test]
fn a_waiter_that_moves_to_another_task_wakes_the_new_one() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let (old, new) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    let mut waiter = pool.checkout(None);
    for wakes in [&old, &new] {
        let waker = Waker::from(Arc::clone(wakes));
        assert!(
            Pin::new(&mut waiter)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    pool.release(leases.pop().unwrap());
    assert_eq!((old.count(), new.count()), (0, 1));
}

#[test]
fn a_waker_that_owns_another_wait_may_be_dropped_at_any_time() {
    // Dropping the last waker of a task may drop the task, and with it a wait for the same pool.
    struct Owner(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);
    impl std::task::Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            if let Some(last_will) = self.0.get_mut().unwrap().take() {
                last_will();
            }
        }
    }
    let (pool, _leases, _, _) = leased_pool(1);
    let pool = Arc::new(pool);
    let mut inner = Wait::default();
    assert!(
        pool.poll_take(&mut inner, &mut Context::from_waker(Waker::noop()), None)
            .is_pending()
    );
    let last_will = {
        let pool = Arc::clone(&pool);
        Box::new(move || pool.cancel(&mut inner))
    };
    let waker = Waker::from(Arc::new(Owner(std::sync::Mutex::new(Some(last_will)))));
    let mut waiter = pool.checkout(None);
    assert!(
        Pin::new(&mut waiter)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);

    assert!(
        poll_once(&mut waiter).is_pending(),
        "replaces the waker, whose drop cancels the other wait"
    );

    assert_eq!(pool.waiting(), 1);
}
