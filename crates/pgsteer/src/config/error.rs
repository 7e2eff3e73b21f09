//! What is wrong with a configuration, as one error that names the option and what it allows.
//!
//! Every text here is meant for the person who wrote the configuration. A secret never gets this far: whoever builds a
//! [`ConfigError`] puts [`REDACTED`] where a password was, and passes what was written elsewhere through [`shown`].

use std::fmt;
use std::path::PathBuf;

use pgsteer_core::breaker::BadOption;
use pgsteer_core::topology::TopologyKeyError;

/// Stands in every output where a secret would be.
pub(crate) const REDACTED: &str = "redacted";
/// Stands in errors where a text was put in the wrong place and may have a password in it.
pub(super) const NOT_SHOWN: &str = "text that may hold a secret (not shown)";

/// A text as an error may repeat it. What looks like a connection string, or a part of one with credentials, is not
/// repeated: people paste whole URLs into fields that take only a part.
pub(super) fn shown(text: &str) -> &str {
    if text.contains('@') || text.contains("://") || holds_a_password(text) {
        NOT_SHOWN
    } else {
        text
    }
}

/// Names under which drivers take passwords, in lower case.
const PASSWORD_NAMES: [&str; 4] = ["password", "passwd", "pwd", "passfile"];

/// Whether one of the text's parts sets a password: parts of a string that another driver would have taken apart at
/// semicolons, commas or question marks end up in a single value here.
pub(super) fn holds_a_password(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split('=').rev().skip(1).any(|before| {
        let name = before.trim_end();
        PASSWORD_NAMES.iter().any(|known| name.ends_with(known))
    })
}

/// What is wrong with a configuration. The first problem found, save that all unknown names are reported together and
/// before any value is looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Names that are no option of this version, sorted.
    #[error("{}", unknown_text(.names))]
    UnknownOptions {
        /// Each unknown name, with the known one nearest to it.
        names: Vec<UnknownOption>,
    },
    /// An option has a value it does not allow.
    #[error("option {name} cannot be `{}`: it takes {allowed}", .value.escape_debug())]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// The value as given. `redacted` where a password was; lists, maps and texts that may hold a secret are only
        /// called so.
        value: String,
        /// What the option allows, in words: type, range, units.
        allowed: &'static str,
    },
    /// An option is given more than once.
    #[error("option {name} is given more than once")]
    DuplicateOption {
        /// The option.
        name: &'static str,
    },
    /// An option is given under two of its names, its own or another driver's, with values that do not mean the same.
    #[error("option {name} is given twice, as {first} and as {second}, and they do not mean the same")]
    ConflictingNames {
        /// The option.
        name: &'static str,
        /// One of the names, as given.
        first: String,
        /// The other.
        second: String,
    },
    /// One part of `topology_keys` is no placement.
    #[error(
        "topology key `{}` is not understood: it must be cloud.region.zone, the zone possibly *, with an optional \
         :preference from 1 to 10",
        .part.escape_debug()
    )]
    InvalidTopologyKey {
        /// The offending part as given, unless it may hold a secret.
        part: String,
    },
    /// The connection string as a whole cannot be read.
    #[error("the connection string cannot be read: {reason}")]
    InvalidUrl {
        /// Why, without repeating any part of the string that may belong to a secret.
        reason: String,
    },
    /// A certificate or key cannot be used.
    #[error("option {name}: {place}: {reason}")]
    UnusableCertificate {
        /// The option.
        name: &'static str,
        /// The file, or in words what else the certificate or key should have come from.
        place: String,
        /// What is wrong with it. Never a part of a key.
        reason: String,
    },
    /// A variable of the environment has something wrong in it.
    #[error("environment variable {variable}: {error}")]
    InEnvironment {
        /// The variable.
        variable: &'static str,
        /// What is wrong. No source of this error, because it is part of its text.
        error: Box<ConfigError>,
    },
    /// A password file cannot be used.
    #[error("the password file {} {reason}", .path.display())]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// Why, without repeating anything that is in it.
        reason: String,
    },
    /// Something known that this version does not do, and which must not be ignored silently.
    #[error("{name}: {reason}")]
    NotInThisVersion {
        /// The option or the kind of connection string.
        name: String,
        /// What is missing, and what can be written instead.
        reason: &'static str,
    },
}

/// A name that is no option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct UnknownOption {
    /// The name as given, unless it may hold a secret.
    pub name: String,
    /// The known option nearest to it, if one is near enough to be what was meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name.escape_debug())?;
        match self.nearest {
            Some(nearest) => write!(f, " (did you mean {nearest}?)"),
            None => Ok(()),
        }
    }
}

fn unknown_text(names: &[UnknownOption]) -> String {
    let listed: Vec<String> = names.iter().map(UnknownOption::to_string).collect();
    let noun = if names.len() == 1 {
        "unknown option"
    } else {
        "unknown options"
    };
    format!("{noun} {}", listed.join(", "))
}

impl From<BadOption> for ConfigError {
    fn from(BadOption { name, value, allowed }: BadOption) -> Self {
        ConfigError::InvalidOption { name, value, allowed }
    }
}

impl From<TopologyKeyError> for ConfigError {
    fn from(error: TopologyKeyError) -> Self {
        ConfigError::InvalidTopologyKey {
            part: shown(error.part()).to_owned(),
        }
    }
}
