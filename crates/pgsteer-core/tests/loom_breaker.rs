//! Models of the breaker: every interleaving of up to three threads that loom can find, within the preemption bound
//! given with each. The clock moves only while one thread runs, so that each model is about one instant.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p pgsteer-core --release --test loom_breaker`.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::sync::Arc;

use loom::thread;
use pgsteer_core::breaker::{BreakerOptions, Cause, Event, Permit, State};

use breaker_rig::{Rig, SECOND, Why, ends, exact, windows};

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn rig(threshold: u32) -> Arc<Rig> {
    Arc::new(Rig::new(BreakerOptions { threshold, ..exact() }))
}

/// Open, and its first window just over.
fn window_over() -> Arc<Rig> {
    let rig = rig(1);
    rig.fail(1);
    rig.advance(SECOND);
    rig.told();
    rig
}

fn spawn<T: 'static>(rig: &Arc<Rig>, run: impl FnOnce(&Rig) -> T + 'static) -> thread::JoinHandle<T> {
    let rig = Arc::clone(rig);
    thread::spawn(move || run(&rig))
}

/// Whatever has happened: in the end somebody is admitted, and a success closes it.
fn assert_not_wedged(rig: &Rig) {
    rig.advance(200 * SECOND);
    rig.admit().success();
    assert_eq!(rig.breaker.state(), State::Closed);
    assert!(!rig.admit().is_probe());
}

/// The told changes make one story: each may follow the one before it.
fn assert_in_order(told: &[Event<Why>], mut state: State) {
    for event in told {
        let (fits, next) = match event {
            Event::Opened(opened) if opened.cause == Cause::Threshold => {
                (state == State::Closed, State::Open)
            }
            Event::Opened(_) => (state == State::HalfOpen, State::Open),
            Event::HalfOpened(half) if half.replaces_lost => (state == State::HalfOpen, State::HalfOpen),
            Event::HalfOpened(_) => (state == State::Open, State::HalfOpen),
            _ => (state != State::Closed, State::Closed),
        };
        assert!(fits, "{event:?} in {state:?}: {told:?}");
        state = next;
    }
}

fn asks_and_keeps(rig: &Rig) -> Option<Permit<'static, Why>> {
    rig.breaker.admit_owned().ok()
}

/// Covers: B-04
#[test]
fn of_three_that_ask_when_the_window_ends_one_is_admitted() {
    explore(3, || {
        let rig = window_over();
        let others = [spawn(&rig, asks_and_keeps), spawn(&rig, asks_and_keeps)];
        let mut admitted: Vec<_> = asks_and_keeps(&rig).into_iter().collect();
        admitted.extend(others.into_iter().filter_map(|other| other.join().unwrap()));

        assert_eq!(admitted.len(), 1);
        assert!(admitted[0].is_probe());
        assert_eq!(rig.told().len(), 1);
        drop(admitted);
        assert_not_wedged(&rig);
    });
}

/// Whether it was the probe, which has ended in the given way.
fn asks_and_ends(rig: &Rig, end: fn(Permit<'_, Why>)) -> bool {
    match rig.breaker.admit() {
        Ok(probe) if probe.is_probe() => {
            end(probe);
            true
        }
        Ok(permit) => {
            permit.success();
            false
        }
        Err(_) => false,
    }
}

/// Covers: B-04
#[test]
fn one_window_has_one_probe_however_it_ends() {
    type End = fn(Permit<'_, Why>);
    let endings: [(End, State); 4] = [
        (|probe| probe.success(), State::Closed),
        (|probe| probe.neutral(), State::Closed),
        (|probe| probe.failure("refused"), State::Open),
        (|probe| drop(probe), State::Open),
    ];
    for (end, expected) in endings {
        explore(3, move || {
            let rig = window_over();
            let others = [(); 2].map(|()| spawn(&rig, move |rig| asks_and_ends(rig, end)));
            let mut probes = usize::from(asks_and_ends(&rig, end));
            for other in others {
                probes += usize::from(other.join().unwrap());
            }
            assert_eq!((probes, rig.breaker.state()), (1, expected));
            assert_in_order(&rig.told(), State::Open);
            assert_not_wedged(&rig);
        });
    }
}

/// Covers: B-03, B-04
#[test]
fn of_two_that_ask_when_the_lease_ends_one_replaces_the_lost_probe_whatever_that_does_at_last() {
    type End = fn(Permit<'static, Why>);
    let endings: [End; 4] = [
        |lost| lost.success(),
        |lost| lost.neutral(),
        |lost| lost.failure("late"),
        |lost| drop(lost),
    ];
    for end in endings {
        explore(3, move || {
            let rig = window_over();
            let lost = rig.breaker.admit_owned().unwrap();
            rig.advance(60 * SECOND);
            rig.told();
            let lost = thread::spawn(move || end(lost));
            let other = spawn(&rig, asks_and_keeps);
            let mine = asks_and_keeps(&rig);
            lost.join().unwrap();
            let admitted: Vec<_> = mine.into_iter().chain(other.join().unwrap()).collect();

            let probes = admitted.iter().filter(|permit| permit.is_probe()).count();
            assert!(probes <= 1);
            match rig.breaker.state() {
                // The lost one came back in time and decided; everybody after it goes by that.
                State::Closed => assert!(admitted.iter().all(|permit| !permit.is_probe())),
                State::Open => assert!(admitted.is_empty()),
                // It came too late: its successor is on its way, and alone.
                State::HalfOpen => assert_eq!((probes, admitted.len()), (1, 1)),
            }
            assert_in_order(&rig.told(), State::HalfOpen);
            drop(admitted);
            assert_not_wedged(&rig);
        });
    }
}

#[test]
fn a_lease_that_is_renewed_as_it_ends_is_the_probes_or_its_successors_and_never_both() {
    explore(3, || {
        let rig = window_over();
        let probe = rig.breaker.admit_owned().unwrap();
        rig.advance(60 * SECOND);
        rig.told();
        let probe = thread::spawn(move || {
            probe.renew();
            probe
        });
        let other = spawn(&rig, asks_and_keeps);
        let mine = asks_and_keeps(&rig);
        let probe = probe.join().unwrap();
        let successors: Vec<_> = mine.into_iter().chain(other.join().unwrap()).collect();
        let replaced = rig.told().len();
        assert_eq!(successors.len(), replaced);
        assert!(replaced <= 1);

        probe.success();
        let expected = if replaced == 1 {
            State::HalfOpen
        } else {
            State::Closed
        };
        assert_eq!(rig.breaker.state(), expected);
        drop(successors);
        assert_not_wedged(&rig);
    });
}

#[test]
fn failures_and_successes_of_a_closed_breaker_count_as_in_some_order() {
    explore(3, || {
        let rig = rig(3);
        let permits: Vec<_> = (0..3).map(|_| rig.breaker.admit_owned().unwrap()).collect();
        let [first, second, third] = <[_; 3]>::try_from(permits).unwrap();
        let others = [
            thread::spawn(move || first.failure("refused")),
            thread::spawn(move || second.failure("refused")),
        ];
        third.success();
        others.into_iter().for_each(|other| other.join().unwrap());
        let streak = rig.breaker.status().streak;
        assert!(streak <= 2, "{streak}");

        // The word agrees with the count: a success still finds what there is to clear.
        rig.admit().success();
        assert_eq!(rig.breaker.status().streak, 0);
    });
}

#[test]
fn no_failure_is_lost_and_a_trip_is_told_once() {
    explore(3, || {
        let rig = rig(2);
        let others = [(); 2].map(|()| {
            spawn(&rig, |rig| {
                if let Ok(permit) = rig.breaker.admit() {
                    permit.failure("refused");
                }
            })
        });
        if let Ok(permit) = rig.breaker.admit() {
            permit.failure("refused");
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(rig.breaker.state(), State::Open);
        assert_eq!(windows(&rig.told()), [(SECOND, Cause::Threshold)]);
        assert_not_wedged(&rig);
    });
}

#[test]
fn a_success_of_before_the_trip_never_undoes_it() {
    explore(3, || {
        let rig = rig(1);
        let early = rig.breaker.admit_owned().unwrap();
        let success = thread::spawn(move || early.success());
        let other = spawn(&rig, |rig| {
            if let Ok(permit) = rig.breaker.admit() {
                permit.success();
            }
        });
        rig.fail(1);
        success.join().unwrap();
        other.join().unwrap();
        assert_eq!(rig.breaker.state(), State::Open);
        assert_eq!(ends(&rig.told()), []);
    });
}

#[test]
fn a_sign_of_life_a_failing_probe_and_an_asker_leave_it_whole() {
    explore(3, || {
        let rig = window_over();
        let probe = rig.breaker.admit_owned().unwrap();
        let probe = thread::spawn(move || probe.failure("refused"));
        let life = spawn(&rig, |rig| rig.breaker.sign_of_life());
        let asker = asks_and_keeps(&rig);
        probe.join().unwrap();
        life.join().unwrap();

        assert_eq!(
            rig.breaker.state(),
            State::Closed,
            "the sign of life is from after the trip, and the window of the probe's failure is not over"
        );
        assert!(asker.is_none_or(|permit| !permit.is_probe()));
        assert_in_order(&rig.told(), State::Open);
        assert_not_wedged(&rig);
    });
}

#[test]
fn every_change_is_told_in_its_order_by_the_time_its_threads_are_done() {
    explore(3, || {
        let rig = rig(1);
        let others = [(); 2].map(|()| {
            spawn(&rig, |rig| {
                if let Ok(permit) = rig.breaker.admit() {
                    permit.failure("refused");
                }
            })
        });
        rig.breaker.sign_of_life();
        others.into_iter().for_each(|other| other.join().unwrap());
        let told = rig.told();
        assert_in_order(&told, State::Closed);
        let is_open = matches!(told.last(), Some(Event::Opened(_)));
        assert_eq!(rig.breaker.state() == State::Open, is_open);
    });
}
