//! `pgsteer demo`: a pool rides out the loss of a zone, on simulated servers over loopback TCP. The story does things to
//! the servers and checks what the pool makes of them; it is shown live or as plain lines, and ends in a summary.

mod batches;
pub mod board;
mod live;
mod load;
pub mod losses;
pub mod outcome;
pub mod plain;
pub mod plan;
pub mod scene;
mod set;
mod show;
pub mod spread;
mod story;
pub mod svg;
pub mod view;

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::arguments::DemoArguments;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::logging;
use crate::output::{Output, complain};
use board::{Condition, Kind};
use live::Live;
use outcome::Outcome;
use plan::Plan;
use show::Show;

/// Time between two lines on where the connections are.
const LINE: Duration = Duration::from_secs(1);
/// How soon an event becomes a line.
const EVENT: Duration = Duration::from_millis(50);
/// When the picture is taken: after this share of the calm that follows the loss of the home zone.
const PICTURE_AFTER: f64 = 0.7;

/// Plays the demo as the arguments say, and prints the summary.
///
/// # Errors
///
/// If it cannot be set up, or something in it was not as it should be.
pub async fn run(
    arguments: &DemoArguments,
    mut output: Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let plan = Plan::lasting(Duration::from_secs(arguments.seconds), arguments.seed);
    let live = !arguments.plain && io::stdout().is_terminal() && io::stdin().is_terminal();
    let outcome = if live {
        play_live(plan, interrupt, arguments.svg.as_deref()).await?
    } else {
        logging::to_stderr();
        play_plain(plan, &mut output, interrupt, arguments.svg.as_deref()).await?
    };
    output.line(outcome.to_string())?;
    if outcome.is_good() {
        Ok(())
    } else {
        Err(Failure::Work("the demo did not go as it should".to_owned()))
    }
}

/// Plays the demo in plain lines.
///
/// # Errors
///
/// If it cannot be set up, or the lines cannot be written. A story that goes wrong is an [`Outcome`].
pub async fn play_plain(
    plan: Plan,
    output: &mut Output,
    interrupt: &Interrupt,
    svg: Option<&Path>,
) -> Result<Outcome, Failure> {
    let show = Arc::new(Show::open(plan).await?);
    let mut story = begin(&show, interrupt);
    let mut told = 0;
    let outcome = tokio::select! {
        outcome = end(&mut story) => outcome?,
        failed = tell(&show, output, &mut told) => match failed? {},
        never = take_picture(&show, svg) => match never {},
    };
    tell_events(&show, output, &mut told)?;
    Ok(outcome)
}

/// Plays the story in a task of its own, so that nothing that shows it can slow it down. It ends with the set.
fn begin(show: &Arc<Show>, interrupt: &Interrupt) -> JoinSet<Outcome> {
    let (show, interrupt) = (show.clone(), interrupt.clone());
    let mut story = JoinSet::new();
    story.spawn(async move { story::play(&show, &interrupt).await });
    story
}

/// Waits for the story's end.
async fn end(story: &mut JoinSet<Outcome>) -> Result<Outcome, Failure> {
    match story.join_next().await {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(died)) => Err(Failure::work(format!("the demo broke off: {died}"))),
        None => Err(Failure::work("the demo broke off")),
    }
}

/// Writes what happens, for ever, or until it cannot be written.
async fn tell(show: &Show, output: &mut Output, told: &mut usize) -> Result<Infallible, Failure> {
    let mut lines = interval_at(Instant::now() + LINE, LINE);
    lines.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tell_events(show, output, told)?;
        tokio::select! {
            _ = lines.tick() => output.line(plain::line(&show.scene()))?,
            () = sleep(EVENT) => {}
        }
    }
}

/// Writes the events that have not been told yet.
fn tell_events(show: &Show, output: &mut Output, told: &mut usize) -> Result<(), Failure> {
    for event in show.board.events_from(*told) {
        *told += 1;
        output.line(plain::event(&event))?;
    }
    Ok(())
}

async fn play_live(plan: Plan, interrupt: &Interrupt, svg: Option<&Path>) -> Result<Outcome, Failure> {
    let (log, lines) = mpsc::channel();
    logging::to_channel(log);
    let show = Arc::new(Show::open(plan).await?);
    let mut live = Live::start()?;
    let mut story = begin(&show, interrupt);
    tokio::select! {
        outcome = end(&mut story) => outcome,
        shown = live.run(&show, interrupt) => match shown? {},
        never = take_log(&show, &lines) => match never {},
        never = take_picture(&show, svg) => match never {},
    }
}

/// Puts the library's log among the events, for ever.
async fn take_log(show: &Show, lines: &mpsc::Receiver<String>) -> Infallible {
    loop {
        for line in lines.try_iter() {
            show.board.tell(Kind::Log, line);
        }
        sleep(EVENT).await;
    }
}

/// Writes the picture, if one is wanted, a moment after the home zone was lost; then waits for ever.
async fn take_picture(show: &Show, file: Option<&Path>) -> Infallible {
    if let Some(file) = file {
        let lost = |server: &set::Placed| show.board.condition(&server.host) == Condition::Killed;
        while !show.set.servers().iter().any(lost) {
            sleep(EVENT).await;
        }
        // The calm begins once the pool is full again.
        while show.spread().total() < show.plan.pool_size {
            sleep(EVENT).await;
        }
        sleep(show.plan.calm.mul_f64(PICTURE_AFTER)).await;
        if let Err(error) = std::fs::write(file, svg::picture(&show.scene())) {
            complain(&format!("warning: cannot write {}: {error}", file.display()));
        }
    }
    pending().await
}
