//! What was seen, and what follows from it: the one table from evidence to effect.
//!
//! No other file matches on SQLSTATEs or kinds of I/O error. The same evidence says different things of a query and of
//! a connect, and the two questions are kept apart on purpose: a server that is starting up loses a query's connection,
//! but as a host it has answered.

use std::io::ErrorKind;

use crate::hosts::FailureKind;

/// How far a connection had come when something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The name was being resolved.
    Resolve,
    /// The socket was being connected.
    Connect,
    /// TLS was being asked for or negotiated.
    Tls,
    /// Startup and authentication, up to the first ready message.
    Startup,
    /// The settings of the session were being made or checked, recovery included.
    SessionSetup,
    /// The connection was open and in use.
    Query,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence<'a> {
    /// Our own time limit ran out.
    Deadline,
    /// The operating system reported an error of this kind.
    Io(ErrorKind),
    /// The other side closed the connection, or the driver found it closed.
    Closed,
    /// The name has no address.
    NoSuchName,
    /// The server sent an error.
    Server {
        /// The severity field said FATAL or PANIC: the server ends the connection.
        fatal: bool,
        /// The five characters of its code.
        sqlstate: &'a str,
    },
    /// The server is in recovery while a session that takes writes is wanted.
    InRecovery,
    /// TLS was refused though required, or its handshake or certificate check failed.
    Tls,
    /// The server asked for a kind of authentication that is not supported, or SASL failed.
    UnsupportedAuth,
    /// The server sent something that is not the protocol.
    BadServer,
    /// The attempt panicked.
    Panicked,
    /// The task that made the attempt died without a word.
    TaskDied,
}

/// What a failed connect says of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostEffect {
    /// The host has failed.
    Failed(FailureKind),
    /// The login was refused, by the host or because the login is bad: the end of the pass tells. If another host
    /// accepted the same login the host is [`FailureKind::Rejected`], else no host is marked.
    JudgeAtEndOfPass,
    /// Nothing: the evidence is not about a connect.
    Nothing,
}

impl HostEffect {
    /// What the effect means for a probe, which stands alone and whose host has already failed.
    pub fn for_probe(self) -> FailureKind {
        match self {
            HostEffect::Failed(kind) => kind,
            HostEffect::JudgeAtEndOfPass | HostEffect::Nothing => FailureKind::Rejected,
        }
    }
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The transaction lost a conflict: running it again may succeed.
    Retryable,
    /// The connection is gone; what it was doing is not known to have happened.
    ConnectionLost,
    /// Anything else: trying again would give the same.
    Other,
}

/// What a connect that failed at `stage` says of its host.
pub fn connect_failure(stage: Stage, evidence: &Evidence<'_>) -> HostEffect {
    let _ = (stage, evidence);
    todo!()
}

/// What a caller can do about an error of a query.
pub fn classify(evidence: &Evidence<'_>) -> Class {
    let _ = evidence;
    todo!()
}

/// Whether the code says that a function does not exist, by which discovery knows a server that is not YugabyteDB.
pub fn is_undefined_function(sqlstate: &str) -> bool {
    sqlstate == "42883"
}
