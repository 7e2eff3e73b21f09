//! Tasks that write through a pool, as fast as they can, and what becomes of their writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pgsteer::tokio_postgres::error::{DbError, Severity};
use pgsteer::{Conn, Error, HostKey, Pool};
use tokio::task::JoinSet;

use crate::rig::{LIMIT, becomes};

/// A write that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) host: HostKey,
    /// When its connection had been opened.
    pub(crate) opened: Instant,
    /// What the server said, as the statement's error or as its last words.
    pub(crate) sqlstate: Option<String>,
    /// Whether the connection went with it.
    pub(crate) lost: bool,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the newest write on each host was done.
    latest: BTreeMap<HostKey, Instant>,
    /// When the first one was.
    first: BTreeMap<HostKey, Instant>,
    done: u64,
    failed: Vec<Failed>,
}

/// Tasks that check out, write a row and give back, until told to stop. No checkout may fail.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    tasks: JoinSet<()>,
}

impl Writers {
    pub(crate) fn start(pool: &Pool, tasks: usize) -> Self {
        let mut writers = Writers {
            stop: Arc::default(),
            seen: Arc::default(),
            tasks: JoinSet::new(),
        };
        for _ in 0..tasks {
            let (pool, stop, seen) = (pool.clone(), writers.stop.clone(), writers.seen.clone());
            writers.tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let conn = pool.get_timeout(LIMIT).await.expect("no checkout fails");
                    let (host, opened) = (Conn::host(&conn).clone(), Instant::now() - Conn::age(&conn));
                    let written = conn.batch_execute("INSERT INTO written VALUES (1)").await;
                    let now = Instant::now();
                    let mut seen = seen.lock().unwrap();
                    match written {
                        Ok(()) => {
                            seen.done += 1;
                            seen.first.entry(host.clone()).or_insert(now);
                            seen.latest.insert(host, now);
                        }
                        Err(error) => seen.failed.push(Failed {
                            host,
                            opened,
                            lost: conn.is_closed() || is_fatal(&error),
                            sqlstate: sqlstate(&conn, error),
                        }),
                    }
                }
            });
        }
        writers
    }

    /// Waits until this many more rows have been written.
    pub(crate) async fn go_on(&self, more: u64) {
        let done = || self.seen.lock().unwrap().done;
        let before = done();
        becomes(true, || done() >= before + more).await;
    }

    /// Waits until a row has been written to this host, and gives when the first was.
    pub(crate) async fn reach(&self, host: &HostKey) -> Instant {
        let first = || self.seen.lock().unwrap().first.get(host).copied();
        becomes(true, || first().is_some()).await;
        first().unwrap()
    }

    /// Ends the tasks and gives the writes that failed.
    pub(crate) async fn end(self) -> Vec<Failed> {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
        let seen = self.seen.lock().unwrap();
        seen.failed.clone()
    }
}

/// The server's last words may be there before the driver has seen it close.
fn is_fatal(error: &Error) -> bool {
    let Error::Postgres(error) = error else {
        return false;
    };
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

fn sqlstate(conn: &Conn, error: Error) -> Option<String> {
    let of_statement = error.code().map(str::to_owned);
    of_statement.or_else(|| Conn::end(conn)?.code)
}
