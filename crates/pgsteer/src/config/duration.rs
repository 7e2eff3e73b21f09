//! Durations as text: a whole number and a unit, as `statement_timeout` and its like are written in PostgreSQL.
//!
//! What a number without a unit means is the option's affair. Fractions and signs are refused, and what is printed
//! reads back as the same duration.

use std::time::Duration;

/// What a number without a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    Seconds,
    Millis,
}

/// Units with their length in nanoseconds, longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 24 * 60 * 60 * 1_000_000_000),
    ("h", 60 * 60 * 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads `500ms`, `30s`, `5min` or a bare number; `None` for anything else and for what no `Duration` holds.
pub(super) fn read(text: &str, bare: Bare) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = match (unit, bare) {
        ("", Bare::Seconds) => "s",
        ("", Bare::Millis) => "ms",
        (unit, _) => unit,
    };
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let nanos = u128::from(number) * u128::from(*nanos);
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, rest))
}

/// Writes a duration in the longest unit that needs no fraction; zero is `0ms`.
pub(super) fn write(time: Duration) -> String {
    let nanos = time.as_nanos();
    if nanos == 0 {
        return "0ms".to_owned();
    }
    let fitting = UNITS.iter().find(|(_, length)| nanos % u128::from(*length) == 0);
    let (unit, length) = fitting.unwrap_or(&("ns", 1));
    format!("{}{unit}", nanos / u128::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units_are_read() {
        let rows = [
            ("500ms", Bare::Seconds, Some(Duration::from_millis(500))),
            ("30s", Bare::Millis, Some(Duration::from_secs(30))),
            ("5min", Bare::Millis, Some(Duration::from_secs(300))),
            ("2h", Bare::Millis, Some(Duration::from_secs(7200))),
            ("1d", Bare::Millis, Some(Duration::from_secs(86_400))),
            ("7us", Bare::Millis, Some(Duration::from_micros(7))),
            ("9ns", Bare::Millis, Some(Duration::from_nanos(9))),
            ("250", Bare::Millis, Some(Duration::from_millis(250))),
            ("3", Bare::Seconds, Some(Duration::from_secs(3))),
            ("0", Bare::Seconds, Some(Duration::ZERO)),
            (
                "18446744073709551615s",
                Bare::Millis,
                Some(Duration::from_secs(u64::MAX)),
            ),
            ("18446744073709551615d", Bare::Millis, None),
            ("18446744073709551616", Bare::Millis, None),
            ("", Bare::Millis, None),
            ("ms", Bare::Millis, None),
            ("1.5s", Bare::Millis, None),
            ("-1", Bare::Seconds, None),
            ("+1", Bare::Seconds, None),
            ("1 s", Bare::Millis, None),
            (" 1s", Bare::Millis, None),
            ("1m", Bare::Millis, None),
            ("1S", Bare::Millis, None),
            ("١s", Bare::Millis, None),
            ("ever", Bare::Millis, None),
        ];
        for (text, bare, expected) in rows {
            assert_eq!(read(text, bare), expected, "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_written_in_its_longest_exact_unit() {
        let rows = [
            (Duration::ZERO, "0ms"),
            (Duration::from_millis(500), "500ms"),
            (Duration::from_millis(1500), "1500ms"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_secs(1800), "30min"),
            (Duration::from_secs(7200), "2h"),
            (Duration::from_secs(172_800), "2d"),
            (Duration::from_nanos(1_001), "1001ns"),
        ];
        for (time, expected) in rows {
            assert_eq!(write(time), expected);
            assert_eq!(read(expected, Bare::Seconds), Some(time), "{expected} reads back");
        }
    }
}
