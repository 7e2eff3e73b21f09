//! The ledger: callers move money between accounts by `Pool::transaction` while servers are broken and mended under them,
//! and each writes down what it was told. Afterwards what was told is held against what is there.
//!
//! Shared by the test, which makes a short run, and the program of the benchmarks, which makes long ones.

pub(crate) mod book;
mod callers;
pub(crate) mod faults;
mod ha;
mod outcome;
mod site;
mod transfer;
mod universe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgsteer::{Config, Pool};

use callers::Desk;
use faults::{Fault, Schedule};
pub(crate) use ha::Ha;
pub(crate) use outcome::Outcome;
pub(crate) use site::Site;
use site::{APPLICATION, LIMIT, number, wait_until};
pub(crate) use universe::Many;

/// What the pools are protected by: a third of the callers each.
const PROTECTIONS: [&str; 3] = [
    "",
    "&socket_timeout=700ms",
    "&socket_timeout=1500ms&cancel_on_timeout=300ms&stall_timeout=900ms",
];

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// What is done to the servers: each of these once, or in random order until the time is over.
    pub(crate) faults: Vec<Fault>,
    /// `None` for each once.
    pub(crate) time: Option<Duration>,
    /// The longest that something stays broken.
    pub(crate) longest: Duration,
    pub(crate) tasks: usize,
    /// Whether `resolve_commit` is on; `None` for now and then.
    pub(crate) resolve: Option<bool>,
}

/// Makes the run. Blocks the thread; the callers work on the runtime it is called from.
///
/// Panics when no transfer comes through any more after the servers have been mended.
pub(crate) async fn run(site: Arc<dyn Site>, plan: Plan) -> Outcome {
    let pools: Vec<Pool> = PROTECTIONS
        .iter()
        .map(|protection| {
            let config: Config = format!(
                "{}&pool_size=8&resolve_commit_timeout=20s{protection}",
                site.url()
            )
            .parse()
            .expect("a configuration that is good");
            Pool::start(config).expect("a pool that starts")
        })
        .collect();
    let started = Instant::now();
    let desk = Desk::open(plan.resolve);
    let callers = callers::call(&desk, &pools, plan.tasks, plan.seed);
    let faults = tokio::task::spawn_blocking({
        let (site, desk, plan) = (Arc::clone(&site), Arc::clone(&desk), plan.clone());
        move || trouble(&*site, &desk, &plan)
    });
    let faults = faults.await;
    desk.close();
    let faults = faults.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    for caller in callers {
        let caller = tokio::time::timeout(LIMIT * 2, caller).await;
        let caller = caller.expect("a caller comes to an end");
        caller.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    for pool in pools {
        pool.close(LIMIT).await;
    }
    let (book, took) = (Arc::clone(&desk), started.elapsed());
    let told = tokio::task::spawn_blocking(move || {
        let (there, wrong_sums) = look(&*site);
        let book = book.book();
        (site.name(), book.judge(&there), wrong_sums)
    });
    let (site, judgement, wrong_sums) = told.await.expect("what is there can be read");
    Outcome {
        site,
        seed: plan.seed,
        took,
        judgement,
        wrong_sums,
        faults,
        attempts: desk.attempts(),
        resolve: plan.resolve,
    }
}

/// Breaks and mends servers by the schedule, and disturbs single sessions meanwhile. Returns what was done how often.
fn trouble(site: &dyn Site, desk: &Desk, plan: &Plan) -> BTreeMap<&'static str, u64> {
    let started = Instant::now();
    let over = AtomicBool::new(false);
    let mut done: BTreeMap<&'static str, u64> = BTreeMap::new();
    std::thread::scope(|threads| {
        let disturbing = threads.spawn(|| disturb(site, plan.seed, &over));
        // However this ends, the other thread has to hear of it.
        let over = Over(&over);
        let comes_through = |after: &str| {
            let before = desk.done();
            wait_until(&format!("transfers come through after {after}"), || {
                desk.done() > before + 50
            });
        };
        comes_through("the beginning");
        for (number, step) in Schedule::new(plan.seed, &plan.faults, plan.longest).enumerate() {
            if plan
                .time
                .map_or(number == plan.faults.len(), |time| started.elapsed() >= time)
            {
                break;
            }
            let words = step.fault.words();
            eprintln!(
                "{:7.2} s  {} transfers done  {words}, {:?}",
                started.elapsed().as_secs_f64(),
                desk.done(),
                step.lasts
            );
            site.suffer(&step);
            *done.entry(words).or_default() += 1;
            comes_through(words);
        }
        drop(over);
        let (terminated, cancelled) = disturbing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.insert("pg_terminate_backend", terminated);
        done.insert("pg_cancel_backend", cancelled);
    });
    done
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Terminates and cancels backends of the pools at random, and says how many of each.
fn disturb(site: &dyn Site, seed: u64, over: &AtomicBool) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(!seed);
    let (mut terminated, mut cancelled) = (0, 0);
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(random.u64(20..250)));
        let servers = site.within_reach();
        let Some(server) = servers.get(random.usize(0..servers.len().max(1))) else {
            continue;
        };
        let terminate = random.bool();
        let function = if terminate {
            "pg_terminate_backend"
        } else {
            "pg_cancel_backend"
        };
        let chosen = format!(
            "SELECT count(*) FILTER (WHERE {function}(pid)) FROM (SELECT pid FROM pg_stat_activity \
             WHERE application_name = '{APPLICATION}' AND state <> 'idle' ORDER BY random() LIMIT {}) victims",
            random.u32(1..=3)
        );
        // It may be down.
        let count = number(server, &chosen).unwrap_or(0);
        *(if terminate {
            &mut terminated
        } else {
            &mut cancelled
        }) += count;
    }
    (terminated, cancelled)
}

/// Ids read at once.
const BAND: i64 = 50_000;

/// What is there, how often each id, and what is wrong with the sums. Nobody is at work any more.
fn look(site: &dyn Site) -> (BTreeMap<i64, usize>, Vec<String>) {
    let (mut there, mut wrong) = (BTreeMap::new(), Vec::new());
    for server in site.ledgers() {
        wait_until("no session of the pools is left", || {
            server.sessions(APPLICATION) == 0
        });
        let last = number(server, "SELECT coalesce(max(id), 0) FROM transfers").unwrap_or_default();
        let last = i64::try_from(last).unwrap_or(i64::MAX);
        for from in (0..=last).step_by(50_000) {
            let to = from + BAND;
            let rows = server.sql(&format!(
                "SELECT id, count(*) FROM transfers WHERE id >= {from} AND id < {to} GROUP BY id"
            ));
            for row in rows {
                let mut columns = row
                    .iter()
                    .map(|column| column.as_deref().and_then(|text| text.parse::<i64>().ok()));
                let (Some(Some(id)), Some(Some(times))) = (columns.next(), columns.next()) else {
                    panic!("{row:?} is no id and a count");
                };
                *there.entry(id).or_default() += usize::try_from(times).unwrap_or(usize::MAX);
            }
        }
        let sums = server.sql(transfer::SUMS);
        let sums: Vec<&str> = sums.iter().flatten().flatten().map(String::as_str).collect();
        if sums != transfer::RIGHT_SUMS {
            wrong.push(format!(
                "{}: sum, accounts and wrong balances are {sums:?}",
                server.address()
            ));
        }
    }
    (there, wrong)
}
