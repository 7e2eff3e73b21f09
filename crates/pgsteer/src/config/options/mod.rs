//! The table of options as text: each option's names, what it allows, and how its text is read.
//!
//! Connection strings and documents are nothing but names and texts, and both go through here. Ranges are judged
//! later, with the whole configuration; this file only turns text into a value of the right type.

mod nearest;
mod read;
mod table;

use super::error::{REDACTED, shown};
use super::{Config, ConfigError, UnknownOption};

pub(super) use table::OPTIONS;

/// One option.
pub(super) struct OptionRule {
    /// The name it is reported by.
    pub(super) name: &'static str,
    /// Other names it goes by.
    aliases: &'static [&'static str],
    /// What it allows, in words.
    pub(super) allowed: &'static str,
    set: Set,
}

/// How an option takes its value.
enum Set {
    /// Text that is meant as text; a document must give it as text.
    Text(fn(&mut Config, &str)),
    /// A number, a flag, a duration or one of a few words.
    Plain(fn(&mut Config, &str) -> Result<(), Refused>),
    /// Bytes that are never shown.
    Secret(fn(&mut Config, &[u8])),
}

/// Why a text is no value of its option.
enum Refused {
    /// It is not of the option's type.
    Value,
    /// It has a bad topology key in it.
    Key(ConfigError),
    /// It asks for TLS.
    Tls,
}

const NO_TLS: &str = "TLS is not in this version; leave the option out, or write sslmode=disable, allow or prefer, \
                      which all connect without TLS";

impl OptionRule {
    /// Reads a value as a connection string gives it.
    pub(super) fn apply(&self, config: &mut Config, value: &[u8]) -> Result<(), ConfigError> {
        if let Set::Secret(set) = self.set {
            set(config, value);
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(value) else {
            return Err(self.invalid(value));
        };
        match self.set {
            Set::Text(set) => set(config, text),
            Set::Plain(set) => set(config, text).map_err(|refused| match refused {
                Refused::Value => self.invalid(value),
                Refused::Key(error) => error,
                Refused::Tls => no_tls(&format!("{}={text}", self.name)),
            })?,
            Set::Secret(set) => set(config, value),
        }
        Ok(())
    }

    /// The error that says this value is none for the option. A secret, and what may hold one, is not repeated in it.
    pub(super) fn invalid(&self, value: &[u8]) -> ConfigError {
        let value = if self.is_secret() {
            REDACTED.to_owned()
        } else {
            shown(&String::from_utf8_lossy(value)).to_owned()
        };
        ConfigError::InvalidOption {
            name: self.name,
            value,
            allowed: self.allowed,
        }
    }

    /// Whether the value must never be shown.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self.set, Set::Secret(_))
    }

    /// Whether a document must give the value as text rather than as a number or a flag.
    #[cfg(feature = "serde")]
    pub(super) fn is_text(&self) -> bool {
        matches!(self.set, Set::Text(_) | Set::Secret(_))
    }

    fn goes_by(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// What an option allows, in words; `name` must be one of the table.
pub(super) fn allowed(name: &str) -> &'static str {
    OPTIONS
        .iter()
        .find(|rule| rule.name == name)
        .map_or("a valid value", |rule| rule.allowed)
}

/// The rules of all these names, in their order. Dashes and underscores in a name are the same.
///
/// # Errors
///
/// First all names that are unknown, then options of later versions, then options given twice.
pub(super) fn resolve<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'static OptionRule>, ConfigError> {
    let mut rules: Vec<&'static OptionRule> = Vec::new();
    let mut unknown = Vec::new();
    let mut tls = None;
    for name in names {
        let spelled = name.replace('-', "_");
        match OPTIONS.iter().find(|rule| rule.goes_by(&spelled)) {
            Some(rule) => rules.push(rule),
            None if spelled.starts_with("ssl") => tls = tls.or(Some(name)),
            None => unknown.push(UnknownOption {
                name: shown(name).to_owned(),
                nearest: nearest::nearest(&spelled),
            }),
        }
    }
    if !unknown.is_empty() {
        unknown.sort();
        unknown.dedup();
        return Err(ConfigError::UnknownOptions { names: unknown });
    }
    if let Some(name) = tls {
        return Err(no_tls(name));
    }
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index].iter().any(|earlier| earlier.name == rule.name) {
            return Err(ConfigError::DuplicateOption { name: rule.name });
        }
    }
    Ok(rules)
}

fn no_tls(name: &str) -> ConfigError {
    ConfigError::NotInThisVersion {
        name: shown(name).to_owned(),
        reason: NO_TLS,
    }
}
