//! Models of the watch over a resting connection: a wake, a checkout and a retirement meet in every order, with three
//! preemptions at most.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p pgsteer-core --release --test loom_watch`.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use loom::sync::Arc;
use loom::thread;
use pgsteer_core::pool::IdleWatch;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn what_comes_while_it_rests_is_known_to_whoever_takes_it_up_or_belongs_to_them() {
    explore(|| {
        let watch = Arc::new(IdleWatch::new());
        watch.rest();
        let stirrer = thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.stir()
        });
        let fit = watch.take_up();
        let told = stirrer.join().unwrap();
        // Either the keeper was told and the holder knows, or the holder had it before anything came.
        assert_eq!(told, !fit);
        assert_eq!(watch.is_fit(), fit);
    });
}

#[test]
fn of_two_wakes_in_one_rest_one_is_told() {
    explore(|| {
        let watch = Arc::new(IdleWatch::new());
        watch.rest();
        let stirrer = thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.stir()
        });
        let here = watch.stir();
        assert!(here ^ stirrer.join().unwrap());
        assert!(!watch.take_up());
    });
}

#[test]
fn a_retirement_is_lost_to_nobody_who_rests_takes_up_or_stirs() {
    explore(|| {
        let watch = Arc::new(IdleWatch::new());
        let retirer = thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.retire()
        });
        let stirrer = thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.stir()
        });
        watch.rest();
        let _ = watch.take_up();
        watch.rest();
        retirer.join().unwrap();
        let _ = stirrer.join().unwrap();
        assert!(watch.is_retired() && !watch.take_up());
    });
}
