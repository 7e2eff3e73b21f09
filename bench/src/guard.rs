//! What a pool's connection costs beside a bare one of tokio-postgres, in use: a round trip, and a long result. One task
//! has one connection of each kind, and they take turns.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::TryStreamExt;
use pgsteer::{Conn, Pool};
use tokio_postgres::{Client, NoTls, Statement};

use crate::options::Options;
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::{Route, Server};
use crate::table::{Column, Table};

const TIME: &str = "µs";
const CPU: &str = "client CPU µs";
const MILLIS: &str = "ms";
const CPU_MILLIS: &str = "client CPU ms";
const ONE: &[Column] = &[Column::lower(TIME), Column::lower(CPU)];
const MANY: &[Column] = &[Column::lower(MILLIS), Column::lower(CPU_MILLIS)];

const BARE: &str = "tokio-postgres";
const GUARD: &str = "pgsteer, a guard";

/// Queries that each makes before it is the other's turn.
const QUERIES_A_TURN: u32 = 100;

/// Rows of the long result.
const ROWS: i64 = 1_000_000;

/// A connection of each kind, with both statements prepared on it.
struct Pair {
    bare: Client,
    bare_statements: [Statement; 2],
    guard: Conn,
    guard_statements: [Statement; 2],
    _pool: Pool,
}

const SELECT_ONE: &str = "SELECT 1";
const SELECT_MANY: &str = "SELECT generate_series(1, $1::bigint)";

impl Pair {
    async fn open(route: &Route) -> Self {
        let (bare, connection) = route
            .tokio_postgres()
            .connect(NoTls)
            .await
            .expect("the server takes the connection");
        tokio::spawn(connection);
        let pool = route.pool(1).await;
        let guard = pool.get().await.expect("a connection comes");
        let prepare = async |client: &Client| {
            let one = client.prepare(SELECT_ONE).await;
            let many = client.prepare(SELECT_MANY).await;
            [one, many].map(|statement| statement.expect("the statement is good"))
        };
        Pair {
            bare_statements: prepare(&bare).await,
            guard_statements: prepare(&guard).await,
            bare,
            guard,
            _pool: pool,
        }
    }

    async fn one_bare(&self) -> i32 {
        let row = self.bare.query_one(&self.bare_statements[0], &[]).await;
        row.expect("the statement runs").get(0)
    }

    /// By the guard's own function, as people call it.
    async fn one_guarded(&self) -> i32 {
        let row = self.guard.query_one(&self.guard_statements[0], &[]).await;
        row.expect("the statement runs").get(0)
    }
}

async fn count(client: &Client, statement: &Statement) -> i64 {
    let rows = client.query_raw(statement, [ROWS]).await;
    let mut rows = pin!(rows.expect("the statement runs"));
    let mut sum = 0;
    while let Some(row) = rows.try_next().await.expect("the rows come") {
        sum += row.get::<_, i64>(0);
    }
    sum
}

/// Wall-clock and processor time of one, by so many after each other.
async fn timed<F: Future>(times: u32, mut work: impl FnMut() -> F) -> [Duration; 2] {
    let (started, cpu) = (Instant::now(), ProcessTime::now());
    for _ in 0..times {
        work().await;
    }
    [started.elapsed() / times, cpu.elapsed() / times]
}

/// Which of the two comes first changes by round.
async fn in_turn<A: Future<Output = [Duration; 2]>, B: Future<Output = [Duration; 2]>>(
    round: usize,
    bare: A,
    guarded: B,
) -> [[Duration; 2]; 2] {
    if round % 2 == 0 {
        let first = bare.await;
        [first, guarded.await]
    } else {
        let first = guarded.await;
        [bare.await, first]
    }
}

fn over(route: &Route, options: &Options, report: &mut Report) {
    let runtime = runtimes::current_thread();
    let pair = runtime.block_on(Pair::open(route));
    let name = route.name();

    let mut one = Table::new(format!("7. SELECT 1 on one connection, prepared, {name}"), ONE);
    // Turns so short that what else the machine does hits both alike.
    let ask = |turn| {
        let bare = timed(QUERIES_A_TURN, || pair.one_bare());
        let guarded = timed(QUERIES_A_TURN, || pair.one_guarded());
        in_turn(turn, bare, guarded)
    };
    runtime.block_on(ask(0));
    let turns = if options.quick { 4 } else { 40 };
    for _ in 0..options.rounds(101) {
        let figures = runtime.block_on(async {
            let mut sums = [[Duration::ZERO; 2]; 2];
            for turn in 0..turns {
                for (sums, times) in sums.iter_mut().zip(ask(turn).await) {
                    sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
                }
            }
            sums.map(|sums| sums.map(|sum| sum / turns as u32))
        });
        for (name, times) in [BARE, GUARD].into_iter().zip(figures) {
            one.add(name, times.map(|time| time.as_nanos() as f64 / 1e3));
        }
    }

    let mut many = Table::new(format!("7. A million rows read one by one, {name}"), MANY);
    let read = |round| {
        let bare = timed(1, || count(&pair.bare, &pair.bare_statements[1]));
        let guarded = timed(1, || count(&pair.guard, &pair.guard_statements[1]));
        in_turn(round, bare, guarded)
    };
    runtime.block_on(read(0));
    for round in 0..options.rounds(31) {
        let figures = runtime.block_on(read(round));
        for (name, times) in [BARE, GUARD].into_iter().zip(figures) {
            many.add(name, times.map(|time| time.as_nanos() as f64 / 1e6));
        }
    }

    let more = |table: &Table, column| (table.ratio(GUARD, BARE, column) - 1.0) * 100.0;
    report.demand(
        format!("SELECT 1 through a guard, {name}: longer than tokio-postgres alone by"),
        Bound::Below(1.0),
        more(&one, TIME),
        " %",
    );
    report.demand(
        format!("a million rows through a guard, {name}: longer than tokio-postgres alone by"),
        Bound::Below(3.0),
        more(&many, MILLIS),
        " %",
    );
    report.table(
        one,
        "One task on one thread; what differs is the tap and the driver round the connection, and the guard's own \
         function. The two take turns of a hundred queries, each first in every other turn.",
    );
    report.table(
        many,
        "`query_raw` of one `bigint` a row, each row taken. The two take turns, each first in every other round.",
    );
    drop(pair);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    over(&server.unix(), options, report);
    over(&server.tcp(), options, report);
}
