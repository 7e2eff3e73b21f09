//! The guards' own query functions. They go by the names of those of [`tokio_postgres::Client`] and hide them: so the
//! call that everybody writes is bounded by `socket_timeout`, and its error says why a connection ended.
//!
//! What begins something that goes on after the call (row streams, COPY, the driver's transactions) is left to the
//! client, which the guards dereference to.

use std::fmt::Debug;

use tokio_postgres::types::{BorrowToSql, FromSqlOwned, ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage, Statement, ToStatement};

use super::aside::aside;
use super::bound::bounded;
use super::guard::{Conn, ConnRef};
use crate::error::Error;

macro_rules! calls {
    ([$($generics:tt)*] $guard:ty) => {
        /// Query functions by the names they have on [`tokio_postgres::Client`], with the same parameters. Each is one
        /// call: `socket_timeout` bounds all of it, preparing included. The client's own, without a limit and with its own
        /// error, are there by an explicit dereference: `(*conn).query(…)`. So is all that goes on after the call:
        /// `query_raw`, `copy_in`, `copy_out`, `transaction` and their like are never bounded.
        ///
        /// All fail with [`Error::Postgres`], which is the driver's error untouched, or with [`Error::ConnectionLost`],
        /// which says why the connection ended.
        ///
        /// Cancel safe: dropping the future leaves the statement to run to its end or to be cancelled once the guard is
        /// given back; the connection is made clean before anybody else has it.
        impl<$($generics)*> $guard {
            /// Prepares a statement; it is closed when the last clone of it is dropped.
            ///
            /// # Errors
            /// [`Error::Postgres`], [`Error::ConnectionLost`].
            pub async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
                self.prepare_typed(sql, &[]).await
            }

            /// As [`prepare`](Self::prepare), with types given for the first parameters.
            ///
            /// # Errors
            /// As [`prepare`](Self::prepare).
            pub async fn prepare_typed(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
                bounded!(self, || self.client().prepare_typed(sql, types))
            }

            /// Runs a statement and returns its rows.
            ///
            /// # Errors
            /// [`Error::Postgres`], [`Error::ConnectionLost`].
            pub async fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
            where
                T: ?Sized + ToStatement,
            {
                bounded!(self, || self.client().query(statement, params))
            }

            /// As [`query`](Self::query), for exactly one row.
            ///
            /// # Errors
            /// As [`query`](Self::query), and when there is another number of rows.
            pub async fn query_one<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
            where
                T: ?Sized + ToStatement,
            {
                bounded!(self, || self.client().query_one(statement, params))
            }

            /// As [`query`](Self::query), for no row or one.
            ///
            /// # Errors
            /// As [`query`](Self::query), and when there is more than one row.
            pub async fn query_opt<T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<Row>, Error>
            where
                T: ?Sized + ToStatement,
            {
                bounded!(self, || self.client().query_opt(statement, params))
            }

            /// As [`query`](Self::query), for rows of one column.
            ///
            /// # Errors
            /// As [`query`](Self::query), and when there is another number of columns or one that is no `R`.
            pub async fn query_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Vec<R>, Error>
            where
                R: FromSqlOwned,
                T: ?Sized + ToStatement + Debug,
            {
                bounded!(self, || self.client().query_scalar(statement, params))
            }

            /// As [`query_one`](Self::query_one), for a row of one column.
            ///
            /// # Errors
            /// As [`query_one`](Self::query_one), and when there is another number of columns or one that is no `R`.
            pub async fn query_one_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<R, Error>
            where
                R: FromSqlOwned,
                T: ?Sized + ToStatement + Debug,
            {
                bounded!(self, || self.client().query_one_scalar(statement, params))
            }

            /// As [`query_opt`](Self::query_opt), for a row of one column.
            ///
            /// # Errors
            /// As [`query_opt`](Self::query_opt), and when there is another number of columns or one that is no `R`.
            pub async fn query_opt_scalar<R, T>(
                &self,
                statement: &T,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<R>, Error>
            where
                R: FromSqlOwned,
                T: ?Sized + ToStatement + Debug,
            {
                bounded!(self, || self.client().query_opt_scalar(statement, params))
            }

            /// Runs a statement in one round trip, without preparing it under a name, with the types of its parameters
            /// given; returns its rows.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn query_typed(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Vec<Row>, Error> {
                bounded!(self, || self.client().query_typed(sql, params))
            }

            /// As [`query_typed`](Self::query_typed), for exactly one row.
            ///
            /// # Errors
            /// As [`query_one`](Self::query_one).
            pub async fn query_typed_one(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Row, Error> {
                bounded!(self, || self.client().query_typed_one(sql, params))
            }

            /// As [`query_typed`](Self::query_typed), for no row or one.
            ///
            /// # Errors
            /// As [`query_opt`](Self::query_opt).
            pub async fn query_typed_opt(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<Option<Row>, Error> {
                bounded!(self, || self.client().query_typed_opt(sql, params))
            }

            /// Runs a statement and returns how many rows it changed.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn execute<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
            where
                T: ?Sized + ToStatement,
            {
                bounded!(self, || self.client().execute(statement, params))
            }

            /// As [`execute`](Self::execute), with parameters of one type, in any collection.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn execute_raw<T, P, I>(&self, statement: &T, params: I) -> Result<u64, Error>
            where
                T: ?Sized + ToStatement,
                P: BorrowToSql,
                I: IntoIterator<Item = P>,
                I::IntoIter: ExactSizeIterator,
            {
                bounded!(self, || self.client().execute_raw(statement, params))
            }

            /// As [`query_typed`](Self::query_typed), for how many rows were changed.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn execute_typed(
                &self,
                sql: &str,
                params: &[(&(dyn ToSql + Sync), Type)],
            ) -> Result<u64, Error> {
                bounded!(self, || self.client().execute_typed(sql, params))
            }

            /// Runs SQL text of any number of statements, without parameters.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
                bounded!(self, || self.client().batch_execute(sql))
            }

            /// As [`batch_execute`](Self::batch_execute), and returns rows as text.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
                bounded!(self, || self.client().simple_query(sql))
            }

            /// Asks the server for a sign of life, in one round trip.
            ///
            /// # Errors
            /// [`Error::ConnectionLost`].
            pub async fn check_connection(&self) -> Result<(), Error> {
                bounded!(self, || self.client().check_connection())
            }
        }
    };
}

calls!([] Conn);
calls!(['pool] ConnRef<'pool>);
