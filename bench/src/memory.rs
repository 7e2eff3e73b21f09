//! What a task that waits for a connection costs in memory.

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, yield_now};

use crate::allocations;
use crate::contenders::{Bb8, Borrowed, Contender, Deadpool, Owned};
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::Server;
use crate::table::{Column, Table};

const WAITERS: usize = 1_000;
const PER_WAITER: &str = "bytes a waiting task";
const COLUMNS: &[Column] = &[
    Column::plain(PER_WAITER),
    Column::plain("bytes of the get future"),
];

fn contender<C: Contender>(server: &Server, table: &mut Table) {
    let runtime = runtimes::current_thread();
    let pool = Arc::new(runtime.block_on(C::build(server)));

    let idle_task = bytes(&runtime, || {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move {
            pending::<()>().await;
            drop(pool);
        })
    });
    let held = runtime.block_on(pool.get_all());
    let waiting_task = bytes(&runtime, || {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move { pool.get_and_return().await })
    });
    drop(held);
    table.add(C::NAME, [waiting_task - idle_task, pool.future_size() as f64]);
}

/// Bytes for each of many tasks that have come to a halt.
fn bytes(runtime: &Runtime, spawn: impl Fn() -> JoinHandle<()>) -> f64 {
    let mut tasks = Vec::with_capacity(WAITERS);
    let before = allocations::so_far();
    runtime.block_on(async {
        for _ in 0..WAITERS {
            tasks.push(spawn());
        }
        for _ in 0..WAITERS {
            yield_now().await;
        }
    });
    let allocated = allocations::so_far().bytes - before.bytes;
    runtime.block_on(async {
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
    });
    allocated as f64 / WAITERS as f64
}

pub fn measure(server: &Server, report: &mut Report) {
    let mut table = Table::new(
        "1. Memory of waiting, pool of 10 in use, 1 000 tasks waiting",
        COLUMNS,
    );
    contender::<Borrowed>(server, &mut table);
    contender::<Owned>(server, &mut table);
    contender::<Deadpool>(server, &mut table);
    contender::<Bb8>(server, &mut table);

    let most = table
        .median(Borrowed::NAME, PER_WAITER)
        .max(table.median(Owned::NAME, PER_WAITER));
    report.demand("bytes a waiter", Bound::AtMost(200.0), most, "");
    report.table(
        table,
        "What a spawned task that waits takes more than one that waits for nothing, the pool's own book-keeping \
         included. tokio rounds tasks up to 128 bytes.",
    );
}
