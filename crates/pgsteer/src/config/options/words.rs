//! Other drivers' words: what they are in ours, or why there is nothing to put in their place.
//!
//! A pasted connection string must neither fail over something that makes no difference nor lose something that does.

use super::{Dialect, Known, OptionRule, alike, foreign, rule};
use crate::config::ConfigError;
use crate::config::error::shown;

/// A parameter of another driver.
pub(in crate::config) struct Word {
    /// As its drivers mostly spell it.
    pub(in crate::config) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) fate: Fate,
}

/// What becomes of a word.
pub(super) enum Fate {
    /// It is an option of ours; the function puts its value into ours, `None` if it is none of the values described.
    Means(&'static str, fn(&str) -> Option<String>, &'static str),
    /// These values, in any case, ask for what is done anyway; others are refused with the reason.
    Only(&'static [&'static str], &'static str),
    /// It tunes a part that only the other driver has.
    Tunes,
    /// It would make a difference and cannot be had.
    Refused(&'static str),
    /// `ssl`, which means something else in every dialect.
    Ssl,
}

/// What a word with its value comes to.
pub(super) enum Meaning {
    Option(&'static OptionRule, Vec<u8>),
    /// What it asks for is what is done anyway.
    AsItIs,
    /// Accepted, and told as an option without effect.
    WithoutUse,
}

const SSL_VALUES: &str = "true (then write sslmode instead, to say what is to be checked)";
const NO_SSL_WORD: &str = "not a parameter of libpq; write sslmode=require or, to have the server checked as well, \
                           sslmode=verify-full";

impl Word {
    /// What it means with this value. `written` is the name as given.
    pub(super) fn mean(
        &'static self,
        written: &str,
        value: &[u8],
        dialect: Dialect,
    ) -> Result<Meaning, ConfigError> {
        let text = std::str::from_utf8(value).ok();
        let invalid = |allowed| ConfigError::InvalidOption {
            name: self.name,
            value: shown(&String::from_utf8_lossy(value)).to_owned(),
            allowed,
        };
        let refused = |reason| ConfigError::NotInThisVersion {
            name: shown(written).to_owned(),
            reason,
        };
        match self.fate {
            Fate::Tunes => Ok(Meaning::WithoutUse),
            Fate::Refused(reason) => Err(refused(reason)),
            Fate::Only(values, reason) => {
                let asked =
                    text.is_some_and(|text| values.iter().any(|value| value.eq_ignore_ascii_case(text)));
                if asked {
                    Ok(Meaning::AsItIs)
                } else {
                    Err(refused(reason))
                }
            }
            Fate::Means(option, read, allowed) => {
                let value = text.and_then(read).ok_or_else(|| invalid(allowed))?;
                option_of(option, value)
            }
            Fate::Ssl => match (dialect, text) {
                (Dialect::Url, Some("true")) => option_of("sslmode", "require".to_owned()),
                (Dialect::Url, _) => Err(invalid(SSL_VALUES)),
                (Dialect::Jdbc, Some("" | "true" | "TRUE" | "True")) => {
                    option_of("sslmode", "verify-full".to_owned())
                }
                // pgjdbc's driver then does what it does without the word.
                (Dialect::Jdbc, Some("false" | "FALSE" | "False")) => Ok(Meaning::AsItIs),
                (Dialect::Jdbc, _) => Err(invalid("true, false or nothing")),
                (Dialect::Plain, _) => Err(refused(NO_SSL_WORD)),
            },
        }
    }
}

fn option_of(name: &'static str, value: String) -> Result<Meaning, ConfigError> {
    match rule(name) {
        Some(rule) => Ok(Meaning::Option(rule, value.into_bytes())),
        None => Err(ConfigError::NotInThisVersion {
            name: name.to_owned(),
            reason: "there is no such option",
        }),
    }
}

/// The word of this name, in any spelling.
pub(super) fn find(name: &str) -> Option<&'static Word> {
    let goes_by =
        |word: &&Word| alike(word.name, name) || word.aliases.iter().any(|alias| alike(alias, name));
    foreign::WORDS.iter().find(goes_by)
}

/// Every name, to find the nearest of.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    foreign::WORDS.iter().map(|word| word.name)
}

pub(super) fn is_ssl(known: Known) -> bool {
    matches!(known, Known::Foreign(word) if matches!(word.fate, Fate::Ssl))
}

/// Whether a mode insists on TLS, as `ssl=true` does.
pub(super) fn asks_for_tls(mode: &[u8]) -> bool {
    matches!(mode, b"require" | b"verify-ca" | b"verify-full")
}
