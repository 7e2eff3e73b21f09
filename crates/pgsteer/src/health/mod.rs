//! A guard for work of your own on a database: while that is down, the work is not even begun.
//!
//! A worker that polls a database which is down waits for a connect each time, and reports each failure. Behind a
//! [`ConnectionHealth`] it learns at once, and without a connect, that the database is down and when asking again may
//! help. The machine behind it is `pgsteer_core::breaker`; this module gives it a clock, judges errors by the table in
//! `pgsteer_core::verdict`, and logs. A [`Pool`](crate::Pool) has a breaker of its own,
//! over its dialling.

mod builder;
mod error;
mod finding;
mod text;

use std::error::Error as StdError;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use error::{CircuitOpen, Guarded};
pub(crate) use finding::is_fatal;
pub use finding::{Finding, judge};
use pgsteer_core::breaker::{Breaker, Event, Rejected, Surroundings};
pub use pgsteer_core::breaker::{Cause, ClosedBy, State};

/// What is kept of an error: its text and those of its sources, shortened.
type Text = Arc<str>;

/// The breaker has opened, or is open for another window. Given to `on_open`.
pub type Opened = pgsteer_core::breaker::Opened<Text>;
/// The outage is over. Given to `on_close`.
pub type Closed = pgsteer_core::breaker::Closed;
/// A guard at one moment.
pub type Status = pgsteer_core::breaker::Status<Text>;

type Judge = dyn Fn(&(dyn StdError + 'static)) -> Finding + Send + Sync;

/// A guard for work on a database: a circuit breaker that many tasks share. Clone is cheap, and clones are one guard.
///
/// Five failures in a row, counted over all tasks together, open it: from then on
/// [`run_guarded`](Self::run_guarded) rejects at once. After a window, 1 s at first, one call is let through as a probe.
/// If that reaches the database everything is let through again; if not, the next window is twice as long, up to 60 s. Each
/// window is longer by a random share of up to a fifth, so that a fleet does not come back in step.
/// [`builder`](Self::builder) changes these numbers.
///
/// What is a failure is told by the error: a server that cannot be reached, that is starting up or that ended the
/// session. An SQL error is none, nor is a refused login, a server that is full or an error that is not the database's;
/// see [`judge`].
///
/// A probe may be cancelled, may panic or may never end. None of that leaves the guard stuck: given up, it is tried
/// again after another window, and if it neither ends nor is given up, another takes its place after
/// [`Builder::probe_lease`].
///
/// ```
/// use pgsteer::{ConnectionHealth, Guarded, Pool};
///
/// async fn poll(pool: Pool, health: ConnectionHealth) -> Result<(), pgsteer::Error> {
///     loop {
///         let jobs = health.run_guarded(async {
///             let conn = pool.get().await?;
///             Ok::<_, pgsteer::Error>(conn.query("SELECT id FROM jobs", &[]).await?)
///         });
///         match jobs.await {
///             Ok(jobs) => println!("{} jobs", jobs.len()),
///             Err(Guarded::CircuitOpen(open)) => tokio::time::sleep(open.retry_after).await,
///             Err(Guarded::Failed(error)) => return Err(error),
///         }
///     }
/// }
/// ```
#[derive(Clone)]
pub struct ConnectionHealth {
    breaker: Arc<Breaker<Text>>,
    judge: Arc<Judge>,
}

impl ConnectionHealth {
    /// A closed guard with the default numbers, which tells nobody but the log.
    pub fn new() -> Self {
        let outside = Box::new(Outside::default());
        Self::around(Breaker::with_defaults(outside), Arc::new(judge))
    }

    /// A guard with other numbers, a judge of its own, callbacks or another clock.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn around(breaker: Breaker<Text>, judge: Arc<Judge>) -> Self {
        ConnectionHealth {
            breaker: Arc::new(breaker),
            judge,
        }
    }

    /// Runs `work` if the guard lets it through, and learns from how it ends. The guard is asked when the returned
    /// future is first polled; while it is closed that costs one atomic load.
    ///
    /// # Errors
    ///
    /// [`Guarded::CircuitOpen`] if it does not let it through; `work` is then dropped without being polled.
    /// [`Guarded::Failed`] with the error of `work`, unchanged, also when that error opens the guard.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it is, and counts neither as failure nor as success. If it was the
    /// probe, the same window begins again.
    pub async fn run_guarded<T, E>(
        &self,
        work: impl IntoFuture<Output = Result<T, E>>,
    ) -> Result<T, Guarded<E>>
    where
        E: StdError + 'static,
    {
        let judge = &*self.judge;
        self.run_judged(work, |error| judge(error), |error| text::of(error))
            .await
    }

    /// As [`run_guarded`](Self::run_guarded), for errors that are no [`std::error::Error`] or that only the caller
    /// can judge.
    ///
    /// # Errors
    ///
    /// As [`run_guarded`](Self::run_guarded).
    ///
    /// # Cancel safety
    ///
    /// As [`run_guarded`](Self::run_guarded).
    pub async fn run_guarded_by<T, E>(
        &self,
        work: impl IntoFuture<Output = Result<T, E>>,
        judge: impl FnOnce(&E) -> Finding,
    ) -> Result<T, Guarded<E>>
    where
        E: fmt::Display,
    {
        self.run_judged(work, judge, |error| text::told(error)).await
    }

    async fn run_judged<T, E>(
        &self,
        work: impl IntoFuture<Output = Result<T, E>>,
        judge: impl FnOnce(&E) -> Finding,
        text: impl FnOnce(&E) -> Text,
    ) -> Result<T, Guarded<E>> {
        let permit = self
            .breaker
            .admit()
            .map_err(|rejected| Guarded::CircuitOpen(rejected.into()))?;
        let result = work.into_future().await;
        match &result {
            Ok(_) => permit.success(),
            Err(error) => match judge(error) {
                Finding::Down => permit.failure(text(error)),
                Finding::Answered => permit.success(),
                Finding::Refused => permit.neutral(),
                // Nothing was learnt: as if it had not been tried.
                Finding::Nothing => drop(permit),
            },
        }
        result.map_err(Guarded::Failed)
    }

    /// Whether work is rejected because a window is not over. While a probe is on its way it is neither open nor closed.
    pub fn is_open(&self) -> bool {
        self.state() == State::Open
    }

    /// Whether everything is let through.
    pub fn is_closed(&self) -> bool {
        self.state() == State::Closed
    }

    /// Where the guard stands. It stays [`State::Open`] after the end of its window until the next call.
    pub fn state(&self) -> State {
        self.breaker.state()
    }

    /// How long to wait before asking again may help: exactly what is left of the window, and zero once it is over.
    /// While a probe is on its way nobody knows, and this is the first window's length or what is left of the probe's
    /// lease, whichever is shorter. `None` while the guard is closed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.breaker.retry_after()
    }

    /// Everything there is to know of the guard, for metrics.
    pub fn status(&self) -> Status {
        self.breaker.status()
    }

    /// Closes the guard at once, because the database was met by other ways. Ends a row of failures too. A probe that
    /// is on its way no longer counts.
    pub fn sign_of_life(&self) {
        self.breaker.sign_of_life();
    }

    /// Closes the guard by hand. What is under way no longer counts.
    pub fn reset(&self) {
        self.breaker.reset();
    }
}

impl Default for ConnectionHealth {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ConnectionHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectionHealth").field(&self.status()).finish()
    }
}

impl From<Rejected<Text>> for CircuitOpen {
    fn from(rejected: Rejected<Text>) -> Self {
        CircuitOpen {
            retry_after: rejected.retry_after,
            probing: rejected.probing,
            last_error: rejected.last_error,
        }
    }
}

/// The world as a guard sees it.
struct Outside {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    draw: Box<dyn Fn() -> u64 + Send + Sync>,
    on_open: Box<dyn Fn(&Opened) + Send + Sync>,
    on_close: Box<dyn Fn(&Closed) + Send + Sync>,
}

impl Default for Outside {
    fn default() -> Self {
        Outside {
            // tokio's clock can be paused, and needs no runtime otherwise
            clock: Box::new(|| tokio::time::Instant::now().into_std()),
            draw: Box::new(|| fastrand::u64(..)),
            on_open: Box::new(|_| {}),
            on_close: Box::new(|_| {}),
        }
    }
}

impl Surroundings<Text> for Outside {
    fn now(&self) -> Instant {
        (self.clock)()
    }

    fn draw(&self) -> u64 {
        (self.draw)()
    }

    fn tell(&self, event: &Event<Text>) {
        log(event);
        match event {
            Event::Opened(opened) => (self.on_open)(opened),
            Event::Closed(closed) => (self.on_close)(closed),
            _ => {}
        }
    }
}

fn log(event: &Event<Text>) {
    match event {
        Event::Opened(opened) => {
            let Opened {
                window,
                trips,
                cause,
                last_error,
                ..
            } = opened;
            if opened.is_news() {
                tracing::warn!(target: "pgsteer::health", ?window, trips, ?cause, "the database is down: {last_error}");
            } else {
                tracing::debug!(target: "pgsteer::health", ?window, trips, ?cause, "the database is still down: {last_error}");
            }
        }
        Event::Closed(closed) => {
            tracing::info!(target: "pgsteer::health", outage = ?closed.outage, by = ?closed.by, "the database is back");
        }
        other => tracing::debug!(target: "pgsteer::health", "{other:?}"),
    }
}
