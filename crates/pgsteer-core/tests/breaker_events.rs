//! What a breaker tells, in which order, and what becomes of a listener that calls back or panics.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use pgsteer_core::breaker::{Cause, ClosedBy, Event, State};

use breaker_rig::{Rig, SECOND, Why, ends, windows};

fn name(event: &Event<Why>) -> &'static str {
    match event {
        Event::Opened(_) => "opened",
        Event::HalfOpened(_) => "half-opened",
        Event::Closed(_) => "closed",
        _ => "unknown",
    }
}

/// Covers: B-33
#[test]
fn a_trip_is_told_once_with_its_window_and_what_failed() {
    let rig = Rig::exact();
    rig.fail(4);
    assert_eq!(rig.told(), []);
    rig.admit().failure("the fifth");
    let told = rig.told();
    let [Event::Opened(opened)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (opened.window, opened.trips, opened.cause, opened.last_error),
        (SECOND, 1, Cause::Threshold, "the fifth")
    );
}

/// Covers: B-33
#[test]
fn rejections_are_not_told() {
    let rig = Rig::tripped();
    rig.told();
    for _ in 0..1_000 {
        assert!(rig.rejects());
    }
    assert_eq!(rig.told(), []);
}

/// What is news and what is told only to those who look for trouble.
///
/// Covers: B-20
#[test]
fn a_long_outage_is_news_ever_more_rarely_and_a_probe_given_up_is_none() {
    let rig = Rig::tripped();
    for _ in 0..99 {
        rig.advance(60 * SECOND);
        drop(rig.probe());
        rig.advance(60 * SECOND);
        rig.probe().failure("still down");
    }
    let told = rig.told();
    let news: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            Event::Opened(opened) if opened.is_news() => Some((opened.trips, opened.cause)),
            _ => None,
        })
        .collect();
    assert_eq!(news[0], (1, Cause::Threshold));
    let later = [2, 4, 8, 16, 32, 64].map(|trips| (trips, Cause::Probe));
    assert_eq!(news[1..], later);
}

/// Covers: B-33
#[test]
fn an_outage_is_told_from_its_trip_to_its_end() {
    let rig = Rig::tripped();
    rig.advance(SECOND);
    rig.probe().failure("still down");
    rig.advance(2 * SECOND);
    drop(rig.probe());
    rig.advance(2 * SECOND);
    rig.probe().success();
    let told = rig.told();
    assert_eq!(
        told.iter().map(name).collect::<Vec<_>>(),
        [
            "opened",
            "half-opened",
            "opened",
            "half-opened",
            "opened",
            "half-opened",
            "closed"
        ]
    );
    assert_eq!(
        windows(&told),
        [
            (SECOND, Cause::Threshold),
            (2 * SECOND, Cause::Probe),
            (2 * SECOND, Cause::Abandoned)
        ]
    );
    let [end] = ends(&told)[..] else {
        panic!("one end: {told:?}")
    };
    assert_eq!((end.outage, end.by), (5 * SECOND, ClosedBy::Probe));
}

/// Covers: B-14
#[test]
fn a_listener_may_call_the_breaker() {
    let rig = Rig::exact();
    let breaker = Arc::clone(&rig.breaker);
    rig.on_event(move |event| match event {
        Event::Opened(opened) => {
            assert_eq!(breaker.state(), State::Open);
            assert_eq!(breaker.retry_after(), Some(opened.window));
            assert!(breaker.admit().is_err());
            breaker.sign_of_life();
        }
        _ => assert_eq!(breaker.status().trips, 0),
    });
    rig.fail(5);
    assert_eq!(
        rig.told().iter().map(name).collect::<Vec<_>>(),
        ["opened", "closed"],
        "what it causes is told after what it was told"
    );
    assert_eq!(rig.breaker.state(), State::Closed);
}

/// Covers: B-14
#[test]
fn a_listener_that_panics_disturbs_nobody() {
    let rig = Rig::exact();
    let breaker = Arc::clone(&rig.breaker);
    rig.on_event(move |event| {
        if let Event::Opened(_) = event {
            // This is told after the panic, although it happened before.
            breaker.sign_of_life();
        }
        panic!("a listener");
    });
    rig.fail(5);
    assert_eq!(
        rig.told().iter().map(name).collect::<Vec<_>>(),
        ["opened", "closed"]
    );
    rig.fail(5);
    assert_eq!(
        rig.told().iter().map(name).collect::<Vec<_>>(),
        ["opened", "closed"]
    );
    assert_eq!(rig.breaker.state(), State::Closed);
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn a_listener_that_panics_with_something_that_panics_itself_disturbs_nobody_either() {
    let rig = Rig::exact();
    rig.on_event(|_| std::panic::panic_any(PanicsWhenDropped));
    rig.fail(5);
    rig.breaker.reset();
    rig.fail(5);
    assert_eq!(
        rig.told().iter().map(name).collect::<Vec<_>>(),
        ["opened", "closed", "opened"]
    );
}

#[test]
fn a_listener_that_panics_while_a_panic_gives_a_probe_up_does_not_end_the_process() {
    let rig = Rig::tripped();
    rig.on_event(|_| panic!("a listener"));
    rig.advance(SECOND);
    let probe = rig.breaker.admit_owned().unwrap();
    let panicked = std::thread::spawn(move || {
        let _probe = probe;
        panic!("the probe");
    })
    .join();
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"the probe"));
    assert_eq!(rig.breaker.state(), State::Open);
}

#[test]
fn a_slow_listener_holds_up_nobody_and_misses_nothing() {
    let rig = Rig::exact();
    let (entered, in_listener) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let (entered, gate) = (std::sync::Mutex::new(entered), std::sync::Mutex::new(gate));
    rig.on_event(move |event| {
        if let Event::Opened(opened) = event
            && opened.trips == 1
        {
            entered.lock().unwrap().send(()).unwrap();
            gate.lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(30))
                .unwrap();
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(|| rig.fail(5));
        in_listener.recv_timeout(Duration::from_secs(30)).unwrap();
        // Meanwhile life goes on.
        assert!(rig.rejects());
        rig.advance(SECOND);
        rig.probe().failure("again");
        assert_eq!(rig.retry_after(), 2 * SECOND);
        assert_eq!(
            rig.told().iter().map(name).collect::<Vec<_>>(),
            ["opened"],
            "the rest is told when the listener is done"
        );
        go_on.send(()).unwrap();
    });
    assert_eq!(
        rig.told().iter().map(name).collect::<Vec<_>>(),
        ["half-opened", "opened"]
    );
}

#[test]
fn changes_made_by_many_threads_are_told_one_at_a_time_and_in_their_order() {
    const THREADS: usize = 4;
    let rig = Rig::exact();
    let inside = Arc::new(AtomicU32::new(0));
    {
        let inside = Arc::clone(&inside);
        rig.on_event(move |_| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two listeners at once");
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rig, start) = (&rig, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..2_000 {
                    match rig.breaker.admit() {
                        Ok(permit) if (turn + thread) % 16 == 0 => permit.success(),
                        Ok(permit) => permit.failure("refused"),
                        // Any window or lease is over then, so that there is much to tell.
                        Err(_) => rig.advance(61 * SECOND),
                    }
                }
            });
        }
    });
    let told = rig.told();
    assert!(told.len() > 100, "{}", told.len());
    // Each kind of event may only follow certain others: out of order it would show.
    let mut before = "closed";
    for event in &told {
        let now = name(event);
        let fits = match now {
            "opened" => matches!(before, "closed" | "half-opened"),
            "half-opened" => matches!(before, "opened" | "half-opened"),
            _ => before == "half-opened",
        };
        assert!(fits, "{now} after {before}");
        before = now;
    }
}
