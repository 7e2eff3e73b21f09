//! One attempt at a transaction, from BEGIN to the connection's return. What it ends with is read off the wire: the
//! closure's error is its author's own, and the driver tells neither what COMMIT was answered with nor whether it was
//! sent.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use pgsteer_core::verdict::{
    Class, Evidence, classify, doubts_role, leaves_commit_in_doubt, may_outdate_statement,
};
use tokio::time::{Instant, timeout_at};

use super::lost::Lost;
use super::mark::{Marked, mark};
use super::options::{AttemptEnd, TransactionOptions};
use super::scope::Scope;
use super::tx::Tx;
use crate::dial::{Severity, TransactionStatus};
use crate::error::Error;
use crate::health::is_fatal;
use crate::pool::{Conn, Pool};

/// Why nobody knows of a commit that the server confirmed and its standbys did not.
const UNCONFIRMED: &str =
    "the server committed it, but was kept from waiting until a standby has it, so a failover may lose it";

/// How an attempt ended, and what its caller gets if it is the last.
pub(super) struct Ended<T, E> {
    pub(super) result: Result<T, E>,
    pub(super) end: AttemptEnd,
    pub(super) code: Option<String>,
}

/// What an attempt comes to by itself.
pub(super) enum Outcome<T, E> {
    Ended(Ended<T, E>),
    /// COMMIT was sent and not answered: how it has ended is only to be had by finding out.
    Lost(Box<Lost<T>>),
}

impl<T, E> From<Ended<T, E>> for Outcome<T, E> {
    fn from(ended: Ended<T, E>) -> Self {
        Outcome::Ended(ended)
    }
}

impl<T, E: From<Error>> Ended<T, E> {
    fn committed(value: T) -> Self {
        Ended {
            result: Ok(value),
            end: AttemptEnd::Committed,
            code: None,
        }
    }

    pub(super) fn failed(end: AttemptEnd, error: Error) -> Self {
        Ended {
            code: error.code().map(str::to_owned),
            result: Err(error.into()),
            end,
        }
    }
}

/// An attempt under way. Dropped before its end, it closes the connection.
pub(super) struct Running<'a> {
    pool: &'a Pool,
    options: &'a TransactionOptions,
    number: u32,
    deadline: Option<Instant>,
    scope: Arc<Scope>,
    /// Set until it has ended.
    conn: Option<Arc<Conn>>,
    /// COMMIT may be on its way, and is not to be cancelled.
    commits: bool,
}

impl<'a> Running<'a> {
    pub(super) fn new(pool: &'a Pool, options: &'a TransactionOptions, conn: Conn, number: u32) -> Self {
        let conn = Arc::new(conn);
        let deadline = options
            .attempt_timeout
            .and_then(|limit| Instant::now().checked_add(limit));
        Running {
            pool,
            options,
            number,
            deadline,
            scope: Scope::of_transaction(Arc::clone(&conn)),
            conn: Some(conn),
            commits: false,
        }
    }

    pub(super) async fn run<T, E, F, Fut>(mut self, begin: &str, closure: &mut F) -> Outcome<T, E>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let Some(conn) = self.conn.clone() else {
            return Ended::failed(AttemptEnd::Refused, Error::Closed).into();
        };
        match self.in_time(conn.batch_execute(begin)).await {
            None => return self.timed_out(conn).into(),
            Some(Err(error)) => return self.refused(conn, error).into(),
            Some(Ok(())) => {}
        }
        let begun = Conn::wire(&conn).said();
        // What was found before is none of this transaction's.
        Conn::take_outdated(&conn);
        let tx = Tx::new(Arc::clone(&self.scope), self.number, Conn::host(&conn).clone());
        let result = {
            // Where it stays: the closure's future may be large.
            let mut work = pin!(async {
                let result = closure(tx).await;
                self.scope.close().await;
                result
            });
            self.in_time(work.as_mut()).await
        };
        let Some(result) = result else {
            return self.timed_out(conn).into();
        };
        let ended_inside = Conn::wire(&conn).said().ended != begun.ended;
        match result {
            Err(error) => self.roll_back(conn, error, ended_inside).await.into(),
            Ok(_) if ended_inside => {
                self.give_back(conn);
                Ended::failed(AttemptEnd::EndedInside, Error::TransactionEndedInside).into()
            }
            Ok(value) => self.commit(conn, value, begun.remade).await,
        }
    }

    /// Waits until the attempt's time is over at most.
    async fn in_time<F: Future>(&self, work: F) -> Option<F::Output> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, work).await.ok(),
            None => Some(work.await),
        }
    }

    /// What ROLLBACK itself comes to matters to nobody but the connection.
    async fn roll_back<T, E>(mut self, conn: Arc<Conn>, error: E, ended_inside: bool) -> Ended<T, E> {
        let wire = Conn::wire(&conn);
        let hung_up = wire
            .last_error()
            .filter(|error| error.severity <= Severity::Fatal);
        let lost = Conn::end(&conn).is_some() || hung_up.is_some();
        let is_fit = Conn::roll_back(&conn).await;
        // Read after ROLLBACK, before whose answer those of all statements have come.
        let failure = wire.said().failure.or(hung_up);
        let code = failure.as_ref().map(|failure| failure.sqlstate.as_str());
        let end = match code {
            _ if ended_inside => AttemptEnd::EndedInside,
            _ if lost => AttemptEnd::ConnectionLost,
            Some(code) if may_outdate_statement(code) && Conn::take_outdated(&conn) => {
                AttemptEnd::StatementOutdated
            }
            Some(code) => self.end_by(code),
            None => AttemptEnd::RolledBack,
        };
        let ended = Ended {
            result: Err(error),
            end,
            code: code.map(str::to_owned),
        };
        match end {
            _ if !is_fit => self.cut(conn),
            AttemptEnd::ConnectionLost => self.discard(conn),
            _ => self.give_back(conn),
        }
        ended
    }

    /// How a transaction that was rolled back has ended, by what had failed in it.
    fn end_by(&self, sqlstate: &str) -> AttemptEnd {
        let fatal = false;
        match classify(&Evidence::Server { fatal, sqlstate }) {
            Class::Retryable => AttemptEnd::Conflict,
            Class::ConnectionLost => AttemptEnd::ConnectionLost,
            // It was to write, and the session takes no writes, on a pool that wants one that does.
            Class::Other
                if doubts_role(sqlstate) && self.pool.wants_writes() && !self.options.only_reads() =>
            {
                AttemptEnd::ReadOnlyServer
            }
            Class::Other => AttemptEnd::RolledBack,
        }
    }

    /// `remade` is how often the server had said, when the transaction began, that one was made another than it was begun as.
    async fn commit<T, E: From<Error>>(mut self, conn: Arc<Conn>, value: T, remade: u64) -> Outcome<T, E> {
        let wire = Conn::wire(&conn);
        let only_reads = self.options.only_reads() && wire.said().remade == remade;
        let marking = mark(&conn, self.options, self.pool.settings(), only_reads);
        let marked = match self.in_time(marking).await {
            None => return self.timed_out(conn).into(),
            Some(Err(error)) => {
                self.discard(conn);
                return Ended::failed(AttemptEnd::ConnectionLost, error).into();
            }
            Some(Ok(marked)) => marked,
        };
        let (sent_before, before) = (wire.queries_sent(), wire.said());
        self.commits = true;
        let answer = self.in_time(conn.batch_execute("COMMIT")).await;
        if answer.is_none() || (matches!(answer, Some(Err(_))) && wire.queries_sent() == sent_before) {
            // It may be on its way to the socket at this moment, on another thread: how far it came is known once that is
            // closed.
            Conn::cut_off(&conn).await;
        }
        let said = wire.said();
        let committed = said.tag.is_some_and(|tag| tag.as_str() == "COMMIT");
        let is_sent = wire.queries_sent() != sent_before;
        // Unknown where something is missing of what the server had to say of the transaction by then.
        let sent_in = match is_sent {
            true => wire.status_at_query(),
            false => TransactionStatus::Unknown,
        };
        // COMMIT rolls a transaction back that has failed, whether its answer comes or not.
        let is_futile = sent_in == TransactionStatus::Failed;
        let is_all_said = sent_in != TransactionStatus::Unknown;
        let marked = marked.unless_remade(!is_all_said || said.remade != remade);
        match answer {
            Some(Ok(())) if !committed => {
                let code = said.failure.map(|failure| failure.sqlstate.as_str().to_owned());
                self.give_back(conn);
                Ended::failed(AttemptEnd::Aborted, Error::TransactionAborted { code }).into()
            }
            Some(Ok(())) if said.unconfirmed != before.unconfirmed => {
                let lost = Self::lost(&conn, value, marked, UNCONFIRMED.to_owned(), None);
                self.give_back(conn);
                lost
            }
            Some(Ok(())) => {
                self.give_back(conn);
                Ended::committed(value).into()
            }
            // The server said that it is done, and was gone before it said that it is ready for more.
            _ if committed && said.ended != before.ended && said.unconfirmed == before.unconfirmed => {
                self.cut(conn);
                Ended::committed(value).into()
            }
            None if !is_sent => self.timed_out(conn).into(),
            None | Some(Err(_)) if is_futile => {
                let code = said.failure.map(|failure| failure.sqlstate.as_str().to_owned());
                self.cut(conn);
                Ended::failed(AttemptEnd::Aborted, Error::TransactionAborted { code }).into()
            }
            None => {
                let limit = self.options.attempt_timeout.unwrap_or_default();
                let lost = format!("no answer came within attempt_timeout ({limit:?})");
                let lost = Self::lost(&conn, value, marked, lost, None);
                self.cut(conn);
                lost
            }
            Some(Err(error)) if !is_sent => {
                self.discard(conn);
                Ended::failed(AttemptEnd::ConnectionLost, error).into()
            }
            Some(Err(error)) if leaves_commit_in_doubt(&evidence(&error)) => {
                let code = error.code().map(str::to_owned);
                let lost = Self::lost(&conn, value, marked, error.to_string(), code);
                self.cut(conn);
                lost
            }
            Some(Err(error)) => {
                let end = match classify(&evidence(&error)) {
                    Class::Retryable => AttemptEnd::Conflict,
                    _ => AttemptEnd::Refused,
                };
                self.give_back(conn);
                Ended::failed(end, error).into()
            }
        }
    }

    /// BEGIN failed, so nothing has happened yet.
    fn refused<T, E: From<Error>>(mut self, conn: Arc<Conn>, error: Error) -> Ended<T, E> {
        let end = match classify(&evidence(&error)) {
            Class::Retryable => AttemptEnd::Conflict,
            Class::ConnectionLost => AttemptEnd::ConnectionLost,
            Class::Other => AttemptEnd::Refused,
        };
        match end {
            AttemptEnd::ConnectionLost => self.discard(conn),
            _ => self.give_back(conn),
        }
        Ended::failed(end, error)
    }

    /// The attempt's time is over, and COMMIT has not been sent.
    fn timed_out<T, E: From<Error>>(mut self, conn: Arc<Conn>) -> Ended<T, E> {
        let limit = self.options.attempt_timeout.unwrap_or_default();
        Conn::stop_what_runs(&conn);
        self.cut(conn);
        Ended::failed(AttemptEnd::TimedOut, Error::TransactionTimeout(limit))
    }

    fn lost<T, E>(
        conn: &Conn,
        value: T,
        marked: Marked,
        lost: String,
        code: Option<String>,
    ) -> Outcome<T, E> {
        let lost = Lost {
            value,
            marked,
            host: Conn::host(conn).clone(),
            endpoint: Conn::endpoint(conn).clone(),
            lost,
            code,
        };
        Outcome::Lost(Box::new(lost))
    }

    fn give_back(&mut self, conn: Arc<Conn>) {
        self.scope.shut();
        self.conn = None;
        drop(conn);
    }

    /// Closes the socket now, whatever runs on it.
    fn cut(&mut self, conn: Arc<Conn>) {
        Conn::cut(&conn);
        self.discard(conn);
    }

    fn discard(&mut self, conn: Arc<Conn>) {
        drop(conn);
        self.close();
    }

    /// Closes the connection. If somebody still uses it, it is cut, and goes when they are done.
    fn close(&mut self) {
        self.scope.shut();
        match self.conn.take().map(Arc::try_unwrap) {
            Some(Ok(conn)) => Conn::discard(conn),
            Some(Err(shared)) => {
                if !self.commits {
                    Conn::stop_what_runs(&shared);
                }
                Conn::cut(&shared);
            }
            None => {}
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// What an error of one of our own statements is evidence of. One that the server did not send means that the
/// conversation is over.
pub(super) fn evidence(error: &Error) -> Evidence<'_> {
    let said = match error {
        Error::Postgres(error) => error.as_db_error(),
        _ => None,
    };
    match said {
        Some(said) => Evidence::Server {
            fatal: is_fatal(said),
            sqlstate: said.code().code(),
        },
        None => Evidence::Closed,
    }
}
