//! What the rest of the crate may do with a pool and its guards that users may not: transactions look at the wire and
//! cut it.

use std::panic::Location;
use std::pin::pin;
use std::time::Duration;

use pgsteer_core::commit::{Doubt, may_be_asked};
use pgsteer_core::host::HostKey;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::Pool;
use super::aside::aside;
use super::checkout::Get;
use super::guard::Conn;
use super::inner::Counters;
use super::settle;
use crate::config::Settings;
use crate::dial::{Canceller, DialError, Dialled, Wire};
use crate::error::Error;
use crate::transaction::AttemptEnd;
use crate::world::Endpoint;

/// How long a server may take to let go of a connection beside those of a pool before its socket is cut.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

impl Pool {
    pub(crate) fn settings(&self) -> &Settings {
        &self.inner().settings
    }

    /// Whether its connections are wanted on servers that take writes.
    pub(crate) fn wants_writes(&self) -> bool {
        self.inner().wants_writes()
    }

    /// A random number.
    pub(crate) fn draw(&self) -> u64 {
        self.inner().cluster.shared().draw()
    }

    /// The highest timeline that any host is known to write on, as far as that is known.
    pub(crate) fn highest_timeline(&self) -> Option<u32> {
        self.inner().cluster.shared().highest_timeline()
    }

    /// An attempt at a transaction is over: `again` if another one follows.
    pub(crate) fn count_attempt(&self, end: AttemptEnd, again: bool) {
        let counters = &self.inner().counters;
        if again {
            Counters::add(&counters.transactions_retried);
        }
        let found = match end {
            AttemptEnd::FoundCommitted => &counters.commits_found_committed,
            AttemptEnd::FoundAborted => &counters.commits_found_aborted,
            AttemptEnd::OutcomeUnknown => &counters.commits_unknown,
            _ => return,
        };
        Counters::add(found);
    }

    /// Opens a connection beside those of the pool, at an address where one of its own was, and does with it what is to be
    /// done. It is closed in the background afterwards, and what still runs on it cancelled. Few at a time: others wait for
    /// their turn, until its socket is gone.
    ///
    /// Cancel safe: dropping the future closes what it has under way, and has the server cancel it.
    ///
    /// # Errors
    /// No connection came of it.
    pub(crate) async fn beside<T>(
        &self,
        host: &HostKey,
        endpoint: &Endpoint,
        deadline: Instant,
        work: impl AsyncFnOnce(&mut Dialled) -> T,
    ) -> Result<T, DialError> {
        let (inner, cluster) = (self.inner(), self.inner().cluster.shared());
        // The semaphore is never closed, so there always is a turn.
        let turn = inner.questions.clone().acquire_owned().await;
        let mut dialled = cluster.dial_at(host, endpoint, deadline).await?;
        let mut given_up = GivenUp {
            running: Some(dialled.canceller.clone()),
            runtime: cluster.runtime.clone(),
        };
        let done = work(&mut dialled).await;
        given_up.running = None;
        cluster.runtime.spawn(async move {
            dialled.close(CLOSED_WITHIN).await;
            drop(turn);
        });
        Ok(done)
    }

    /// A checkout on behalf of code at `at`.
    pub(crate) fn get_at(&self, limit: Option<Duration>, at: &'static Location<'static>) -> Get<'_> {
        Get::new(self.inner(), limit, at)
    }
}

/// Has the server cancel what runs on a connection that is given up. Its socket may be closed by then: a server that waits
/// for something may not notice for long.
struct GivenUp {
    running: Option<Canceller>,
    runtime: Handle,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime
                .spawn(async move { running.cancel(CLOSED_WITHIN).await });
        }
    }
}

impl Conn {
    /// What the tap has seen.
    pub(crate) fn wire(conn: &Self) -> &Wire {
        &conn.pool.tenant(conn.lease()).wire
    }

    /// Whether a statement that the connection kept was found to be outdated within a transaction since this was last
    /// asked.
    pub(crate) fn take_outdated(conn: &Self) -> bool {
        conn.pool.tenant(conn.lease()).statements.take_outdated_within()
    }

    /// A query's error as ours.
    pub(crate) fn error(conn: &Self, error: tokio_postgres::Error) -> Error {
        conn.pool.query_error(conn.lease(), error)
    }

    /// The address it is connected to.
    pub(crate) fn endpoint(conn: &Self) -> &Endpoint {
        conn.pool.tenant(conn.lease()).canceller.endpoint()
    }

    /// Why its transactions are not to be asked for their ids. Found out once.
    pub(crate) fn unasked(conn: &Self) -> Option<&Doubt> {
        let tenant = conn.pool.tenant(conn.lease());
        if let Err(obstacle) = may_be_asked(tenant.version.as_deref()) {
            Self::never_ask(conn, Doubt::NotMarked(obstacle.to_string()));
        }
        tenant.unasked.get()
    }

    /// Its transactions are not to be asked for their ids any more.
    pub(crate) fn never_ask(conn: &Self, doubt: Doubt) {
        let _ = conn.pool.tenant(conn.lease()).unasked.set(doubt);
    }

    /// Ends its transaction. What still runs in front of the ROLLBACK, for nobody, is cancelled when it takes too long, and
    /// then the connection is only fit to be closed, as it is when this says `false`.
    ///
    /// Cancel safe in that nothing runs on.
    pub(crate) async fn roll_back(conn: &Self) -> bool {
        let (pool, tenant) = (&conn.pool, conn.pool.tenant(conn.lease()));
        let settings = &pool.settings;
        let mut rolling_back = pin!(conn.batch_execute("ROLLBACK"));
        let patience = settings.return_cancel_after.min(settings.return_timeout);
        if timeout(patience, rolling_back.as_mut()).await.is_ok() {
            return true;
        }
        Counters::add(&pool.counters.cancelled);
        let stop = || {
            let stopping = settle::ask_to_stop(pool, &tenant.host, &tenant.canceller);
            let both = futures_util::future::join(stopping, rolling_back);
            timeout(settings.return_timeout - patience, both)
        };
        let _ = aside(stop).await;
        false
    }

    /// Has the server cancel, in the background, what runs on a connection that is given up: it may not notice for long that its
    /// client has gone, and keep its locks.
    pub(crate) fn stop_what_runs(conn: &Self) {
        let tenant = conn.pool.tenant(conn.lease());
        if tenant.session.is_quiet() {
            return;
        }
        let (pool, host, canceller) = (conn.pool.clone(), tenant.host.clone(), tenant.canceller.clone());
        conn.pool.cluster.shared().runtime.spawn(async move {
            settle::ask_to_stop(&pool, &host, &canceller).await;
        });
    }

    /// Cuts the socket now, whatever runs on it. Nothing is sent.
    pub(crate) fn cut(conn: &Self) {
        conn.pool.tenant(conn.lease()).handle.abort();
    }

    /// As [`cut`](Self::cut), and returns once the socket is closed: what has not been sent by then never will be.
    ///
    /// Cancel safe: it is cut all the same.
    pub(crate) async fn cut_off(conn: &Self) {
        let handle = &conn.pool.tenant(conn.lease()).handle;
        handle.abort();
        handle.ended().await;
    }
}
