//! Statements of a pool that leaves none on the server (`statement_cache_size=0`): behind a pooler that gives each
//! transaction another session, one that was prepared under a name is not there when it is run.
//!
//! Each goes out without a name, in one piece with its run, which no pooler takes apart. The driver has to be told the
//! types of its parameters for that. They are asked for once per text and connection, by preparing it under a name in a
//! transaction of its own that does nothing else; so the name is gone from that very session when it ends. Such a
//! transaction is opened only on a connection that nobody else can send anything on meanwhile: what a holder sent beside
//! it would be rolled back with it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer_core::pool::Lease;
use pgsteer_core::verdict::{doubts_types, takes_no_second_name};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use super::inner::Inner;
use super::tenant::Tenant;
use crate::dial::TransactionStatus;

/// How often a text is prepared because somebody has left a statement by the same name on a session. Whoever leaves one
/// there leaves several as a rule, numbered one after another.
const NAMES_TRIED: usize = 50;

/// How long another connection may take to say what the types are.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// Who may send something on the connection meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Only the call itself.
    Alone,
    /// Whoever has the guard: futures run beside each other.
    Shared,
}

/// A value of a parameter, and its type.
pub(super) type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement on its way.
pub(super) struct Unnamed<'a> {
    pool: &'a Inner,
    tenant: &'a Tenant,
    sql: &'a str,
}

impl<'a> Unnamed<'a> {
    pub(super) fn new(pool: &'a Inner, tenant: &'a Tenant, sql: &'a str) -> Self {
        Unnamed { pool, tenant, sql }
    }

    /// The values with the types that the statement has for them; `None` if it has another number of them.
    ///
    /// Cancel safe: nothing that was opened stays open.
    pub(super) async fn typed<'p>(
        &self,
        held: Held,
        params: &[&'p (dyn ToSql + Sync)],
    ) -> Result<Option<Vec<Typed<'p>>>, Error> {
        let (statements, edition) = (&self.tenant.statements, &self.pool.statements);
        let types = match statements.types(self.sql, edition) {
            Some(known) => known,
            None => {
                let types = self.ask(held).await?;
                statements.learn(self.sql, Arc::clone(&types), edition);
                types
            }
        };
        if types.len() != params.len() {
            statements.forget(self.sql);
            return Ok(None);
        }
        let typed = params.iter().copied().zip(types.iter().cloned());
        Ok(Some(typed.collect()))
    }

    /// Looks at what the statement has failed with: types that do not suit any more are forgotten.
    pub(super) fn failed(&self, error: &Error) {
        if error.code().is_some_and(|code| doubts_types(code.code())) {
            self.tenant.statements.forget(self.sql);
        }
    }

    async fn ask(&self, held: Held) -> Result<Arc<[Type]>, Error> {
        let client = &self.tenant.client;
        if self.tenant.wire.transaction() != TransactionStatus::Idle {
            // Within the caller's transaction the session stays the same, and the name goes before it ends.
            return prepared(client, self.sql).await;
        }
        if held == Held::Alone {
            return with_another_name(|| within_a_transaction(client, self.sql)).await;
        }
        if let Some(types) = self.ask_elsewhere().await {
            return Ok(types);
        }
        with_another_name(|| prepared(client, self.sql)).await
    }

    /// Asks on an idle connection, if there is one. What the holder has made of the session (a path, a temporary table) is
    /// not there on another one, and the number of a type that is not built in need not be the same.
    async fn ask_elsewhere(&self) -> Option<Arc<[Type]>> {
        let other = Borrowed::take(self.pool)?;
        // It may be on a host that does not answer any more, which is not to hold up the holder of one that does.
        let asked = timeout(ELSEWHERE, within_a_transaction(other.client()?, self.sql)).await;
        let types = asked.ok()?.ok()?;
        types.iter().all(is_built_in).then_some(types)
    }
}

fn is_built_in(of: &Type) -> bool {
    Type::from_oid(of.oid()).is_some()
}

/// The types of a text's parameters. The statement is closed by a message that is queued before this returns.
async fn prepared(client: &Client, sql: &str) -> Result<Arc<[Type]>, Error> {
    let statement = client.prepare(sql).await?;
    Ok(statement.params().into())
}

/// Names are the driver's and count up, in every process alike.
async fn with_another_name<F>(mut prepare: impl FnMut() -> F) -> Result<Arc<[Type]>, Error>
where
    F: Future<Output = Result<Arc<[Type]>, Error>>,
{
    let mut tried = 1;
    loop {
        match prepare().await {
            Err(error) if tried < NAMES_TRIED && is_taken(&error) => tried += 1,
            result => return result,
        }
    }
}

fn is_taken(error: &Error) -> bool {
    error.code().is_some_and(|code| takes_no_second_name(code.code()))
}

/// As [`prepared`], in a transaction of its own.
async fn within_a_transaction(client: &Client, sql: &str) -> Result<Arc<[Type]>, Error> {
    let open = Open(Some(client));
    let mut begun = pin!(client.batch_execute("BEGIN"));
    // Queued before the statement, which need not wait for its answer.
    let at_once = futures_util::poll!(begun.as_mut());
    let types = prepared(client, sql).await;
    if at_once.is_pending() {
        begun.await?;
    }
    open.end().await?;
    types
}

/// A transaction that is rolled back whatever becomes of it.
struct Open<'a>(Option<&'a Client>);

impl Open<'_> {
    async fn end(mut self) -> Result<(), Error> {
        match self.0.take() {
            Some(client) => client.batch_execute("ROLLBACK").await,
            None => Ok(()),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.0 {
            // Polled once, it is queued behind everything that was sent.
            let _ = client.batch_execute("ROLLBACK").now_or_never();
        }
    }
}

/// An idle connection of the pool, taken for a moment.
struct Borrowed<'a> {
    pool: &'a Inner,
    lease: Option<Lease>,
}

impl<'a> Borrowed<'a> {
    fn take(pool: &'a Inner) -> Option<Self> {
        let lease = pool.try_take()?;
        Some(Borrowed {
            pool,
            lease: Some(lease),
        })
    }

    fn client(&self) -> Option<&Client> {
        let lease = self.lease.as_ref()?;
        Some(&self.pool.tenant(lease).client)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // As it was: nobody has seen it, so nothing is to be done to it that is done to what holders return.
            self.pool.put_back(lease);
        }
    }
}
