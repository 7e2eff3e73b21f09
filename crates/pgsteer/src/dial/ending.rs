//! Why a connection ended, as far as it can be known.
//!
//! tokio-postgres tells the caller of a query only that the connection is closed. The cause is put together here from
//! three sources: the driver's own error, what the tap saw of the stream, and the server's last words.

use std::fmt;
use std::io;

use pgsteer_core::verdict::{Class, Evidence, HostEffect, Stage, classify, verdict};

use super::tap::{Severity, StreamEnd, Wire};

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// Its client was dropped, the server was told and has let go.
    ClosedByUs,
    /// We cut it: it was aborted, or did not close in time.
    Cut,
    /// We cut it because a call took longer than `socket_timeout`.
    SocketTimeout,
    /// We cut it because the server owed an answer and was silent for longer than `stall_timeout`.
    Stalled,
    /// The server ended it and said why.
    ServerError {
        /// The code it gave.
        sqlstate: String,
        /// The message it gave, or a sentence of ours where only the code is known.
        text: String,
    },
    /// The operating system reported an error.
    Io(io::ErrorKind),
    /// The server closed it without a word.
    Eof,
    /// What came was not what the protocol has at that place, by the driver's count.
    OutOfStep(String),
    /// The task that drove it was aborted or panicked.
    TaskDied,
}

impl EndReason {
    /// The code by which the server ended it, if it said one.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        match self {
            EndReason::ServerError { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }

    /// What it says of the host. An end of our own making says nothing.
    pub(crate) fn host_effect(&self) -> HostEffect {
        match self {
            EndReason::ClosedByUs
            | EndReason::Cut
            | EndReason::SocketTimeout
            | EndReason::Stalled
            | EndReason::TaskDied => HostEffect::Nothing,
            _ => verdict(Stage::Query, &self.evidence()).host,
        }
    }

    /// The reason as evidence about queries that were cut short by it.
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        match self {
            EndReason::ServerError { sqlstate, .. } => Evidence::Server {
                fatal: true,
                sqlstate,
            },
            EndReason::Io(kind) => Evidence::Io(*kind),
            EndReason::ClosedByUs
            | EndReason::Cut
            | EndReason::SocketTimeout
            | EndReason::Stalled
            | EndReason::Eof => Evidence::Closed,
            EndReason::OutOfStep(_) => Evidence::BadServer,
            EndReason::TaskDied => Evidence::TaskDied,
        }
    }

    /// Puts together why the driver ended with `error`. `warning` is the last notice that announced an end.
    pub(super) fn after_error(
        error: &tokio_postgres::Error,
        wire: &Wire,
        warning: Option<&LastWords>,
    ) -> Self {
        if let Some(said) = error.as_db_error() {
            return EndReason::ServerError {
                sqlstate: said.code().code().to_owned(),
                text: said.message().to_owned(),
            };
        }
        if wire.has_terminated() {
            return EndReason::ClosedByUs;
        }
        // The fatal error went to the query it interrupted; only the tap has seen it besides.
        if let Some(fatal) = wire
            .last_error()
            .filter(|error| error.severity <= Severity::Fatal)
        {
            return EndReason::ServerError {
                sqlstate: fatal.sqlstate.as_str().to_owned(),
                text: "the server ended the connection during a query".to_owned(),
            };
        }
        if let Some(LastWords { sqlstate, text }) = warning {
            return EndReason::ServerError {
                sqlstate: sqlstate.clone(),
                text: text.clone(),
            };
        }
        match wire.end() {
            Some(StreamEnd::Io(kind)) => EndReason::Io(kind),
            Some(StreamEnd::Eof) => EndReason::Eof,
            None => EndReason::OutOfStep(error.to_string()),
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::ClosedByUs => f.write_str("closed"),
            EndReason::Cut => f.write_str("cut by us"),
            EndReason::Stalled => f.write_str("the server was silent for longer than stall_timeout"),
            EndReason::SocketTimeout => f.write_str("a call took longer than socket_timeout"),
            EndReason::ServerError { sqlstate, text } => write!(f, "{text} (SQLSTATE {sqlstate})"),
            EndReason::Io(kind) => write!(f, "{kind}"),
            EndReason::Eof => f.write_str("the server closed the connection"),
            EndReason::OutOfStep(what) => {
                write!(f, "the connection fell out of step with the protocol: {what}")
            }
            EndReason::TaskDied => f.write_str("the task that drove it died"),
        }
    }
}

/// A notice by which the server said that the connection is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastWords {
    sqlstate: String,
    text: String,
}

impl LastWords {
    /// The notice, if it announces an end: an immediate stop and the crash of another backend are announced by no
    /// more than a warning.
    pub(super) fn of(notice: &tokio_postgres::error::DbError) -> Option<Self> {
        let sqlstate = notice.code().code();
        let lost = classify(&Evidence::Server {
            fatal: false,
            sqlstate,
        }) == Class::ConnectionLost;
        lost.then(|| LastWords {
            sqlstate: sqlstate.to_owned(),
            text: notice.message().to_owned(),
        })
    }
}
