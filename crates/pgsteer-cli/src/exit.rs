//! How a command ends: what went wrong, what is said about it, and the exit code it becomes.

use std::fmt;
use std::io;
use std::process::ExitCode;

use pgsteer::Error;
use pgsteer::config::ConfigError;

/// Why a command did not succeed. Never holds a secret.
#[derive(Debug)]
pub enum Failure {
    /// The command line or a connection string is bad: exit code 2.
    Usage(String),
    /// The work itself failed: exit code 1.
    Work(String),
    /// Standard output could not be written. A reader that has gone (a broken pipe) has seen enough: exit code 0.
    Output(io::Error),
}

impl Failure {
    /// A failure of the work.
    pub fn work(reason: impl fmt::Display) -> Self {
        Failure::Work(reason.to_string())
    }

    /// Says on standard error what went wrong, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::Usage(reason) => {
                crate::output::complain(&format!("error: {reason}"));
                ExitCode::from(2)
            }
            Failure::Work(reason) => {
                crate::output::complain(&format!("error: {reason}"));
                ExitCode::FAILURE
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Failure::Output(error) => {
                crate::output::complain(&format!("error: cannot write to standard output: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Config(error) => Failure::Usage(error.to_string()),
            error => {
                let hint = hint(&error)
                    .map(|hint| format!("\nhint: {hint}"))
                    .unwrap_or_default();
                Failure::Work(format!("{error}{hint}"))
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// What to look at first, where there is something to say.
pub fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Login(_) => Some("check the user, the password and the name of the database"),
        Error::Connect(_) | Error::CircuitOpen { .. } | Error::NoServer => {
            Some("check that the servers run, and their names and ports")
        }
        Error::NoNode(_) => {
            Some("the load balancing options rule out every server that is up; `pgsteer topology` shows them")
        }
        Error::CheckoutTimeout(exhausted) if exhausted.nothing_fits.is_some() => Some(
            "the servers answer, and none is what target_session_attrs asks for; `pgsteer topology` shows what each is",
        ),
        Error::CheckoutTimeout(_) => Some(
            "the pool may be too small for the load, or servers too slow to connect; see checkout_timeout",
        ),
        _ => None,
    }
}
