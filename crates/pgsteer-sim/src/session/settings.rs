//! A session's run-time parameters: what SET, SHOW and RESET work on, and which of them are reported to the client.
//! Only `statement_timeout`, the idle timeouts and the read-only
//! ones change what the server does.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sql::SqlError;

/// Name, default, and whether changes are reported.
const KNOWN: [(&str, &str, bool); 26] = [
    ("application_name", "", true),
    ("client_encoding", "UTF8", true),
    ("client_min_messages", "notice", false),
    ("DateStyle", "ISO, MDY", true),
    ("default_transaction_isolation", "read committed", false),
    ("default_transaction_read_only", "off", true),
    ("extra_float_digits", "1", false),
    ("geqo", "on", false),
    ("idle_in_transaction_session_timeout", "0", false),
    ("idle_session_timeout", "0", false),
    ("integer_datetimes", "on", true),
    ("IntervalStyle", "postgres", true),
    ("is_superuser", "off", true),
    ("lock_timeout", "0", false),
    ("search_path", "\"$user\", public", false),
    ("server_encoding", "UTF8", true),
    ("server_version", VERSION, true),
    ("server_version_num", "150012", false),
    ("session_authorization", "", true),
    ("standard_conforming_strings", "on", true),
    ("statement_timeout", "0", false),
    ("synchronous_commit", "on", false),
    ("synchronous_standby_names", "", false),
    ("TimeZone", "UTC", true),
    ("wal_level", "replica", false),
    ("work_mem", "4MB", false),
];

/// The PostgreSQL version the servers claim.
pub(crate) const VERSION: &str = "15.12";

/// Parameters that cannot be set.
const FIXED: [&str; 8] = [
    "integer_datetimes",
    "is_superuser",
    "server_encoding",
    "server_version",
    "server_version_num",
    "session_authorization",
    "synchronous_standby_names",
    "wal_level",
];

/// Parameters whose value is a time; a bare number is milliseconds.
const TIMES: [&str; 4] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

/// The values that differ from the defaults, by name in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What the session began with: what RESET goes back to.
    startup: BTreeMap<String, String>,
    set: BTreeMap<String, String>,
}

impl Settings {
    /// A value given at the start of the session.
    pub(crate) fn start_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let value = checked(name, value)?;
        self.startup.insert(name.to_lowercase(), value);
        Ok(())
    }

    /// A value only the server itself can give.
    pub(crate) fn fix(&mut self, name: &str, value: &str) {
        self.startup.insert(name.to_lowercase(), value.to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let key = name.to_lowercase();
        let own = self.set.get(&key).or_else(|| self.startup.get(&key));
        own.cloned()
            .or_else(|| known(&key).map(|(_, default, _)| (*default).to_owned()))
    }

    /// Sets a value, or goes back to the default. Gives the name and value to report, if there is something to.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<Option<(&'static str, String)>, SqlError> {
        let key = name.to_lowercase();
        if FIXED.contains(&key.as_str()) {
            return Err(SqlError::new(
                "55P02",
                format!("parameter \"{name}\" cannot be changed"),
            ));
        }
        let before = self.get(&key);
        match value {
            Some(value) => {
                self.set.insert(key.clone(), checked(name, value)?);
            }
            None => {
                if known(&key).is_none() && !self.set.contains_key(&key) && !key.contains('.') {
                    return Err(unknown(name));
                }
                self.set.remove(&key);
            }
        }
        let after = self.get(&key);
        Ok(match (known(&key), after) {
            (Some((name, _, true)), Some(after)) if before.as_ref() != Some(&after) => Some((name, after)),
            _ => None,
        })
    }

    /// Forgets everything that was set. Gives what is to be reported.
    pub(crate) fn reset_all(&mut self) -> Vec<(&'static str, String)> {
        let before = self.clone();
        self.set.clear();
        self.differences(&before)
    }

    /// Goes back to an earlier state. Gives what is to be reported.
    pub(crate) fn restore(&mut self, earlier: Settings) -> Vec<(&'static str, String)> {
        let before = std::mem::replace(self, earlier);
        self.differences(&before)
    }

    fn differences(&self, before: &Settings) -> Vec<(&'static str, String)> {
        let reported = KNOWN.iter().filter(|(_, _, reported)| *reported);
        let changed = reported.filter(|(name, _, _)| self.get(name) != before.get(name));
        changed
            .map(|(name, _, _)| (*name, self.get(name).unwrap_or_default()))
            .collect()
    }

    /// All that is reported at the start of a session.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = KNOWN.iter().filter(|(_, _, reported)| *reported);
        reported
            .map(|(name, _, _)| (*name, self.get(name).unwrap_or_default()))
            .collect()
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "on")
    }

    /// A setting that is a time, unless it is off.
    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        let milliseconds = milliseconds(&self.get(name)?)?;
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }
}

fn known(key: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    KNOWN.iter().find(|(name, _, _)| name.eq_ignore_ascii_case(key))
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(
        "42704",
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// The value as it is kept, if the parameter exists and takes it.
fn checked(name: &str, value: &str) -> Result<String, SqlError> {
    let key = name.to_lowercase();
    let Some((_, default, _)) = known(&key) else {
        // A name with a dot belongs to an extension, and is taken as it is.
        return if key.contains('.') {
            Ok(value.to_owned())
        } else {
            Err(unknown(name))
        };
    };
    let invalid = || {
        SqlError::new(
            "22023",
            format!("invalid value for parameter \"{name}\": \"{value}\""),
        )
    };
    if TIMES.contains(&key.as_str()) {
        return Ok(shown(milliseconds(value).ok_or_else(invalid)?));
    }
    if *default == "on" || *default == "off" {
        return match value.to_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
            "off" | "false" | "no" | "0" => Ok("off".to_owned()),
            _ => Err(invalid()),
        };
    }
    Ok(value.to_owned())
}

/// A time as PostgreSQL writes it, in milliseconds.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number
        .checked_mul(factor)
        .filter(|milliseconds| *milliseconds <= 2_147_483_647)
}

/// A time in its largest whole unit.
fn shown(milliseconds: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
        (1, "ms"),
    ];
    let fits = units
        .into_iter()
        .find(|(factor, _)| milliseconds > 0 && milliseconds % factor == 0);
    fits.map_or_else(
        || "0".to_owned(),
        |(factor, unit)| format!("{}{unit}", milliseconds / factor),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_their_largest_whole_unit() {
        for (given, shown) in [
            ("0", "0"),
            ("1500", "1500ms"),
            ("5000", "5s"),
            ("2min", "2min"),
            ("3600s", "1h"),
        ] {
            let mut settings = Settings::default();
            settings.set("statement_timeout", Some(given)).unwrap();
            assert_eq!(settings.get("STATEMENT_TIMEOUT").as_deref(), Some(shown));
        }
    }

    #[test]
    fn only_reported_parameters_that_change_are_reported() {
        let mut settings = Settings::default();
        assert_eq!(
            settings.set("timezone", Some("CET")),
            Ok(Some(("TimeZone", "CET".to_owned())))
        );
        assert_eq!(settings.set("timezone", Some("CET")), Ok(None));
        assert_eq!(settings.set("work_mem", Some("8MB")), Ok(None));
        assert_eq!(settings.set("my.own", Some("x")), Ok(None));
        assert_eq!(settings.set("no_such", Some("x")).unwrap_err().sqlstate, "42704");
        assert_eq!(
            settings.set("server_version", Some("1")).unwrap_err().sqlstate,
            "55P02"
        );
        assert_eq!(settings.reset_all(), [("TimeZone", "UTC".to_owned())]);
    }
}
