//! The statements that one connection keeps prepared. They live as long as the connection, so the next holder finds them;
//! nothing here talks to the server but the driver, which closes a statement when its last clone is dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pgsteer_core::verdict::outdates_statement;
use tokio_postgres::{Client, Error, Statement};

use super::tenant::Tenant;
use crate::dial::TransactionStatus;

/// Counts how often all connections of a pool have been told to forget their statements.
#[derive(Default)]
pub(super) struct Edition(AtomicU64);

impl Edition {
    pub(super) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One connection's statements.
pub(crate) struct Statements {
    limit: usize,
    kept: Mutex<Kept>,
}

struct Kept {
    by_text: LruCache<Box<str>, Statement>,
    /// The edition these are of.
    edition: u64,
}

impl Statements {
    /// Room for so many.
    pub(super) fn new(limit: u32) -> Self {
        Statements {
            limit: limit as usize,
            // One with a limit of its own would take memory for all of them at once.
            kept: Mutex::new(Kept {
                by_text: LruCache::unbounded(),
                edition: 0,
            }),
        }
    }

    /// The statement for this text: the one that is kept, or a new one, which is kept from now on.
    ///
    /// Cancel safe: nothing is kept of a statement that was not prepared to the end.
    pub(super) async fn get(
        &self,
        client: &Client,
        sql: &str,
        edition: &Edition,
    ) -> Result<Statement, Error> {
        if let Some(known) = self.kept(edition).by_text.get(sql) {
            return Ok(known.clone());
        }
        let statement = client.prepare(sql).await?;
        let mut kept = self.kept(edition);
        kept.by_text.push(sql.into(), statement.clone());
        if kept.by_text.len() > self.limit {
            kept.by_text.pop_lru();
        }
        Ok(statement)
    }

    /// Forgets the statement for this text.
    fn forget(&self, sql: &str) {
        self.lock().by_text.pop(sql);
    }

    fn kept(&self, edition: &Edition) -> MutexGuard<'_, Kept> {
        let mut kept = self.lock();
        let now = edition.now();
        if kept.edition != now {
            kept.edition = now;
            kept.by_text.clear();
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing is half done under the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call with a kept statement, as far as its failure goes.
pub(super) struct Attempt<'a> {
    tenant: &'a Tenant,
    sql: &'a str,
    /// It began outside a transaction, so that its failure leaves nothing behind.
    alone: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn begin(tenant: &'a Tenant, sql: &'a str) -> Self {
        Attempt {
            tenant,
            sql,
            alone: tenant.wire.status() == TransactionStatus::Idle,
        }
    }

    /// Forgets the statement if the error says that it is outdated. Whether the call may be made again with a new one.
    pub(super) fn may_repeat(&self, error: &Error) -> bool {
        let outdated = error
            .as_db_error()
            .is_some_and(|said| outdates_statement(said.code().code(), said.routine(), said.message()));
        if outdated {
            self.tenant.statements.forget(self.sql);
        }
        outdated && self.alone
    }
}
