//! Those who transfer: tasks that make one transfer after the other, each in its own way and with its own patience, and
//! write down what they were told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgsteer::{Attempt, AttemptEnd, CommitDoubt, Error, Pool, TransactionOptions};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, timeout};

use super::book::{Book, Told};
use super::transfer::{Manner, Transfer, use_after_its_end};

/// When even a patient caller gives up: nothing takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all callers share.
pub(crate) struct Desk {
    next: AtomicI64,
    closed: AtomicBool,
    done: AtomicU64,
    book: Mutex<Book>,
    /// Whether `resolve_commit` is on; `None` for now and then.
    resolve: Option<bool>,
    attempts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Desk {
    pub(crate) fn open(resolve: Option<bool>) -> Arc<Self> {
        Arc::new(Desk {
            next: AtomicI64::new(1),
            closed: AtomicBool::new(false),
            done: AtomicU64::new(0),
            book: Mutex::default(),
            resolve,
            attempts: Mutex::default(),
        })
    }

    /// From now on no transfer is begun.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Transfers that were told to be done, so far.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How attempts have ended, and how often.
    pub(crate) fn attempts(&self) -> BTreeMap<&'static str, u64> {
        self.attempts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn count(&self, end: AttemptEnd) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        *attempts.entry(words(end)).or_default() += 1;
    }

    fn note(&self, id: i64, told: Told, trail: String) {
        if told == Told::Done {
            self.done.fetch_add(1, Ordering::SeqCst);
        }
        self.book().note(id, told, trail);
    }
}

/// Sets this many callers to work, spread over the pools.
pub(crate) fn call(desk: &Arc<Desk>, pools: &[Pool], tasks: usize, seed: u64) -> Vec<JoinHandle<()>> {
    let callers = (0..tasks).zip(pools.iter().cycle()).map(|(task, pool)| {
        let random = fastrand::Rng::with_seed(seed ^ ((task as u64 + 1) << 32));
        tokio::spawn(work(Arc::clone(desk), pool.clone(), random))
    });
    callers.collect()
}

async fn work(desk: Arc<Desk>, pool: Pool, mut random: fastrand::Rng) {
    while !desk.closed.load(Ordering::SeqCst) {
        let id = desk.next.fetch_add(1, Ordering::SeqCst);
        let transfer = Transfer::draw(id, &mut random);
        let trail = Arc::new(Mutex::new(String::new()));
        let resolve = desk.resolve.unwrap_or_else(|| random.bool());
        let options = options(&transfer, &desk, &trail, &mut random).resolve_commit(resolve);
        let patience = Patience::draw(&transfer, &mut random);
        let told = match patience.tell(&pool, transfer, options).await {
            Told::Unknown(why) if resolve && why == NOT_ASKED => Told::Unknown(to_be_settled(&why)),
            told => told,
        };
        let rest = match &told {
            Told::NotDone(why) if why == CIRCUIT_OPEN => 50,
            Told::NotDone(_) => 5,
            _ => 0,
        };
        let trail = std::mem::take(&mut *trail.lock().unwrap_or_else(PoisonError::into_inner));
        // Of the many of which there is nothing to tell nothing is kept.
        let plain = told == Told::Done && !trail.contains(';');
        desk.note(id, told, if plain { String::new() } else { trail });
        sleep(Duration::from_millis(rest)).await;
    }
}

/// How long a caller waits, and how it gives up.
enum Patience {
    /// To the end.
    Endless,
    /// Drops its future.
    Drops(Duration),
    /// Has its task aborted, which other threads may be at work on.
    Aborts(Duration),
    /// Drops its future around the moment in which COMMIT is on its way.
    DropsAtCommit { turns: u32, rest: Duration },
}

impl Patience {
    fn draw(transfer: &Transfer, random: &mut fastrand::Rng) -> Self {
        let soon = within_the_span_of_a_transfer(random);
        match random.u32(0..100) {
            // Who panics does so on a task.
            0..8 if transfer.manner != Manner::Panicking => Patience::Drops(soon),
            8..16 => Patience::Aborts(soon),
            16..24 if transfer.manner != Manner::Panicking => Patience::DropsAtCommit {
                turns: random.u32(0..30),
                rest: Duration::from_millis(random.u64(0..6).saturating_sub(2)),
            },
            _ => Patience::Endless,
        }
    }

    async fn tell(self, pool: &Pool, transfer: Transfer, options: TransactionOptions) -> Told {
        let kept = Arc::new(Mutex::new(None));
        let commits = Arc::new(Notify::new());
        let work = {
            let (pool, kept, commits) = (pool.clone(), Arc::clone(&kept), Arc::clone(&commits));
            async move {
                pool.transaction_with(options, |tx| async {
                    let result = transfer.carry_out(tx, &kept).await;
                    commits.notify_one();
                    result
                })
                .await
            }
        };
        let told = match self {
            Patience::Endless => {
                let mut task = tokio::spawn(work);
                match timeout(PATIENCE, &mut task).await {
                    Ok(Ok(result)) => told(result),
                    Ok(Err(_)) => Told::NotDone("the closure panicked".to_owned()),
                    Err(_) => {
                        task.abort();
                        let _ = task.await;
                        Told::Dropped
                    }
                }
            }
            Patience::Drops(limit) => match timeout(limit, work).await {
                Ok(result) => told(result),
                Err(_) => Told::Dropped,
            },
            Patience::DropsAtCommit { turns, rest } => {
                let lost = async {
                    let _ = timeout(PATIENCE, commits.notified()).await;
                    for _ in 0..turns {
                        yield_now().await;
                    }
                    // The clock goes by whole milliseconds.
                    sleep(rest).await;
                };
                tokio::select! {
                    result = work => told(result),
                    () = lost => Told::Dropped,
                }
            }
            Patience::Aborts(limit) => {
                let task = tokio::spawn(work);
                sleep(limit).await;
                task.abort();
                match task.await {
                    Ok(result) => told(result),
                    Err(end) if end.is_panic() => Told::NotDone("the closure panicked".to_owned()),
                    Err(_) => Told::Dropped,
                }
            }
        };
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tx) = kept {
            use_after_its_end(&tx).await;
        }
        told
    }
}

/// From a tenth of a millisecond to almost half a second, short ones as often as long ones: a transfer takes about as long,
/// whatever the machine.
fn within_the_span_of_a_transfer(random: &mut fastrand::Rng) -> Duration {
    Duration::from_micros(100).mul_f64(f64::exp2(random.f64() * 12.0))
}

fn options(
    transfer: &Transfer,
    desk: &Arc<Desk>,
    trail: &Arc<Mutex<String>>,
    random: &mut fastrand::Rng,
) -> TransactionOptions {
    let (desk, trail) = (Arc::clone(desk), Arc::clone(trail));
    let mut options = TransactionOptions::new()
        .attempts(random.u32(1..=5))
        .max_backoff(Duration::from_millis(random.u64(0..50)))
        .checkout_timeout(Duration::from_millis(random.u64(200..2000)))
        .on_attempt(move |attempt| {
            desk.count(attempt.end);
            tell_trail(&mut trail.lock().unwrap_or_else(PoisonError::into_inner), attempt);
        });
    if let Some(level) = transfer.isolation() {
        options = options.isolation(level);
    }
    match random.u32(0..100) {
        // It often runs out just when COMMIT is on its way.
        0..15 => options.attempt_timeout(within_the_span_of_a_transfer(random)),
        15..45 => options.attempt_timeout(Duration::from_millis(random.u64(100..2500))),
        _ => options,
    }
}

fn tell_trail(trail: &mut String, attempt: &Attempt) {
    let Attempt {
        number,
        host,
        took,
        end,
        code,
        ..
    } = attempt;
    let separator = if trail.is_empty() { "" } else { "; " };
    let code = code.as_deref().unwrap_or("-");
    let _ = write!(
        trail,
        "{separator}attempt {number} on {host}: {end:?} {code} after {took:?}"
    );
}

/// What the call's result says.
fn told(result: Result<(), Error>) -> Told {
    match result {
        Ok(()) => Told::Done,
        Err(Error::CommitOutcomeUnknown(unknown)) => Told::Unknown(doubt(unknown.doubt.as_ref())),
        Err(error) => Told::NotDone(kind(&error)),
    }
}

/// Why nobody knows of a commit, in a few words.
fn doubt(doubt: Option<&CommitDoubt>) -> String {
    let words = match doubt {
        None => NOT_ASKED,
        Some(CommitDoubt::MayBeAnother) => "the server crashed",
        Some(CommitDoubt::OtherTimeline { .. }) => "another timeline",
        Some(CommitDoubt::InRecovery) => "in recovery",
        Some(CommitDoubt::InProgress) => "in progress for too long",
        Some(CommitDoubt::NoAnswer(_)) => "no answer in time",
        // The question itself was cancelled.
        Some(CommitDoubt::NotMarked(why)) if why.contains("57014") => "not asked before COMMIT",
        Some(CommitDoubt::Unconfirmed) => "no standby has confirmed it",
        Some(other) => return to_be_settled(&other.to_string()),
    };
    words.to_owned()
}

/// It was not asked what became of it.
const NOT_ASKED: &str = "not asked";

/// Of a doubt that no fault here gives a reason for.
fn to_be_settled(doubt: &str) -> String {
    format!("{TO_BE_SETTLED}{doubt}")
}

/// What such doubts begin with.
pub(crate) const TO_BE_SETTLED: &str = "no reason for doubt, but ";

/// Attempts that ended so were settled.
pub(crate) const FOUND_COMMITTED: &str = "found committed";
pub(crate) const FOUND_ABORTED: &str = "found aborted";

/// Nobody is let through for a while.
const CIRCUIT_OPEN: &str = "circuit open";

/// The error's kind in a few words, by which errors are counted.
fn kind(error: &Error) -> String {
    let words = match error {
        Error::CheckoutTimeout(_) => "no connection within checkout_timeout",
        Error::Connect(_) | Error::NoFit(_) | Error::NoServer | Error::NoNode(_) => "no host",
        Error::CircuitOpen { .. } => CIRCUIT_OPEN,
        Error::ConnectionLost(_) => "connection lost before COMMIT",
        Error::CommitAborted(_) => "COMMIT lost, and found aborted",
        Error::TransactionAborted { .. } => "COMMIT answered with ROLLBACK",
        Error::TransactionTimeout(_) => "attempt_timeout",
        Error::Rollback(_) => "rolled back as asked",
        Error::Postgres(error) => {
            return match error.code() {
                Some(code) => format!("SQLSTATE {}", code.code()),
                None => format!("the driver: {error}"),
            };
        }
        other => return other.to_string(),
    };
    words.to_owned()
}

fn words(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Committed => "committed",
        AttemptEnd::RolledBack => "rolled back",
        AttemptEnd::Conflict => "conflict",
        AttemptEnd::ReadOnlyServer => "read-only server",
        AttemptEnd::ConnectionLost => "connection lost",
        AttemptEnd::TimedOut => "timed out",
        AttemptEnd::Refused => "refused",
        AttemptEnd::Aborted => "aborted",
        AttemptEnd::EndedInside => "ended inside",
        AttemptEnd::OutcomeUnknown => "unknown",
        AttemptEnd::FoundCommitted => FOUND_COMMITTED,
        AttemptEnd::FoundAborted => FOUND_ABORTED,
        _ => "other",
    }
}
