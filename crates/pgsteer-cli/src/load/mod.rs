//! `pgsteer load`: clients that send length-prefixed requests to what should send them back, a router in front of `pgsteer
//! echo` say, and account for every single one: answered, lost, duplicated, or mixed up with another.

mod answers;
pub mod arguments;
mod client;
mod nagle;
mod pace;
mod payload;
mod report;
mod run;
mod stream;
mod tally;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval_at, sleep, sleep_until};

use crate::descriptors;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, complain};
use arguments::LoadArguments;
use client::Client;
use pace::Pace;
use payload::Payloads;
use report::Report;
use run::Run;
use stream::Dialler;
use tally::Tally;

/// Length of the intervals reported.
const SECOND: Duration = Duration::from_secs(1);
/// How long to send where nothing is said of it.
const USUAL: Duration = Duration::from_secs(10);
/// Idle connections that are being opened at the same time.
const DIALLING: usize = 64;

/// Runs the load and prints the figures. An interrupt ends it early, with the figures up to then.
///
/// # Errors
///
/// Bad arguments; nothing answered; answers that no target may give; output that cannot be written.
pub async fn run(
    arguments: &LoadArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    descriptors::raise_limit();
    let dialler = Dialler::new(arguments).await?;
    let payloads = Payloads::new(fastrand::u32(..), arguments.size as usize);
    let run = Arc::new(Run::new(arguments, dialler, payloads));

    let idle = match arguments.idle {
        0 => None,
        count => Some(Idle::open(&run, arguments.clients, count).await?),
    };
    if let Some(idle) = &idle {
        idle.tell(arguments.json, output)?;
    }
    let mut clients = start(&run, arguments);
    let measured = measure(&run, &mut clients, arguments, output, interrupt).await;
    run.stop();
    while let Some(ended) = clients.join_next().await {
        well(ended)?;
    }
    let mut measured = measured?;
    measured.total.add(&run.recorder.take());
    let idle = match idle {
        Some(idle) => Some(idle.ask().await?),
        None => None,
    };

    let length = run.last().saturating_duration_since(measured.begun);
    let report = Report::of_all(length, &measured.total, &measured.warmup, idle.as_ref());
    print(&report, arguments.json, output)?;
    if let Some(warning) = report.warning() {
        complain(&format!("warning: {warning}"));
    }
    verdict(&measured, idle.as_ref())
}

fn verdict(measured: &Measured, idle: Option<&Tally>) -> Result<(), Failure> {
    let all: Vec<&Tally> = [&measured.total, &measured.warmup]
        .into_iter()
        .chain(idle)
        .collect();
    let wrong: u64 = all.iter().map(|tally| tally.wrong()).sum();
    if wrong > 0 {
        return Err(Failure::work(format!(
            "{wrong} answers were duplicated, crossed or corrupted"
        )));
    }
    if all.iter().all(|tally| tally.answered() == 0) {
        return Err(Failure::work("no request was answered"));
    }
    Ok(())
}

fn well(ended: Result<(), JoinError>) -> Result<(), Failure> {
    ended.map_err(|error| Failure::work(format!("a client broke off: {error}")))
}

fn print(report: &Report, json: bool, output: &mut Output) -> Result<(), Failure> {
    if json {
        output.json(report)
    } else {
        output.line(report.to_string())
    }
}

fn start(run: &Arc<Run>, arguments: &LoadArguments) -> JoinSet<()> {
    let begin = Instant::now();
    let clients = (0..arguments.clients).map(|id| {
        let pace = arguments
            .rate
            .map(|rate| Pace::new(begin, rate, id, arguments.clients));
        Client::new(run.clone(), id, pace).work()
    });
    clients.collect()
}

/// What the clients came to while it was measured.
struct Measured {
    begun: Instant,
    warmup: Tally,
    total: Tally,
}

/// Warms up, then prints a report each second until it is over.
async fn measure(
    run: &Run,
    clients: &mut JoinSet<()>,
    arguments: &LoadArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let mut warmup = Tally::default();
    if !arguments.warmup.is_zero() {
        tokio::select! {
            () = sleep(arguments.warmup) => {}
            () = interrupt.asked() => {}
        }
        warmup = run.recorder.take();
    }
    let begun = Instant::now();
    let mut measured = Measured {
        begun,
        warmup,
        total: Tally::default(),
    };
    // A number of requests takes as long as it takes.
    let end = arguments
        .requests
        .is_none()
        .then(|| begun + arguments.seconds.unwrap_or(USUAL));
    let mut last = begun;
    let mut seconds = interval_at((begun + SECOND).into(), SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            _ = seconds.tick() => {}
            () = until(end) => break,
            () = interrupt.asked() => break,
            ended = clients.join_next() => match ended {
                Some(ended) => {
                    well(ended)?;
                    continue;
                }
                None => break,
            },
        }
        let now = Instant::now();
        let tally = run.recorder.take();
        measured.total.add(&tally);
        number += 1;
        print(
            &Report::of_second(number, now - last, &tally),
            arguments.json,
            output,
        )?;
        last = now;
    }
    Ok(measured)
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}

/// Connections that send nothing until the end.
struct Idle {
    run: Arc<Run>,
    clients: JoinSet<()>,
    finale: watch::Sender<bool>,
    opened: Tally,
}

#[derive(Serialize)]
struct Opened {
    #[serde(rename = "type")]
    kind: &'static str,
    connections: u64,
}

impl Idle {
    /// Opens them all, or says why not. Their numbers begin where those of the other clients end.
    async fn open(run: &Run, first: u32, count: u32) -> Result<Self, Failure> {
        let run = Arc::new(run.of_single_requests());
        let finale = watch::Sender::new(false);
        let dialling = Arc::new(Semaphore::new(DIALLING));
        let clients = (0..count).map(|number| {
            let client = Client::new(run.clone(), first.wrapping_add(number), None);
            let (dialling, finale) = (dialling.clone(), finale.subscribe());
            async move { client.hold(&dialling, finale).await }
        });
        let clients: JoinSet<()> = clients.collect();
        let mut opened = Tally::default();
        while opened.connects < u64::from(count) {
            sleep(Duration::from_millis(10)).await;
            opened.add(&run.recorder.take());
            if let Some((cause, count)) = opened.connect_failures.first_key_value() {
                return Err(Failure::work(format!(
                    "{count} idle connections could not be opened ({cause})"
                )));
            }
        }
        Ok(Idle {
            run,
            clients,
            finale,
            opened,
        })
    }

    fn tell(&self, json: bool, output: &mut Output) -> Result<(), Failure> {
        let connections = self.opened.connects;
        if json {
            let kind = "idle";
            output.json(&Opened { kind, connections })
        } else {
            output.line(format!("{connections} idle connections are open"))
        }
    }

    /// Sends a request on each, and gives what came of that.
    async fn ask(mut self) -> Result<Tally, Failure> {
        self.finale.send_replace(true);
        while let Some(ended) = self.clients.join_next().await {
            well(ended)?;
        }
        let mut total = self.opened;
        total.add(&self.run.recorder.take());
        Ok(total)
    }
}
