//! What was seen, and what follows from it: the one table from evidence to effect.
//!
//! No other file matches on SQLSTATEs or kinds of I/O error. The same evidence says different things of a query and of
//! a connect: what happens on an open connection may throw doubt on its host, but only a connect that fails marks it.

use std::io::ErrorKind;

use crate::hosts::{FailureKind, Role};

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

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEffect {
    /// It is over, or never was.
    Dead,
    /// It works but is on the wrong server: it goes when it comes back.
    Retire,
    /// It goes on; its transaction status says in which state.
    Good,
}

/// What is to be held of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostEffect {
    /// The host has failed.
    Failed(FailureKind),
    /// The host works, and this is what it is.
    Role(Role),
    /// The login was refused, by the host or because the login is bad: the end of the pass tells. If another host
    /// accepted the same login the host is [`FailureKind::Rejected`], else no host is marked.
    JudgeAtEndOfPass,
    /// It may not be what it was, or not be there: the next connect will tell. It is not left out.
    Suspect,
    /// It is not what it was taken for, and is to be asked what it is.
    RoleUnknown,
    /// Nothing.
    Nothing,
}

/// What it means for a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerEffect {
    /// The server did not do what was asked of it.
    Failure,
    /// It says nothing of the server's health.
    Neutral,
    /// The server answered.
    Success,
}

/// Everything that follows from what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// What becomes of the connection.
    pub connection: ConnectionEffect,
    /// What is to be held of the host.
    pub host: HostEffect,
    /// What it means for a circuit breaker.
    pub breaker: BreakerEffect,
    /// Whether it is worth going on to the next host.
    pub next_host: bool,
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
    AnyServerError,
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
            | (Seen::AnyServerError, Evidence::Server { .. })
            | (Seen::NoSuchName, Evidence::NoSuchName)
            | (Seen::BadServer, Evidence::BadServer)
            | (Seen::TaskDied, Evidence::TaskDied)
            | (Seen::Anything, _) => true,
            _ => false,
        }
    }
}

const ANY_STAGE: &[Stage] = &[
    Stage::Resolve,
    Stage::Connect,
    Stage::Tls,
    Stage::Startup,
    Stage::SessionSetup,
    Stage::Query,
];
const REACHING: &[Stage] = &[Stage::Resolve, Stage::Connect];
const TALKING: &[Stage] = &[Stage::Startup, Stage::SessionSetup];
const LOGIN: &[Stage] = &[Stage::Startup];
const TLS: &[Stage] = &[Stage::Tls];
const QUERY: &[Stage] = &[Stage::Query];

/// I/O errors that no socket gives by itself: what was read made no sense.
const NONSENSE: &[ErrorKind] = &[
    ErrorKind::InvalidData,
    ErrorKind::InvalidInput,
    ErrorKind::Unsupported,
    ErrorKind::Other,
];

/// The connection is over, and others may do better.
const fn lost(host: HostEffect, breaker: BreakerEffect) -> Verdict {
    Verdict {
        connection: ConnectionEffect::Dead,
        host,
        breaker,
        next_host: true,
    }
}

/// No connection came of it.
const fn failed(kind: FailureKind, breaker: BreakerEffect) -> Verdict {
    lost(HostEffect::Failed(kind), breaker)
}

const DOWN: Verdict = failed(FailureKind::Down, BreakerEffect::Failure);
const REJECTED: Verdict = failed(FailureKind::Rejected, BreakerEffect::Failure);

/// What follows from what was seen; the first rule that fits counts.
const RULES: &[(&[Stage], Seen, Verdict)] = &[
    (
        ANY_STAGE,
        Seen::Code(&["57M02"]),
        lost(HostEffect::Role(Role::ColdStandby), BreakerEffect::Neutral),
    ),
    // an open connection: it throws doubt on its host at most
    (
        QUERY,
        Seen::Code(&["25006"]),
        Verdict {
            connection: ConnectionEffect::Retire,
            host: HostEffect::RoleUnknown,
            breaker: BreakerEffect::Neutral,
            next_host: false,
        },
    ),
    // the database was dropped
    (
        QUERY,
        Seen::Code(&["57P04"]),
        Verdict {
            connection: ConnectionEffect::Dead,
            host: HostEffect::Nothing,
            breaker: BreakerEffect::Neutral,
            next_host: false,
        },
    ),
    (
        QUERY,
        Seen::Code(&["57P03"]),
        lost(HostEffect::Suspect, BreakerEffect::Failure),
    ),
    // warned of an end that is coming, in a notice too
    (
        QUERY,
        Seen::Code(&["57P01", "57P02", "57P05"]),
        lost(HostEffect::Suspect, BreakerEffect::Neutral),
    ),
    (
        QUERY,
        Seen::CodeClass(&["08"]),
        lost(HostEffect::Suspect, BreakerEffect::Neutral),
    ),
    (
        QUERY,
        Seen::Fatal,
        lost(HostEffect::Suspect, BreakerEffect::Neutral),
    ),
    (
        QUERY,
        Seen::AnyServerError,
        Verdict {
            connection: ConnectionEffect::Good,
            host: HostEffect::Nothing,
            breaker: BreakerEffect::Success,
            next_host: false,
        },
    ),
    (
        QUERY,
        Seen::Anything,
        lost(HostEffect::Suspect, BreakerEffect::Failure),
    ),
    // a connect
    (ANY_STAGE, Seen::Deadline, DOWN),
    (ANY_STAGE, Seen::NoSuchName, DOWN),
    (ANY_STAGE, Seen::TaskDied, DOWN),
    (REACHING, Seen::AnyIo, DOWN),
    (REACHING, Seen::Closed, DOWN),
    // a handshake that breaks off was refused by somebody who was there
    (TLS, Seen::AnyIo, REJECTED),
    (TLS, Seen::Closed, REJECTED),
    (TALKING, Seen::Closed, DOWN),
    (TALKING, Seen::Io(NONSENSE), REJECTED),
    (TALKING, Seen::AnyIo, DOWN),
    (ANY_STAGE, Seen::Code(&["08001"]), DOWN),
    (
        ANY_STAGE,
        Seen::Code(&["57P03"]),
        failed(FailureKind::NotReady, BreakerEffect::Failure),
    ),
    (
        ANY_STAGE,
        Seen::Code(&["53300", "53400"]),
        failed(FailureKind::Full, BreakerEffect::Neutral),
    ),
    // bad login, no such database, not allowed to connect to it
    (
        LOGIN,
        Seen::Code(&["28P01", "28000", "3D000", "42501"]),
        lost(HostEffect::JudgeAtEndOfPass, BreakerEffect::Neutral),
    ),
    (ANY_STAGE, Seen::Anything, REJECTED),
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

/// What follows from something that was seen at `stage`, be it a connect that failed or an error on an open connection.
pub fn verdict(stage: Stage, evidence: &Evidence<'_>) -> Verdict {
    RULES
        .iter()
        .find(|(stages, seen, _)| stages.contains(&stage) && seen.matches(evidence))
        .map_or(REJECTED, |(_, _, verdict)| *verdict)
}

/// What a connect that failed at `stage` says of its host.
pub fn connect_failure(stage: Stage, evidence: &Evidence<'_>) -> HostEffect {
    verdict(stage, evidence).host
}

/// What a caller can do about an error seen on an open connection.
pub fn classify(evidence: &Evidence<'_>) -> Class {
    QUERY_RULES
        .iter()
        .find(|(seen, _)| seen.matches(evidence))
        .map_or(Class::Other, |(_, class)| *class)
}

/// Whether a COMMIT that ended with this may have been done all the same: its connection was lost, the server says that
/// it does not know, or it failed in its own works, as a distributed one does when the answer of another node is missing.
pub fn leaves_commit_in_doubt(evidence: &Evidence<'_>) -> bool {
    let unsure = match evidence {
        Evidence::Server { fatal, sqlstate } => {
            *fatal || *sqlstate == "40003" || sqlstate.starts_with("XX") || sqlstate.starts_with("58")
        }
        _ => false,
    };
    unsure || classify(evidence) == Class::ConnectionLost
}

/// What a Greenplum standby coordinator refuses logins with.
pub const COLD_STANDBY: &str = "57M02";

/// The server's routine that warns when it has committed a transaction and was kept from waiting until a standby has it
/// too: its wait was cancelled. COMMIT succeeds all the same, and a failover may take back what it did. The warning has no code
/// of its own.
pub const UNCONFIRMED_COMMIT_ROUTINE: &str = "SyncRepWaitForLSN";

/// Whether the code says that a function does not exist, by which discovery knows a server that is not YugabyteDB.
pub fn is_undefined_function(sqlstate: &str) -> bool {
    sqlstate == "42883"
}

/// Whether the code says that a transaction id has not been given to anybody yet, by a function that was asked for what
/// became of it: the one way in which its argument can be wrong.
pub fn is_never_given(sqlstate: &str) -> bool {
    sqlstate == "22023"
}

/// Whether the code says that a question will never be answered on a connection: something in it does not exist there, is
/// not allowed, or is not known.
pub fn refuses_question(sqlstate: &str) -> bool {
    sqlstate.starts_with("42") || sqlstate.starts_with("0A")
}

/// Whether a login refused in clear text with this code may be taken with TLS: `pg_hba.conf` has no line for the client
/// as it came.
pub fn may_want_tls(sqlstate: &str) -> bool {
    sqlstate == "28000"
}

/// Whether an error says that a prepared statement is of no use any more and would be if it were prepared again: the
/// server does not have it, or what it returns has changed. Neither has run it.
///
/// The second has a code that says much else besides; it is known by the `routine` of the server it comes from, which no
/// language changes, or by its text.
pub fn outdates_statement(sqlstate: &str, routine: Option<&str>, message: &str) -> bool {
    may_outdate_statement(sqlstate)
        && (sqlstate != "0A000"
            || routine == Some("RevalidateCachedQuery")
            || message == "cached plan must not change result type")
}

/// Whether the code alone may say so.
pub fn may_outdate_statement(sqlstate: &str) -> bool {
    matches!(sqlstate, "26000" | "0A000")
}

/// Whether a statement that was sent with the types of its parameters may have failed because of them: there is no such
/// function or operator for these types, or they cannot be turned into what is there now.
pub fn doubts_types(sqlstate: &str) -> bool {
    matches!(sqlstate, "42883" | "42804" | "42846" | "42P18")
}

/// Whether the code says that the session has a prepared statement of this name already.
pub fn takes_no_second_name(sqlstate: &str) -> bool {
    sqlstate == "42P05"
}

/// Whether the code says that a session writes nothing that was to write: its server is not the primary it was taken
/// for, or the transaction was begun read-only.
pub fn doubts_role(sqlstate: &str) -> bool {
    sqlstate == "25006"
}
