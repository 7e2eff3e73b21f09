//! `pgsteer route`: the router as a service, with its signals.

pub mod arguments;

use std::fs;
use std::io;
use std::thread;

use pgsteer_router::config::{Config, ConfigError, Given, LogLevel, Source};
use pgsteer_router::server::{Router, StartError, Threads};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::descriptors;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::logging;
use crate::output::Output;
use arguments::RouteArguments;

/// The configuration that a command line and its file come to.
///
/// # Errors
///
/// A file that cannot be read, and whatever is wrong with an option.
pub fn configure(arguments: &RouteArguments) -> Result<Config, Failure> {
    let mut given = Given::default();
    if let Some(path) = &arguments.config {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("--config {name}: it cannot be read: {error}")))?;
        given.file(&name, &text)?;
    }
    for (name, value) in &arguments.given {
        given.set(Source::Flag, name, value)?;
    }
    Ok(given.finish()?)
}

/// The runtime of the first thread; [`run`] starts those beside it.
///
/// # Errors
///
/// A system that gives none.
pub fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(cannot_start)
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::work(format!("cannot start: {error}"))
}

/// Routes until interrupted, then drains.
///
/// # Errors
///
/// As [`configure`]; an address that cannot be bound, a certificate that cannot be used; requests that were dropped because
/// the grace was over.
pub async fn run(
    arguments: &RouteArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let config = configure(arguments)?;
    let level = match config.log_level {
        LogLevel::Error => "error".to_owned(),
        level => {
            let level = level.as_str();
            format!("warn,pgsteer={level}")
        }
    };
    logging::to_stderr_at(&level);
    descriptors::raise_limit();
    let mut hangups = Hangups::listen().map_err(Failure::work)?;
    let mut grace = config.shutdown_grace;
    let at_start = (config.threads, config.log_level);
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let threads = Threads::start(config.threads.unwrap_or_else(cores) - 1).map_err(cannot_start)?;
    let router = Router::start_across(config.router, &threads).await?;
    warn(&config.without_effect);
    output.line(format!("listening on {}", router.local_addr()))?;
    if let Some(address) = router.metrics_addr() {
        output.line(format!("metrics on {address}"))?;
    }
    loop {
        let reloading = async {
            hangups.next().await;
            reload(arguments, &router, at_start).await
        };
        // Files may be where nothing answers any more. That holds up neither the end nor, since they are read on a thread of
        // their own, anybody's requests.
        let reloaded = tokio::select! {
            biased;
            () = interrupt.asked() => break,
            reloaded = reloading => reloaded,
        };
        match reloaded {
            Ok(config) => {
                grace = config.shutdown_grace;
                warn(&config.without_effect);
                tracing::info!(target: "pgsteer::router", "the configuration and the certificates have been read again");
            }
            Err(why) => {
                tracing::error!(target: "pgsteer::router", "the new configuration is refused, the old one stays: {why}");
            }
        }
    }
    tracing::info!(target: "pgsteer::router", "draining, for {grace:?} at most");
    let drained = router.shutdown(grace).await;
    let told = router.totals();
    tracing::info!(target: "pgsteer::router",
        "ended after {:.1?}: {} requests in all, {} answered, {} answered with an error, {} dropped",
        drained.took,
        told.requests,
        told.answered,
        told.answered_with_errors(),
        told.dropped
    );
    match drained.dropped {
        0 => Ok(()),
        1 => Err(Failure::work("the grace was over: 1 request was dropped")),
        dropped => Err(Failure::work(format!(
            "the grace was over: {dropped} requests were dropped"
        ))),
    }
}

fn warn(without_effect: &[String]) {
    for told in without_effect {
        tracing::warn!(target: "pgsteer::router", "{told}");
    }
}

async fn reload(
    arguments: &RouteArguments,
    router: &Router,
    (threads, log_level): (Option<usize>, LogLevel),
) -> Result<Config, String> {
    let again = arguments.clone();
    let read = spawn_blocking(move || configure(&again)).await;
    let read = read.map_err(|error| error.to_string())?;
    let config = read.map_err(|failure| match failure {
        Failure::Usage(why) | Failure::Work(why) => why,
        Failure::Output(error) => error.to_string(),
    })?;
    if config.threads != threads {
        return Err("threads cannot change without a restart".to_owned());
    }
    if config.log_level != log_level {
        return Err("log-level cannot change without a restart".to_owned());
    }
    let reloaded = router.reload(config.router.clone()).await;
    reloaded.map_err(|error| error.to_string())?;
    Ok(config)
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Backends(_) | StartError::Option(_) => Failure::Usage(error.to_string()),
            error => Failure::Work(error.to_string()),
        }
    }
}

/// SIGHUP, where there is such a thing.
struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    fn listen() -> io::Result<Self> {
        Ok(Hangups {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if self.signal.recv().await.is_some() {
            return;
        }
        std::future::pending().await
    }
}
