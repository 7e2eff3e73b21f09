//! The demo's load: tasks that query through the pool all the time, and what became of every query.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pgsteer::{Conn, HostKey, Pool};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::losses::{Loss, LostQuery};
use super::plan::Plan;
use crate::faults;
use crate::latency::Recorder;

/// Losses beyond this many are counted, but not kept one by one.
const KEPT: usize = 10_000;

/// What the tasks did so far.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Times since the last sample.
    pub(super) recorder: Recorder,
    answered: BTreeMap<HostKey, AtomicU64>,
    losses: Mutex<Vec<Loss>>,
    failed: AtomicU64,
    stopping: AtomicBool,
}

impl Ledger {
    pub(super) fn new(hosts: impl IntoIterator<Item = HostKey>) -> Self {
        Ledger {
            recorder: Recorder::new(),
            answered: hosts.into_iter().map(|host| (host, AtomicU64::new(0))).collect(),
            losses: Mutex::default(),
            failed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// Queries answered by one host.
    pub(super) fn answered_by(&self, host: &HostKey) -> u64 {
        self.answered
            .get(host)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Queries answered by all.
    pub(super) fn answered(&self) -> u64 {
        self.answered
            .values()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Operations that failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The operations that failed.
    pub(super) fn losses(&self) -> Vec<Loss> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lost(&self, task: usize, loss: Loss) {
        self.recorder.failed(task, loss.class.clone());
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        if losses.len() < KEPT {
            losses.push(loss);
        }
    }
}

/// The tasks at work.
pub(super) struct Load {
    tasks: JoinSet<()>,
    ledger: Arc<Ledger>,
}

impl Load {
    pub(super) fn start(plan: &Plan, pool: &Pool, ledger: Arc<Ledger>) -> Self {
        let query: Arc<str> = format!("SELECT pg_sleep({})", plan.query_time.as_secs_f64()).into();
        let mut tasks = JoinSet::new();
        for task in 0..plan.tasks {
            let (pool, query, ledger, pause) = (pool.clone(), query.clone(), ledger.clone(), plan.pause);
            tasks.spawn(async move {
                while !ledger.stopping.load(Ordering::Relaxed) {
                    operation(task, &pool, &query, &ledger).await;
                    sleep(pause).await;
                }
            });
        }
        Load { tasks, ledger }
    }

    /// Lets every task end its query, for `limit` at most. Whether all did.
    pub(super) async fn stop(mut self, limit: Duration) -> bool {
        self.ledger.stopping.store(true, Ordering::Relaxed);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(limit, all).await.is_ok()
    }
}

async fn operation(task: usize, pool: &Pool, query: &str, ledger: &Ledger) {
    let started = Instant::now();
    let connection = match pool.get().await {
        Ok(connection) => connection,
        Err(error) => {
            let loss = Loss {
                class: faults::class(&error),
                text: error.to_string(),
                query: None,
            };
            return ledger.lost(task, loss);
        }
    };
    let sent = Instant::now();
    let host = Conn::host(&connection).clone();
    match connection.batch_execute(query).await {
        Ok(()) => {
            ledger
                .recorder
                .succeeded(task, &host, sent - started, started.elapsed());
            if let Some(count) = ledger.answered.get(&host) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Err(error) => {
            let failed = Instant::now();
            let opened = failed.checked_sub(Conn::age(&connection)).unwrap_or(sent);
            let class = faults::class(&error);
            let text = error.to_string();
            ledger.lost(
                task,
                Loss {
                    class,
                    text,
                    query: Some(LostQuery {
                        host,
                        opened,
                        sent,
                        failed,
                    }),
                },
            );
        }
    }
}
