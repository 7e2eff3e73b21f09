//! What is kept of an error that counted: its text and those of its sources, in bounded length.

use std::error::Error as StdError;
use std::fmt;

use super::Text;
use crate::error::shortened;

/// The error's text, and those of its sources which it does not repeat itself.
pub(super) fn of(error: &(dyn StdError + 'static)) -> Text {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    told(&text)
}

/// The beginning of it, if it is long.
pub(super) fn told(text: impl fmt::Display) -> Text {
    shortened(&text.to_string()).into()
}
