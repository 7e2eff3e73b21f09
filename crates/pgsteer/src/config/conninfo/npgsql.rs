//! Npgsql's connection strings, `Host=db1;Username=app;…`: recognised, so that the error can say what to write instead.

use crate::config::ConfigError;

/// What such strings begin with. Not the password: what follows a semicolon may be a part of it.
const FIRST_NAMES: [&str; 19] = [
    "host",
    "server",
    "port",
    "database",
    "db",
    "username",
    "user name",
    "user id",
    "userid",
    "uid",
    "ssl mode",
    "pooling",
    "application name",
    "maximum pool size",
    "minimum pool size",
    "target session attributes",
    "timeout",
    "command timeout",
    "load balance hosts",
];

/// Whether it is `name=value;name=value` or `name=value;`, beginning with a name that Npgsql's strings begin with.
pub(super) fn looks_like(text: &str) -> bool {
    let name = |setting: &str| {
        let name = setting.split_once('=').map(|(name, _)| name);
        let letter = |character: char| character.is_ascii_alphanumeric() || character == ' ';
        let name = name.filter(|name| name.chars().all(letter));
        name.map(|name| name.trim().to_ascii_lowercase())
    };
    let Some((first, rest)) = text.split_once(';') else {
        return false;
    };
    let second = rest.split(';').next().unwrap_or_default();
    // With a second equals sign it would rather be libpq's `host=db1 password=a;b=c`.
    let begins = first.matches('=').count() == 1;
    begins
        && name(first).is_some_and(|name| FIRST_NAMES.contains(&name.as_str()))
        && (second.trim().is_empty() || name(second).is_some())
}

pub(super) fn refusal() -> ConfigError {
    ConfigError::NotInThisVersion {
        name: "Npgsql's connection strings (Host=…;Username=…)".to_owned(),
        reason: "not in this version; write host=… user=… password=… dbname=… with spaces instead of semicolons, or \
                 postgresql://user@host:port/database?option=value; docs/connection-strings.md has Npgsql's names and ours",
    }
}
