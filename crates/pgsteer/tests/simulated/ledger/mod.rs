//! The ledger in simulated time: callers write rows by transactions while servers die before they commit, after they have
//! committed and in the middle of their answer, fall silent and come back; each writes down what it was told. The servers keep
//! one table for all, by which that is judged.
//!
//! A seed that fails is printed, and `PGSTEER_SEED=… cargo test -p pgsteer --test simulated ledger` runs it alone.

#[path = "../../ledger/run/book.rs"]
mod book;
mod caller;
mod trouble;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::{Config, Error};
use pgsteer_sim::{Death, Effect, Scope, Script, ServerSpec, Sim};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::rig::*;
use book::{Book, Judgement, Told};
use caller::Row;

/// Seeds run when none is given.
const SEEDS: u64 = 1000;

/// What all callers of one history share.
#[derive(Default)]
pub(crate) struct Desk {
    next: AtomicI64,
    book: Mutex<Book>,
}

impl Desk {
    fn next(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, id: i64, told: Told, trail: String) {
        self.book.lock().unwrap().note(id, told, trail);
    }
}

/// One history.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    servers: Vec<&'static str>,
    size: u32,
    callers: u64,
    /// Transactions of each caller.
    each: u32,
    socket_timeout: Option<Duration>,
    cancel_on_timeout: Option<Duration>,
    stall_timeout: Option<Duration>,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let random = &mut fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let limit = |random: &mut fastrand::Rng| random.bool().then(|| millis(random.u64(100..2000)));
        let socket_timeout = limit(random);
        Plan {
            seed,
            servers: ["a", "b", "c"][..random.usize(1..=3)].to_vec(),
            size: random.u32(1..=4),
            callers: random.u64(2..=4),
            each: random.u32(3..=7),
            socket_timeout,
            cancel_on_timeout: socket_timeout.and_then(|_| limit(random)),
            stall_timeout: limit(random),
        }
    }

    fn config(&self) -> Config {
        config(&self.servers)
            .pool_size(self.size)
            .socket_timeout(self.socket_timeout)
            .cancel_on_timeout(self.cancel_on_timeout)
            .stall_timeout(self.stall_timeout)
            .connect_timeout(seconds(1))
    }
}

async fn live(plan: Plan) -> Judgement {
    let servers = plan.servers.iter().map(|name| ServerSpec::new(name));
    let sim = plain(servers);
    let pool = start(&sim, plan.config());
    let desk = Arc::new(Desk::default());
    let mut callers = JoinSet::new();
    for caller in 0..plan.callers {
        let random = fastrand::Rng::with_seed(plan.seed ^ ((caller + 1) << 32));
        callers.spawn(caller::work(pool.clone(), desk.clone(), random, plan.each));
    }
    let trouble = tokio::spawn(trouble::make(sim.clone(), plan.seed));
    let all = timeout(seconds(3600), async {
        while let Some(caller) = callers.join_next().await {
            caller.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
    });
    all.await.expect("every caller comes to an end");
    trouble.abort();
    let _ = trouble.await;
    // Nobody is left who could still commit.
    sim.servers().iter().for_each(|server| server.kill(Death::Rst));
    until("nothing is left on the servers", || sim.live() == 0).await;
    pool.close(seconds(30)).await;
    let book = desk.book.lock().unwrap();
    book.judge(&there(&sim))
}

/// How often each transaction is there. Each has written two rows, and both are there or none.
fn there(sim: &Sim) -> BTreeMap<i64, usize> {
    let mut attempts: BTreeMap<Row, u32> = BTreeMap::new();
    for id in sim.ledger().into_keys() {
        *attempts.entry(Row::of(id)).or_default() += 1;
    }
    let mut there = BTreeMap::new();
    for (row, halves) in attempts {
        assert_eq!(halves, 2, "{row:?} is not there whole");
        *there.entry(row.call).or_default() += 1;
    }
    there
}

fn one_history(seed: u64) -> Judgement {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(live(Plan::draw(seed)))
}

/// What is wrong with this history, if something is.
fn run_alone(seed: u64) -> Result<Judgement, ()> {
    let judged = std::panic::catch_unwind(|| one_history(seed));
    match judged {
        Ok(judgement) if judgement.wrong.is_empty() => Ok(judgement),
        other => {
            for wrong in other.iter().flat_map(|judgement| &judgement.wrong) {
                eprintln!("{wrong}");
            }
            eprintln!(
                "the ledger is wrong; again with: PGSTEER_SEED={seed} cargo test -p pgsteer --test simulated ledger\n{:#?}",
                Plan::draw(seed)
            );
            Err(())
        }
    }
}

/// What many histories came to.
#[derive(Debug, Default)]
struct Sum {
    done: u64,
    not_done: u64,
    unknown: book::Either,
    dropped: book::Either,
}

impl Sum {
    fn add(&mut self, judgement: &Judgement) {
        self.done += judgement.done;
        self.not_done += judgement.failed();
        self.dropped += judgement.dropped;
        self.unknown += judgement.nobody_knows();
    }
}

#[test]
fn what_callers_are_told_is_true_whenever_servers_die_and_whatever_callers_do() {
    if let Ok(seed) = std::env::var("PGSTEER_SEED") {
        let judgement = run_alone(seed.parse().expect("PGSTEER_SEED is a number"));
        println!("{:#?}", judgement.expect("all that was told is true"));
        return;
    }
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    match run_alone(seed) {
                        Ok(judgement) => sum.lock().unwrap().add(&judgement),
                        Err(()) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    println!("{SEEDS} histories: {sum:?}");
    assert_eq!(*failed.lock().unwrap(), [0; 0], "seeds that failed");
    // The same at every run, so this is no matter of chance.
    for (what, count) in [
        ("done", sum.done),
        ("not done", sum.not_done),
        ("unknown and committed", sum.unknown.there),
        ("unknown and not committed", sum.unknown.not_there),
        ("dropped and committed", sum.dropped.there),
        ("dropped and not committed", sum.dropped.not_there),
    ] {
        assert!(count > SEEDS / 50, "too few {what}: {sum:?}");
    }
}

/// The judgement itself: whoever tries again when nobody knows is found out, since the server has committed and died before
/// it answered.
#[tokio::test(start_paused = true)]
async fn a_caller_who_tries_again_after_an_unknown_commit_is_found_out() {
    let sim = plain([ServerSpec::new("a")]);
    let pool = full(&sim, config(&["a"]).pool_size(1)).await;
    let dies = Effect::DieAfter(Death::Fin, Scope::Session);
    sim.server("a").script(Script::on("commit", dies).once());
    let mut book = Book::default();
    let write = |attempt: u32| {
        let rows = Row { call: 7, attempt };
        pool.transaction(move |tx| async move { rows.write(&tx).await })
    };
    let first = write(1).await;
    assert!(matches!(first, Err(Error::CommitOutcomeUnknown(_))), "{first:?}");
    write(2).await.unwrap();
    book.note(7, Told::Done, String::new());
    let judgement = book.judge(&there(&sim));
    assert_eq!(
        judgement.wrong[0].to_string(),
        "7 was told to be Done and is there 2 times; "
    );
}
