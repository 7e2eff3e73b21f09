//! Statements of a transaction that the connection keeps prepared, also for the transactions that come after it.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::tx::Tx;
use crate::error::Error;

/// As [`Conn::query_cached`](crate::Conn::query_cached) and its like, which say what is kept and for how long.
///
/// One that turns out to be outdated fails the transaction, and is forgotten:
/// [`Pool::transaction`](crate::Pool::transaction) runs the closure again for that.
impl Tx {
    /// The statement for this text from those that the connection keeps, prepared now if it has none. For this connection
    /// only.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
        self.client()?.conn().prepare_cached(sql).await
    }

    /// As [`query`](Self::query), with the statement kept prepared on the connection.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.client()?.conn().query_cached(sql, params).await
    }

    /// As [`query_cached`](Self::query_cached), for exactly one row.
    ///
    /// # Errors
    /// As [`query_one`](Self::query_one).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_one_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        self.client()?.conn().query_one_cached(sql, params).await
    }

    /// As [`query_cached`](Self::query_cached), for no row or one.
    ///
    /// # Errors
    /// As [`query_opt`](Self::query_opt).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_opt_cached(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.client()?.conn().query_opt_cached(sql, params).await
    }

    /// As [`query_cached`](Self::query_cached), for how many rows were changed.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn execute_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        self.client()?.conn().execute_cached(sql, params).await
    }
}
