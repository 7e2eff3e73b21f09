//! A request that finds an idle connection costs no allocation: not for the choice, not for the checkout, not for the return.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use backend_rig::{World, quiet, settle, start, start_set};
use pgsteer_router::backend::BackendOptions;

/// What a future that need not wait gives. Polled by hand, so that no runtime's allocations are counted.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it had to wait"),
    }
}

fn warm() -> BackendOptions {
    BackendOptions {
        min_idle: 4,
        ..quiet()
    }
}

#[tokio::test(start_paused = true)]
async fn borrowing_and_giving_back_allocate_nothing() {
    let world = World::default();
    let backend = world.backend("a:1");
    let pool = start(&world, &backend, warm());
    settle().await;
    let one = || at_once(pool.borrow()).unwrap().release();
    one();
    let counted = measure(|| (0..50).for_each(|_| one()));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[tokio::test(start_paused = true)]
async fn choosing_among_backends_allocates_nothing_either() {
    let world = World::default();
    let three = ["a:1:1", "b:1:2", "c:1:5"].map(|text| world.backend(text));
    let list: Vec<_> = three.iter().map(|backend| (backend, warm())).collect();
    let set = start_set(&world, &list);
    settle().await;
    let one = || at_once(set.borrow()).unwrap().answered();
    (0..8).for_each(|_| one());
    let counted = measure(|| (0..50).for_each(|_| one()));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[tokio::test(start_paused = true)]
async fn the_counter_counts() {
    let counted = measure(|| drop(Box::new([0_u8; 100])));
    assert_eq!(counted.count_total, 1);
}
