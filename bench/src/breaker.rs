//! What a circuit breaker costs: a call that is let through and succeeds, and a call that is rejected, by one thread alone
//! and by one thread per core at once. The work itself is nothing.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use failsafe::{CircuitBreaker, backoff, failure_policy};
use pgsteer::ConnectionHealth;
use pgsteer::health::Finding;
use pgsteer_core::breaker::{Breaker, BreakerOptions, Event, Surroundings};
use recloser::Recloser;

use crate::options::Options;
use crate::report::{Bound, Report};
use crate::table::{Column, Table};

/// Calls between two looks at the clock.
const CALLS: u32 = 100_000;
/// Longer than the program runs, so that no probe is let through.
const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// What opens them.
const FAILURES: u32 = 5;

const ADMITTED: &str = "ns let through";
const REJECTED: &str = "ns rejected";
const ADMITTED_TOGETHER: &str = "ns let through, each core";
const REJECTED_TOGETHER: &str = "ns rejected, each core";
const COLUMNS: &[Column] = &[
    Column::lower(ADMITTED),
    Column::lower(REJECTED),
    Column::lower(ADMITTED_TOGETHER),
    Column::lower(REJECTED_TOGETHER),
];

const CORE: &str = "pgsteer-core, a permit";
const HEALTH: &str = "pgsteer, run_guarded";

/// One call. Whether it was let through.
type Call = Box<dyn Fn(Result<(), &'static str>) -> bool + Sync>;

struct Contender {
    name: &'static str,
    make: fn() -> Call,
}

const CONTENDERS: &[Contender] = &[
    Contender {
        name: CORE,
        make: core,
    },
    Contender {
        name: HEALTH,
        make: health,
    },
    Contender {
        name: "failsafe",
        make: failsafe_call,
    },
    Contender {
        name: "recloser",
        make: recloser_call,
    },
];

struct Outside;

impl Surroundings<&'static str> for Outside {
    fn now(&self) -> Instant {
        Instant::now()
    }
    fn draw(&self) -> u64 {
        fastrand::u64(..)
    }
    fn tell(&self, _: &Event<&'static str>) {}
}

fn core() -> Call {
    let options = BreakerOptions {
        base: WINDOW,
        cap: WINDOW,
        ..BreakerOptions::default()
    };
    let breaker = Breaker::new(options, Box::new(Outside)).expect("the options are good");
    Box::new(move |result| match breaker.admit() {
        Ok(permit) => {
            match result {
                Ok(()) => permit.success(),
                Err(error) => permit.failure(error),
            }
            true
        }
        Err(rejected) => {
            black_box(rejected);
            false
        }
    })
}

fn health() -> Call {
    let health = ConnectionHealth::builder().base(WINDOW).cap(WINDOW).build();
    let health = health.expect("the options are good");
    Box::new(move |result| {
        let work = pin!(health.run_guarded_by(async move { result }, |_| Finding::Down));
        match work.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(pgsteer::Guarded::CircuitOpen(open))) => {
                black_box(open);
                false
            }
            Poll::Ready(_) => true,
            Poll::Pending => unreachable!("the work is over at once"),
        }
    })
}

fn failsafe_call() -> Call {
    let policy = failure_policy::consecutive_failures(FAILURES, backoff::constant(WINDOW));
    let breaker = failsafe::Config::new().failure_policy(policy).build();
    Box::new(move |result| !matches!(breaker.call(|| result), Err(failsafe::Error::Rejected)))
}

fn recloser_call() -> Call {
    let breaker = Recloser::custom()
        .closed_len(FAILURES as usize)
        .open_wait(WINDOW)
        .build();
    Box::new(move |result| !matches!(breaker.call(|| result), Err(recloser::Error::Rejected)))
}

fn open(call: &Call) {
    for _ in 0..1_000 {
        call(Err("refused"));
    }
    assert!(!call(Ok(())), "it is open");
}

/// Nanoseconds a call, each of this many threads making them as fast as it can.
fn time(call: &Call, threads: usize, let_through: bool) -> f64 {
    let start = Barrier::new(threads);
    let run = || {
        start.wait();
        let started = Instant::now();
        for _ in 0..CALLS {
            assert_eq!(call(black_box(Ok(()))), let_through);
        }
        started.elapsed()
    };
    let slowest = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mine = run();
        others
            .into_iter()
            .map(|other| other.join().expect("it counts"))
            .fold(mine, Duration::max)
    });
    slowest.as_nanos() as f64 / f64::from(CALLS)
}

pub fn measure(options: &Options, report: &mut Report) {
    let mut table = Table::new("6. Circuit breakers", COLUMNS);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..options.rounds(31) {
        for Contender { name, make } in CONTENDERS {
            let call = make();
            let (alone, together) = (time(&call, 1, true), time(&call, cores, true));
            open(&call);
            let rejected = [time(&call, 1, false), time(&call, cores, false)];
            table.add(name, [alone, rejected[0], together, rejected[1]]);
        }
    }

    for (what, column) in [
        ("a rejection by an open breaker", REJECTED),
        ("the same, asked on every core at once", REJECTED_TOGETHER),
    ] {
        let slower = table.median(CORE, column).max(table.median(HEALTH, column));
        report.demand(what, Bound::Below(1_000.0), slower, " ns");
    }
    report.table(
        table,
        "Calls of work that does nothing. pgsteer's and failsafe's open at five failures in a row, recloser's at half of \
         five calls. \"Each core\": one thread per core, all asking one breaker as fast as they can; time of the slowest \
         by its own calls. A rejection of pgsteer's carries what is left of the window and the last error.",
    );
}
