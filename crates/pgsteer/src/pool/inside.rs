//! What the rest of the crate may do with a pool and its guards that users may not: transactions look at the wire and
//! cut it.

use std::panic::Location;
use std::time::Duration;

use super::Pool;
use super::checkout::Get;
use super::guard::Conn;
use super::inner::Counters;
use crate::config::Settings;
use crate::dial::Wire;
use crate::error::Error;
use crate::transaction::AttemptEnd;

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

    /// An attempt at a transaction is over: `again` if another one follows.
    pub(crate) fn count_attempt(&self, end: AttemptEnd, again: bool) {
        let counters = &self.inner().counters;
        if again {
            Counters::add(&counters.transactions_retried);
        }
        if end == AttemptEnd::OutcomeUnknown {
            Counters::add(&counters.commits_unknown);
        }
    }

    /// A checkout on behalf of code at `at`.
    pub(crate) fn get_at(&self, limit: Option<Duration>, at: &'static Location<'static>) -> Get<'_> {
        Get::new(self.inner(), limit, at)
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
