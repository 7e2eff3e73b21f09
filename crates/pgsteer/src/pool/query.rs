//! One statement on any connection: check out, run, give back. None of these retries.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, ToStatement};

use super::Pool;
use crate::error::Error;

impl Pool {
    /// Runs a statement on a pooled connection and returns its rows.
    ///
    /// # Errors
    /// A failed checkout; the driver's error untouched in [`Error::Postgres`]; [`Error::ConnectionLost`] when the
    /// connection ended meanwhile.
    ///
    /// # Cancel safety
    /// The statement may or may not run to its end; its connection is made clean in the background.
    pub async fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        T: ?Sized + ToStatement + Sync,
    {
        let conn = self.get_ref().await?;
        let result = conn.query(statement, params).await;
        result.map_err(|error| self.inner().query_error(conn.lease(), error))
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
        let conn = self.get_ref().await?;
        let result = conn.query_one(statement, params).await;
        result.map_err(|error| self.inner().query_error(conn.lease(), error))
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
        let conn = self.get_ref().await?;
        let result = conn.query_opt(statement, params).await;
        result.map_err(|error| self.inner().query_error(conn.lease(), error))
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
        let conn = self.get_ref().await?;
        let result = conn.execute(statement, params).await;
        result.map_err(|error| self.inner().query_error(conn.lease(), error))
    }

    /// Runs SQL text of any number of statements, without parameters.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        let conn = self.get_ref().await?;
        let result = conn.batch_execute(sql).await;
        result.map_err(|error| self.inner().query_error(conn.lease(), error))
    }
}
