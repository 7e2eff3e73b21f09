//! TLS on either side, by rustls: what clients are shown, what backends are asked for, and the files both come from.
//!
//! TLS 1.2 and 1.3, with ring; no provider is installed for the process. Files are read when a router starts and when it
//! is told to read them again. What cannot be used is an error that names the option and the file, and repeats nothing
//! of what stands in the file, which may be a key.

mod backend;
pub mod files;
mod server;

pub use backend::{BackendTls, TlsDialer};
pub use server::ServerTls;

use std::path::PathBuf;

/// Why certificates or keys cannot be used. Never holds anything of what is in a file.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TlsError {
    /// A file cannot be read, or what is in it is not what it should be.
    #[error("{option} {path}: {reason}", path = .path.display())]
    File {
        /// The option that names the file, as it is written on the command line.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The operating system has no certificate to trust.
    #[error("{option} is not given, and the operating system's trust store has no certificate: {reason}")]
    NoRoots {
        /// The option that would name some.
        option: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// A name that no certificate can have.
    #[error("{option} {name:?}: no certificate can be for this name; a host name or an address is allowed")]
    Name {
        /// The option.
        option: &'static str,
        /// The name.
        name: String,
    },
}
