//! One trait over everything that statements can be run on, for functions that do not care which it is.

use std::future::Future;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage, Statement, ToStatement};

use super::guard::{Conn, ConnRef};
use crate::error::Error;
use crate::transaction::Tx;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Conn {}
    impl Sealed for super::ConnRef<'_> {}
    impl Sealed for super::Tx {}
}

/// A connection or a transaction: [`Conn`], [`ConnRef`] or [`Tx`]. Each function is the one that the type itself has, with
/// its limits, errors and cancel safety.
///
/// ```no_run
/// use pgsteer::{Error, GenericClient, Pool};
///
/// async fn users(client: &impl GenericClient) -> Result<i64, Error> {
///     Ok(client.query_one("SELECT count(*) FROM users", &[]).await?.get(0))
/// }
///
/// # async fn example(pool: &Pool) -> Result<(), Error> {
/// let conn = pool.get().await?;
/// println!("{}", users(&conn).await?);
/// # Ok(()) }
/// ```
pub trait GenericClient: sealed::Sealed + Send + Sync {
    /// As [`Conn::prepare_typed`].
    fn prepare_typed(
        &self,
        sql: &str,
        types: &[Type],
    ) -> impl Future<Output = Result<Statement, Error>> + Send;

    /// As [`Conn::prepare_cached`].
    fn prepare_cached(&self, sql: &str) -> impl Future<Output = Result<Statement, Error>> + Send;

    /// As [`Conn::query_cached`].
    fn query_cached(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// As [`Conn::query_one_cached`].
    fn query_one_cached(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Row, Error>> + Send;

    /// As [`Conn::query_opt_cached`].
    fn query_opt_cached(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Option<Row>, Error>> + Send;

    /// As [`Conn::execute_cached`].
    fn execute_cached(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// As [`Conn::query`].
    fn query<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send
    where
        T: ?Sized + ToStatement + Sync;

    /// As [`Conn::query_one`].
    fn query_one<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Row, Error>> + Send
    where
        T: ?Sized + ToStatement + Sync;

    /// As [`Conn::query_opt`].
    fn query_opt<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Option<Row>, Error>> + Send
    where
        T: ?Sized + ToStatement + Sync;

    /// As [`Conn::execute`].
    fn execute<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<u64, Error>> + Send
    where
        T: ?Sized + ToStatement + Sync;

    /// As [`Conn::batch_execute`].
    fn batch_execute(&self, sql: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// As [`Conn::simple_query`].
    fn simple_query(&self, sql: &str) -> impl Future<Output = Result<Vec<SimpleQueryMessage>, Error>> + Send;
}

macro_rules! generic_client {
    ($client:ty, $prepare:ident) => {
        impl GenericClient for $client {
            async fn prepare_typed(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
                <$client>::$prepare(self, sql, types).await
            }

            async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
                <$client>::prepare_cached(self, sql).await
            }

            async fn query_cached(
                &self,
                sql: &str,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Vec<Row>, Error> {
                <$client>::query_cached(self, sql, params).await
            }

            async fn query_one_cached(
                &self,
                sql: &str,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Row, Error> {
                <$client>::query_one_cached(self, sql, params).await
            }

            async fn query_opt_cached(
                &self,
                sql: &str,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<Row>, Error> {
                <$client>::query_opt_cached(self, sql, params).await
            }

            async fn execute_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
                <$client>::execute_cached(self, sql, params).await
            }

            async fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
            where
                T: ?Sized + ToStatement + Sync,
            {
                <$client>::query(self, statement, params).await
            }

            async fn query_one<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
            where
                T: ?Sized + ToStatement + Sync,
            {
                <$client>::query_one(self, statement, params).await
            }

            async fn query_opt<T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<Row>, Error>
            where
                T: ?Sized + ToStatement + Sync,
            {
                <$client>::query_opt(self, statement, params).await
            }

            async fn execute<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
            where
                T: ?Sized + ToStatement + Sync,
            {
                <$client>::execute(self, statement, params).await
            }

            async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
                <$client>::batch_execute(self, sql).await
            }

            async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
                <$client>::simple_query(self, sql).await
            }
        }
    };
}

generic_client!(Conn, prepare_typed);
generic_client!(ConnRef<'_>, prepare_typed);
generic_client!(Tx, prepare);
