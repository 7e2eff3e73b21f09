//! Transactions that are run again when that is safe and may help, and that say so when nobody can know whether they
//! were committed.
//!
//! It relies on the pool for connections and on the tap for what the server said of a transaction and whether COMMIT was
//! sent. It never runs a closure again once COMMIT may have reached a server that has not refused it.

mod attempt;
mod cached;
mod lost;
mod mark;
mod options;
mod question;
mod scope;
mod tx;
mod typed;

use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

pub use options::{Attempt, AttemptEnd, TransactionOptions};
pub use tx::{Tx, TxClient};

use crate::error::Error;
use crate::pool::{Conn, Pool, aside, now};
use attempt::{Outcome, Running};

impl Pool {
    /// Runs a transaction: BEGIN, the closure, and COMMIT if it gave `Ok` or ROLLBACK if it failed. As
    /// [`transaction_with`](Self::transaction_with) with the default options, for closures that fail with pgsteer's own
    /// error; [`Error::rollback`] makes one of any other.
    ///
    /// The closure may run several times, so it should have no effects but in the database.
    ///
    /// ```no_run
    /// # async fn example(pool: pgsteer::Pool, name: String) -> Result<(), pgsteer::Error> {
    /// let name = &name;
    /// let id: i64 = pool.transaction(|tx| async move {
    ///     let row = tx.query_one("INSERT INTO accounts (name) VALUES ($1) RETURNING id", &[name]).await?;
    ///     Ok(row.get(0))
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`transaction_with`](Self::transaction_with).
    ///
    /// # Cancel safety
    /// As [`transaction_with`](Self::transaction_with).
    #[track_caller]
    pub fn transaction<T, F, Fut>(&self, closure: F) -> impl Future<Output = Result<T, Error>>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        self.transaction_with(TransactionOptions::new(), closure)
    }

    /// Runs a transaction: BEGIN, the closure, and COMMIT if it gave `Ok` or ROLLBACK if it failed. That takes one round
    /// trip for BEGIN, one for COMMIT or ROLLBACK, and those of the closure. `socket_timeout` bounds each call.
    ///
    /// It is run again, on whatever connection comes next, as long as `attempts` allows,
    ///
    /// - when the closure or COMMIT failed after a conflict with other transactions (40001, 40P01), one that a savepoint
    ///   has undone included;
    /// - when the connection was lost before COMMIT was sent, or `attempt_timeout` ran out before that;
    /// - when a write was refused because the server takes none (25006), on a pool that wants one that does and unless the
    ///   transaction is `read_only`: it was no longer the primary;
    /// - when a statement that the connection kept for [`Tx::query_cached`] and its like had become outdated;
    /// - when COMMIT was sent and its answer lost, and `resolve_commit` found that the transaction is not committed.
    ///
    /// What a closure's error is about is not read off the error, whose type is the caller's own, but off what the server
    /// said of the transaction. Each attempt takes its place in the queue like any other checkout, and the connection is
    /// given back before the rest that comes first. If no attempt is left, or none of the connections wanted for
    /// another comes, the last attempt's error is returned.
    ///
    /// The closure may run several times, so it should have no effects but in the database. It must not end the
    /// transaction itself. A transaction within a transaction is another one, on another connection; for parts that can
    /// fail alone there is [`Tx::savepoint`].
    ///
    /// ```no_run
    /// use pgsteer::tokio_postgres::IsolationLevel;
    /// use pgsteer::{Pool, TransactionOptions};
    ///
    /// enum Failed {
    ///     TooPoor,
    ///     Database(pgsteer::Error),
    /// }
    ///
    /// impl From<pgsteer::Error> for Failed {
    ///     fn from(error: pgsteer::Error) -> Self {
    ///         Failed::Database(error)
    ///     }
    /// }
    ///
    /// async fn withdraw(pool: &Pool, account: i64, amount: i64) -> Result<i64, Failed> {
    ///     let options = TransactionOptions::new().isolation(IsolationLevel::Serializable).attempts(10);
    ///     pool.transaction_with(options, |tx| async move {
    ///         let row = tx.query_one("SELECT balance FROM accounts WHERE id = $1", &[&account]).await?;
    ///         let left = row.get::<_, i64>(0) - amount;
    ///         if left < 0 {
    ///             return Err(Failed::TooPoor);
    ///         }
    ///         tx.execute("UPDATE accounts SET balance = $2 WHERE id = $1", &[&account, &left]).await?;
    ///         Ok(left)
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// The closure's own, after ROLLBACK. [`Error::Config`] for options that cannot be, and what a checkout fails with:
    /// then the closure has not run. Of BEGIN and COMMIT the driver's error in [`Error::Postgres`].
    /// [`Error::TransactionAborted`] when the transaction had failed and COMMIT only rolled it back;
    /// [`Error::TransactionEndedInside`];
    /// [`Error::TransactionTimeout`]; [`Error::CommitAborted`] when the answer of COMMIT was lost and it was found not to be
    /// done; and [`Error::CommitOutcomeUnknown`] when COMMIT was sent and its answer has not come, or when the server was kept
    /// from waiting for its synchronous standbys by a cancel request, so that a failover may lose what it committed, and what
    /// became of it was not found out: this is the only one after which the transaction may be committed.
    ///
    /// # Cancel safety
    /// Dropping the future, or a panic in the closure, closes the connection, which ends the transaction. A statement that
    /// runs still is cancelled after [`return_cancel_after`](crate::Config::return_cancel_after), 500 ms unless set. If COMMIT
    /// was on its way it may be done, and while that is being found out nothing is changed by dropping the future.
    #[track_caller]
    pub fn transaction_with<T, E, F, Fut>(
        &self,
        options: TransactionOptions,
        closure: F,
    ) -> impl Future<Output = Result<T, E>>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        run(self, options, closure, Location::caller())
    }
}

async fn run<T, E, F, Fut>(
    pool: &Pool,
    options: TransactionOptions,
    mut closure: F,
    at: &'static Location<'static>,
) -> Result<T, E>
where
    F: FnMut(Tx) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: From<Error>,
{
    options.check(pool.settings())?;
    let begin = options.begin();
    let checkout_timeout = options.checkout_timeout.or(pool.settings().checkout_timeout);
    let mut number = 1;
    let mut last = None;
    loop {
        let conn = match pool.get_at(checkout_timeout, at).await {
            Ok(conn) => conn,
            // What made another attempt necessary says more than that there was no connection for it.
            Err(error) => return Err(last.unwrap_or_else(|| error.into())),
        };
        let started = now();
        let host = Conn::host(&conn).clone();
        // The connection is gone when this is over.
        let outcome = Running::new(pool, &options, conn, number)
            .run(&begin, &mut closure)
            .await;
        let ended = match outcome {
            Outcome::Ended(ended) => ended,
            Outcome::Lost(lost) => aside(|| lost.settle(pool, &options)).await,
        };
        let again = ended.end.may_be_tried_again() && number < options.attempts;
        let rest =
            again.then(|| pgsteer_core::transaction::back_off(number, options.max_backoff, pool.draw()));
        pool.count_attempt(ended.end, again);
        if let Some(hook) = &options.on_attempt {
            tell(
                &**hook,
                &Attempt {
                    number,
                    host,
                    took: now().saturating_duration_since(started),
                    end: ended.end,
                    code: ended.code,
                    retry_after: rest,
                },
            );
        }
        let Some(rest) = rest else {
            return ended.result;
        };
        last = ended.result.err();
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
        number += 1;
    }
}

/// Calls the hook. If that panics, nobody may be kept from learning what became of the transaction.
fn tell(hook: &(dyn Fn(&Attempt) + Send + Sync), attempt: &Attempt) {
    if catch_unwind(AssertUnwindSafe(|| hook(attempt))).is_err() {
        tracing::error!(target: "pgsteer::transaction", host = %attempt.host, "on_attempt panicked");
    }
}
