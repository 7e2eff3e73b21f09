//! Percent-encoding, read strictly: a `%` that two hexadecimal digits do not follow is an error, as in libpq.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// What never needs encoding.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// What needs encoding in the value of an option.
const IN_VALUE: &AsciiSet = &UNRESERVED.remove(b':').remove(b',').remove(b'*').remove(b'/');

/// The bytes meant; `None` if an encoding is broken.
pub(super) fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(Cow::Owned(decoded))
}

/// The text meant; `None` if an encoding is broken or what it stands for is not UTF-8.
pub(super) fn decode_text(text: &str) -> Option<String> {
    String::from_utf8(decode(text)?.into_owned()).ok()
}

/// The bytes meant where a `+` is a space; `None` if an encoding is broken.
pub(super) fn decode_form(text: &str) -> Option<Vec<u8>> {
    decode(&text.replace('+', " ")).map(Cow::into_owned)
}

/// A text for the credentials, a host or the database.
pub(super) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, UNRESERVED).to_string()
}

/// A text for the value of an option.
pub(super) fn encode_value(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, IN_VALUE).to_string()
}
