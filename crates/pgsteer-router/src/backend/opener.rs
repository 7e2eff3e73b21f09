//! Opening one connection for one slot, in a task of its own: the dial belongs to the pool, so a request that goes away
//! wastes nothing. Whatever happens to the task, the keeper hears of it.

use std::io;
use std::sync::Arc;

use pgsteer_core::breaker::Permit;
use tokio::time::{Instant, timeout_at};

use super::blame;
use super::connection::Connection;
use super::inner::{Inner, Turned};
use super::io::BackendIo;
use super::keeper::Message;
use super::ping::ping;

/// How an opener goes about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// Every backend there is has failed, so this one is dialled whatever its breaker says.
    pub(super) anyway: bool,
    /// The backend has failed: that it can be dialled is not enough.
    pub(super) probe: bool,
}

/// Opens a connection for the slot and reports to the keeper how it went. The report is there before the task has begun, so
/// that the keeper hears of one that was aborted before its first step too.
pub(super) fn open(pool: Arc<Inner>, slot: u32, epoch: u64, manner: Manner) -> impl Future<Output = ()> {
    let report = Report {
        pool,
        slot,
        epoch,
        told: false,
    };
    run(report, manner)
}

async fn run(mut report: Report, manner: Manner) {
    let pool = Arc::clone(&report.pool);
    let (slot, epoch) = (report.slot, report.epoch);
    let permit = match pool.breaker.admit_owned() {
        Ok(permit) => Some(permit),
        Err(_) if manner.anyway => None,
        Err(rejected) => {
            let rest = rejected.retry_after;
            return report.tell(Message::OpenBarred { slot, epoch, rest });
        }
    };
    let opened = open_one(&pool, manner).await;
    settle(&pool, permit, &opened);
    report.tell(match opened {
        Ok(io) => {
            let connection = Connection::new(io, pool.keeper.clone(), slot, epoch);
            Message::Opened {
                slot,
                epoch,
                connection: Box::new(connection),
                jitter: fastrand::u64(..),
                was_probe: manner.probe,
            }
        }
        Err(error) => Message::OpenFailed {
            slot,
            epoch,
            reason: reason(&error),
            is_ours: blame::is_ours(&error),
        },
    });
}

async fn open_one(pool: &Inner, manner: Manner) -> io::Result<BackendIo> {
    let limit = pool.options.connect_timeout;
    let deadline = Instant::now() + limit;
    let mut io = match timeout_at(deadline, pool.dialer.dial(&pool.address, deadline)).await {
        Ok(Ok(io)) => io,
        Ok(Err(error)) => {
            // Kept as it is where it names the fault by number: whose it is depends on that.
            return Err(error);
        }
        Err(_) => {
            let text = format!("it could not be connected to within {limit:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    };
    if manner.probe && pool.options.enable_health_check {
        ping(&mut io, pool.options.health_check_timeout).await?;
    }
    Ok(io)
}

/// Tells the breaker how it went. Without a permit a success is a sign of life, and a failure no news.
fn settle(pool: &Inner, permit: Option<Permit<'_, Turned>>, opened: &io::Result<BackendIo>) {
    match (permit, opened) {
        (Some(permit), Ok(_)) => permit.success(),
        (None, Ok(_)) => pool.breaker.sign_of_life(),
        // Nothing was learnt of the backend: the permit is given back.
        (Some(permit), Err(error)) if blame::is_ours(error) => drop(permit),
        (Some(permit), Err(error)) => permit.failure(reason(error)),
        (None, Err(_)) => {}
    }
}

fn reason(error: &io::Error) -> Turned {
    error.to_string().into()
}

/// Tells the keeper that the opener is gone if it went without a word.
struct Report {
    pool: Arc<Inner>,
    slot: u32,
    epoch: u64,
    told: bool,
}

impl Report {
    fn tell(&mut self, message: Message) {
        self.told = true;
        self.pool.tell_keeper(message);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.told {
            self.pool.tell_keeper(Message::OpenVanished {
                slot: self.slot,
                epoch: self.epoch,
            });
        }
    }
}
