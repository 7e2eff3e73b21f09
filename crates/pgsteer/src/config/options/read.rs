//! How the text of one value is read: numbers, flags, durations, and `none` where an option may be unset.

use super::Refused;
use crate::config::duration::{self, Bare};
use crate::config::{ConfigError, LoadBalance, TargetSessionAttrs, TopologySpec};

/// Stores what was read, or says that nothing could be.
pub(super) fn store<T>(field: &mut T, value: Option<T>) -> Result<(), Refused> {
    *field = value.ok_or(Refused::Value)?;
    Ok(())
}

/// Digits and nothing else: no sign, no fraction, no spaces.
pub(super) fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

pub(super) fn flag(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    match () {
        () if is("true") || is("on") || text == "1" => Some(true),
        () if is("false") || is("off") || text == "0" => Some(false),
        () => None,
    }
}

/// A duration whose bare number counts milliseconds.
pub(super) fn millis(text: &str) -> Option<std::time::Duration> {
    duration::read(text, Bare::Millis)
}

/// A duration whose bare number counts seconds.
pub(super) fn seconds(text: &str) -> Option<std::time::Duration> {
    duration::read(text, Bare::Seconds)
}

/// `none`, or what `read` makes of the text.
pub(super) fn or_none<T>(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text.eq_ignore_ascii_case("none") {
        Some(None)
    } else {
        read(text).map(Some)
    }
}

pub(super) fn load_balance(text: &str) -> Option<LoadBalance> {
    LoadBalance::parse_text(text)
}

pub(super) fn target_session_attrs(text: &str) -> Option<TargetSessionAttrs> {
    TargetSessionAttrs::parse_text(text)
        .filter(|target| matches!(target, TargetSessionAttrs::Any | TargetSessionAttrs::ReadWrite))
}

pub(super) fn topology_keys(text: &str) -> Result<TopologySpec, Refused> {
    match pgsteer_core::topology::TopologyKeys::parse(text) {
        Ok(keys) => Ok(keys.into()),
        Err(error) => Err(Refused::Key(ConfigError::from(error))),
    }
}

/// The modes that do not insist on TLS change nothing in a build without it; the others must not be ignored.
pub(super) fn sslmode(text: &str) -> Result<(), Refused> {
    match text {
        "disable" | "allow" | "prefer" => Ok(()),
        "require" | "verify-ca" | "verify-full" => Err(Refused::Tls),
        _ => Err(Refused::Value),
    }
}
