//! One task gets a connection and returns it, over and over, with nobody else there. By the thread's own CPU clock,
//! which other processes do not disturb, and on one core, so that no move to another is counted.

use std::sync::Arc;
use std::time::Duration;

use cpu_time::ThreadTime;
use tokio::runtime::Runtime;

use crate::allocations;
use crate::apart::Apart;
use crate::contenders::{Bb8, Borrowed, Contender, Deadpool, Owned};
use crate::options::Options;
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::Server;
use crate::table::{Column, Table};

const NANOSECONDS: &str = "CPU ns";
const ALLOCATIONS: &str = "allocations";

/// A pool on a runtime of one thread.
struct Lane<C> {
    runtime: Runtime,
    pool: Arc<C>,
}

impl<C: Contender> Lane<C> {
    fn new(server: &Server) -> Self {
        let runtime = runtimes::current_thread();
        let pool = Arc::new(runtime.block_on(C::build(server)));
        Lane { runtime, pool }
    }

    /// Nanoseconds for each of so many turns.
    fn time(&self, turns: u32) -> f64 {
        let pool = Arc::clone(&self.pool);
        let work = async move {
            let clock = || ThreadTime::now().as_duration();
            let started = clock();
            for _ in 0..turns {
                pool.get_and_return().await;
            }
            clock() - started
        };
        let took: Duration = self
            .runtime
            .block_on(async { tokio::spawn(work).await.expect("the task ends well") });
        took.as_nanos() as f64 / f64::from(turns)
    }

    /// Allocations for each of so many turns, on this thread alone.
    fn allocations(&self, turns: u32) -> f64 {
        self.runtime.block_on(async {
            // What is allocated once, by the pool or by the runtime for letting others run, is not a turn's.
            self.turns(turns).await;
            let before = allocations::so_far();
            self.turns(turns).await;
            let allocated = allocations::so_far().calls - before.calls;
            allocated as f64 / f64::from(turns)
        })
    }

    async fn turns(&self, turns: u32) {
        for _ in 0..turns {
            self.pool.get_and_return().await;
        }
    }

    fn round(&self, turns: u32, table: &mut Table) {
        let allocations = self.allocations(turns / 10);
        table.add(C::NAME, [self.time(turns), allocations]);
    }
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    const COLUMNS: &[Column] = &[Column::lower(NANOSECONDS), Column::plain(ALLOCATIONS)];
    let _on_one_core = Apart::hold(&[]);
    let mut table = Table::new("1. Get and return, one task, pool of 10", COLUMNS);
    let (borrowed, owned) = (Lane::<Borrowed>::new(server), Lane::<Owned>::new(server));
    let (deadpool, bb8) = (Lane::<Deadpool>::new(server), Lane::<Bb8>::new(server));
    let turns = if options.quick { 20_000 } else { 100_000 };
    for _ in 0..options.rounds(31) {
        borrowed.round(turns, &mut table);
        owned.round(turns, &mut table);
        deadpool.round(turns, &mut table);
        bb8.round(turns, &mut table);
    }

    let nanoseconds = |name| table.median(name, NANOSECONDS);
    let rival = nanoseconds(Deadpool::NAME).min(nanoseconds(Bb8::NAME));
    let allocations = table
        .median(Borrowed::NAME, ALLOCATIONS)
        .max(table.median(Owned::NAME, ALLOCATIONS));
    let (with_borrowed, with_owned) = (
        rival / nanoseconds(Borrowed::NAME),
        rival / nanoseconds(Owned::NAME),
    );
    let cheaper = "get and return, times cheaper than the cheaper of deadpool and bb8";
    report.demand(
        format!("{cheaper}, borrowed guard"),
        Bound::AtLeast(8.0),
        with_borrowed,
        "x",
    );
    report.demand(
        format!("{cheaper}, owned guard"),
        Bound::AtLeast(5.0),
        with_owned,
        "x",
    );
    report.demand(
        "allocations on get and return",
        Bound::AtMost(0.0),
        allocations,
        "",
    );
    report.table(
        table,
        "Current-thread runtime, held on one core. pgsteer is the whole public pool over open connections, which a get and return does \
         not touch; deadpool and bb8 have a manager that opens numbers and checks nothing. deadpool has no timeouts, \
         its default and its fastest; bb8 and pgsteer have their default ones.",
    );
}
