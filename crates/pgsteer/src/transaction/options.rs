//! How a transaction is run, and what is told of each attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::host::HostKey;
use tokio_postgres::IsolationLevel;

use crate::config::{ConfigError, Settings};
use crate::error::Error;

type OnAttempt = dyn Fn(&Attempt) + Send + Sync;

/// How [`Pool::transaction_with`](crate::Pool::transaction_with) runs a transaction. Clone is cheap.
#[derive(Clone)]
pub struct TransactionOptions {
    pub(super) attempts: u32,
    pub(super) max_backoff: Duration,
    isolation: Option<IsolationLevel>,
    read_only: Option<bool>,
    deferrable: bool,
    /// `None` leaves the pool's.
    pub(super) checkout_timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    /// `None` leaves the pool's.
    resolve_commit: Option<bool>,
    /// `None` leaves the pool's.
    pub(super) resolve_commit_timeout: Option<Duration>,
    pub(super) on_attempt: Option<Arc<OnAttempt>>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            attempts: 3,
            max_backoff: Duration::from_millis(500),
            isolation: None,
            read_only: None,
            deferrable: false,
            checkout_timeout: None,
            attempt_timeout: None,
            resolve_commit: None,
            resolve_commit_timeout: None,
            on_attempt: None,
        }
    }
}

impl TransactionOptions {
    /// Three attempts, half a second of back-off at most, and everything else as server and pool have it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often the closure is run at most, from 1. Default 3; 1 never runs it again.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The longest rest between two attempts, in whole milliseconds; zero for none. Default 500 ms. The rest is drawn
    /// at random from 1 ms to 20 ms after the first attempt, to 40 ms after the second, and so on up to this. The
    /// connection has been given back by then.
    #[must_use]
    pub fn max_backoff(mut self, most: Duration) -> Self {
        self.max_backoff = most;
        self
    }

    /// The isolation level. Default: the session's, which unless changed is the server's.
    #[must_use]
    pub fn isolation(mut self, level: IsolationLevel) -> Self {
        self.isolation = Some(level);
        self
    }

    /// Whether the transaction may only read (`true`) or is to write (`false`). Default: the session's, which unless
    /// changed is the server's.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = Some(read_only);
        self
    }

    /// Waits at the start for a snapshot with which the transaction cannot conflict with any other. Default off; only
    /// of a transaction that is serializable and read-only, since elsewhere servers ignore it.
    #[must_use]
    pub fn deferrable(mut self, deferrable: bool) -> Self {
        self.deferrable = deferrable;
        self
    }

    /// How long to wait for a connection, for each attempt anew. Default: the pool's `checkout_timeout`.
    #[must_use]
    pub fn checkout_timeout(mut self, limit: Duration) -> Self {
        self.checkout_timeout = Some(limit);
        self
    }

    /// How long one attempt may take from BEGIN to the answer of COMMIT. Default: no limit. An attempt that runs out of
    /// time before COMMIT loses its connection, whose socket is closed at once, and is made again like one whose
    /// connection was lost; the last one fails with [`Error::TransactionTimeout`]. The statement that it was at is cancelled
    /// in the background, so that its locks do not outlive it. If COMMIT was on its way it is
    /// [`Error::CommitOutcomeUnknown`]. Above zero.
    #[must_use]
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.attempt_timeout = Some(limit);
        self
    }

    /// Whether to find out what became of a COMMIT whose answer was lost. Default: the pool's
    /// [`resolve_commit`](crate::Config::resolve_commit), which unless set is off.
    ///
    /// It costs one round trip before COMMIT: the server is asked for the transaction's id and for where it stands, and gives
    /// the transaction an id if it has none, as one that only reads does not. When the answer of COMMIT is lost, the same
    /// server is asked on a connection beside those of the pool, at the address where the transaction was, whether that id is
    /// committed, again and again until that is clear or [`resolve_commit_timeout`](Self::resolve_commit_timeout) is over:
    ///
    /// - it is: the transaction succeeds with what the closure gave, as if COMMIT had been answered;
    /// - it is not, and never will be: the transaction is run again while `attempts` allows, and fails with
    ///   [`Error::CommitAborted`](crate::Error::CommitAborted) otherwise;
    /// - nobody knows: [`Error::CommitOutcomeUnknown`](crate::Error::CommitOutcomeUnknown), with the reason.
    ///
    /// A transaction that is [`read_only`](Self::read_only), or on a standby, is not asked about: it has nothing that could be
    /// committed, and is run again. What it does beside reading, a `NOTIFY` say, may then be done twice. One that has run a
    /// `SET`, by which it could have made itself writable, is asked about like any other.
    ///
    /// # When it is known
    ///
    /// Only of PostgreSQL itself, versions 10 to 18, and of poolers in front of it. YugabyteDB, Greenplum, Aurora and others
    /// made of PostgreSQL always leave it unknown: what their word is worth is not known.
    ///
    /// A transaction's id is not enough. PostgreSQL keeps the ids it has given in memory, and after a crash gives those again
    /// that were not in its log on disk; "committed" may then be said of somebody else's work. So it is believed that a
    /// transaction is *committed* if the server has not crashed since it was asked before COMMIT. From version 15 on that is
    /// told by the time from which its statistics count: they are in its shared memory, saved by an orderly stop alone, and
    /// begun anew by a start that finds none. Before, by there having been no checkpoint, with which every recovery ends.
    ///
    /// That a transaction is *aborted* is believed after a crash too. Either the id is still that of the transaction; or it
    /// was lost, and then so was COMMIT, which comes after it in the log. After a crash "committed" is unknown, unless the log
    /// now ends before the place where it was already when COMMIT was sent: then COMMIT was lost with the rest.
    ///
    /// Where commits wait for synchronous standbys, the server is made to write another commit, of an empty message into its
    /// log; once they have confirmed that they have confirmed the transaction's.
    ///
    /// A promotion or a restore brings a new timeline, and what comes from another than the transaction's is not believed.
    /// Neither is a server in recovery; it is asked again.
    ///
    /// # What is assumed
    ///
    /// That the server keeps what it has written to disk (`fsync` on, and no disk that lies), except for commits that
    /// `synchronous_commit=off` allows it to lose; that it is not set back to an older copy of itself meanwhile on the same
    /// timeline; and that no two servers write on one timeline, as when a standby is made a primary without promoting it.
    /// *Committed* means what COMMIT's own answer means: committed on that server. What the transaction did elsewhere, by a
    /// foreign data wrapper, say, is not part of it. `docs/resolve-commit.md` in pgsteer's repository has the proof.
    #[must_use]
    pub fn resolve_commit(mut self, on: bool) -> Self {
        self.resolve_commit = Some(on);
        self
    }

    /// How long finding that out may take, from the loss on and beyond `attempt_timeout`. Default: the pool's
    /// [`resolve_commit_timeout`](crate::Config::resolve_commit_timeout). Above zero; only with `resolve_commit`.
    #[must_use]
    pub fn resolve_commit_timeout(mut self, limit: Duration) -> Self {
        self.resolve_commit_timeout = Some(limit);
        self
    }

    /// Is called at the end of each attempt that got a connection and whose closure did not panic, for logs and metrics.
    /// Must not block. If it panics, that is logged as an error and changes nothing else.
    #[must_use]
    pub fn on_attempt(mut self, hook: impl Fn(&Attempt) + Send + Sync + 'static) -> Self {
        self.on_attempt = Some(Arc::new(hook));
        self
    }

    /// Fails for what cannot be or would be ignored.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), Error> {
        let invalid = |name, value: String, allowed| {
            Err(Error::from(ConfigError::InvalidOption { name, value, allowed }))
        };
        if self.attempts == 0 {
            return invalid("attempts", "0".to_owned(), "a whole number from 1");
        }
        if self.attempt_timeout == Some(Duration::ZERO) {
            return invalid("attempt_timeout", "0s".to_owned(), "a duration above zero");
        }
        if let Some(limit) = self.resolve_commit_timeout {
            if limit.is_zero() {
                return invalid("resolve_commit_timeout", "0s".to_owned(), "a duration above zero");
            }
            if !self.resolves(settings) {
                let allowed = "a duration only with resolve_commit true";
                return invalid("resolve_commit_timeout", format!("{limit:?}"), allowed);
            }
        }
        let serializable = matches!(self.isolation, Some(IsolationLevel::Serializable));
        if self.deferrable && !(serializable && self.read_only == Some(true)) {
            let allowed = "true only with isolation Serializable and read_only true";
            return invalid("deferrable", "true".to_owned(), allowed);
        }
        Ok(())
    }

    /// Whether it is to be found out what became of a COMMIT whose answer was lost.
    pub(super) fn resolves(&self, settings: &Settings) -> bool {
        self.resolve_commit.unwrap_or(settings.resolve_commit)
    }

    /// Whether it was said that the transaction only reads.
    pub(super) fn only_reads(&self) -> bool {
        self.read_only == Some(true)
    }

    /// The statement that begins it.
    pub(super) fn begin(&self) -> String {
        let mut begin = String::from("BEGIN");
        begin.push_str(match self.isolation {
            Some(IsolationLevel::ReadUncommitted) => " ISOLATION LEVEL READ UNCOMMITTED",
            Some(IsolationLevel::ReadCommitted) => " ISOLATION LEVEL READ COMMITTED",
            Some(IsolationLevel::RepeatableRead) => " ISOLATION LEVEL REPEATABLE READ",
            // The only level that is left; one that is added to the driver later is none of ours yet.
            Some(_) => " ISOLATION LEVEL SERIALIZABLE",
            None => "",
        });
        begin.push_str(match self.read_only {
            Some(true) => " READ ONLY",
            Some(false) => " READ WRITE",
            None => "",
        });
        if self.deferrable {
            begin.push_str(" DEFERRABLE");
        }
        begin
    }
}

impl fmt::Debug for TransactionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionOptions")
            .field("attempts", &self.attempts)
            .field("max_backoff", &self.max_backoff)
            .field("begin", &self.begin())
            .field("checkout_timeout", &self.checkout_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("resolve_commit", &self.resolve_commit)
            .field("resolve_commit_timeout", &self.resolve_commit_timeout)
            .field("on_attempt", &self.on_attempt.is_some())
            .finish()
    }
}

/// One attempt at a transaction, when it has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Which it was, from 1.
    pub number: u32,
    /// The host it was made on.
    pub host: HostKey,
    /// From BEGIN to its end, the time included that it took to find out what became of a lost COMMIT.
    pub took: Duration,
    /// How it ended.
    pub end: AttemptEnd,
    /// The SQLSTATE that it failed with, if a server gave one.
    pub code: Option<String>,
    /// How long the rest is until the next attempt; `None` if there will be none.
    pub retry_after: Option<Duration>,
}

/// How an attempt at a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// Committed.
    Committed,
    /// The closure failed, and the transaction was rolled back.
    RolledBack,
    /// It lost a conflict with others (40001, 40P01) and was rolled back.
    Conflict,
    /// A write was refused because the server takes none, though the pool wants one that does.
    ReadOnlyServer,
    /// A statement that the connection kept prepared had become outdated: [`Tx::query_cached`](crate::Tx::query_cached)
    /// and its like.
    StatementOutdated,
    /// The connection was lost before COMMIT was sent.
    ConnectionLost,
    /// `attempt_timeout` ran out before COMMIT was sent.
    TimedOut,
    /// The server refused BEGIN or COMMIT.
    Refused,
    /// COMMIT rolled the transaction back, which had failed.
    Aborted,
    /// The closure ended the transaction by statements of its own.
    EndedInside,
    /// COMMIT was sent, and what became of it is not known.
    OutcomeUnknown,
    /// The answer of COMMIT was lost, and it was found to be done (`resolve_commit`).
    FoundCommitted,
    /// The answer of COMMIT was lost, and it was found not to be done, or there was nothing to be done because the
    /// transaction only reads (`resolve_commit`).
    FoundAborted,
}

impl AttemptEnd {
    /// Whether nothing of it can have been committed, and another attempt may do better.
    pub(super) fn may_be_tried_again(self) -> bool {
        use AttemptEnd::{
            Conflict, ConnectionLost, FoundAborted, ReadOnlyServer, StatementOutdated, TimedOut,
        };
        matches!(
            self,
            Conflict | ReadOnlyServer | StatementOutdated | ConnectionLost | TimedOut | FoundAborted
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_set_is_said_with_begin() {
        let options = TransactionOptions::new;
        let settings = crate::config::Config::new().user("app").settings().unwrap();
        let rows = [
            (options(), "BEGIN"),
            (
                options().isolation(IsolationLevel::ReadUncommitted),
                "BEGIN ISOLATION LEVEL READ UNCOMMITTED",
            ),
            (
                options()
                    .isolation(IsolationLevel::ReadCommitted)
                    .read_only(false),
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            ),
            (
                options().isolation(IsolationLevel::RepeatableRead),
                "BEGIN ISOLATION LEVEL REPEATABLE READ",
            ),
            (
                options()
                    .isolation(IsolationLevel::Serializable)
                    .read_only(true)
                    .deferrable(true),
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            ),
        ];
        for (options, begin) in rows {
            options.check(&settings).unwrap();
            assert_eq!(options.begin(), begin);
        }
    }
}
