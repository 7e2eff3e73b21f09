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
    /// TLS was being negotiated: the server had said that it offers it, or that it does not though it must. Waiting
    /// for that answer still belongs to [`Stage::Connect`].
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

/// What a rule of the tables looks for.
enum Seen {
    Deadline,
    AnyIo,
    Io(&'static [ErrorKind]),
    Closed,
    NoSuchName,
    /// A server error with one of these codes.
    Code(&'static [&'static str]),
    /// A server error whose code begins with one of these.
    CodeClass(&'static [&'static str]),
    /// A server error that ends the connection, whatever its code.
    Fatal,
    InRecovery,
    BadServer,
    TaskDied,
    Anything,
}

impl Seen {
    fn matches(&self, evidence: &Evidence<'_>) -> bool {
        match (self, evidence) {
            (Seen::Io(kinds), Evidence::Io(kind)) => kinds.contains(kind),
            (Seen::Code(codes), Evidence::Server { sqlstate, .. }) => codes.contains(sqlstate),
            (Seen::CodeClass(classes), Evidence::Server { sqlstate, .. }) => {
                classes.iter().any(|class| sqlstate.starts_with(class))
            }
            (Seen::Fatal, Evidence::Server { fatal, .. }) => *fatal,
            (Seen::Deadline, Evidence::Deadline)
            | (Seen::AnyIo, Evidence::Io(_))
            | (Seen::Closed, Evidence::Closed)
            | (Seen::NoSuchName, Evidence::NoSuchName)
            | (Seen::InRecovery, Evidence::InRecovery)
            | (Seen::BadServer, Evidence::BadServer)
            | (Seen::TaskDied, Evidence::TaskDied)
            | (Seen::Anything, _) => true,
            _ => false,
        }
    }
}

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);
const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);
const READ_ONLY: HostEffect = HostEffect::Failed(FailureKind::ReadOnly);

const REACHING: &[Stage] = &[Stage::Resolve, Stage::Connect];
const TALKING: &[Stage] = &[Stage::Startup, Stage::SessionSetup];
const CONNECTING: &[Stage] = &[
    Stage::Resolve,
    Stage::Connect,
    Stage::Tls,
    Stage::Startup,
    Stage::SessionSetup,
];

/// I/O errors that no socket gives by itself: what was read made no sense.
const NONSENSE: &[ErrorKind] = &[
    ErrorKind::InvalidData,
    ErrorKind::InvalidInput,
    ErrorKind::Unsupported,
    ErrorKind::Other,
];

/// What a failed connect says of the host; the first rule that fits counts.
const CONNECT_RULES: &[(&[Stage], Seen, HostEffect)] = &[
    // nothing that happens on an open connection says anything of its host
    (&[Stage::Query], Seen::Anything, HostEffect::Nothing),
    (CONNECTING, Seen::InRecovery, READ_ONLY),
    (CONNECTING, Seen::Deadline, DOWN),
    (CONNECTING, Seen::NoSuchName, DOWN),
    (CONNECTING, Seen::TaskDied, DOWN),
    (REACHING, Seen::AnyIo, DOWN),
    (REACHING, Seen::Closed, DOWN),
    // a handshake that breaks off was refused by somebody who was there
    (&[Stage::Tls], Seen::AnyIo, REJECTED),
    (&[Stage::Tls], Seen::Closed, REJECTED),
    (TALKING, Seen::Closed, DOWN),
    (TALKING, Seen::Io(NONSENSE), REJECTED),
    (TALKING, Seen::AnyIo, DOWN),
    (CONNECTING, Seen::Code(&["08001"]), DOWN),
    // bad login, no such database, not allowed to connect to it
    (
        &[Stage::Startup],
        Seen::Code(&["28P01", "28000", "3D000", "42501"]),
        HostEffect::JudgeAtEndOfPass,
    ),
    (CONNECTING, Seen::Anything, REJECTED),
];

/// What a caller can do about an error; the first rule that fits counts.
const QUERY_RULES: &[(Seen, Class)] = &[
    // YugabyteDB reports its conflicts and read restarts as 40001
    (Seen::Code(&["40001", "40P01"]), Class::Retryable),
    (Seen::Code(&["57P01", "57P02", "57P03"]), Class::ConnectionLost),
    (Seen::CodeClass(&["08"]), Class::ConnectionLost),
    // these end a login, before any statement could have run
    (Seen::Code(&["42501", "53300", "53400"]), Class::Other),
    (Seen::CodeClass(&["28", "3D"]), Class::Other),
    // the server hung up: a COMMIT this answers may have been done
    (Seen::Fatal, Class::ConnectionLost),
    (Seen::Deadline, Class::ConnectionLost),
    (Seen::AnyIo, Class::ConnectionLost),
    (Seen::Closed, Class::ConnectionLost),
    (Seen::BadServer, Class::ConnectionLost),
    (Seen::TaskDied, Class::ConnectionLost),
    (Seen::Anything, Class::Other),
];

/// What a connect that failed at `stage` says of its host.
pub fn connect_failure(stage: Stage, evidence: &Evidence<'_>) -> HostEffect {
    CONNECT_RULES
        .iter()
        .find(|(stages, seen, _)| stages.contains(&stage) && seen.matches(evidence))
        .map_or(REJECTED, |(_, _, effect)| *effect)
}

/// What a caller can do about an error seen on an open connection.
pub fn classify(evidence: &Evidence<'_>) -> Class {
    QUERY_RULES
        .iter()
        .find(|(seen, _)| seen.matches(evidence))
        .map_or(Class::Other, |(_, class)| *class)
}

/// Whether the code says that a function does not exist, by which discovery knows a server that is not YugabyteDB.
pub fn is_undefined_function(sqlstate: &str) -> bool {
    sqlstate == "42883"
}

/// Whether a login refused in clear text with this code may be taken with TLS: `pg_hba.conf` has no line for the client
/// as it came.
pub fn may_want_tls(sqlstate: &str) -> bool {
    sqlstate == "28000"
}
