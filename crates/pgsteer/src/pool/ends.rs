//! Why connections ended by themselves: of each host the newest end is kept, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgsteer_core::host::HostKey;

use crate::dial::EndReason;
use crate::error::shortened;

/// Hosts whose ends are kept at most. A discovered cluster may replace its servers again and again.
const HOSTS_KEPT: usize = 256;

/// Why a connection ended: the server's last words, the operating system's error, or that it was closed in silence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionEnd {
    /// Which kind of end it was.
    pub cause: EndCause,
    /// In words, without secrets.
    pub reason: String,
    /// The SQLSTATE by which the server ended it, if it said one: `57P01` for a shutdown by an administrator, say.
    pub code: Option<String>,
}

impl ConnectionEnd {
    pub(super) fn of(reason: &EndReason) -> Self {
        ConnectionEnd {
            cause: EndCause::of(reason),
            reason: shortened(&reason.to_string()).into_owned(),
            code: reason.sqlstate().map(str::to_owned),
        }
    }
}

/// Kinds of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// It was closed in an orderly way, from here.
    Closed,
    /// It was cut from here: it did not come clean or did not close in time, or the pool was closed.
    Cut,
    /// It was cut from here because a call took longer than `socket_timeout`.
    SocketTimeout,
    /// It was cut from here because the server owed an answer and was silent for longer than `stall_timeout`.
    StallTimeout,
    /// The server ended it and said why.
    Server,
    /// The operating system reported an error.
    Io(io::ErrorKind),
    /// It was closed from the other side, without a word.
    Silent,
    /// What came was not the protocol.
    Protocol,
    /// The task that drove it is gone: its runtime was shut down.
    TaskGone,
}

impl EndCause {
    fn of(reason: &EndReason) -> Self {
        match reason {
            EndReason::ClosedByUs => EndCause::Closed,
            EndReason::Cut => EndCause::Cut,
            EndReason::SocketTimeout => EndCause::SocketTimeout,
            EndReason::Stalled => EndCause::StallTimeout,
            EndReason::ServerError { .. } => EndCause::Server,
            EndReason::Io(kind) => EndCause::Io(*kind),
            EndReason::Eof => EndCause::Silent,
            EndReason::OutOfStep(_) => EndCause::Protocol,
            EndReason::TaskDied => EndCause::TaskGone,
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The newest end of a host's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastEnd {
    /// Why the connection ended.
    pub end: ConnectionEnd,
    /// How long ago that was.
    pub age: Duration,
}

/// The newest end of each host's connections.
#[derive(Default)]
pub(super) struct Ends(Mutex<BTreeMap<HostKey, (Instant, EndReason)>>);

impl Ends {
    pub(super) fn note(&self, host: HostKey, reason: EndReason, now: Instant) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.insert(host, (now, reason));
        if ends.len() > HOSTS_KEPT {
            let oldest = ends.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                ends.remove(&oldest);
            }
        }
    }

    pub(super) fn last(&self, now: Instant) -> BTreeMap<HostKey, LastEnd> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter()
            .map(|(host, (at, reason))| {
                let last = LastEnd {
                    end: ConnectionEnd::of(reason),
                    age: now.saturating_duration_since(*at),
                };
                (host.clone(), last)
            })
            .collect()
    }
}
