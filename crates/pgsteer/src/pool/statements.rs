//! What one connection keeps of the statements it is asked again and again: the statements themselves, or, where none may
//! stay on the server, the types of their parameters. It lives as long as the connection, so the next holder finds it;
//! nothing here talks to the server but the driver, which closes a statement when its last clone is dropped.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pgsteer_core::verdict::{doubts_types, outdates_statement};
use tokio_postgres::types::{Type, WrongType};
use tokio_postgres::{Client, Error, Statement};

use super::tenant::Tenant;
use crate::dial::TransactionStatus;

/// Texts whose parameters a connection knows the types of at most. They take no room on the server.
const TEXTS_KNOWN: usize = 1024;

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
    /// None may stay on the server.
    unnamed: bool,
    limit: usize,
    kept: Mutex<Kept>,
    /// One was found to be outdated within a transaction, which failed for it.
    outdated_within: AtomicBool,
}

struct Kept {
    by_text: LruCache<Box<str>, Known>,
    /// The edition these are of.
    edition: u64,
}

/// What is known of a text.
#[derive(Clone)]
enum Known {
    Prepared(Statement),
    Types(Arc<[Type]>),
}

impl Statements {
    /// Room for so many; for none on the server if it is 0.
    pub(super) fn new(limit: u32) -> Self {
        let unnamed = limit == 0;
        Statements {
            unnamed,
            limit: if unnamed { TEXTS_KNOWN } else { limit as usize },
            // One with a limit of its own would take memory for all of them at once.
            kept: Mutex::new(Kept {
                by_text: LruCache::unbounded(),
                edition: 0,
            }),
            outdated_within: AtomicBool::new(false),
        }
    }

    /// Whether none may stay on the server, so that each has to be sent without a name.
    pub(super) fn are_unnamed(&self) -> bool {
        self.unnamed
    }

    /// The statement for this text: the one that is kept, or a new one, which is kept from now on if any may be.
    ///
    /// Cancel safe: nothing is kept of a statement that was not prepared to the end.
    pub(super) async fn get(
        &self,
        client: &Client,
        sql: &str,
        edition: &Edition,
    ) -> Result<Statement, Error> {
        match self.kept(sql, edition) {
            Some(kept) => Ok(kept),
            None => self.prepare(client, sql, edition).await,
        }
    }

    /// The statement for this text, if it is kept.
    pub(super) fn kept(&self, sql: &str, edition: &Edition) -> Option<Statement> {
        match self.known(sql, edition) {
            Some(Known::Prepared(statement)) => Some(statement),
            _ => None,
        }
    }

    /// A new statement for this text, which is kept from now on if any may be.
    ///
    /// Cancel safe: nothing is kept of a statement that was not prepared to the end.
    pub(super) async fn prepare(
        &self,
        client: &Client,
        sql: &str,
        edition: &Edition,
    ) -> Result<Statement, Error> {
        let statement = client.prepare(sql).await?;
        if !self.unnamed {
            self.keep(sql, Known::Prepared(statement.clone()), edition);
        }
        Ok(statement)
    }

    /// The types of this text's parameters, if they are known.
    pub(super) fn types(&self, sql: &str, edition: &Edition) -> Option<Arc<[Type]>> {
        match self.known(sql, edition) {
            Some(Known::Types(types)) => Some(types),
            _ => None,
        }
    }

    /// These are the types of this text's parameters.
    pub(super) fn learn(&self, sql: &str, types: Arc<[Type]>, edition: &Edition) {
        self.keep(sql, Known::Types(types), edition);
    }

    /// Forgets what is known of this text.
    pub(super) fn forget(&self, sql: &str) {
        self.lock().by_text.pop(sql);
    }

    /// Whether a statement was found to be outdated within a transaction since this was last asked.
    pub(crate) fn take_outdated_within(&self) -> bool {
        self.outdated_within.swap(false, Ordering::Relaxed)
    }

    fn known(&self, sql: &str, edition: &Edition) -> Option<Known> {
        let mut edited = self.edited(edition);
        // One text after the other is the same as a rule: then nothing is looked up or moved.
        match edited.by_text.peek_mru() {
            Some((text, known)) if **text == *sql => Some(known.clone()),
            _ => edited.by_text.get(sql).cloned(),
        }
    }

    fn keep(&self, sql: &str, known: Known, edition: &Edition) {
        let mut kept = self.edited(edition);
        kept.by_text.push(sql.into(), known);
        if kept.by_text.len() > self.limit {
            kept.by_text.pop_lru();
        }
    }

    /// What is kept of this edition.
    fn edited(&self, edition: &Edition) -> MutexGuard<'_, Kept> {
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
            alone: tenant.wire.transaction() == TransactionStatus::Idle,
        }
    }

    /// Forgets the statement if the error says that it is outdated, or may be because of the types that it was prepared with.
    /// Whether the call may be made again with a new one, which only the first allows: it has not been run.
    pub(super) fn may_repeat(&self, error: &Error) -> bool {
        let outdated = error
            .as_db_error()
            .is_some_and(|said| outdates_statement(said.code().code(), said.routine(), said.message()));
        if outdated || doubts(error) {
            self.tenant.statements.forget(self.sql);
        }
        if outdated {
            let within = &self.tenant.statements.outdated_within;
            within.store(!self.alone, Ordering::Relaxed);
        }
        outdated && self.alone
    }
}

/// Whether the statement may have failed because of the types that its parameters had when it was prepared: by what the
/// server says, or since the driver could not make such a value of what it was given.
fn doubts(error: &Error) -> bool {
    let said = error.code().is_some_and(|code| doubts_types(code.code()));
    said || error.source().is_some_and(|source| source.is::<WrongType>())
}
