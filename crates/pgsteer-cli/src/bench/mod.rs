//! `pgsteer bench`: tasks that check a connection out, run a query and give it back, and what that comes to each second
//! and in all. It drives the pool as any program would, and adds nothing of its own to a connection.

mod outage_report;
mod outages;
mod report;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pgsteer::config::Config;
use pgsteer::{Conn, HostKey, Pool};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::arguments::BenchArguments;
use crate::exit::Failure;
use crate::faults;
use crate::interrupt::Interrupt;
use crate::latency::{Recorder, Tally};
use crate::output::Output;
use outage_report::OutageFigures;
use outages::Outages;
use report::Report;

/// Length of the intervals reported.
const SECOND: Duration = Duration::from_secs(1);
/// How long the pool may take to close at the end.
const CLOSING: Duration = Duration::from_secs(2);
/// A task whose operation failed waits this long, so that a server that is down is not asked in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// Runs the load and prints the figures. An interrupt ends it early, with the figures up to then.
///
/// # Errors
///
/// A bad connection string; no connection at all; no operation that succeeded; output that cannot be written.
pub async fn run(
    arguments: &BenchArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut config: Config = arguments.url.parse()?;
    if let Some(size) = arguments.pool_size {
        config = config.pool_size(size);
    }
    let pool = Pool::start(config)?;
    tokio::select! {
        first = pool.get() => drop(first?),
        () = interrupt.asked() => return Ok(()),
    }
    let load = Load::start(&pool, arguments);
    let measured = measure(&pool, &load, arguments, output, interrupt).await;
    load.stop().await;
    pool.close(CLOSING).await;
    let total = measured?;
    match total.operations() {
        0 if !interrupt.is_asked() => Err(Failure::Work(nothing_succeeded(&total))),
        _ => Ok(()),
    }
}

fn nothing_succeeded(total: &Tally) -> String {
    let classes: Vec<String> = total
        .errors
        .iter()
        .map(|(class, count)| format!("{class}: {count}"))
        .collect();
    match classes.as_slice() {
        [] => "no operation ended in the measured time".to_owned(),
        classes => format!("no operation succeeded ({})", classes.join(", ")),
    }
}

/// Warms up, then prints a report each second and one at the end.
async fn measure(
    pool: &Pool,
    load: &Load,
    arguments: &BenchArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<Tally, Failure> {
    if !arguments.warmup.is_zero() {
        tokio::select! {
            () = sleep(arguments.warmup) => {}
            () = interrupt.asked() => {}
        }
        load.records.begin();
    }
    let started = Instant::now();
    let end = started + arguments.seconds;
    let mut total = Tally::default();
    let mut last = started;
    let mut seconds = interval_at(started + SECOND, SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    let mut over = false;
    while !over && !interrupt.is_asked() {
        tokio::select! {
            biased;
            _ = seconds.tick() => {}
            () = tokio::time::sleep_until(end) => over = true,
            () = interrupt.asked() => over = true,
        }
        let now = Instant::now();
        over |= now >= end;
        let tally = load.records.recorder.take();
        total.add(&tally);
        // What is left after the last whole second is in the total, and no second of its own.
        let length = now - last;
        if length >= SECOND / 2 || number == 0 {
            number += 1;
            let report = Report::of_second(number, length, &tally, &pool.status());
            print(&report, arguments.json, output)?;
        }
        last = now;
    }
    let report = Report::of_all(last - started, &total, &pool.status()).with(load.records.outages());
    print(&report, arguments.json, output)?;
    Ok(total)
}

fn print(report: &Report, json: bool, output: &mut Output) -> Result<(), Failure> {
    if json {
        output.json(report)
    } else {
        output.line(report.to_string())
    }
}

/// What the tasks did, and when nothing succeeded.
struct Records {
    recorder: Recorder,
    outages: Outages,
    started: Instant,
    started_at: SystemTime,
}

impl Records {
    fn new(shortest_outage: Duration) -> Self {
        Records {
            recorder: Recorder::new(),
            outages: Outages::of_at_least(shortest_outage),
            started: Instant::now(),
            started_at: SystemTime::now(),
        }
    }

    fn succeeded(&self, task: usize, host: &HostKey, checkout: Duration, latency: Duration) {
        self.outages.succeeded(self.started.elapsed());
        self.recorder.succeeded(task, host, checkout, latency);
    }

    fn failed(&self, task: usize, class: String) {
        self.outages.failed(self.started.elapsed(), &class);
        self.recorder.failed(task, class);
    }

    /// Forgets what was so far.
    fn begin(&self) {
        drop(self.recorder.take());
        self.outages.begun(self.started.elapsed());
    }

    fn outages(&self) -> OutageFigures {
        OutageFigures::of(&self.outages.ended(self.started.elapsed()), self.started_at)
    }
}

/// The tasks at work.
struct Load {
    tasks: JoinSet<()>,
    records: Arc<Records>,
}

impl Load {
    fn start(pool: &Pool, arguments: &BenchArguments) -> Self {
        let records = Arc::new(Records::new(Duration::from_millis(arguments.outage_ms)));
        let query: Arc<str> = arguments.query.as_str().into();
        let hold = Duration::from_millis(arguments.hold_ms);
        let mut tasks = JoinSet::new();
        for task in 0..arguments.tasks as usize {
            let (pool, query, records) = (pool.clone(), query.clone(), records.clone());
            tasks.spawn(async move {
                loop {
                    if !operation(task, &pool, &query, hold, &records).await {
                        sleep(AFTER_FAILURE).await;
                    }
                }
            });
        }
        Load { tasks, records }
    }

    /// Ends the tasks where they are; the pool cleans up what they leave.
    async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// One operation; whether it succeeded.
async fn operation(task: usize, pool: &Pool, query: &str, hold: Duration, records: &Records) -> bool {
    let started = Instant::now();
    let connection = match pool.get().await {
        Ok(connection) => connection,
        Err(error) => {
            records.failed(task, faults::class(&error));
            return false;
        }
    };
    let checkout = started.elapsed();
    let answer = connection.batch_execute(query).await;
    let latency = started.elapsed();
    let succeeded = match answer {
        Ok(()) => {
            records.succeeded(task, Conn::host(&connection), checkout, latency);
            true
        }
        Err(error) => {
            records.failed(task, faults::class(&error));
            false
        }
    };
    if !hold.is_zero() {
        sleep(hold).await;
    }
    succeeded
}
