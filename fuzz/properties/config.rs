//! What must hold of the router's configuration, whatever the text. Used by the fuzz target and by an ordinary test.

use pgsteer_router::config::{Config, ConfigError, Given, RULES, Source};

/// As the text of a file, and line by line as flags.
pub(crate) fn check(text: &str) {
    let from_file = file(text);
    assert_eq!(from_file, file(text), "the same text means the same");
    told(&from_file);
    if let Ok(config) = &from_file {
        sensible(config);
    }

    let mut given = Given::default();
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim().trim_matches(['"', '\'']));
        let before = given.clone();
        match given.set(Source::Flag, name, value) {
            Ok(()) => assert!(RULES.iter().any(|rule| rule.name == name)),
            Err(error) => {
                assert!(error.to_string().contains(name), "`{error}` does not name {name}");
                let is_known = RULES.iter().any(|rule| rule.name == name);
                assert_eq!(matches!(error, ConfigError::Unknown { .. }), !is_known, "{error}");
                if !is_known {
                    assert_eq!(given, before, "an option that is none changes nothing");
                }
            }
        }
    }
    let from_flags = given.finish();
    told(&from_flags);
    if let Ok(config) = &from_flags {
        sensible(config);
    }
}

fn file(text: &str) -> Result<Config, ConfigError> {
    let mut given = Given::default();
    given.file("router.toml", text)?;
    given.finish()
}

/// Errors are for people.
fn told(outcome: &Result<Config, ConfigError>) {
    if let Err(error) = outcome {
        assert!(!error.to_string().trim().is_empty());
    }
}

/// Bounds that whoever uses a configuration relies on.
fn sensible(config: &Config) {
    let backend = &config.router.backend;
    assert!(backend.max_size >= 1, "a pool without room");
    assert!(
        backend.min_idle <= backend.max_size,
        "more ready than there may be"
    );
    let delay = config.router.server.drain_delay;
    assert!(
        delay.is_zero() || delay < config.shutdown_grace,
        "a grace that is over before the drain begins"
    );
    assert!(config.router.server.max_connections >= 1, "no client may come");
    assert!(config.router.server.pipeline >= 1, "no request may be under way");
    assert!(config.threads != Some(0), "no thread");
    assert!(
        backend.breaker.base <= backend.breaker.cap,
        "a cap below the base"
    );
    assert!(
        !backend.connect_timeout.is_zero() && !backend.borrow_timeout.is_zero(),
        "no time at all"
    );
}
