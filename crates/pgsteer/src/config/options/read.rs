//! How the text of one value is read: numbers, flags, durations, and `none` where an option may be unset.

use std::time::Duration;

use super::Refused;
use crate::config::check::LONGEST;
use crate::config::duration::{self, Bare};
use crate::config::{Config, ConfigError, HostOrder, LoadBalance, Pem, RootCerts, TopologySpec, hosts};

/// Stores what was read, or says that nothing could be.
pub(super) fn store<T>(field: &mut T, value: Option<T>) -> Result<(), Refused> {
    *field = value.ok_or(Refused::Value)?;
    Ok(())
}

/// Digits and nothing else: no sign, no fraction, no spaces.
pub(in crate::config) fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Digits, possibly with a point and more digits: no sign, no exponent, no spaces.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then(|| text.parse().ok())?
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
pub(super) fn millis(text: &str) -> Option<Duration> {
    duration::read(text, Bare::Millis)
}

/// A duration whose bare number counts seconds.
pub(super) fn seconds(text: &str) -> Option<Duration> {
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

/// As [`seconds`], where nothing and 0 are no limit.
pub(super) fn seconds_or_off(text: &str) -> Option<Option<Duration>> {
    or_none(text, seconds).map(|limit| limit.filter(|limit| !limit.is_zero()))
}

pub(super) fn load_balance(text: &str) -> Option<LoadBalance> {
    LoadBalance::parse_text(text)
}

pub(super) fn host_order(text: &str) -> Option<HostOrder> {
    match text {
        "disable" => Some(HostOrder::Listed),
        "random" => Some(HostOrder::Random),
        text => flag(text).map(|on| if on { HostOrder::Random } else { HostOrder::Listed }),
    }
}

/// libpq's `connect_timeout`: nothing, or less than nothing, is no limit, which here is the longest duration there is.
pub(super) fn limit(text: &str) -> Option<Duration> {
    let negative = text
        .strip_prefix('-')
        .is_some_and(|digits| number::<u64>(digits).is_some());
    if negative {
        return Some(LONGEST);
    }
    let limit = or_none(text, seconds)?;
    Some(limit.filter(|limit| !limit.is_zero()).unwrap_or(LONGEST))
}

/// A file by its path; an empty one is as good as none, as in libpq.
pub(super) fn file(path: &str) -> Option<Pem> {
    (!path.is_empty()).then(|| Pem::File(path.into()))
}

/// libpq's `sslrootcert`.
pub(super) fn roots(text: &str) -> Option<RootCerts> {
    match text {
        "system" => Some(RootCerts::System),
        path => file(path).map(RootCerts::Given),
    }
}

/// `hostaddr` for the hosts there are, or as the hosts if there are none.
pub(super) fn addresses(config: &mut Config, text: &str) -> Result<(), Refused> {
    let addresses = hosts::addresses(text).ok_or(Refused::Value)?;
    let names = config.hosts.take().unwrap_or_default();
    let hosts = hosts::dialled_at(names, addresses).map_err(Refused::Because)?;
    config.hosts = Some(hosts);
    Ok(())
}

pub(super) fn topology_keys(text: &str) -> Result<TopologySpec, Refused> {
    match pgsteer_core::topology::TopologyKeys::parse(text) {
        Ok(keys) => Ok(keys.into()),
        Err(error) => Err(Refused::Because(ConfigError::from(error))),
    }
}
