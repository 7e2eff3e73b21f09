//! Reading values: durations with a unit, sizes, numbers in a range, places to listen on.

use std::time::Duration;

/// Longer than this is a slip of the finger.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A duration: `500ms`, `5s`, `1.5min`, `2h`; a bare number is seconds.
pub(super) fn duration(text: &str, least: Duration) -> Option<Duration> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds_each = match unit.trim_start() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * seconds_each;
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (least..=LONGEST).contains(&duration).then_some(duration)
}

/// A duration, or `off`.
pub(super) fn duration_or_off(text: &str, least: Duration) -> Option<Option<Duration>> {
    match text {
        "off" => Some(None),
        text => duration(text, least).map(Some),
    }
}

/// A number of bytes: `65536`, `64KiB`, `16MiB`.
pub(super) fn size(text: &str) -> Option<u32> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let each: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(each)?;
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Digits and nothing else, in a range.
pub(super) fn number(text: &str, least: u32, most: u32) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse::<u32>().ok()).flatten()?;
    (least..=most).contains(&number).then_some(number)
}

/// A share from 0 to `most`.
pub(super) fn share(text: &str, most: f64) -> Option<f64> {
    let share = text.parse::<f64>().ok()?;
    (0.0..=most).contains(&share).then_some(share)
}

pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

/// A place to listen on: `HOST:PORT`, an IPv6 address in brackets. Port 0 lets the system choose.
pub(super) fn place(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || port.parse::<u16>().is_err() {
        return None;
    }
    let good = match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !host.is_empty() && !host.contains([':', '[', ']', '/', ' ']),
    };
    good.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, number, place, share, size};

    #[test]
    fn durations_take_a_unit_and_are_seconds_without_one() {
        let milliseconds = |text| duration(text, Duration::ZERO).map(|duration| duration.as_millis());
        let cases = [
            ("5", Some(5_000)),
            ("0", Some(0)),
            ("0.5", Some(500)),
            ("500ms", Some(500)),
            ("2 s", Some(2_000)),
            ("1.5min", Some(90_000)),
            ("24h", Some(86_400_000)),
            ("25h", None),
            ("-1", None),
            ("5m", None),
            ("", None),
            ("s", None),
            ("1.2.3s", None),
            ("nan", None),
            ("1e9", None),
        ];
        for (text, expected) in cases {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
        assert_eq!(duration("0", Duration::from_millis(1)), None);
    }

    #[test]
    fn sizes_take_a_unit_and_are_bytes_without_one() {
        let cases = [
            ("1", Some(1)),
            ("64KiB", Some(65_536)),
            ("16 MiB", Some(16 << 20)),
            ("4GiB", None),
            ("0", None),
            ("1.5MiB", None),
            ("16MB", None),
            ("", None),
            ("18446744073709551615GiB", None),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_digits_in_a_range() {
        let cases = [
            ("1", Some(1)),
            ("9", Some(9)),
            ("0", None),
            ("10", None),
            ("+5", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text, 1, 9), expected, "{text}");
        }
        assert_eq!(share("0.9", 0.9), Some(0.9));
        assert_eq!(share("NaN", 0.9), None);
    }

    #[test]
    fn a_place_is_a_host_and_a_port_and_may_be_ipv6_in_brackets() {
        for good in ["127.0.0.1:0", "[::1]:8080", "localhost:80", "0.0.0.0:65535"] {
            assert_eq!(place(good).as_deref(), Some(good));
        }
        for bad in [
            "",
            ":80",
            "host",
            "host:",
            "host:65536",
            "::1:80",
            "[::1]",
            "[host]:80",
            "host:+1",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
