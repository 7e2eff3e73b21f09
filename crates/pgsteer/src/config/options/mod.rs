//! The table of options as text: each option's names, what it allows, and how its text is read.
//!
//! Connection strings, documents and environment variables are nothing but names and texts, and all go through here.
//! Ranges are judged later, with the whole configuration; this file only turns text into a value of the right type. What
//! other drivers call otherwise, or have and this one has not, is in `words`.

mod foreign;
mod nearest;
mod read;
mod table;
mod words;

use super::error::{REDACTED, shown};
use super::{Config, ConfigError, UnknownOption};

pub(super) use table::OPTIONS;
use words::Word;

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
    /// It has something of its own to say.
    Because(ConfigError),
}

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
                Refused::Because(error) => error,
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

    /// Whether the value may be written as `redacted` where it cannot be shown.
    #[cfg(feature = "serde")]
    pub(super) fn is_left_out(&self) -> bool {
        self.is_secret() || matches!(self.name, "sslrootcert" | "sslcert" | "sslkey")
    }

    /// Whether a document must give the value as text rather than as a number or a flag.
    #[cfg(feature = "serde")]
    pub(super) fn is_text(&self) -> bool {
        matches!(self.set, Set::Text(_) | Set::Secret(_))
    }

    fn goes_by(&self, name: &str) -> bool {
        alike(self.name, name) || self.aliases.iter().any(|alias| alike(alias, name))
    }
}

/// What an option allows, in words; `name` must be one of the table.
pub(super) fn allowed(name: &str) -> &'static str {
    rule(name).map_or("a valid value", |rule| rule.allowed)
}

/// The error that says this value is none for the option of this name.
pub(super) fn invalid(name: &'static str, value: &[u8]) -> ConfigError {
    match rule(name) {
        Some(rule) => rule.invalid(value),
        None => ConfigError::InvalidOption {
            name,
            value: REDACTED.to_owned(),
            allowed: allowed(name),
        },
    }
}

fn rule(name: &str) -> Option<&'static OptionRule> {
    OPTIONS.iter().find(|rule| rule.name == name)
}

/// Whether two names are spellings of one: `connect_timeout`, `connect-timeout`, `connectTimeout`, `ConnectTimeout`.
fn alike(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> Vec<u8> {
        let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        letters.map(|byte| byte.to_ascii_lowercase()).collect()
    };
    letters(one) == letters(other)
}

/// Whose rules a text is read by, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// libpq's URLs.
    Url,
    /// libpq's `name=value` strings, and everything that is not a connection string.
    Plain,
    /// pgjdbc's.
    Jdbc,
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub(super) enum Known {
    /// An option.
    Own(&'static OptionRule),
    /// Another driver's word.
    Foreign(&'static Word),
}

impl Known {
    /// The option, if it is one itself.
    #[cfg(feature = "serde")]
    pub(super) fn own(self) -> Option<&'static OptionRule> {
        match self {
            Known::Own(rule) => Some(rule),
            Known::Foreign(_) => None,
        }
    }

    /// The error that says that a value of a document is no text, number or flag.
    #[cfg(feature = "serde")]
    pub(super) fn not_text(self, shown: &str) -> ConfigError {
        match self {
            Known::Own(rule) => rule.invalid(shown.as_bytes()),
            Known::Foreign(word) => ConfigError::InvalidOption {
                name: word.name,
                value: shown.to_owned(),
                allowed: "text, a number or a flag",
            },
        }
    }
}

/// What all these names stand for, in their order.
///
/// # Errors
///
/// All names that are unknown.
pub(super) fn resolve<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Known>, ConfigError> {
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        let rule = OPTIONS.iter().find(|rule| rule.goes_by(name)).map(Known::Own);
        match rule.or_else(|| words::find(name).map(Known::Foreign)) {
            Some(meaning) => known.push(meaning),
            None => unknown.push(UnknownOption {
                name: shown(name).to_owned(),
                nearest: nearest::nearest(name),
            }),
        }
    }
    if unknown.is_empty() {
        return Ok(known);
    }
    unknown.sort();
    unknown.dedup();
    Err(ConfigError::UnknownOptions { names: unknown })
}

/// A name that is known, with its value.
pub(super) struct Given {
    pub(super) written: String,
    pub(super) known: Known,
    pub(super) value: Vec<u8>,
}

/// What names and values come to.
pub(super) struct Settled {
    /// Options with their texts, each option once.
    pub(super) options: Vec<(&'static OptionRule, Vec<u8>)>,
    /// Words that were accepted and change nothing.
    pub(super) without_use: Vec<&'static str>,
}

/// Puts other drivers' words into our own, and looks for options that are given more than once.
///
/// # Errors
///
/// The first value that is none of its word's, the first word that is refused, or the first option that is given twice: by
/// one name, or by two names with values that do not mean the same.
pub(super) fn settle(given: Vec<Given>, dialect: Dialect) -> Result<Settled, ConfigError> {
    let mut without_use = Vec::new();
    let mut settled: Vec<(String, &'static OptionRule, Vec<u8>)> = Vec::new();
    // `ssl` sets a mode only if there is no `sslmode`, so it comes last.
    let (ssl, rest): (Vec<_>, Vec<_>) = given.into_iter().partition(|given| words::is_ssl(given.known));
    for Given {
        written,
        known,
        value,
    } in rest.into_iter().chain(ssl)
    {
        let (rule, value) = match known {
            Known::Own(rule) => (rule, value),
            Known::Foreign(word) => match word.mean(&written, &value, dialect)? {
                words::Meaning::Option(rule, value) => (rule, value),
                words::Meaning::WithoutUse => {
                    without_use.push(word.name);
                    continue;
                }
                words::Meaning::AsItIs => continue,
            },
        };
        let earlier = settled
            .iter_mut()
            .find(|(_, earlier, _)| earlier.name == rule.name);
        match earlier {
            None => settled.push((written, rule, value)),
            // `currentSchema` is one of the server's options and goes beside others.
            Some((name, _, first)) if rule.name == "options" && !alike(name, &written) => {
                first.push(b' ');
                first.extend(value);
            }
            Some((name, _, first)) if alike(name, &written) || !agree(rule, first, &value, known) => {
                return Err(twice(rule, name, &written));
            }
            Some(_) => {}
        }
    }
    Ok(Settled {
        options: settled
            .into_iter()
            .map(|(_, rule, value)| (rule, value))
            .collect(),
        without_use,
    })
}

/// Whether two values of one option, given by different names, mean the same.
fn agree(rule: &OptionRule, first: &[u8], second: &[u8], word: Known) -> bool {
    if words::is_ssl(word) {
        // `ssl=true` asks for TLS, and `sslmode` says more exactly what for.
        return words::asks_for_tls(first) == words::asks_for_tls(second);
    }
    let read = |value: &[u8]| {
        let mut config = Config::new();
        rule.apply(&mut config, value).map(|()| format!("{config:?}"))
    };
    first == second
        || !rule.is_secret()
            && match (read(first), read(second)) {
                (Ok(first), Ok(second)) => first == second,
                _ => false,
            }
}

fn twice(rule: &OptionRule, first: &str, second: &str) -> ConfigError {
    if alike(first, second) {
        return ConfigError::DuplicateOption { name: rule.name };
    }
    ConfigError::ConflictingNames {
        name: rule.name,
        first: first.to_owned(),
        second: second.to_owned(),
    }
}

/// Reads one option by its name.
pub(super) fn set(config: &mut Config, name: &str, value: &[u8]) -> Result<(), ConfigError> {
    let known = resolve([name])?;
    let given = known.into_iter().map(|known| Given {
        written: name.to_owned(),
        known,
        value: value.to_owned(),
    });
    let settled = settle(given.collect(), Dialect::Plain)?;
    for (rule, value) in settled.options {
        rule.apply(config, &value)?;
    }
    config.without_use.extend(settled.without_use);
    Ok(())
}
