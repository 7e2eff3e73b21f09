//! Setters for what the application has run on the pool's connections.

use std::time::Duration;

use tokio_postgres::Client;

use crate::config::hooks::{Check, Hook};
use crate::config::{Config, HookError, Recycle};
use crate::pool::Candidate;
use crate::world::BoxFuture;

impl Config {
    /// Prepares each connection the pool opens, before anybody gets it: the first ones, and every one that replaces
    /// another. Connections of discovery, of probes and of [`Cluster::connect`](crate::Cluster::connect) are not
    /// prepared. Default: nothing is run.
    ///
    /// Where a new session is expensive (on YugabyteDB it first loads the catalogue), running the application's busiest
    /// statements here keeps that wait from the first caller. `statement_timeout` is set by then.
    ///
    /// ```
    /// use pgsteer::config::Config;
    ///
    /// let config = Config::new().after_connect(|client| {
    ///     Box::pin(async move {
    ///         client.batch_execute("SET search_path = shop").await?;
    ///         client.query("SELECT id, doc FROM accounts WHERE id = $1", &[&0i64]).await?;
    ///         Ok(())
    ///     })
    /// });
    /// # let _ = config;
    /// ```
    ///
    /// Until it ends the connection counts as opening, and callers wait. It fails if it returns an error, panics, runs
    /// longer than [`after_connect_timeout`](Config::after_connect_timeout), or leaves the connection closed, inside a
    /// transaction, or busy for more than [`return_timeout`](Config::return_timeout) after its end. The connection is
    /// then closed (a statement that still runs is cancelled) and a warning logged, once per run of failures on a host.
    ///
    /// A failure marks no host as failed. For `failed_host_reconnect_delay_secs`, at least 1 s, the pool's new
    /// connections go to other hosts of those it chooses among anyway, the replacement at once. Where there is no
    /// other, the first failure is tried again at once, and from the second on each is a failed open: another try
    /// comes a second later, and checkouts that have nothing else to wait for fail with
    /// [`Error::AfterConnect`](crate::Error::AfterConnect).
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when its time is up and when the pool is closed; its connection is closed then.
    #[must_use]
    pub fn after_connect<F>(mut self, prepare: F) -> Self
    where
        F: for<'a> Fn(&'a mut Client) -> BoxFuture<'a, Result<(), HookError>> + Send + Sync + 'static,
    {
        self.after_connect = Some(Hook::new(prepare));
        self
    }

    /// How long [`after_connect`](Config::after_connect) may run on one connection. Greater than 0. Default 1 min, which
    /// leaves room for tens of statements that each wait for a catalogue; `None`: for ever, so that a server that hangs
    /// holds a place in the pool for as long.
    #[must_use]
    pub fn after_connect_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.after_connect_timeout = limit.into();
        self
    }

    /// Asks at each checkout whether the connection found may be handed out: one that is not is closed and replaced, and
    /// the caller gets another, or waits for one at the end of the queue. Default: nothing is asked.
    ///
    /// It runs on the caller's thread and must not block. If it panics, the connection counts as refused. When more
    /// connections are refused within a second of their opening than the pool has room for, opening rests for a second.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Instant;
    ///
    /// use pgsteer::config::Config;
    ///
    /// // After a change of credentials, connections opened before it are not used any more.
    /// let started = Instant::now();
    /// let changed = Arc::new(AtomicU64::new(0));
    /// let config = Config::new().before_checkout({
    ///     let changed = changed.clone();
    ///     move |candidate| {
    ///         let opened = started.elapsed().saturating_sub(candidate.age());
    ///         opened.as_millis() as u64 >= changed.load(Ordering::Relaxed)
    ///     }
    /// });
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn before_checkout<F>(mut self, allows: F) -> Self
    where
        F: Fn(&Candidate<'_>) -> bool + Send + Sync + 'static,
    {
        self.before_checkout = Some(Check::new(allows));
        self
    }

    /// Runs on each connection that comes back, before the next holder gets it, in the background: to undo something of
    /// the application's own, say. Default: nothing is run, and a connection that comes back idle is the next holder's at
    /// once.
    ///
    /// The connection is out of its transaction by then, and all is answered. It is closed and replaced if the closure
    /// returns an error, panics, or leaves it inside a transaction; the first failure of a run is logged as a warning.
    /// All of it, and what [`recycle`](Config::recycle) does after it, ends within
    /// [`return_timeout`](Config::return_timeout) or costs the connection. Connections that are discarded or closed are
    /// not seen to.
    ///
    /// It costs each return a task, and each connection the time it takes: callers may wait meanwhile. To reset all of
    /// the session [`Recycle::Clean`] is there. `DISCARD ALL` and `DEALLOCATE ALL` would take the statements away that the
    /// client keeps on the server.
    ///
    /// ```
    /// use pgsteer::config::Config;
    ///
    /// let config = Config::new().on_return(|client| {
    ///     Box::pin(async move {
    ///         client.batch_execute("RESET app.tenant").await?;
    ///         Ok(())
    ///     })
    /// });
    /// # let _ = config;
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when its time is up; its connection is closed then.
    #[must_use]
    pub fn on_return<F>(mut self, clean: F) -> Self
    where
        F: for<'a> Fn(&'a mut Client) -> BoxFuture<'a, Result<(), HookError>> + Send + Sync + 'static,
    {
        self.on_return = Some(Hook::new(clean));
        self
    }

    /// How much of what a holder has changed in its session is undone before the next one gets the connection. Default
    /// [`Recycle::Fast`]. A connection whose session cannot be reset within [`return_timeout`](Config::return_timeout) is
    /// closed and replaced.
    #[must_use]
    pub fn recycle(mut self, how: Recycle) -> Self {
        self.recycle = how;
        self
    }
}
