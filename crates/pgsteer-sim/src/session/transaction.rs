//! The transaction a session is in: its block, changes, savepoints and settings. The status byte comes from here, and
//! nothing reaches the shared ledger but through [`Session::commit`].

use crate::history::RunningId;
use crate::log::Event;
use crate::report::TransactionStatus;
use crate::sql::SqlError;
use crate::sql::ledger::Changes;
use crate::wire::backend;

use super::settings::Settings;
use super::{Failure, Session};

/// Where a session stands between BEGIN and COMMIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Block {
    #[default]
    None,
    /// The statements of one message or up to one Sync, without a BEGIN.
    Implicit,
    Open,
    Failed,
}

/// A session's transaction.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    block: Block,
    pub(super) changes: Changes,
    /// Given when it is first needed.
    id: Option<RunningId>,
    savepoints: Vec<Savepoint>,
    /// The settings before it began, for a rollback.
    before: Option<Settings>,
    /// What SET LOCAL has to put back at the end: name and value.
    local: Vec<(String, Option<String>)>,
    read_only: Option<bool>,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    changes: Changes,
    settings: Settings,
}

impl Transaction {
    pub(super) fn status(&self) -> TransactionStatus {
        match self.block {
            Block::None | Block::Implicit => TransactionStatus::Idle,
            Block::Open => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.block == Block::Failed
    }

    pub(super) fn is_open(&self) -> bool {
        self.block == Block::Open
    }
}

impl Session<'_> {
    /// Statements outside of a transaction are in one of their own.
    pub(super) fn begin_implicit(&mut self) {
        if self.transaction.block == Block::None {
            self.transaction.block = Block::Implicit;
            self.transaction.before = Some(self.settings.clone());
        }
    }

    /// Commits what was done without a BEGIN.
    pub(super) fn finish_implicit(&mut self) -> Result<(), SqlError> {
        match self.transaction.block {
            Block::None => {
                self.portals.clear();
                Ok(())
            }
            Block::Implicit => self.commit(),
            Block::Open | Block::Failed => Ok(()),
        }
    }

    pub(super) fn begin(&mut self, read_only: Option<bool>) -> Result<String, Failure> {
        if self.transaction.block == Block::Open {
            self.warn("25001", "there is already a transaction in progress");
        }
        self.begin_implicit();
        self.transaction.block = Block::Open;
        if read_only.is_some() {
            self.set_read_only(read_only)?;
        }
        Ok("BEGIN".to_owned())
    }

    pub(super) fn set_read_only(&mut self, read_only: Option<bool>) -> Result<(), SqlError> {
        let recovery = self.cluster.with(self.server, |state| state.recovery);
        if recovery && read_only == Some(false) {
            return Err(SqlError::new(
                "0A000",
                "cannot set transaction read-write mode during recovery",
            ));
        }
        self.transaction.read_only = read_only.or(self.transaction.read_only);
        Ok(())
    }

    /// Whether writing is refused now.
    pub(super) fn is_read_only(&self) -> bool {
        let by_default = || self.settings.is_on("default_transaction_read_only");
        self.cluster.with(self.server, |state| state.recovery)
            || self.transaction.read_only.unwrap_or_else(by_default)
    }

    /// The transaction's id. It gets one if it has none.
    pub(super) fn transaction_id(&mut self) -> &RunningId {
        let (cluster, server) = (self.cluster, self.server);
        let id = &mut self.transaction.id;
        id.get_or_insert_with(|| RunningId::assign(cluster, server))
    }

    /// COMMIT; a failed transaction is rolled back instead, as its tag says.
    pub(super) fn commit_statement(&mut self) -> Result<String, Failure> {
        match self.transaction.block {
            Block::Failed => {
                self.roll_back();
                return Ok("ROLLBACK".to_owned());
            }
            Block::Open => {}
            Block::None | Block::Implicit => self.warn("25P01", "there is no transaction in progress"),
        }
        self.commit()?;
        Ok("COMMIT".to_owned())
    }

    pub(super) fn rollback_statement(&mut self) -> String {
        if matches!(self.transaction.block, Block::None | Block::Implicit) {
            self.warn("25P01", "there is no transaction in progress");
        }
        self.roll_back();
        "ROLLBACK".to_owned()
    }

    /// Makes the changes everybody's, and ends the transaction. A conflict rolls it back.
    fn commit(&mut self) -> Result<(), SqlError> {
        let changes = std::mem::take(&mut self.transaction.changes);
        if let Some(id) = self.transaction.id.take() {
            let any = !changes.is_empty();
            match id.commit(changes) {
                Ok(ids) if any => self
                    .cluster
                    .record(self.server, self.id, Event::Committed { ids }),
                Ok(_) => {}
                Err(conflict) => {
                    self.roll_back();
                    return Err(conflict);
                }
            }
        }
        for (name, value) in std::mem::take(&mut self.transaction.local).into_iter().rev() {
            if let Some((name, value)) = self.settings.set(&name, value.as_deref())? {
                backend::parameter_status(&mut self.out, name, &value);
            }
        }
        self.end();
        Ok(())
    }

    fn roll_back(&mut self) {
        if let Some(before) = self.transaction.before.take() {
            self.restore(before);
        }
        self.end();
    }

    fn end(&mut self) {
        self.transaction = Transaction::default();
        self.portals.clear();
    }

    fn restore(&mut self, settings: Settings) {
        for (name, value) in self.settings.restore(settings) {
            backend::parameter_status(&mut self.out, name, &value);
        }
    }

    /// After an error: an open transaction has failed, anything else is rolled back.
    pub(super) fn abort(&mut self) {
        match self.transaction.block {
            Block::Open => {
                self.transaction.block = Block::Failed;
                self.portals.clear();
            }
            Block::Failed => {}
            Block::None | Block::Implicit => self.roll_back(),
        }
    }

    pub(super) fn savepoint(&mut self, name: &str) -> Result<String, Failure> {
        self.require_block("SAVEPOINT")?;
        self.transaction.savepoints.push(Savepoint {
            name: name.to_owned(),
            changes: self.transaction.changes.clone(),
            settings: self.settings.clone(),
        });
        Ok("SAVEPOINT".to_owned())
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<String, Failure> {
        if self.transaction.block != Block::Failed {
            self.require_block("ROLLBACK TO SAVEPOINT")?;
        }
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at + 1);
        if let Some(savepoint) = self.transaction.savepoints.last() {
            self.transaction.changes = savepoint.changes.clone();
            let settings = savepoint.settings.clone();
            self.restore(settings);
        }
        self.transaction.block = Block::Open;
        Ok("ROLLBACK".to_owned())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<String, Failure> {
        self.require_block("RELEASE SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at);
        Ok("RELEASE".to_owned())
    }

    fn require_block(&self, what: &str) -> Result<(), SqlError> {
        if self.transaction.is_open() {
            return Ok(());
        }
        Err(SqlError::new(
            "25P01",
            format!("{what} can only be used in transaction blocks"),
        ))
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, SqlError> {
        let found = self
            .transaction
            .savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name);
        found.ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    /// SET and SET LOCAL. Rolled back with the transaction; LOCAL ends with it either way.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, Failure> {
        if local && !self.transaction.is_open() {
            self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
        }
        let before = self.settings.get(name);
        let reported = self.settings.set(name, value)?;
        if local {
            self.transaction.local.push((name.to_owned(), before));
        }
        if let Some((name, value)) = reported {
            backend::parameter_status(&mut self.out, name, &value);
        }
        self.note_application_name();
        Ok("SET".to_owned())
    }

    pub(super) fn reset_all_settings(&mut self) {
        for (name, value) in self.settings.reset_all() {
            backend::parameter_status(&mut self.out, name, &value);
        }
        self.note_application_name();
    }

    fn note_application_name(&self) {
        let name = self.settings.get("application_name").unwrap_or_default();
        self.cluster
            .note_session(self.id, |session| session.application_name = name);
    }
}
