//! What a transaction runs without preparing it, and what it reads of one column: as the guards do.

use std::fmt::Debug;

use tokio_postgres::Row;
use tokio_postgres::ToStatement;
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};

use super::tx::Tx;
use crate::error::Error;

/// As the guards' functions of the same names, such as [`Conn::query_typed`](crate::Conn::query_typed). `socket_timeout`
/// bounds each call.
impl Tx {
    /// Runs a statement in one round trip, without preparing it under a name, with the types of its parameters given; returns
    /// its rows.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        self.client()?.conn().query_typed(sql, params).await
    }

    /// As [`query_typed`](Self::query_typed), for exactly one row.
    ///
    /// # Errors
    /// As [`query_one`](Self::query_one).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_typed_one(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, Error> {
        self.client()?.conn().query_typed_one(sql, params).await
    }

    /// As [`query_typed`](Self::query_typed), for no row or one.
    ///
    /// # Errors
    /// As [`query_opt`](Self::query_opt).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_typed_opt(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Row>, Error> {
        self.client()?.conn().query_typed_opt(sql, params).await
    }

    /// As [`query_typed`](Self::query_typed), for how many rows were changed.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn execute_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, Error> {
        self.client()?.conn().execute_typed(sql, params).await
    }

    /// As [`query`](Self::query), for rows of one column.
    ///
    /// # Errors
    /// As [`query`](Self::query), and when there is another number of columns or one that is no `R`.
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<R>, Error>
    where
        R: FromSqlOwned,
        T: ?Sized + ToStatement + Sync + Debug,
    {
        self.client()?.conn().query_scalar(statement, params).await
    }

    /// As [`query_one`](Self::query_one), for a row of one column.
    ///
    /// # Errors
    /// As [`query_one`](Self::query_one), and when there is another number of columns or one that is no `R`.
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_one_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<R, Error>
    where
        R: FromSqlOwned,
        T: ?Sized + ToStatement + Sync + Debug,
    {
        self.client()?.conn().query_one_scalar(statement, params).await
    }

    /// As [`query_opt`](Self::query_opt), for a row of one column.
    ///
    /// # Errors
    /// As [`query_opt`](Self::query_opt), and when there is another number of columns or one that is no `R`.
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_opt_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<R>, Error>
    where
        R: FromSqlOwned,
        T: ?Sized + ToStatement + Sync + Debug,
    {
        self.client()?.conn().query_opt_scalar(statement, params).await
    }
}
