//! One statement on any connection: check out, run, give back. None of these retries.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, ToStatement};

use super::Pool;
use crate::error::Error;

impl Pool {
    /// Runs a statement on a pooled connection and returns its rows. `socket_timeout` bounds the call, and
    /// `checkout_timeout` the wait before it.
    ///
    /// # Errors
    /// A failed checkout; the driver's error untouched in [`Error::Postgres`]; [`Error::ConnectionLost`] when the
    /// connection ended meanwhile, or was cut because `socket_timeout` ran out.
    ///
    /// # Cancel safety
    /// The statement may or may not run to its end; its connection is made clean in the background.
    pub async fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        self.get_ref().await?.query(statement, params).await
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
        self.get_ref().await?.query_one(statement, params).await
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
        self.get_ref().await?.query_opt(statement, params).await
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
        self.get_ref().await?.execute(statement, params).await
    }

    /// Runs SQL text of any number of statements, without parameters.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.get_ref().await?.batch_execute(sql).await
    }
}
