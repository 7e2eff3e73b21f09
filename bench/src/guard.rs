//! What a pool's connection costs beside a bare one of tokio-postgres, in use: a round trip, and a long result. One task
//! has one connection of each kind, and they take turns.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::TryStreamExt;
use pgsteer::{Conn, Pool};
use tokio_postgres::{Client, NoTls, Statement};

use crate::apart::Apart;
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

/// Pairs of connections, one after another: where one of them happens to lie in memory makes a difference too.
const PAIRS: usize = 8;

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

async fn open_bare(route: &Route) -> Client {
    // What the pool asks of its sockets unless told otherwise: the system's part in that is not the question.
    let mut config = route.tokio_postgres();
    config
        .keepalives_idle(Duration::from_secs(30))
        .keepalives_interval(Duration::from_secs(10))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(30));
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.expect("the server takes the connection");
    tokio::spawn(connection);
    client
}

async fn open_guard(route: &Route) -> (Pool, Conn) {
    let pool = route.pool(1).await;
    let guard = pool.get().await.expect("a connection comes");
    (pool, guard)
}

async fn prepare(client: &Client) -> [Statement; 2] {
    let one = client.prepare(SELECT_ONE).await;
    let many = client.prepare(SELECT_MANY).await;
    [one, many].map(|statement| statement.expect("the statement is good"))
}

impl Pair {
    /// Which of the two is opened first changes by number.
    async fn open(route: &Route, number: usize) -> Self {
        let (bare, (pool, guard)) = if number.is_multiple_of(2) {
            let bare = open_bare(route).await;
            (bare, open_guard(route).await)
        } else {
            let guard = open_guard(route).await;
            (open_bare(route).await, guard)
        };
        Pair {
            bare_statements: prepare(&bare).await,
            guard_statements: prepare(&guard).await,
            bare,
            guard,
            _pool: pool,
        }
    }

    /// The processes of the server that the two are connected to.
    async fn server_processes(&self) -> [i32; 2] {
        let process = async |client: &Client| {
            let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
            row.expect("the statement runs").get(0)
        };
        [process(&self.bare).await, process(&self.guard).await]
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
    if round.is_multiple_of(2) {
        let first = bare.await;
        [first, guarded.await]
    } else {
        let first = guarded.await;
        [bare.await, first]
    }
}

/// Times of a `SELECT 1` on either connection of a pair.
async fn ask(pair: &Pair, turns: usize) -> [[Duration; 2]; 2] {
    let mut sums = [[Duration::ZERO; 2]; 2];
    // Turns so short that what else the machine does hits both alike.
    for turn in 0..turns {
        let bare = timed(QUERIES_A_TURN, || pair.one_bare());
        let guarded = timed(QUERIES_A_TURN, || pair.one_guarded());
        for (sums, times) in sums.iter_mut().zip(in_turn(turn, bare, guarded).await) {
            sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        }
    }
    sums.map(|sums| sums.map(|sum| sum / turns as u32))
}

/// Times of the long result.
async fn read(pair: &Pair, round: usize) -> [[Duration; 2]; 2] {
    let bare = timed(1, || count(&pair.bare, &pair.bare_statements[1]));
    let guarded = timed(1, || count(&pair.guard, &pair.guard_statements[1]));
    in_turn(round, bare, guarded).await
}

fn add(table: &mut Table, figures: [[Duration; 2]; 2], nanoseconds: f64) {
    for (name, times) in [BARE, GUARD].into_iter().zip(figures) {
        table.add(name, times.map(|time| time.as_nanos() as f64 / nanoseconds));
    }
}

fn over(route: &Route, options: &Options, report: &mut Report) {
    let runtime = runtimes::current_thread();
    let name = route.name();
    let mut one = Table::new(format!("7. SELECT 1 on one connection, prepared, {name}"), ONE);
    let mut many = Table::new(format!("7. A million rows read one by one, {name}"), MANY);
    let turns = if options.quick { 4 } else { 30 };
    for number in 0..options.rounds(PAIRS) {
        let pair = runtime.block_on(Pair::open(route, number));
        let held = Apart::hold(&runtime.block_on(pair.server_processes()));
        runtime.block_on(ask(&pair, turns));
        for _ in 0..9 {
            add(&mut one, runtime.block_on(ask(&pair, turns)), 1e3);
        }
        runtime.block_on(read(&pair, 0));
        for round in 0..8 {
            add(&mut many, runtime.block_on(read(&pair, round)), 1e6);
        }
        drop(held);
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
         function. The two take turns of a hundred queries, each first in every other turn. Client and server are held \
         on a core each, and over TCP both have the pool's socket options. Eight pairs \
         of connections, either opened first in every other.",
    );
    report.table(
        many,
        "`query_raw` of one `bigint` a row, each row taken. The two take turns, each first in every other round. \
         Client and server are held on a core each.",
    );
    runtime.shutdown_timeout(Duration::from_secs(1));
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    over(&server.unix(), options, report);
    over(&server.tcp(), options, report);
}
