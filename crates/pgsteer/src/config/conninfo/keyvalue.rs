//! `name=value` strings by libpq's rules: parameters separated by white space, values quoted where they need it.
//!
//! No error repeats a part of the string: a password that should have been quoted can look like anything.

use super::lists::HostLists;
use super::{invalid, parameters};
use crate::config::options::Dialect;
use crate::config::{Config, ConfigError};

const NO_EQUALS: &str = "a name is not followed by =; a value with spaces in it must stand in single quotes (it is not \
                         repeated here, as it may belong to a password)";

/// Reads a whole string.
pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    let mut config = Config::new();
    parameters::put(&mut config, HostLists::default(), split(text)?, Dialect::Plain)?;
    Ok(config)
}

/// Whether a text can be such a string: it begins with a name and an equals sign.
pub(super) fn looks_like(text: &str) -> bool {
    let name = text.split_once('=').map(|(name, _)| name.trim_matches(is_space));
    name.is_some_and(|name| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !name.is_empty() && name.bytes().all(letter)
    })
}

/// C's `isspace`.
fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\u{b}'
}

fn split(text: &str) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=').ok_or_else(|| invalid(NO_EQUALS))?;
        let name = name.trim_end_matches(is_space);
        if name.contains(is_space) {
            return Err(invalid(NO_EQUALS));
        }
        let (value, behind) = take_value(behind.trim_start_matches(is_space))?;
        found.push((name.to_owned(), value.into_bytes()));
        rest = behind.trim_start_matches(is_space);
    }
    Ok(found)
}

/// The value at the beginning of the text, and what follows. A backslash takes the next character as it is; a value without
/// quotes ends at white space, so that an empty one can only be written `''`.
fn take_value(text: &str) -> Result<(String, &str), ConfigError> {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            character if !quoted && is_space(character) => return Ok((value, &text[at..])),
            character => value.push(character),
        }
    }
    if quoted {
        return Err(invalid("a quote before a value is not closed"));
    }
    Ok((value, ""))
}
