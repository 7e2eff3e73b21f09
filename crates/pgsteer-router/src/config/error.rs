//! What is wrong with a configuration, in one sentence that names the option, the value and what is allowed.

use std::fmt;

/// Where an option was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On the command line.
    Flag,
    /// In the file of this name.
    File(String),
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no option of that name.
    Unknown {
        /// Where it was given.
        source: Source,
        /// The name.
        name: String,
        /// The known name that is most like it, if any is.
        nearest: Option<&'static str>,
    },
    /// An option cannot have that value.
    Value {
        /// Where it was given.
        source: Source,
        /// The option.
        name: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// An option needs another.
    Needs {
        /// The option.
        name: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// The file is not in TOML.
    Syntax {
        /// The file.
        file: String,
        /// What is wrong and where.
        reason: String,
    },
}

/// An option as one writes it there.
struct Named<'a>(&'a Source, &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named(Source::Flag, name) => write!(f, "--{name}"),
            Named(Source::File(file), name) => write!(f, "{file}: {name}"),
        }
    }
}

/// A value as an error may repeat it. People paste whole connection strings into fields that take a part, and keys into
/// those that take a file.
fn shown(value: &str) -> &str {
    match value.contains('@') || value.contains("://") || value.contains("-----BEGIN") {
        true => "text that may hold a secret (not shown)",
        false => value,
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unknown {
                source,
                name,
                nearest,
            } => {
                write!(f, "{} is no option", Named(source, name))?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {nearest}?"),
                    None => f.write_str("; `pgsteer route --help` lists them"),
                }
            }
            ConfigError::Value {
                source,
                name,
                value,
                allowed,
            } => write!(
                f,
                "{} cannot be `{}`: it takes {allowed}",
                Named(source, name),
                shown(value).escape_debug()
            ),
            ConfigError::Needs { name, needs } => write!(f, "{name} needs {needs}"),
            ConfigError::Syntax { file, reason } => write!(f, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for ConfigError {}
