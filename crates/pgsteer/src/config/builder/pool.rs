//! Setters for the pool: how many connections, for how long, and how they are lent.

use std::time::Duration;

use crate::config::Config;

impl Config {
    /// Connections at most, 1 to 65535. Default 10.
    #[must_use]
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool_size = connections;
        self
    }

    /// Connections to keep open at least, 0 to [`pool_size`](Config::pool_size). Default `None`: `pool_size`, a pool of
    /// fixed size that is filled at once.
    #[must_use]
    pub fn min_idle(mut self, connections: impl Into<Option<u32>>) -> Self {
        self.min_idle = connections.into();
        self
    }

    /// Closes connections that were idle this long, as long as more than [`min_idle`](Config::min_idle) are left.
    /// Greater than 0. Default `None`: never. No effect while `min_idle` is `pool_size`, as it is by default.
    #[must_use]
    pub fn idle_timeout(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.idle_timeout = idle.into();
        self
    }

    /// Replaces a connection this long after it opened, plus a random share of
    /// [`lifetime_jitter`](Config::lifetime_jitter). Greater than 0. Default 30 min.
    #[must_use]
    pub fn max_lifetime(mut self, life: Duration) -> Self {
        self.max_lifetime = life;
        self
    }

    /// The most that is added at random to [`max_lifetime`](Config::max_lifetime), so that connections opened together
    /// are not replaced together. Default 5 min; 0 adds nothing.
    #[must_use]
    pub fn lifetime_jitter(mut self, jitter: Duration) -> Self {
        self.lifetime_jitter = jitter;
        self
    }

    /// How often connections are moved towards where they belong. Greater than 0. Default 30 s.
    #[must_use]
    pub fn rebalance_interval(mut self, interval: Duration) -> Self {
        self.rebalance_interval = interval;
        self
    }

    /// Connections moved at one time at most, at least 1. Default 2.
    #[must_use]
    pub fn rebalance_batch(mut self, connections: u32) -> Self {
        self.rebalance_batch = connections;
        self
    }

    /// How long a caller waits for a connection. Default 5 s; `None` waits for ever, 0 does not wait at all.
    #[must_use]
    pub fn checkout_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.checkout_timeout = limit.into();
        self
    }

    /// How long a call of the pool's or a guard's own functions may take as a whole: [`Pool::query`](crate::Pool::query),
    /// [`Conn::query`](crate::Conn::query) and the others. Greater than 0. Default `None`: no limit.
    ///
    /// When it runs out, the socket is closed at once, nothing is sent to the server, and the call fails with
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost) of the cause
    /// [`SocketTimeout`](crate::EndCause::SocketTimeout). The server may go on with the statement. No host is marked:
    /// it may well be the statement that is slow. Calls on [`tokio_postgres::Client`] itself are not bounded by this.
    ///
    /// As text a bare number counts seconds, and 0 is no limit, as in pgjdbc's `socketTimeout`.
    #[must_use]
    pub fn socket_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.socket_timeout = limit.into();
        self
    }

    /// Has a statement cancelled whose call ran into [`socket_timeout`](Config::socket_timeout), and gives the server this
    /// long to stop it, before the socket is closed as it is anyway. The call ends later by as much as that takes, and
    /// fails all the same. Greater than 0. Default `None`: nothing is sent, and the server may go on with the statement.
    #[must_use]
    pub fn cancel_on_timeout(mut self, grace: impl Into<Option<Duration>>) -> Self {
        self.cancel_on_timeout = grace.into();
        self
    }

    /// Ends a connection whose server owes an answer, or takes in no more, and has sent nothing for this long. Whatever
    /// waits on it fails, as the end of the connection has it: with the cause
    /// [`StallTimeout`](crate::EndCause::StallTimeout) where errors are pgsteer's. The host is asked at once whether it
    /// works; if it does not answer that either, and nothing has come from it meanwhile on any connection, the pool's
    /// idle connections to it are given up too, so that callers do not meet one after the other. Greater than 0. Default
    /// `None`: never.
    ///
    /// It holds for everything the driver can do, row streams and COPY too, for what
    /// [`after_connect`](Config::after_connect) does, and for connections of [`Cluster::connect`](crate::Cluster::connect);
    /// it must be longer than the longest statement that says nothing while it runs. An application that is slow to read
    /// rows or to send data is no stall.
    #[must_use]
    pub fn stall_timeout(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.stall_timeout = silence.into();
        self
    }

    /// Whether the pool's transactions find out what became of a COMMIT whose answer was lost, instead of failing with
    /// [`Error::CommitOutcomeUnknown`](crate::Error::CommitOutcomeUnknown). Default off. One transaction can be made otherwise by
    /// [`TransactionOptions::resolve_commit`](crate::TransactionOptions::resolve_commit), which has more on it.
    #[must_use]
    pub fn resolve_commit(mut self, on: bool) -> Self {
        self.resolve_commit = on;
        self
    }

    /// How long finding that out may take, from the loss on. Greater than 0. Default 30 s.
    #[must_use]
    pub fn resolve_commit_timeout(mut self, limit: Duration) -> Self {
        self.resolve_commit_timeout = limit;
        self
    }

    /// Statements that each connection keeps prepared at most for [`Conn::query_cached`](crate::Conn::query_cached) and its
    /// like; the one used longest ago goes first. 0 to 65535. Default 256. Nothing is kept for other calls.
    ///
    /// With 0 none stays on the server, and these calls work through a pooler that gives each transaction another session,
    /// as PgBouncer does in transaction mode: [`Conn::query_cached`](crate::Conn::query_cached) says how. (One that keeps
    /// track of prepared statements, as PgBouncer does from version 1.21 on with `max_prepared_statements`, works with
    /// any size.)
    #[must_use]
    pub fn statement_cache_size(mut self, statements: u32) -> Self {
        self.statement_cache_size = statements;
        self
    }

    /// Connections being opened at the same time at most, at least 1. Default 32. The very first is opened alone, for half
    /// a second at most, so that a wrong password costs one login and not this many.
    #[must_use]
    pub fn max_dials(mut self, dials: u32) -> Self {
        self.max_dials = dials;
        self
    }

    /// A connection given back while a query still runs on it is asked to cancel that query after this long.
    /// Default 500 ms. No effect unless it is less than [`return_timeout`](Config::return_timeout).
    #[must_use]
    pub fn return_cancel_after(mut self, busy: Duration) -> Self {
        self.return_cancel_after = busy;
        self
    }

    /// A connection given back that is still not clean after this long is closed. Default 5 s.
    #[must_use]
    pub fn return_timeout(mut self, limit: Duration) -> Self {
        self.return_timeout = limit;
        self
    }

    /// Reports, once, a connection that has been out this long. Greater than 0. Default `None`: never.
    #[must_use]
    pub fn leak_threshold(mut self, held: impl Into<Option<Duration>>) -> Self {
        self.leak_threshold = held.into();
        self
    }

    /// Whether the place in the code of each checkout is kept, for time-out errors, the pool's status and reports of
    /// connections held too long. Default off.
    #[must_use]
    pub fn record_holders(mut self, on: bool) -> Self {
        self.record_holders = on;
        self
    }
}
