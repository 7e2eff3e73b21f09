//! A breaker in a world made by hand: its clock stands still until it is moved, its draws are given, and what it tells is
//! kept.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a module of several test programs, each of which uses its part"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pgsteer_core::breaker::{Breaker, BreakerOptions, Cause, Closed, Event, Permit, State, Surroundings};

/// What a failure is in these tests.
pub type Why = &'static str;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);

type Listener = Box<dyn Fn(&Event<Why>) + Send + Sync>;

pub struct World {
    started: Instant,
    elapsed_nanos: AtomicU64,
    draw: AtomicU64,
    draws_panic: AtomicBool,
    clock_reads: AtomicUsize,
    told: Mutex<Vec<Event<Why>>>,
    listener: Mutex<Option<Arc<Listener>>>,
}

struct Shared(Arc<World>);

impl Surroundings<Why> for Shared {
    fn now(&self) -> Instant {
        self.0.clock_reads.fetch_add(1, Ordering::Relaxed);
        self.0.started + Duration::from_nanos(self.0.elapsed_nanos.load(Ordering::Relaxed))
    }

    fn draw(&self) -> u64 {
        assert!(!self.0.draws_panic.load(Ordering::Relaxed), "a draw");
        self.0.draw.load(Ordering::Relaxed)
    }

    fn tell(&self, event: &Event<Why>) {
        self.0.told.lock().unwrap().push(event.clone());
        let listener = self.0.listener.lock().unwrap().clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }
}

pub struct Rig {
    pub breaker: Arc<Breaker<Why>>,
    world: Arc<World>,
}

/// The defaults without jitter: windows of exactly 1, 2, 4 … 60 s.
pub fn exact() -> BreakerOptions {
    BreakerOptions {
        jitter: 0.0,
        ..BreakerOptions::default()
    }
}

impl Rig {
    pub fn new(options: BreakerOptions) -> Self {
        let world = Arc::new(World {
            started: Instant::now(),
            elapsed_nanos: AtomicU64::new(0),
            draw: AtomicU64::new(0),
            draws_panic: AtomicBool::new(false),
            clock_reads: AtomicUsize::new(0),
            told: Mutex::default(),
            listener: Mutex::default(),
        });
        let breaker = Breaker::new(options, Box::new(Shared(Arc::clone(&world)))).unwrap();
        Rig {
            breaker: Arc::new(breaker),
            world,
        }
    }

    /// With the defaults, without jitter.
    pub fn exact() -> Self {
        Self::new(exact())
    }

    /// Open since just now, for its first window.
    pub fn tripped() -> Self {
        let rig = Self::exact();
        rig.fail(5);
        assert_eq!(rig.breaker.state(), State::Open);
        rig
    }

    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap();
        self.world.elapsed_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// What the next draws are.
    pub fn draws(&self, number: u64) {
        self.world.draw.store(number, Ordering::Relaxed);
    }

    pub fn draws_panic(&self, they_do: bool) {
        self.world.draws_panic.store(they_do, Ordering::Relaxed);
    }

    /// The clock goes back.
    pub fn go_back(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap();
        self.world.elapsed_nanos.fetch_sub(nanos, Ordering::Relaxed);
    }

    pub fn on_event(&self, listener: impl Fn(&Event<Why>) + Send + Sync + 'static) {
        *self.world.listener.lock().unwrap() = Some(Arc::new(Box::new(listener)));
    }

    /// What has been told since the last call.
    pub fn told(&self) -> Vec<Event<Why>> {
        std::mem::take(&mut self.world.told.lock().unwrap())
    }

    pub fn clock_reads(&self) -> usize {
        self.world.clock_reads.load(Ordering::Relaxed)
    }

    pub fn admit(&self) -> Permit<'_, Why> {
        self.breaker.admit().expect("admitted")
    }

    pub fn probe(&self) -> Permit<'_, Why> {
        let permit = self.admit();
        assert!(permit.is_probe());
        permit
    }

    pub fn fail(&self, times: u32) {
        for _ in 0..times {
            self.admit().failure("refused");
        }
    }

    pub fn rejects(&self) -> bool {
        self.breaker.admit().is_err()
    }

    /// What is left of the window.
    pub fn retry_after(&self) -> Duration {
        self.breaker.retry_after().expect("not closed")
    }
}

/// The windows that were told, with why each began.
pub fn windows(told: &[Event<Why>]) -> Vec<(Duration, Cause)> {
    let window = |event: &Event<Why>| match event {
        Event::Opened(opened) => Some((opened.window, opened.cause)),
        _ => None,
    };
    told.iter().filter_map(window).collect()
}

/// The ends of outages that were told.
pub fn ends(told: &[Event<Why>]) -> Vec<Closed> {
    let end = |event: &Event<Why>| match event {
        Event::Closed(closed) => Some(*closed),
        _ => None,
    };
    told.iter().filter_map(end).collect()
}
