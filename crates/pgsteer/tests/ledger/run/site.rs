//! What a ledger is kept on: servers that can be broken and mended.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgsteer_testkit::Server;

use super::faults::{Fault, Step};

/// What pools call themselves.
pub(crate) const APPLICATION: &str = "ledger";

/// How long anything may take that must happen. Generous: the machine may be slow and busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Servers to keep a ledger on. Calls block, and return when what they do is done.
pub(crate) trait Site: Send + Sync {
    /// In a word or two.
    fn name(&self) -> &'static str;

    /// Where pools connect to: a connection string that ends in the parameters.
    fn url(&self) -> String;

    /// What can be done to them.
    fn faults(&self) -> &'static [Fault];

    /// Breaks something, leaves it so for a while, and mends it: all servers work and follow each other again when it
    /// returns.
    fn suffer(&self, step: &Step);

    /// Servers that may be disturbed now.
    fn within_reach(&self) -> Vec<&Server>;

    /// Servers whose tables hold what was done: no two of them share any of it.
    fn ledgers(&self) -> Vec<&Server>;
}

/// Looks every few milliseconds until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, so: impl FnMut() -> bool) {
    assert!(is_soon(LIMIT, so), "not so within {LIMIT:?}: {what}");
}

/// Whether it is so within the limit.
pub(crate) fn is_soon(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number that a query gives, if it can be asked: the server may be down.
pub(crate) fn number(server: &Server, sql: &str) -> Option<u64> {
    match server.try_sql(sql) {
        Ok(rows) => rows.first()?.first()?.as_ref()?.parse().ok(),
        Err(error) if error.sqlstate.starts_with("42") => panic!("{error}: {sql}"),
        Err(_) => None,
    }
}

/// Kills one of the server's backends that serve our pools, and waits until the server works again.
pub(crate) fn crash_a_backend(server: &Server, step: &Step) {
    let backends = server.backends(APPLICATION);
    if let Some(backend) = backends.get(step.choose(backends.len().max(1))) {
        server.crash(*backend);
    }
    wait_until("the server has recovered from a crash", || {
        number(server, "SELECT 1") == Some(1)
    });
}

/// Servers that answer nothing, so that nobody who needs an answer asks them.
#[derive(Default)]
pub(crate) struct Frozen(Mutex<BTreeSet<String>>);

impl Frozen {
    pub(crate) fn freeze(&self, server: &Server) {
        self.set().insert(server.address());
        server.freeze();
    }

    pub(crate) fn thaw(&self, server: &Server) {
        server.thaw();
        self.set().remove(&server.address());
    }

    pub(crate) fn holds(&self, server: &Server) -> bool {
        self.set().contains(&server.address())
    }

    fn set(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
