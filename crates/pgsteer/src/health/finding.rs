//! What an error says of the database. Codes and kinds of I/O error are judged by the table in
//! `pgsteer_core::verdict`; here it is only found out what was seen.

use std::error::Error as StdError;
use std::io;

use pgsteer_core::hosts::FailureKind;
use pgsteer_core::verdict::{BreakerEffect, Evidence, HostEffect, Stage, verdict};
use tokio::time::error::Elapsed;

use super::CircuitOpen;
use crate::error::{Error, HostTried, failure_in_words};
use crate::pool::HookFailure;

/// What an error says of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// It is down, or as good as down. Counts as a failure.
    Down,
    /// It answered the question, if only with an error: as good as a success.
    Answered,
    /// It answered, but would not do what was asked: a refused login, a full server, the wrong role. Counts neither
    /// way, but a probe that comes so far closes the guard.
    Refused,
    /// Nothing: the error is not the database's. Counts neither way; a probe that ends with it is tried again after the
    /// same window.
    Nothing,
}

/// The default judge. It looks for an error of pgsteer or of tokio-postgres, for another guard's rejection, or for the end
/// of a tokio time limit, in `error` and its sources, and judges the first it finds; other errors say nothing of the
/// database.
///
/// | error | finding |
/// |---|---|
/// | no host could be connected to | [`Down`](Finding::Down), unless all that answered refused for a reason of the sixth row |
/// | the pool, or a guard within this one, takes the database to be down | [`Down`](Finding::Down) |
/// | an I/O error, a connection that was lost, a time limit that ran out | [`Down`](Finding::Down) |
/// | the server ended the session (FATAL), or is starting up | [`Down`](Finding::Down) |
/// | no connection came free, and none is open because hosts fail | [`Down`](Finding::Down) |
/// | refused login, no such database, too many clients, a cold standby, a write on a standby, the wrong role | [`Refused`](Finding::Refused) |
/// | COMMIT was sent and its answer did not come | [`Down`](Finding::Down) |
/// | a closure asked for the rollback of its transaction | what its reason says |
/// | `after_connect` failed | what its own error says; [`Down`](Finding::Down) if the connection was lost |
/// | any other SQL error, a COMMIT answered with ROLLBACK | [`Answered`](Finding::Answered) |
/// | the driver's own complaint about a statement, a value or an answer | [`Refused`](Finding::Refused) |
/// | no connection came free while others hold them; a closed pool; a bad configuration; a transaction ended by its closure or used when it is over | [`Nothing`](Finding::Nothing) |
pub fn judge(error: &(dyn StdError + 'static)) -> Finding {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return ours_says(ours);
        }
        if let Some(drivers) = error.downcast_ref::<tokio_postgres::Error>() {
            return drivers_says(drivers);
        }
        if error.is::<CircuitOpen>() {
            return Finding::Down;
        }
        if error.is::<Elapsed>() {
            return by(Stage::Query, &Evidence::Deadline);
        }
        next = error.source();
    }
    Finding::Nothing
}

fn ours_says(error: &Error) -> Finding {
    match error {
        Error::Postgres(error) => drivers_says(error),
        Error::Connect(failed) => pass_says(&failed.tried),
        // The pool has asked so lately that its word stands.
        Error::CircuitOpen { .. } => Finding::Down,
        Error::Login(_) | Error::NoFit(_) => Finding::Refused,
        Error::ConnectionLost(_) => lost_says(error),
        Error::AfterConnect(failed) => match (&failed.failure, &failed.end) {
            (_, Some(_)) => lost_says(error),
            (HookFailure::Error(error), None) => judge(&**error),
            _ => Finding::Nothing,
        },
        Error::CheckoutTimeout(exhausted) => {
            let open = exhausted.idle + exhausted.leased + exhausted.settling;
            match pass_says(&exhausted.failures) {
                Finding::Down if open == 0 => Finding::Down,
                _ => Finding::Nothing,
            }
        }
        Error::CommitOutcomeUnknown(unknown) => lost_with(unknown.code.as_deref()),
        // It has answered since.
        Error::CommitAborted(aborted) if !aborted.only_reads => Finding::Answered,
        Error::CommitAborted(aborted) => lost_with(aborted.code.as_deref()),
        Error::TransactionAborted { .. } => Finding::Answered,
        Error::TransactionTimeout(_) => by(Stage::Query, &Evidence::Deadline),
        Error::Rollback(reason) => judge(&**reason),
        Error::TransactionEndedInside | Error::TransactionOver => Finding::Nothing,
        Error::Config(_) | Error::NoNode(_) | Error::NoServer | Error::Closed => Finding::Nothing,
    }
}

/// The end of a connection, by its error.
fn lost_says(error: &Error) -> Finding {
    lost_with(error.code())
}

fn lost_with(sqlstate: Option<&str>) -> Finding {
    match sqlstate {
        Some(sqlstate) => ended_with(sqlstate),
        None => by(Stage::Query, &Evidence::Closed),
    }
}

/// A pass over hosts of which none would have us has failed if one of them failed; else they have all answered.
fn pass_says(tried: &[HostTried]) -> Finding {
    let failed = |tried: &HostTried| match &tried.code {
        Some(sqlstate) => ended_with(sqlstate) == Finding::Down,
        // One that said what it is, or is remembered as full, has answered.
        None => tried.role.is_none() && tried.state != failure_in_words(FailureKind::Full),
    };
    if tried.iter().any(failed) {
        Finding::Down
    } else if tried.is_empty() {
        Finding::Nothing
    } else {
        Finding::Refused
    }
}

fn drivers_says(error: &tokio_postgres::Error) -> Finding {
    if let Some(said) = error.as_db_error() {
        let sqlstate = said.code().code();
        return if is_fatal(said) {
            ended_with(sqlstate)
        } else {
            by(
                Stage::Query,
                &Evidence::Server {
                    fatal: false,
                    sqlstate,
                },
            )
        };
    }
    if error.is_closed() {
        return by(Stage::Query, &Evidence::Closed);
    }
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(io) = source.downcast_ref::<io::Error>() {
            return io_says(io);
        }
        next = source.source();
    }
    // Its kinds are private. What is left are complaints about values and rows, which come from talking with a server.
    Finding::Refused
}

pub(crate) fn is_fatal(said: &tokio_postgres::error::DbError) -> bool {
    use tokio_postgres::error::Severity;
    // Servers older than 9.6 send the severity in their own language only.
    matches!(said.severity(), "FATAL" | "PANIC")
        || matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// A session that the server ended, or never let begin. A guard does not see whether it was new, and takes it to be: a
/// pooler whose server is down lets people log in and ends the session at its first query.
fn ended_with(sqlstate: &str) -> Finding {
    by(
        Stage::Startup,
        &Evidence::Server {
            fatal: true,
            sqlstate,
        },
    )
}

/// Sockets fail in ways that say that a host is down. What else is called an I/O error comes from putting together or
/// taking apart messages, of which nobody can say here whose fault it was.
fn io_says(error: &io::Error) -> Finding {
    let evidence = Evidence::Io(error.kind());
    match verdict(Stage::SessionSetup, &evidence).host {
        HostEffect::Failed(FailureKind::Down) => by(Stage::Query, &evidence),
        _ => Finding::Nothing,
    }
}

fn by(stage: Stage, evidence: &Evidence<'_>) -> Finding {
    match verdict(stage, evidence).breaker {
        BreakerEffect::Failure => Finding::Down,
        BreakerEffect::Neutral => Finding::Refused,
        BreakerEffect::Success => Finding::Answered,
    }
}
