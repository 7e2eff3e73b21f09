//! What tells one pool's numbers from another's.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, with_recorder};

use super::table::{CHECKOUT_WAIT, CONNECT};
use crate::config::Settings;

pub(super) const METADATA: Metadata<'static> = Metadata::new("pgsteer", Level::INFO, Some("pgsteer"));

/// The names, databases and targets of the pools there are.
static TAKEN: Mutex<BTreeSet<[String; 3]>> = Mutex::new(BTreeSet::new());

/// The labels of one pool, and the keys of what is told on the spot. No other pool has the same labels for as long as this
/// lives.
pub(in crate::pool) struct Labels {
    own: [String; 3],
    waited: Key,
    connected: Key,
}

impl Labels {
    pub(in crate::pool) fn new(settings: &Settings) -> Self {
        let database = settings.database.clone();
        let target = settings.target_session_attrs.to_string();
        let own = take(&settings.application_name, database, target);
        Labels {
            waited: key(CHECKOUT_WAIT, &own, None),
            connected: key(CONNECT, &own, None),
            own,
        }
    }

    pub(super) fn key(&self, name: &'static str, more: Option<(&'static str, String)>) -> Key {
        key(name, &self.own, more)
    }

    /// A caller has got a connection for which it had to wait so long.
    pub(in crate::pool) fn waited(&self, time: Duration) {
        record(&self.waited, time);
    }

    /// A connection has been opened within this time.
    pub(in crate::pool) fn connected(&self, time: Duration) {
        record(&self.connected, time);
    }
}

impl Drop for Labels {
    fn drop(&mut self) {
        taken(|taken| taken.remove(&self.own));
    }
}

fn key(name: &'static str, own: &[String; 3], more: Option<(&'static str, String)>) -> Key {
    let [pool, database, target] = own.clone();
    let mut labels = vec![
        Label::new("pool", pool),
        Label::new("database", database),
        Label::new("target", target),
    ];
    labels.extend(more.map(|(name, value)| Label::new(name, value)));
    Key::from_parts(name, labels)
}

fn record(key: &Key, time: Duration) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA)).record(time.as_secs_f64());
}

/// The name, with a number if another pool has it already.
fn take(name: &str, database: String, target: String) -> [String; 3] {
    taken(|taken| {
        let mut own = [name.to_owned(), database, target];
        let mut number = 1;
        while !taken.insert(own.clone()) {
            number += 1;
            own[0] = format!("{name}-{number}");
        }
        own
    })
}

fn taken<T>(with: impl FnOnce(&mut BTreeSet<[String; 3]>) -> T) -> T {
    with(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner))
}
