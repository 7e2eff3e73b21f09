//! What the simulated servers saw, with times: the record that tests read and that two runs from one seed are
//! compared by. It is bounded; the oldest entries go first.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fault::Death;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time since the simulation was built.
    pub at: Duration,
    /// The server's name.
    pub server: Arc<str>,
    /// The connection, unique in the simulation and counted from 1; 0 where none is meant.
    pub connection: u64,
    /// What happened.
    pub event: Event,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody began to connect.
    Attempt,
    /// The connect failed, with the kind of error the client got.
    Refused(std::io::ErrorKind),
    /// The connect completed.
    Connected,
    /// A cancel request for this backend came.
    CancelRequest {
        /// The backend's process id.
        pid: i32,
    },
    /// A login was refused.
    LoginRefused {
        /// Why.
        sqlstate: String,
    },
    /// A session began.
    Login {
        /// Who.
        user: String,
        /// Where to.
        database: String,
        /// What the client calls itself; often says what a connection is for.
        application_name: String,
    },
    /// A simple query came: its whole text.
    Query(String),
    /// A statement was prepared.
    Parse(String),
    /// A prepared statement is run.
    Execute(String),
    /// A statement was run, with its command tag.
    Done(String),
    /// A statement failed.
    Error {
        /// With what.
        sqlstate: String,
    },
    /// A transaction that changed the ledger was committed.
    Committed {
        /// The ids it changed.
        ids: Vec<i64>,
    },
    /// The connection is over.
    Ended(End),
    /// Somebody did something to the server.
    Fault(String),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The client said goodbye.
    Terminated,
    /// The client closed without a word, or the connection broke.
    Lost,
    /// The login was refused or given up, or it was no session at all.
    NoSession,
    /// The server sent it away with this SQLSTATE.
    Dismissed(String),
    /// It was killed.
    Died(Death),
    /// The client sent something that makes no sense.
    Nonsense,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>12.6} {} #{} {:?}",
            self.at.as_secs_f64(),
            self.server,
            self.connection,
            self.event
        )
    }
}

/// The entries that are kept.
#[derive(Debug)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    limit: usize,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Log {
            entries: VecDeque::new(),
            limit,
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        if self.limit > 0 {
            self.entries.push_back(entry);
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
