//! Calls whose statements are kept prepared on the connection, on guards and on the pool itself. Where none may be kept
//! on the server, `unnamed.rs` says how they go out.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::Pool;
use super::aside::aside;
use super::bound::bounded;
use super::guard::{Conn, ConnRef};
use super::statements::Attempt;
use super::unnamed::{Held, Unnamed};
use crate::error::Error;

/// A call with a kept statement, made again with a new one if that turned out to be outdated before it ran.
macro_rules! call {
    ($guard:ident, $held:expr, $sql:ident, $params:ident, $method:ident, $typed:ident) => {{
        let (pool, tenant) = ($guard.pool(), $guard.pool().tenant($guard.lease()));
        let (client, statements) = (&tenant.client, &tenant.statements);
        bounded!($guard, || async {
            if statements.are_unnamed() {
                let unnamed = || async {
                    let unnamed = Unnamed::new(pool, tenant, $sql);
                    if let Some(typed) = unnamed.typed($held, $params).await? {
                        let result = client.$typed($sql, &typed).await;
                        return result.inspect_err(|error| unnamed.failed(error));
                    }
                    // The driver says how many there should be.
                    client.$method($sql, $params).await
                };
                return aside(unnamed).await;
            }
            let attempt = Attempt::begin(tenant, $sql);
            let statement = match statements.kept($sql, &pool.statements) {
                Some(statement) => statement,
                None => aside(|| statements.prepare(client, $sql, &pool.statements)).await?,
            };
            match client.$method(&statement, $params).await {
                Err(error) if attempt.may_repeat(&error) => {
                    let again = || async {
                        let statement = statements.get(client, $sql, &pool.statements).await?;
                        client.$method(&statement, $params).await
                    };
                    aside(again).await
                }
                result => result,
            }
        })
    }};
}

macro_rules! cached {
    ([$($generics:tt)*] $guard:ty) => {
        /// Query functions whose statements the connection keeps prepared: from its second use on each takes one round
        /// trip. At most `statement_cache_size` (256 unless set) are kept, each for as long as the connection lives, so
        /// the next holder finds it; the one used longest ago goes first.
        ///
        /// If the server no longer has the statement (26000), or its result has changed with the schema (0A000), it is
        /// forgotten; outside a transaction it is then prepared again and run, once. It had not run before. Within a
        /// transaction the error is told, since the transaction has failed.
        ///
        /// With a `statement_cache_size` of 0 nothing stays on the server: each statement goes out without a name, in
        /// one piece with its run, as poolers need that give every transaction another session. The connection keeps
        /// the types of its parameters, which the first use of a text finds out: with one round trip more within a
        /// transaction, and with two more, in a transaction of its own, outside. Types that are not built in (enums,
        /// domains, types of extensions) tokio-postgres looks up by statements with names; behind such a pooler cast
        /// them to `text` and back.
        impl<$($generics)*> $guard {
            /// The statement for this text from those that the connection keeps, prepared now if it has none.
            ///
            /// A statement that is taken here is not prepared again by itself when it turns out to be outdated. With a
            /// `statement_cache_size` of 0 this is [`prepare`](Self::prepare).
            ///
            /// # Errors
            /// As [`prepare`](Self::prepare).
            pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
                let (pool, tenant) = (self.pool(), self.pool().tenant(self.lease()));
                bounded!(self, || tenant.statements.get(&tenant.client, sql, &pool.statements))
            }

            /// As [`query`](Self::query), with the statement kept prepared.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn query_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
                call!(self, Held::Shared, sql, params, query, query_typed)
            }

            /// As [`query_cached`](Self::query_cached), for exactly one row.
            ///
            /// # Errors
            /// As [`query_one`](Self::query_one).
            pub async fn query_one_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
                call!(self, Held::Shared, sql, params, query_one, query_typed_one)
            }

            /// As [`query_cached`](Self::query_cached), for no row or one.
            ///
            /// # Errors
            /// As [`query_opt`](Self::query_opt).
            pub async fn query_opt_cached(
                &self,
                sql: &str,
                params: &[&(dyn ToSql + Sync)],
            ) -> Result<Option<Row>, Error> {
                call!(self, Held::Shared, sql, params, query_opt, query_typed_opt)
            }

            /// As [`query_cached`](Self::query_cached), for how many rows were changed.
            ///
            /// # Errors
            /// As [`query`](Self::query).
            pub async fn execute_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
                call!(self, Held::Shared, sql, params, execute, execute_typed)
            }
        }
    };
}

cached!([] Conn);
cached!(['pool] ConnRef<'pool>);

/// One statement on any connection, kept prepared there. What is said of [`Conn::query_cached`] and its like holds for
/// these.
impl Pool {
    /// As [`query`](Self::query), with the statement kept prepared on the connection.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let conn = self.get_ref().await?;
        call!(conn, Held::Alone, sql, params, query, query_typed)
    }

    /// As [`query_cached`](Self::query_cached), for exactly one row.
    ///
    /// # Errors
    /// As [`query_one`](Self::query_one).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn query_one_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        let conn = self.get_ref().await?;
        call!(conn, Held::Alone, sql, params, query_one, query_typed_one)
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
        let conn = self.get_ref().await?;
        call!(conn, Held::Alone, sql, params, query_opt, query_typed_opt)
    }

    /// As [`query_cached`](Self::query_cached), for how many rows were changed.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    /// As [`query`](Self::query).
    pub async fn execute_cached(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let conn = self.get_ref().await?;
        call!(conn, Held::Alone, sql, params, execute, execute_typed)
    }
}
