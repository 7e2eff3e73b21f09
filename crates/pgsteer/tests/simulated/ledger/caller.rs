//! Those who write: one transaction after the other, each in its own way and with its own patience.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::{Error, Pool, TransactionOptions, Tx};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Desk;
use super::book::Told;
use crate::cancellation::Patience;
use crate::rig::*;

/// What an attempt at a transaction writes: two rows, whose ids tell whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) call: i64,
    pub(crate) attempt: u32,
}

/// When even a patient caller gives up: a server that is silent for good is noticed by nobody else where there is no limit.
const PATIENCE: Duration = Duration::from_secs(120);

/// More attempts than anybody makes.
const ATTEMPTS: i64 = 8;

impl Row {
    pub(crate) fn of(id: i64) -> Self {
        let attempt = u32::try_from(id / 2 % ATTEMPTS).expect("a small number");
        Row {
            call: id / 2 / ATTEMPTS,
            attempt,
        }
    }

    pub(crate) async fn write(self, tx: &Tx) -> Result<(), Error> {
        let first = (self.call * ATTEMPTS + i64::from(self.attempt)) * 2;
        for id in [first, first + 1] {
            let sql = format!("INSERT INTO ledger VALUES ({id}, 'half')");
            tx.execute(&sql, &[]).await?;
        }
        Ok(())
    }
}

/// How a transaction goes.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Plain,
    /// Within a savepoint, undone, and once more.
    Savepoint,
    /// On a task of its own.
    Spawned,
    /// Asks for its rollback in the end.
    AskedBack,
    /// Passes over a statement that fails.
    PassingOver,
    /// Panics in the end.
    Panicking,
}

impl Manner {
    fn draw(random: &mut fastrand::Rng) -> Self {
        match random.u32(0..20) {
            0..2 => Manner::Savepoint,
            2..4 => Manner::Spawned,
            4 => Manner::AskedBack,
            5 => Manner::PassingOver,
            6 => Manner::Panicking,
            _ => Manner::Plain,
        }
    }

    async fn carry_out(self, tx: Tx, call: i64) -> Result<(), Error> {
        let attempt = tx.attempt();
        let row = Row { call, attempt };
        match self {
            Manner::Plain => row.write(&tx).await,
            Manner::Savepoint => {
                let undone = tx.savepoint(|tx| async move {
                    row.write(&tx).await?;
                    Err::<(), _>(Error::rollback("undone"))
                });
                match undone.await {
                    Err(Error::Rollback(_)) => row.write(&tx).await,
                    other => other,
                }
            }
            Manner::Spawned => {
                let work = tokio::spawn(async move { row.write(&tx).await });
                work.await.unwrap_or_else(|error| Err(Error::rollback(error)))
            }
            Manner::AskedBack => {
                row.write(&tx).await?;
                Err(Error::rollback("as asked"))
            }
            Manner::PassingOver => {
                row.write(&tx).await?;
                let _ = tx.batch_execute("SELECT 1 / 0").await;
                Ok(())
            }
            Manner::Panicking => {
                row.write(&tx).await?;
                std::panic::resume_unwind(Box::new("as asked"))
            }
        }
    }
}

/// Makes so many transactions.
pub(crate) async fn work(pool: Pool, desk: Arc<Desk>, mut random: fastrand::Rng, times: u32) {
    for _ in 0..times {
        let call = desk.next();
        let manner = Manner::draw(&mut random);
        let trail = Arc::new(Mutex::new(format!("{manner:?}")));
        let options = options(&trail, &mut random);
        let commits = Arc::new(Notify::new());
        let work = {
            let (pool, commits) = (pool.clone(), commits.clone());
            async move {
                pool.transaction_with(options, |tx| async {
                    let result = manner.carry_out(tx, call).await;
                    commits.notify_one();
                    result
                })
                .await
            }
        };
        let told = match random.u32(0..10) {
            0 if !matches!(manner, Manner::Panicking) => {
                let work = Patience::random(&mut random).with(work);
                match timeout(PATIENCE, work).await {
                    Ok(Some(result)) => told(result),
                    Ok(None) | Err(_) => Told::Dropped,
                }
            }
            // Around the moment in which COMMIT is on its way.
            1 if !matches!(manner, Manner::Panicking) => {
                let turns = random.u32(0..12);
                let lost = async {
                    let _ = timeout(PATIENCE, commits.notified()).await;
                    for _ in 0..turns {
                        yield_now().await;
                    }
                };
                tokio::select! {
                    biased;
                    result = work => told(result),
                    () = lost => Told::Dropped,
                }
            }
            2 => on_a_task(work, millis(random.u64(0..800))).await,
            _ => on_a_task(work, PATIENCE).await,
        };
        let trail = trail.lock().unwrap().clone();
        desk.note(call, told, trail);
        tokio::time::sleep(millis(random.u64(0..300))).await;
    }
}

/// Aborts it when that takes longer.
async fn on_a_task(work: impl Future<Output = Result<(), Error>> + Send + 'static, limit: Duration) -> Told {
    let mut task = tokio::spawn(work);
    let ended = match timeout(limit, &mut task).await {
        Ok(ended) => ended,
        Err(_) => {
            task.abort();
            task.await
        }
    };
    match ended {
        Ok(result) => told(result),
        Err(end) if end.is_panic() => Told::NotDone("a panic".to_owned()),
        Err(_) => Told::Dropped,
    }
}

fn options(trail: &Arc<Mutex<String>>, random: &mut fastrand::Rng) -> TransactionOptions {
    let trail = trail.clone();
    let options = TransactionOptions::new()
        .attempts(random.u32(1..=5))
        .resolve_commit(random.bool())
        .checkout_timeout(millis(random.u64(100..5000)))
        .on_attempt(move |attempt| {
            let end = format!("; {} on {}: {:?}", attempt.number, attempt.host, attempt.end);
            trail.lock().unwrap().push_str(&end);
        });
    match random.bool() {
        true => options.attempt_timeout(millis(random.u64(1..1500))),
        false => options,
    }
}

fn told(result: Result<(), Error>) -> Told {
    match result {
        Ok(()) => Told::Done,
        Err(Error::CommitOutcomeUnknown(unknown)) => Told::Unknown(unknown.lost.clone()),
        Err(error) => Told::NotDone(error.to_string()),
    }
}
