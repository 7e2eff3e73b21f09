//! Why a router does not start, or does not take a new configuration.

use std::io;

use crate::backend::{OptionError, SetError};
use crate::tls::TlsError;

/// Why a router cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("{option} {address}: cannot listen there: {error}")]
    Bind {
        /// The option that names it, as it is written on the command line.
        option: &'static str,
        /// The address as given.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The backends, or an option of theirs.
    #[error(transparent)]
    Backends(#[from] SetError),
    /// An option is out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// Why a router goes on as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// Something that cannot change while a router runs is different.
    #[error("{option} cannot change from {from} to {to} without a restart")]
    NeedsRestart {
        /// The option, as it is written on the command line.
        option: &'static str,
        /// What it is.
        from: String,
        /// What it was to be.
        to: String,
    },
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The backends, or an option of theirs.
    #[error(transparent)]
    Backends(#[from] SetError),
    /// An option is out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
}
