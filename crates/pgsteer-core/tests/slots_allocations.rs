//! Counts allocations: a checkout and its return make none, and neither does a wait once the queue has grown to its
//! peak. The counter is per thread, so that the test harness does not disturb it.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    unsafe_code,
    reason = "a global allocator cannot be written without it; this one forwards to the system's"
)]

mod slots_common;

use pgsteer_core::pool::{Checkout, GivenBack, Lease, Rejected, Take};
use slots_common::{Connection, Wakes, idle_pool, leased_pool, poll_once};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes allocated and not freed by this thread.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: forwards every call unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promises are the system allocator's demands.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(of: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    of();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7_u64)))), 1);
}

#[test]
fn a_checkout_and_its_return_allocate_nothing() {
    for size in [1, 10, 1_000] {
        let (pool, _, _) = idle_pool(size);
        let count = allocations(|| {
            for _ in 0..100 {
                let Take::Leased(lease) = pool.try_take() else {
                    panic!("all are idle")
                };
                assert!(matches!(pool.give_back(lease), GivenBack::Released));
            }
        });
        assert_eq!(count, 0, "with {size} slots");
    }
}

#[test]
fn a_busy_return_and_its_release_by_the_driver_allocate_nothing() {
    let (pool, sessions, _) = idle_pool(1);
    let count = allocations(|| {
        for _ in 0..100 {
            let Take::Leased(lease) = pool.try_take() else {
                panic!("it is idle")
            };
            sessions[0].wake();
            assert!(matches!(pool.give_back(lease), GivenBack::Parked));
            sessions[0].begin_pass();
            assert_eq!(
                sessions[0].end_pass(false, false),
                pgsteer_core::pool::PassEnd::Release
            );
            pool.release(pool.unpark(0).unwrap());
        }
    });
    assert_eq!(count, 0);
}

type Waiting<'a> = Checkout<'a, Connection, &'static str>;

/// Everybody waits; every other is served and two give up, one of them with a slot; the rest time out.
fn round(pool: &slots_common::Pool, lease: &mut Option<Lease>, waker: &Waker, start: Instant) {
    let mut cx = Context::from_waker(waker);
    let mut waiters: [Waiting<'_>; 8] =
        std::array::from_fn(|place| pool.checkout(Some(start + Duration::from_millis(100 - place as u64))));
    for waiter in &mut waiters {
        assert!(Pin::new(waiter).poll(&mut cx).is_pending());
    }
    let [first, gives_up, third, passes_on, fifth, late @ ..] = &mut waiters;
    for waiter in [first, third] {
        *gives_up = pool.checkout(None);
        pool.release(lease.take().unwrap());
        let Poll::Ready(Ok(granted)) = Pin::new(waiter).poll(&mut cx) else {
            panic!("the oldest is served")
        };
        *lease = Some(granted);
    }
    pool.release(lease.take().unwrap());
    *passes_on = pool.checkout(None);
    let Poll::Ready(Ok(granted)) = Pin::new(fifth).poll(&mut cx) else {
        panic!("it was passed on")
    };
    *lease = Some(granted);
    for waiter in late {
        *waiter = pool.checkout(None);
    }
}

#[test]
fn waiting_allocates_nothing_once_the_queue_has_grown() {
    let (pool, mut leases, _, _) = leased_pool(1);
    let mut lease = leases.pop();
    let waker = Waker::from(Arc::new(Wakes::default()));
    let start = Instant::now();
    // The keeper of the tests writes down that it was told of a deadline; let that be before the count.
    let earliest = start + Duration::from_millis(1);
    let mut told = pool.checkout(Some(earliest));
    assert!(poll_once(&mut told).is_pending());
    drop(told);
    round(&pool, &mut lease, &waker, start);

    let count = allocations(|| {
        for _ in 0..100 {
            round(&pool, &mut lease, &waker, start);
        }
    });
    assert_eq!(count, 0);
    assert_eq!((pool.waiting(), pool.idle(), lease.is_some()), (0, 0, true));
}

#[test]
fn a_waiter_takes_at_most_two_hundred_bytes() {
    const WAITERS: usize = 1_024;
    let (pool, _leases, _, _) = leased_pool(1);
    let mut waiters: Vec<Waiting<'_>> = (0..WAITERS)
        .map(|_| pool.checkout(Some(Instant::now())))
        .collect();
    let bytes = BYTES.get();
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    let grown = BYTES.get() - bytes;
    let each = grown / WAITERS + size_of::<Waiting<'_>>();
    assert!(each <= 200, "{each} bytes a waiter");
    assert!(size_of::<Result<Lease, Rejected<&str>>>() <= 32);
}

#[test]
fn the_queue_keeps_no_more_than_its_peak_while_many_wait_and_others_come_and_go() {
    let (pool, _leases, _, _) = leased_pool(1);
    let mut stay: Vec<_> = (0..1_000).map(|_| pool.checkout(None)).collect();
    for waiter in &mut stay {
        assert!(poll_once(waiter).is_pending());
    }
    let come_and_go = |times: usize| {
        for _ in 0..times {
            let mut waiter = pool.checkout(None);
            assert!(poll_once(&mut waiter).is_pending());
        }
    };
    come_and_go(10_000);

    let before = BYTES.get();
    come_and_go(100_000);

    assert_eq!(BYTES.get(), before);
    assert_eq!(pool.waiting(), stay.len());
}
