//! From options as they were given to a configuration that can be used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use super::error::{ConfigError, Source};
use super::nearest::nearest;
use super::rules::{RULES, Rule};
use super::{Config, LogLevel};
use crate::tls::{BackendTls, ServerTls};

/// Options that were given so far. A later one of the same name goes over an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    pub(super) config: Config,
    /// Where each option was given, and as what; of a list its last value.
    pub(super) given: BTreeMap<&'static str, (Source, String)>,
    /// Where the list of backends came from; one from elsewhere begins it anew.
    backends_from: Option<Source>,
    pub(super) tls: TlsGiven,
}

/// What was said of TLS, which only makes sense together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TlsGiven {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) backend: bool,
    pub(super) backend_ca: Option<PathBuf>,
    pub(super) backend_server_name: Option<String>,
    pub(super) backend_cert: Option<PathBuf>,
    pub(super) backend_key: Option<PathBuf>,
}

impl Given {
    /// Takes an option.
    ///
    /// # Errors
    ///
    /// A name that is not known, or a value that the option cannot have.
    pub fn set(&mut self, source: Source, name: &str, value: &str) -> Result<(), ConfigError> {
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            return Err(ConfigError::Unknown {
                source,
                name: name.to_owned(),
                nearest: nearest(name),
            });
        };
        self.set_by(rule, source, value)
    }

    fn set_by(&mut self, rule: &Rule, source: Source, value: &str) -> Result<(), ConfigError> {
        if rule.list && self.backends_from.as_ref() != Some(&source) {
            self.config.router.backends.clear();
            self.backends_from = Some(source.clone());
        }
        if let Err(because) = (rule.set)(self, value) {
            return Err(ConfigError::Value {
                source,
                name: rule.name,
                value: value.to_owned(),
                allowed: because.unwrap_or_else(|| rule.allowed.to_owned()),
            });
        }
        self.given.insert(rule.name, (source, value.to_owned()));
        Ok(())
    }

    /// Whether an option was given at all.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Where an option was given; what was not given counts as a flag.
    pub(super) fn source_of(&self, name: &str) -> Source {
        self.given
            .get(name)
            .map_or(Source::Flag, |(source, _)| source.clone())
    }

    /// Takes the options in the text of a TOML file. `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// A text that is not TOML, a name that is not known, or a value that an option cannot have.
    pub fn file(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            file: file.to_owned(),
            reason: format!("{}{}", place(text, error.span()), error.message()),
        })?;
        let source = Source::File(file.to_owned());
        for (name, value) in &table {
            let values = match value {
                // A list of nothing is no way to ask for the default.
                toml::Value::Array(values)
                    if !values.is_empty() && RULES.iter().any(|rule| rule.list && rule.name == name) =>
                {
                    values.as_slice()
                }
                value => std::slice::from_ref(value),
            };
            for value in values {
                match written(value) {
                    Some(text) => self.set(source.clone(), name, &text)?,
                    // Whatever it is, no option takes it. The name may be wrong as well, and comes first.
                    None => self.set(source.clone(), name, &value.to_string())?,
                }
            }
        }
        Ok(())
    }

    /// The configuration, with what was not given as it is by default.
    ///
    /// # Errors
    ///
    /// Options that make no sense alone, or do not go together.
    pub fn finish(mut self) -> Result<Config, ConfigError> {
        self.config.router.tls = self.server_tls()?;
        self.config.router.backend_tls = self.backend_tls()?;
        if !self.is_given("min-idle") {
            // By default no more are kept ready than there may be.
            let backend = &mut self.config.router.backend;
            backend.min_idle = backend.min_idle.min(backend.max_size);
        }
        self.judge_together()?;
        self.config.without_effect = self.without_effect();
        Ok(self.config)
    }

    fn server_tls(&mut self) -> Result<Option<ServerTls>, ConfigError> {
        let (cert, key, client_ca) = (
            self.tls.cert.take(),
            self.tls.key.take(),
            self.tls.client_ca.take(),
        );
        match (cert, key, client_ca) {
            (Some(cert), Some(key), client_ca) => Ok(Some(ServerTls { cert, key, client_ca })),
            (None, None, None) => Ok(None),
            (Some(_), None, _) => needs("tls-cert", "tls-key"),
            (None, Some(_), _) => needs("tls-key", "tls-cert"),
            (None, None, Some(_)) => needs("tls-client-ca", "tls-cert and tls-key"),
        }
    }

    fn backend_tls(&mut self) -> Result<Option<BackendTls>, ConfigError> {
        let tls = std::mem::take(&mut self.tls);
        let identity = match (tls.backend_cert, tls.backend_key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return needs("backend-tls-cert", "backend-tls-key"),
            (None, Some(_)) => return needs("backend-tls-key", "backend-tls-cert"),
        };
        let backend_tls = BackendTls {
            ca: tls.backend_ca,
            server_name: tls.backend_server_name,
            identity,
        };
        if tls.backend {
            return Ok(Some(backend_tls));
        }
        let alone = [
            ("backend-tls-ca", backend_tls.ca.is_some()),
            ("backend-tls-server-name", backend_tls.server_name.is_some()),
            ("backend-tls-cert", backend_tls.identity.is_some()),
        ];
        match alone.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => needs(name, "backend-tls"),
            None => Ok(None),
        }
    }
}

fn needs<T>(name: &'static str, needs: &'static str) -> Result<T, ConfigError> {
    Err(ConfigError::Needs { name, needs })
}

/// Where in a text something is wrong. What stands there is not repeated: it may be a key.
fn place(text: &str, span: Option<Range<usize>>) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else {
        return String::new();
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: ")
}

/// A value of a file as one would write it on the command line.
fn written(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

impl LogLevel {
    pub(super) fn parse(text: &str) -> Option<Self> {
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug]
            .into_iter()
            .find(|level| level.as_str() == text)
    }
}
