//! Load on a pool: tasks that check out, run a short statement and give back. It decides what may fail under them:
//! nothing but a statement whose connection was lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgsteer::{Conn, HostKey, Pool};
use tokio::task::JoinSet;

use crate::rig::{LIMIT, becomes, is_lost};

/// Tasks that check out, run a short statement and give back, until told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    /// The longest checkout so far, in microseconds.
    longest: Arc<AtomicU64>,
    tasks: JoinSet<BTreeMap<HostKey, u64>>,
}

impl Load {
    /// No checkout may fail, and no statement for another reason than a lost connection.
    pub(crate) fn start(pool: &Pool, tasks: usize) -> Self {
        let mut load = Load {
            stop: Arc::default(),
            done: Arc::default(),
            longest: Arc::default(),
            tasks: JoinSet::new(),
        };
        for _ in 0..tasks {
            let (pool, stop) = (pool.clone(), load.stop.clone());
            let (done, longest) = (load.done.clone(), load.longest.clone());
            load.tasks.spawn(async move {
                let mut lost = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let conn = pool.get_timeout(LIMIT).await.expect("no checkout fails");
                    longest.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
                    let host = Conn::host(&conn).clone();
                    match conn.batch_execute("SELECT pg_sleep(0.002)").await {
                        Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                        Err(error) if is_lost(&error) => {
                            *lost.entry(host).or_default() += 1;
                            0
                        }
                        Err(other) => panic!("an error other than a query lost in flight: {other}"),
                    };
                }
                lost
            });
        }
        load
    }

    /// Waits until this many more statements have been run.
    pub(crate) async fn goes_on(&self, more: u64) {
        let before = self.done.load(Ordering::Relaxed);
        becomes(true, || self.done.load(Ordering::Relaxed) >= before + more).await;
    }

    pub(crate) fn longest_checkout(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }

    /// Ends it and gives the lost statements by host.
    pub(crate) async fn end(self) -> BTreeMap<HostKey, u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for lost in self.tasks.join_all().await {
            for (host, count) in lost {
                *all.entry(host).or_default() += count;
            }
        }
        all
    }
}
