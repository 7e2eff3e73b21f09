//! What a server knows of its transactions and of its own past: ids, how each ended, positions in the log of changes,
//! checkpoints. As in the real server an id lives on through a crash only if it was in what had been written out by then;
//! one that was not is given to somebody else afterwards.
//!
//! The ledger's rows are not here: what is committed is written out, so no crash takes it away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::sql::SqlError;
use crate::sql::ledger::Changes;

/// Where logs and ids begin.
const FIRST_POSITION: u64 = 0x0300_0000;
const FIRST_ID: u64 = 740;
/// Bytes of a change, and of a checkpoint.
const RECORD: u64 = 64;
const CHECKPOINT: u64 = 120;
/// Seconds of the epoch at which simulated time begins.
const EPOCH: f64 = 1_700_000_000.0;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    InProgress,
    Committed,
    Aborted,
    /// No transaction has been given this id yet.
    NeverGiven,
}

/// A checkpoint, as the control file tells of the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) at: u64,
    pub(crate) redo: u64,
    pub(crate) seconds: f64,
}

/// One server's transactions and past.
#[derive(Debug)]
pub(crate) struct History {
    /// Which database cluster it is.
    pub(crate) system: u64,
    /// When the server was started.
    pub(crate) started: f64,
    /// When its statistics were begun anew: at a crash, and not at an orderly stop.
    pub(crate) statistics_reset: f64,
    pub(crate) checkpoint: Checkpoint,
    /// Grows whenever the server goes, and with it all that was running.
    life: u64,
    crashes: u32,
    only_backends_went: bool,
    next_id: u64,
    inserted: u64,
    /// One more than the highest id in the log so far.
    logged_id: u64,
    /// How much of the log is written out, and one more than the highest id in that.
    flushed: u64,
    flushed_id: u64,
    running: BTreeSet<u64>,
    committed: BTreeMap<u64, bool>,
}

impl History {
    pub(crate) fn new(system: u64) -> Self {
        History {
            system,
            started: EPOCH,
            statistics_reset: EPOCH,
            checkpoint: Checkpoint {
                at: FIRST_POSITION,
                redo: FIRST_POSITION,
                seconds: EPOCH,
            },
            life: 0,
            crashes: 0,
            only_backends_went: false,
            next_id: FIRST_ID,
            inserted: FIRST_POSITION + CHECKPOINT,
            logged_id: FIRST_ID,
            flushed: FIRST_POSITION + CHECKPOINT,
            flushed_id: FIRST_ID,
            running: BTreeSet::new(),
            committed: BTreeMap::new(),
        }
    }

    /// Up to where changes are in the log, written out or not.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Up to where they are written out.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    pub(crate) fn fate(&self, id: u64) -> Fate {
        if id >= self.next_id {
            Fate::NeverGiven
        } else if self.running.contains(&id) {
            Fate::InProgress
        } else if self.committed.get(&id) == Some(&true) {
            Fate::Committed
        } else {
            Fate::Aborted
        }
    }

    fn assign(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.running.insert(id);
        id
    }

    fn log(&mut self, id: u64) {
        self.inserted += RECORD;
        self.logged_id = self.logged_id.max(id + 1);
    }

    fn write_out(&mut self) {
        self.flushed = self.inserted;
        self.flushed_id = self.logged_id;
    }

    fn end(&mut self, id: u64, committed: bool) {
        self.log(id);
        if committed {
            self.write_out();
        }
        self.running.remove(&id);
        self.committed.insert(id, committed);
    }

    /// Writes a checkpoint while work goes on.
    pub(crate) fn checkpoint(&mut self, now: Duration) {
        self.write_out();
        self.flushed_id = self.next_id;
        let redo = self.inserted;
        self.inserted += RECORD;
        self.checkpoint_at(redo, now);
    }

    fn checkpoint_at(&mut self, redo: u64, now: Duration) {
        self.checkpoint = Checkpoint {
            at: self.inserted,
            redo,
            seconds: (EPOCH + now.as_secs_f64()).floor(),
        };
        self.inserted += CHECKPOINT;
        self.flushed = self.inserted;
    }

    /// It is gone without a chance to write out what was not. Where only a backend has crashed, the process that starts
    /// them lives on.
    pub(crate) fn crash(&mut self, only_a_backend: bool, now: Duration) {
        self.only_backends_went = only_a_backend;
        self.inserted = self.flushed;
        self.next_id = self.flushed_id;
        self.logged_id = self.flushed_id;
        self.committed.retain(|id, _| *id < self.flushed_id);
        self.end_of_life();
        self.crashes += 1;
        // No two of them are at the same moment, though simulated time may have stood still.
        self.statistics_reset = EPOCH + now.as_secs_f64() + f64::from(self.crashes) / 1e6;
        self.checkpoint_at(self.inserted, now);
    }

    /// It is stopped in an orderly way.
    pub(crate) fn stop(&mut self, now: Duration) {
        self.end_of_life();
        self.logged_id = self.next_id;
        self.write_out();
        self.checkpoint_at(self.inserted, now);
    }

    fn end_of_life(&mut self) {
        self.running.clear();
        self.life += 1;
    }

    /// It is started.
    pub(crate) fn start(&mut self, now: Duration) {
        if !std::mem::take(&mut self.only_backends_went) {
            self.started = EPOCH + now.as_secs_f64();
        }
    }
}

/// The id of a transaction that is running, which aborts when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningId {
    cluster: Arc<Cluster>,
    server: Arc<str>,
    life: u64,
    id: u64,
    open: bool,
}

impl RunningId {
    /// Gives a transaction its id.
    pub(crate) fn assign(cluster: &Arc<Cluster>, server: &Arc<str>) -> Self {
        let (life, id) = cluster.with(server, |state| (state.history.life, state.history.assign()));
        RunningId {
            cluster: cluster.clone(),
            server: server.clone(),
            life,
            id,
            open: true,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The transaction changes something.
    pub(crate) fn log(&self) {
        self.in_its_life(|history| history.log(self.id));
    }

    /// Commits it with its changes, and returns the ids of the rows they are to. All at once, so that no death of the
    /// server comes between.
    ///
    /// # Errors
    ///
    /// A conflict, or that the server is gone: then it is aborted.
    pub(crate) fn commit(mut self, changes: Changes) -> Result<Vec<i64>, SqlError> {
        let cluster = self.cluster.clone();
        let mut guard = cluster.state();
        let state = &mut *guard;
        // Its way to abort would ask for the lock again.
        self.open = false;
        let history = state
            .servers
            .get_mut(&self.server)
            .map(|server| &mut server.history)
            .filter(|history| history.life == self.life);
        let Some(history) = history else {
            return Err(SqlError::new("57P01", "the server is gone"));
        };
        let outcome = changes.commit(&mut state.ledger);
        history.end(self.id, outcome.is_ok());
        outcome
    }

    fn in_its_life<T: Default>(&self, act: impl FnOnce(&mut History) -> T) -> T {
        self.cluster
            .with(&self.server, |state| match state.history.life == self.life {
                true => act(&mut state.history),
                false => T::default(),
            })
    }
}

impl Drop for RunningId {
    fn drop(&mut self) {
        if self.open {
            self.in_its_life(|history| history.end(self.id, false));
        }
    }
}

/// A position in the log, as text.
pub(crate) fn position(at: u64) -> String {
    format!("{:X}/{:X}", at >> 32, at & 0xFFFF_FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn an_id_that_was_not_written_out_is_given_again_after_a_crash() {
        let mut history = History::new(1);
        let lost = history.assign();
        history.log(lost);
        history.crash(false, NOW);
        assert_eq!(history.fate(lost), Fate::NeverGiven);
        let again = history.assign();
        history.end(again, true);
        assert_eq!((again, history.fate(lost)), (lost, Fate::Committed));
    }

    #[test]
    fn an_id_that_was_written_out_by_others_is_aborted_by_a_crash_and_not_given_again() {
        let mut history = History::new(1);
        let (open, other) = (history.assign(), history.assign());
        history.log(open);
        history.end(other, true);
        history.crash(false, NOW);
        assert_eq!(
            (history.fate(open), history.fate(other)),
            (Fate::Aborted, Fate::Committed)
        );
        assert!(history.assign() > other);
    }

    #[test]
    fn an_orderly_stop_keeps_ids_and_statistics_and_a_crash_begins_statistics_anew() {
        let mut history = History::new(1);
        let open = history.assign();
        let before = (history.statistics_reset, history.checkpoint);
        history.stop(NOW);
        history.start(NOW);
        assert_eq!(history.fate(open), Fate::Aborted);
        assert_eq!(history.statistics_reset, before.0);
        assert_ne!(history.checkpoint, before.1);
        history.crash(false, NOW);
        let after_one = history.statistics_reset;
        history.crash(false, NOW);
        assert!(before.0 < after_one && after_one < history.statistics_reset);
    }

    #[test]
    fn a_crash_leaves_a_checkpoint_where_the_log_ended_and_one_amid_work_begins_before_it_is_written() {
        let mut history = History::new(1);
        let written = history.flushed();
        let id = history.assign();
        history.log(id);
        history.crash(false, NOW);
        assert_eq!(
            (history.checkpoint.at, history.checkpoint.redo),
            (written, written)
        );
        history.checkpoint(NOW);
        assert!(history.checkpoint.redo < history.checkpoint.at);
    }
}
