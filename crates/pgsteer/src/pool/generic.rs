//! One trait over everything that statements can be run on, for functions that do not care which it is.

use std::fmt::Debug;
use std::future::Future;

use tokio_postgres::types::{FromSqlOwned, ToSql, Type};
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
    /// As [`Conn::prepare`].
    fn prepare(&self, sql: &str) -> impl Future<Output = Result<Statement, Error>> + Send;

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

    /// As [`Conn::query_typed`].
    fn query_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// As [`Conn::query_typed_one`].
    fn query_typed_one(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> impl Future<Output = Result<Row, Error>> + Send;

    /// As [`Conn::query_typed_opt`].
    fn query_typed_opt(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> impl Future<Output = Result<Option<Row>, Error>> + Send;

    /// As [`Conn::execute_typed`].
    fn execute_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// As [`Conn::query_scalar`].
    fn query_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<R>, Error>> + Send
    where
        R: FromSqlOwned + Send,
        T: ?Sized + ToStatement + Sync + Debug;

    /// As [`Conn::query_one_scalar`].
    fn query_one_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<R, Error>> + Send
    where
        R: FromSqlOwned + Send,
        T: ?Sized + ToStatement + Sync + Debug;

    /// As [`Conn::query_opt_scalar`].
    fn query_opt_scalar<R, T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Option<R>, Error>> + Send
    where
        R: FromSqlOwned + Send,
        T: ?Sized + ToStatement + Sync + Debug;

    /// As [`Conn::batch_execute`].
    fn batch_execute(&self, sql: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// As [`Conn::simple_query`].
    fn simple_query(&self, sql: &str) -> impl Future<Output = Result<Vec<SimpleQueryMessage>, Error>> + Send;
}

macro_rules! generic_client {
    ($client:ty) => {
        impl GenericClient for $client {
            async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
                <$client>::prepare(self, sql).await
            }

            async fn prepare_typed(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
                <$client>::prepare_typed(self, sql, types).await
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

            async fn query_typed(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Vec<Row>, Error> {
                <$client>::query_typed(self, sql, params).await
            }

            async fn query_typed_one(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Row, Error> {
                <$client>::query_typed_one(self, sql, params).await
            }

            async fn query_typed_opt(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Option<Row>, Error> {
                <$client>::query_typed_opt(self, sql, params).await
            }

            async fn execute_typed(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<u64, Error> {
                <$client>::execute_typed(self, sql, params).await
            }

            async fn query_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Vec<R>, Error>
            where
                R: FromSqlOwned + Send,
                T: ?Sized + ToStatement + Sync + Debug,
            {
                <$client>::query_scalar(self, statement, params).await
            }

            async fn query_one_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<R, Error>
            where
                R: FromSqlOwned + Send,
                T: ?Sized + ToStatement + Sync + Debug,
            {
                <$client>::query_one_scalar(self, statement, params).await
            }

            async fn query_opt_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<R>, Error>
            where
                R: FromSqlOwned + Send,
                T: ?Sized + ToStatement + Sync + Debug,
            {
                <$client>::query_opt_scalar(self, statement, params).await
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

generic_client!(Conn);
generic_client!(ConnRef<'_>);
generic_client!(Tx);
