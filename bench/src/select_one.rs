//! `SELECT 1`, prepared, on a real server: what a pool adds to the round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;

use crate::options::Options;
use crate::pooled::{Bare, Bb8, Checked, Deadpool, Pgsteer, Selects, Sqlx, TASKS, Unchecked};
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::{Route, Server};
use crate::table::{Column, Table};
use crate::turns::in_turn;

const THROUGHPUT: &str = "queries a second";
const CPU: &str = "client CPU µs a query";
const MEDIAN: &str = "p50 µs";
const WORST: &str = "p99 µs, worst-off task";
const COLUMNS: &[Column] = &[
    Column::higher(THROUGHPUT),
    Column::lower(CPU),
    Column::lower(MEDIAN),
    Column::lower(WORST),
];

/// How long each of a turn's two phases is. Many short turns tell more than a few long ones: what the machine does
/// meanwhile lasts for seconds.
const PHASE: Duration = Duration::from_millis(300);

const WARM_UP: u8 = 0;
const COUNT: u8 = 1;
const TIME: u8 = 2;
const END: u8 = 3;

/// Those of one task, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// What the tasks are to do now, and how many queries each has run. Times are taken in a phase of their own, so that reading
/// the clock does not count as the pool's work.
#[derive(Default)]
struct Shared {
    phase: AtomicU8,
    queries: [Count; TASKS],
}

impl Shared {
    fn queries(&self) -> u64 {
        self.queries
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
    }
}

/// One task; returns how long its queries took, checkout included, in nanoseconds.
async fn work<S: Selects>(contender: Arc<S>, shared: Arc<Shared>, task: usize) -> Histogram<u32> {
    let mut times = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are good");
    let mut queries = 0;
    loop {
        match shared.phase.load(Ordering::Relaxed) {
            END => return times,
            TIME => {
                let asked = Instant::now();
                assert_eq!(contender.select(task).await, 1);
                times.saturating_record(asked.elapsed().as_nanos() as u64);
            }
            _ => assert_eq!(contender.select(task).await, 1),
        }
        queries += 1;
        shared.queries[task].0.store(queries, Ordering::Relaxed);
    }
}

fn round<S: Selects>(route: &Route, length: Duration, table: &mut Table) {
    let runtime = runtimes::two_workers();
    let contender = Arc::new(runtime.block_on(S::build(route)));
    let shared = Arc::new(Shared::default());
    shared.enter(WARM_UP);
    let tasks: Vec<_> = (0..S::TASKS)
        .map(|task| runtime.spawn(work(Arc::clone(&contender), Arc::clone(&shared), task)))
        .collect();
    sleep(length / 3);
    shared.enter(COUNT);
    let (before, started, cpu) = (shared.queries(), Instant::now(), ProcessTime::now());
    sleep(length);
    let (queries, took, cpu) = (shared.queries() - before, started.elapsed(), cpu.elapsed());
    shared.enter(TIME);
    sleep(length);
    shared.enter(END);

    let mut all = Histogram::<u32>::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are good");
    let mut worst = 0_f64;
    for task in tasks {
        let times = runtime.block_on(task).expect("the task ends well");
        // A task that got nothing has waited all the while.
        let p99 = if times.is_empty() {
            length.as_nanos() as f64
        } else {
            times.value_at_quantile(0.99) as f64
        };
        worst = worst.max(p99);
        all.add(&times).expect("the bounds are the same");
    }
    let queries = queries as f64;
    let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
    table.add(
        S::NAME,
        [
            queries / took.as_secs_f64(),
            microseconds(cpu) / queries,
            all.value_at_quantile(0.5) as f64 / 1e3,
            worst / 1e3,
        ],
    );
    drop(contender);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn over(route: &Route, options: &Options, report: &mut Report) {
    let title = format!(
        "3. SELECT 1, prepared, 16 tasks on 8 connections, {}",
        route.name()
    );
    let mut table = Table::new(title, COLUMNS);
    let contenders = [
        round::<Pgsteer>,
        round::<Deadpool>,
        round::<Bare>,
        round::<Bb8<Unchecked>>,
        round::<Bb8<Checked>>,
        round::<Sqlx>,
    ];
    for number in 0..options.rounds(41) {
        in_turn(number, &contenders, |round| round(route, PHASE, &mut table));
    }

    let ratio = |column, other| table.ratio(Pgsteer::NAME, other, column);
    let mut demand = |what: &str, bound, measured| {
        report.demand(
            format!("SELECT 1, {}: {what}", route.name()),
            bound,
            measured,
            "x",
        );
    };
    demand(
        "throughput, times 8 bare clients'",
        Bound::AtLeast(0.97),
        ratio(THROUGHPUT, Bare::NAME),
    );
    demand(
        "client CPU a query, times deadpool-postgres'",
        Bound::AtMost(1.0),
        ratio(CPU, Deadpool::NAME),
    );
    demand(
        "p99 of the worst-off task, times deadpool-postgres'",
        Bound::AtMost(1.0),
        ratio(WORST, Deadpool::NAME),
    );
    demand(
        "throughput, times deadpool-postgres'",
        Bound::AtLeast(1.0),
        ratio(THROUGHPUT, Deadpool::NAME),
    );
    let bb8 = <Bb8<Checked> as Selects>::NAME;
    demand(
        "throughput, times bb8-postgres' with its defaults",
        Bound::AtLeast(1.7),
        ratio(THROUGHPUT, bb8),
    );
    demand(
        "throughput, times sqlx's with its defaults",
        Bound::AtLeast(1.7),
        ratio(THROUGHPUT, Sqlx::NAME),
    );
    report.table(
        table,
        "Throughput and CPU are taken while nothing reads a clock; times in a second phase of the same turn. A query's time \
         counts from asking for the connection; a task that got nothing counts as having waited for the whole phase. \
         pgsteer and deadpool-postgres keep the statement by its text on \
         the connection. Two workers; client and server share the machine's \
         cores. The bare clients have 8 tasks, not 16, so their times hold no waiting for a connection.",
    );
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    over(&server.unix(), options, report);
    over(&server.tcp(), options, report);
}
