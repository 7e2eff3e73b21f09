//! A transaction while it is open: statements, savepoints, and the client itself for everything else.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, RowStream, SimpleQueryMessage, Statement, ToStatement};

use super::scope::{Inside, Scope};
use crate::error::Error;
use crate::pool::Conn;

/// An open transaction, given to the closure of [`Pool::transaction`](crate::Pool::transaction). Owned, so that it can go
/// into spawned tasks.
///
/// It ends when the closure's future does. One that is kept longer fails every call with [`Error::TransactionOver`]; what
/// it was doing at that moment is waited for. Everything the driver can do besides is reached through
/// [`client`](Self::client). The transaction is not to be ended by hand: COMMIT and ROLLBACK are the pool's.
pub struct Tx {
    scope: Arc<Scope>,
    facts: Arc<Facts>,
}

/// What stays the same for a transaction and its savepoints.
struct Facts {
    attempt: u32,
    host: HostKey,
    /// Savepoints set so far; their names are numbered.
    savepoints: AtomicU32,
}

impl Tx {
    pub(super) fn new(scope: Arc<Scope>, attempt: u32, host: HostKey) -> Self {
        let facts = Facts {
            attempt,
            host,
            savepoints: AtomicU32::new(0),
        };
        Tx {
            scope,
            facts: Arc::new(facts),
        }
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// The host it is on.
    pub fn host(&self) -> &HostKey {
        &self.facts.host
    }

    /// The connection's client, for everything that has no function here. `socket_timeout` does not bound its calls. To be
    /// dropped soon: the end of the transaction waits for it, and for a COPY or a row stream that was begun with it.
    ///
    /// # Errors
    /// [`Error::TransactionOver`].
    pub fn client(&self) -> Result<TxClient<'_>, Error> {
        Ok(TxClient {
            inside: self.scope.enter().ok_or(Error::TransactionOver)?,
            tx: PhantomData,
        })
    }

    /// Runs a statement and returns its rows. `socket_timeout` bounds the call.
    ///
    /// # Errors
    /// The driver's error untouched in [`Error::Postgres`]; [`Error::ConnectionLost`] when the connection has ended or was
    /// cut because `socket_timeout` ran out; [`Error::TransactionOver`].
    ///
    /// # Cancel safety
    /// The statement may or may not run to its end; what follows comes after it.
    pub async fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        self.client()?.conn().query(statement, params).await
    }

    /// As [`query`](Self::query), for exactly one row.
    ///
    /// # Errors
    /// As [`query`](Self::query), and when the statement returns another number of rows.
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_one<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        self.client()?.conn().query_one(statement, params).await
    }

    /// As [`query`](Self::query), for no row or one.
    ///
    /// # Errors
    /// As [`query`](Self::query), and when the statement returns more than one row.
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_opt<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        self.client()?.conn().query_opt(statement, params).await
    }

    /// As [`query`](Self::query), one row after the other, and without a limit. The end of the transaction waits for rows that have not been
    /// read, unless the stream is dropped.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_raw<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<RowStream, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        let client = self.client()?;
        let result = client.query_raw(statement, params.iter().copied()).await;
        result.map_err(|error| client.error(error))
    }

    /// As [`query`](Self::query), for a statement without rows; returns how many it changed.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn execute<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        self.client()?.conn().execute(statement, params).await
    }

    /// Runs SQL text of any number of statements, without parameters.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.client()?.conn().batch_execute(sql).await
    }

    /// As [`batch_execute`](Self::batch_execute), and returns what each statement gave, as text.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.client()?.conn().simple_query(sql).await
    }

    /// Prepares a statement, for this connection only; it is closed when the last clone of it is dropped.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.prepare_typed(sql, &[]).await
    }

    /// As [`prepare`](Self::prepare), with types given for the first parameters. The others are the server's to find.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn prepare_typed(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        self.client()?.conn().prepare_typed(sql, types).await
    }

    /// Runs a part of the transaction within a savepoint: if the closure fails, what it did is undone and the rest of
    /// the transaction stands. Savepoints can be nested. What is run on this `Tx` while the closure runs falls within
    /// the savepoint too.
    ///
    /// ```no_run
    /// # async fn example(tx: pgsteer::Tx) -> Result<(), pgsteer::Error> {
    /// let inserted = tx.savepoint(|tx| async move {
    ///     tx.execute("INSERT INTO names VALUES ('eve')", &[]).await
    /// }).await;
    /// if inserted.is_err() {
    ///     tx.execute("UPDATE names SET seen = now() WHERE name = 'eve'", &[]).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The closure's; as [`query`](Self::query) for the statements that set, release and roll back.
    ///
    /// # Cancel safety
    /// When the future is dropped, or the closure panics, what was done within the savepoint is undone. If a task that the
    /// closure has spawned is using its [`Tx`] at that moment, the connection is cut, and with it the transaction: what that
    /// task does could not be undone for certain.
    pub async fn savepoint<T, E, F, Fut>(&self, closure: F) -> Result<T, E>
    where
        F: FnOnce(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let client = self.client()?;
        let number = self.facts.savepoints.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgsteer_{number}");
        let mut savepoint = Savepoint {
            undo: Some(format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}")),
            scope: Scope::of_savepoint(&self.scope),
            client,
        };
        let set = savepoint.client.batch_execute(&format!("SAVEPOINT {name}")).await;
        if let Err(error) = set {
            savepoint.undo = None;
            return Err(savepoint.client.error(error).into());
        }
        let inner = Tx {
            scope: Arc::clone(&savepoint.scope),
            facts: Arc::clone(&self.facts),
        };
        let result = closure(inner).await;
        savepoint.scope.close().await;
        let sql = match &result {
            Ok(_) => format!("RELEASE SAVEPOINT {name}"),
            Err(_) => savepoint.undo.take().unwrap_or_default(),
        };
        match savepoint.client.conn().batch_execute(&sql).await {
            Err(error) if result.is_ok() => Err(error.into()),
            _ => {
                savepoint.undo = None;
                result
            }
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx")
            .field("host", &self.facts.host)
            .field("attempt", &self.facts.attempt)
            .finish_non_exhaustive()
    }
}

/// A savepoint that is undone when it is dropped before it has ended.
struct Savepoint<'tx> {
    undo: Option<String>,
    scope: Arc<Scope>,
    client: TxClient<'tx>,
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        let occupied = self.scope.shut();
        if let Some(undo) = &self.undo {
            if occupied {
                // What others still send there may come behind this, and would stand then.
                Conn::stop_what_runs(self.client.conn());
                Conn::cut(self.client.conn());
                return;
            }
            // Polled once, it is queued behind what was sent before, and in front of what is sent later. If it fails, so
            // has the transaction.
            // The client's own function: one with a limit would need a runtime.
            let _ = Client::batch_execute(&self.client, undo).now_or_never();
        }
    }
}

/// The client of an open transaction, borrowed from [`Tx::client`]. Dereferences to [`tokio_postgres::Client`].
pub struct TxClient<'tx> {
    inside: Inside,
    tx: PhantomData<&'tx Tx>,
}

impl TxClient<'_> {
    pub(super) fn conn(&self) -> &Conn {
        self.inside.conn()
    }

    /// A query's error as ours.
    fn error(&self, error: tokio_postgres::Error) -> Error {
        Conn::error(self.conn(), error)
    }
}

impl Deref for TxClient<'_> {
    type Target = Client;
    fn deref(&self) -> &Client {
        self.conn()
    }
}

impl fmt::Debug for TxClient<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxClient").finish_non_exhaustive()
    }
}
