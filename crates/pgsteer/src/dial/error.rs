//! A dial that failed: how far it came, what was seen, and a sentence for people.
//!
//! What it means for the host is not decided here but by the table in `pgsteer_core::verdict`. Nothing in here holds a
//! password.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::verdict::{Evidence, HostEffect, Stage, connect_failure};

use super::tap::{StreamEnd, Wire};
use super::tls;

/// One host could not be dialled.
#[derive(Clone, Debug)]
pub(crate) struct DialError {
    failure: Failure,
    took: Duration,
}

impl DialError {
    pub(super) fn new(failure: Failure, took: Duration) -> Self {
        DialError { failure, took }
    }

    /// The resolver or dialler of the application panicked. With what is not shown: it may hold anything.
    pub(crate) fn panicked() -> Self {
        let failure = Failure::ours(Observed::Panicked, "the resolver or dialler panicked");
        DialError::new(failure, Duration::ZERO)
    }

    /// How far the attempt had come.
    #[cfg(test)]
    pub(crate) fn stage(&self) -> Stage {
        self.failure.stage
    }

    /// What was seen.
    #[cfg(test)]
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        self.failure.observed.evidence()
    }

    /// Whether nothing that the host said ended the attempt, but its time.
    pub(crate) fn ran_out_of_time(&self) -> bool {
        self.failure.observed == Observed::Deadline
    }

    /// What it says of the host. Nothing, if it was our own password source that failed.
    pub(crate) fn host_effect(&self) -> HostEffect {
        self.failure.host_effect()
    }

    /// The server's code, where it gave one.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        match &self.failure.observed {
            Observed::Server { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }

    /// How long the attempt took.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// The driver's own error, where there is one.
    pub(crate) fn driver_error(&self) -> Option<&Arc<tokio_postgres::Error>> {
        self.failure.source.as_ref()
    }
}

impl fmt::Display for DialError {
    /// What went wrong, without the host: that is for the caller to say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.failure.text)
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.driver_error().map(|error| &**error as _)
    }
}

/// [`Evidence`] that owns its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    Deadline,
    Io(io::ErrorKind),
    Closed,
    NoSuchName,
    Server {
        fatal: bool,
        sqlstate: String,
    },
    /// The handshake of TLS or the check of the certificate failed.
    Tls,
    /// The server has no TLS, and must have.
    TlsNotOffered,
    UnsupportedAuth,
    BadServer,
    Panicked,
    /// The password source had no password to give. No server is to blame.
    NoPassword,
}

impl Observed {
    pub(super) fn evidence(&self) -> Evidence<'_> {
        match self {
            Observed::Deadline => Evidence::Deadline,
            Observed::Io(kind) => Evidence::Io(*kind),
            Observed::Closed => Evidence::Closed,
            Observed::NoSuchName => Evidence::NoSuchName,
            Observed::Server { fatal, sqlstate } => Evidence::Server {
                fatal: *fatal,
                sqlstate,
            },
            Observed::Tls | Observed::TlsNotOffered => Evidence::Tls,
            Observed::UnsupportedAuth => Evidence::UnsupportedAuth,
            Observed::BadServer => Evidence::BadServer,
            Observed::Panicked | Observed::NoPassword => Evidence::Panicked,
        }
    }
}

/// What went wrong with one attempt, before it is known for which host and how long it took.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) stage: Stage,
    pub(super) observed: Observed,
    pub(super) text: String,
    /// Whether it happened before anything was asked of the host.
    pub(super) ours: bool,
    pub(super) source: Option<Arc<tokio_postgres::Error>>,
}

impl Failure {
    pub(super) fn new(stage: Stage, observed: Observed, text: impl Into<String>) -> Self {
        Failure {
            stage,
            observed,
            text: text.into(),
            ours: false,
            source: None,
        }
    }

    /// Something of ours failed, before anything was asked of the host.
    pub(super) fn ours(observed: Observed, text: impl Into<String>) -> Self {
        Failure {
            ours: true,
            ..Failure::new(Stage::Startup, observed, text)
        }
    }

    /// From an error of tokio-postgres. Its kinds are private, so what the tap saw of the stream decides.
    pub(super) fn driver(stage: Stage, error: tokio_postgres::Error, wire: &Wire) -> Self {
        if let Some(failure) = tls::blamed_for(&error) {
            return Failure {
                source: Some(Arc::new(error)),
                ..failure
            };
        }
        let doing = match stage {
            Stage::SessionSetup => "while the session was set up",
            _ => "during the login",
        };
        let (observed, text) = if let Some(said) = error.as_db_error() {
            let fatal = matches!(said.severity(), "FATAL" | "PANIC")
                || said.parsed_severity().is_some_and(|severity| {
                    use tokio_postgres::error::Severity;
                    matches!(severity, Severity::Fatal | Severity::Panic)
                });
            let sqlstate = said.code().code().to_owned();
            let text = format!("{} (SQLSTATE {sqlstate})", said.message());
            (Observed::Server { fatal, sqlstate }, text)
        } else if wire.is_nonsense() {
            (
                Observed::BadServer,
                format!("the server sent something that is not the protocol {doing}"),
            )
        } else {
            match wire.end() {
                Some(StreamEnd::Io(kind)) => (Observed::Io(kind), format!("{kind} {doing}")),
                Some(StreamEnd::Eof) => (
                    Observed::Closed,
                    format!("the server closed the connection {doing}"),
                ),
                None if stage == Stage::Startup
                    && wire.said().authentication.is_some_and(|asked| asked > 0) =>
                {
                    (
                        Observed::UnsupportedAuth,
                        format!("authentication failed: {}", with_source(&error)),
                    )
                }
                None => (Observed::BadServer, format!("{} {doing}", with_source(&error))),
            }
        };
        Failure {
            source: Some(Arc::new(error)),
            ..Failure::new(stage, observed, text)
        }
    }

    pub(super) fn host_effect(&self) -> HostEffect {
        if self.ours {
            HostEffect::Nothing
        } else {
            connect_failure(self.stage, &self.observed.evidence())
        }
    }
}

/// The error and what is behind it: tokio-postgres keeps the telling part in the source.
fn with_source(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}
