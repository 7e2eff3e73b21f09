//! Many tasks and few connections: each task gets one, lets others run once, and returns it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use tokio::sync::Notify;

use crate::contenders::{Bb8, Borrowed, Contender, Deadpool, Owned, SIZE};
use crate::options::Options;
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::Server;
use crate::stops;
use crate::table::{Column, Table};
use crate::turns::in_turn;

const TASKS: usize = 64;

/// How long each of a round's two phases is.
const PHASE: Duration = Duration::from_millis(250);

const THROUGHPUT: &str = "turns a second";
const CPU: &str = "CPU ns a turn";
const MEDIAN_WAIT: &str = "p50 wait µs";
const P95_WAIT: &str = "p95 wait µs";
const WAIT: &str = "p99 wait µs, worst-off task";
const VARIATION: &str = "variation of turns by task %";
const COLUMNS: &[Column] = &[
    Column::higher(THROUGHPUT),
    Column::lower(CPU),
    Column::lower(MEDIAN_WAIT),
    Column::lower(P95_WAIT),
    Column::lower(WAIT),
    Column::plain(VARIATION),
];

const STOPS: &str = "stops a second";
const STOP: &str = "µs, median";
const SHARE: &str = "% of pgsteer's waits in them";
const STOP_COLUMNS: &[Column] = &[Column::lower(STOPS), Column::lower(STOP), Column::plain(SHARE)];

/// What the tasks are to do now. Waits are timed in a phase of their own, so that reading the clock does not count as
/// the pool's work.
mod phase {
    pub(super) const WARM_UP: u8 = 0;
    pub(super) const COUNT: u8 = 1;
    pub(super) const TIME: u8 = 2;
    pub(super) const END: u8 = 3;
}

/// On cache lines of its own, so that tasks do not disturb each other by counting.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

#[derive(Default)]
struct Shared {
    phase: AtomicU8,
    turns: [Count; 32],
    more_turns: [Count; 32],
}

impl Shared {
    fn count(&self, task: usize) -> &AtomicU64 {
        let half = self.turns.len();
        if task < half {
            &self.turns[task].0
        } else {
            &self.more_turns[task - half].0
        }
    }

    fn counts(&self) -> Vec<u64> {
        (0..TASKS)
            .map(|task| self.count(task).load(Ordering::Relaxed))
            .collect()
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
    }
}

/// What is measured: a turn is to wait for what there is less of than tasks, to let others run once, and to give it on.
trait Turns: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    fn build(server: &Server) -> impl Future<Output = Self>;

    fn turn(&self, task: usize, got: impl FnOnce() + Send) -> impl Future<Output = ()> + Send;
}

impl<C: Contender> Turns for C {
    const NAME: &'static str = C::NAME;

    fn build(server: &Server) -> impl Future<Output = Self> {
        C::build(server)
    }

    fn turn(&self, _: usize, got: impl FnOnce() + Send) -> impl Future<Output = ()> + Send {
        self.get_yield_and_return(got)
    }
}

/// No pool: ten turns go round all tasks in a fixed order, each woken by the one whose turn it was. What is left when a
/// pool costs nothing at all: the runtime.
struct Ring([Notify; TASKS]);

impl Turns for Ring {
    const NAME: &'static str = "no pool, the runtime alone";

    async fn build(_: &Server) -> Self {
        let ring = Ring([const { Notify::const_new() }; TASKS]);
        ring.0.iter().take(SIZE as usize).for_each(Notify::notify_one);
        ring
    }

    async fn turn(&self, task: usize, got: impl FnOnce() + Send) {
        self.0[task].notified().await;
        got();
        tokio::task::yield_now().await;
        self.0[(task + SIZE as usize) % TASKS].notify_one();
    }
}

fn no_waits() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("the bounds are good")
}

/// One task; returns its waits in nanoseconds.
async fn work<C: Turns>(pool: Arc<C>, shared: Arc<Shared>, task: usize) -> Histogram<u32> {
    let mut waits = no_waits();
    let mut turns = 0;
    loop {
        match shared.phase.load(Ordering::Relaxed) {
            phase::END => return waits,
            phase::TIME => {
                let asked = Instant::now();
                let got = || waits.saturating_record(asked.elapsed().as_nanos() as u64);
                pool.turn(task, got).await;
            }
            phase::WARM_UP | phase::COUNT => pool.turn(task, || ()).await,
            phase => unreachable!("there is no phase {phase}"),
        }
        turns += 1;
        shared.count(task).store(turns, Ordering::Relaxed);
    }
}

fn round<C: Turns>(server: &Server, length: Duration, table: &mut Table) {
    let runtime = runtimes::two_workers();
    let pool = Arc::new(runtime.block_on(C::build(server)));
    let shared = Arc::new(Shared::default());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| runtime.spawn(work(Arc::clone(&pool), Arc::clone(&shared), task)))
        .collect();

    // On a thread of its own: a pool that never lets the runtime breathe would starve its timers.
    sleep(length / 5);
    let (before, started, cpu) = (shared.counts(), Instant::now(), ProcessTime::now());
    shared.enter(phase::COUNT);
    sleep(length);
    let (after, took, cpu) = (shared.counts(), started.elapsed(), cpu.elapsed());
    shared.enter(phase::TIME);
    sleep(length);
    shared.enter(phase::END);
    let p99 = |waits: &Histogram<u32>| match waits.len() {
        // A task that got nothing has waited all the while.
        0 => length.as_nanos() as f64,
        _ => waits.value_at_quantile(0.99) as f64,
    };
    let mut worst = 0_f64;
    let mut all = no_waits();
    for task in tasks {
        let waits = runtime.block_on(task).expect("the task ends well");
        worst = worst.max(p99(&waits));
        all.add(&waits).expect("they have the same bounds");
    }
    let quantile = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;

    let turns: Vec<f64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64)
        .collect();
    let total: f64 = turns.iter().sum();
    let cpu = cpu.as_nanos() as f64 / total;
    table.add(
        C::NAME,
        [
            total / took.as_secs_f64(),
            cpu,
            quantile(0.5),
            quantile(0.95),
            worst / 1e3,
            variation(&turns),
        ],
    );
    drop(pool);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// The coefficient of variation, in percent.
fn variation(figures: &[f64]) -> f64 {
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (squares / figures.len() as f64).sqrt() / mean * 100.0
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    let title = "2. Contended: 64 tasks, pool of 10, held over one yield, 2 workers";
    let mut table = Table::new(title, COLUMNS);
    let contenders = [
        round::<Borrowed>,
        round::<Owned>,
        round::<Deadpool>,
        round::<Bb8>,
        round::<Ring>,
    ];
    let mut stood_still = Vec::new();
    for number in 0..options.rounds(31) {
        in_turn(number, &contenders, |round| round(server, PHASE, &mut table));
        stood_still.push(stops::watch(PHASE));
    }

    let ours = [<Borrowed as Turns>::NAME, <Owned as Turns>::NAME];
    let (deadpool, bb8) = (<Deadpool as Turns>::NAME, <Bb8 as Turns>::NAME);
    let ratios = |column| {
        let beside = |rival| ours.map(|name| table.ratio(name, rival, column));
        [beside(deadpool), beside(bb8)].into_iter().flatten()
    };
    let throughput = ratios(THROUGHPUT).fold(f64::INFINITY, f64::min);
    let wait = ratios(WAIT).fold(0.0, f64::max);
    let variation = ours
        .map(|name| table.median(name, VARIATION))
        .into_iter()
        .fold(0.0, f64::max);
    report.demand(
        "64 tasks on 10: throughput, times the better of the two",
        Bound::AtLeast(1.4),
        throughput,
        "x",
    );
    report.demand(
        "64 tasks on 10: p99 wait, times the better of the two",
        Bound::AtMost(0.5),
        wait,
        "x",
    );
    report.demand(
        "64 tasks on 10: variation of turns by task",
        Bound::Below(3.0),
        variation,
        " %",
    );
    let turns_a_second = table.median(ours[0], THROUGHPUT);
    report.table(
        table,
        "Throughput, CPU and variation are taken while nothing reads a clock; waits in a second phase of the same \
         round. A task that got nothing counts as having waited for the whole phase. \"No pool\" lets ten turns go round all \
         tasks in a fixed order, each task woken by the one before: what the runtime leaves to a pool that costs nothing; \
         a task there cannot be overtaken by one that is sooner ready, so its waits are no limit. Demands are judged by \
         the worse of pgsteer's two guards beside the better of deadpool and bb8, by the median of the rounds' own ratios.",
    );

    let waiting = f64::from(TASKS as u32 - SIZE);
    let mut machine = Table::new("2. Meanwhile: how often the machine stands still", STOP_COLUMNS);
    for stops in stood_still {
        let share = stops.a_second * waiting / turns_a_second * 100.0;
        machine.add("the workers' cores", [stops.a_second, stops.median_us, share]);
    }
    report.table(
        machine,
        "Each round also watches the cores with nothing else running: a stop is 10 µs and more between two readings of the \
         clock, and those of several cores that overlap count as one. Whoever stands in a queue during a stop is late by it, and \
         that is nearly everybody who waits. Where that comes to more than 1 % of all waits, p99 is a wait of the pool's and \
         a stop of the machine's on top, and p95 is nearer to what the pool does.",
    );
}
