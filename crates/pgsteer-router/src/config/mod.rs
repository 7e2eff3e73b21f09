//! The configuration of a router as people write it: options by name, in a TOML file and on the command line.
//!
//! Both have the same names, the same values and the same errors, since one table of [`RULES`] reads them all. What the
//! command line says goes over what the file says; a list of backends replaces the file's.
//!
//! ```
//! use pgsteer_router::config::{Config, Given, Source};
//!
//! # fn main() -> Result<(), pgsteer_router::config::ConfigError> {
//! let mut given = Given::default();
//! given.file("router.toml", "backend = ['10.0.0.1:9090', '10.0.0.2:9090:2']\npool-size = 32")?;
//! given.set(Source::Flag, "pool-size", "64")?;
//! let config: Config = given.finish()?;
//! assert_eq!(config.router.backend.max_size, 64);
//! # Ok(())
//! # }
//! ```

mod error;
mod given;
mod nearest;
mod rules;
mod together;
mod values;

use std::time::Duration;

pub use error::{ConfigError, Source};
pub use given::Given;
pub use rules::{RULES, Rule};

use crate::server::RouterConfig;

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The router.
    pub router: RouterConfig,
    /// How long it may take to finish when it is told to end (`shutdown-grace`). Default 30 s.
    pub shutdown_grace: Duration,
    /// How many threads serve clients (`threads`). Default `None`: one for each core.
    pub threads: Option<usize>,
    /// What is logged (`log-level`). Default `info`.
    pub log_level: LogLevel,
    /// One sentence for each option that was given and yet changes nothing, because of how others are set.
    pub without_effect: Vec<String>,
}

/// The least important thing that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// What has failed for good.
    Error,
    /// What somebody should look at.
    Warn,
    /// What happens to the router as a whole.
    #[default]
    Info,
    /// What happens to each connection.
    Debug,
}

impl LogLevel {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            router: RouterConfig::default(),
            shutdown_grace: Duration::from_secs(30),
            threads: None,
            log_level: LogLevel::default(),
            without_effect: Vec::new(),
        }
    }
}
