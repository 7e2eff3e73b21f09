//! `SELECT 1`, prepared, on a real server: what a pool adds to the round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;

use crate::options::Options;
use crate::pooled::{Bare, Bb8, Checked, Deadpool, Pgsteer, Selects, Sqlx, Unchecked};
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

/// How long each measures at a time. Many short turns tell more than a few long ones: what the machine does meanwhile lasts
/// for seconds.
const TURN: Duration = Duration::from_millis(400);

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const END: u8 = 2;

/// One task; returns how long its queries took, checkout included, in nanoseconds.
async fn work<S: Selects>(contender: Arc<S>, phase: Arc<AtomicU8>, task: usize) -> Histogram<u32> {
    let mut times = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are good");
    loop {
        let asked = Instant::now();
        assert_eq!(contender.select(task).await, 1);
        match phase.load(Ordering::Relaxed) {
            WARM_UP => {}
            END => return times,
            _ => times.saturating_record(asked.elapsed().as_nanos() as u64),
        }
    }
}

fn round<S: Selects>(route: &Route, length: Duration, table: &mut Table) {
    let runtime = runtimes::two_workers();
    let contender = Arc::new(runtime.block_on(S::build(route)));
    let phase = Arc::new(AtomicU8::new(WARM_UP));
    let tasks: Vec<_> = (0..S::TASKS)
        .map(|task| runtime.spawn(work(Arc::clone(&contender), Arc::clone(&phase), task)))
        .collect();
    sleep(length / 4);
    phase.store(MEASURED, Ordering::Relaxed);
    let (started, cpu) = (Instant::now(), ProcessTime::now());
    sleep(length);
    phase.store(END, Ordering::Relaxed);
    let (took, cpu) = (started.elapsed(), cpu.elapsed());

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
    let queries = all.len() as f64;
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
        in_turn(number, &contenders, |round| round(route, TURN, &mut table));
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
        "A query's time counts from asking for the connection. pgsteer and deadpool-postgres keep the statement by its text on \
         the connection. Two workers; client and server share the machine's \
         cores. The bare clients have 8 tasks, not 16, so their times hold no waiting for a connection.",
    );
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    over(&server.unix(), options, report);
    over(&server.tcp(), options, report);
}
