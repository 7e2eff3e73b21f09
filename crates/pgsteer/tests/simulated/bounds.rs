//! `socket_timeout`: one limit over one call. What runs out of it costs the connection and nothing else; what does not
//! leaves nothing behind.

use std::future::Future;
use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::{Config, Conn, EndCause, Error, Pool};
use pgsteer_sim::{Effect, Event, Script, Sim};

use crate::rig::*;

const BOUND: Duration = Duration::from_millis(300);

fn bounded() -> Config {
    config(&["a"])
        .load_balance(LoadBalance::Off)
        .pool_size(1)
        .socket_timeout(BOUND)
}

async fn pool_of_one(config: Config) -> (Sim, Pool) {
    let sim = three().build();
    let pool = full(&sim, config).await;
    (sim, pool)
}

/// The server takes the statement and is silent for far longer than the bound. Then it notices that its client has gone.
fn silent_once(sim: &Sim) {
    sim.server("a")
        .script(Script::on("silent", Effect::Delay(seconds(5))).once());
}

fn is_timed_out<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::ConnectionLost(lost)) if lost.end.cause == EndCause::SocketTimeout)
}

/// Sockets to `a` that were opened, and those of them that have ended.
fn sockets(sim: &Sim) -> (usize, usize) {
    let log = sim.log();
    let count = |is: fn(&Event) -> bool| log.iter().filter(|entry| is(&entry.event)).count();
    (
        count(|event| *event == Event::Connected),
        count(|event| matches!(event, Event::Ended(_))),
    )
}

/// Each way to make a call, through the pool and through a guard, by both protocols.
const WAYS: [&str; 4] = ["extended", "simple", "held extended", "held simple"];

async fn call(pool: &Pool, way: &str, sql: &str) -> Result<(), Error> {
    match way {
        "extended" => pool.query(sql, &[]).await.map(drop),
        "simple" => pool.batch_execute(sql).await,
        "held extended" => pool.get().await?.query(sql, &[]).await.map(drop),
        "held simple" => pool.get_ref().await?.simple_query(sql).await.map(drop),
        other => panic!("no way {other}"),
    }
}

/// Covers: E-319
#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_the_connection_at_the_bound_and_no_host_is_marked() {
    let (sim, pool) = pool_of_one(bounded()).await;
    for (turn, way) in WAYS.into_iter().enumerate() {
        silent_once(&sim);
        let (result, took) = timed(call(&pool, way, "SELECT 'silent'")).await;
        assert!(is_timed_out(&result), "{way}: {result:?}");
        assert!((BOUND..BOUND + millis(2)).contains(&took), "{way}: {took:?}");
        // The next caller has a fresh connection, on the same host.
        call(&pool, way, "SELECT 1").await.expect(way);
        until("the server sees its socket close", || {
            sockets(&sim) == (turn + 2, turn + 1)
        })
        .await;
        let snapshot = pool.cluster().snapshot();
        assert_eq!(
            (counted(&snapshot).as_str(), snapshot.failed().len()),
            ("a:1", 0),
            "{way}"
        );
    }
}

/// Covers: E-319
#[tokio::test(start_paused = true)]
async fn the_connection_is_dead_before_the_holders_next_step_and_says_why() {
    let (sim, pool) = pool_of_one(bounded()).await;
    let conn = pool.get().await.unwrap();
    silent_once(&sim);
    let error = conn.query("SELECT 'silent'", &[]).await.unwrap_err();
    assert!(conn.is_closed());
    assert_eq!(Conn::transaction_status(&conn), None);
    assert_eq!(
        Conn::end(&conn).map(|end| end.cause),
        Some(EndCause::SocketTimeout)
    );
    assert_eq!(
        error.to_string(),
        "the connection to a:5433 was lost: a call took longer than socket_timeout"
    );
    assert!(
        std::error::Error::source(&error).is_none(),
        "the driver said nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_the_server_when_the_bound_runs_out() {
    let (sim, pool) = pool_of_one(bounded()).await;
    let conn = pool.get().await.unwrap();
    silent_once(&sim);
    sim.clear_log();
    assert!(is_timed_out(&conn.batch_execute("SELECT 'silent'").await));
    drop(conn);
    pass(seconds(10)).await;
    let said: Vec<_> = sim
        .log()
        .into_iter()
        .map(|entry| entry.event)
        .filter(|event| matches!(event, Event::CancelRequest { .. } | Event::Ended(_)))
        .collect();
    assert_eq!(said.len(), 1, "an end and no cancel request: {said:?}");
    assert_ne!(said, [Event::Ended(pgsteer_sim::End::Terminated)]);
}

/// Preparing is part of the call: its time counts, and a server that is silent there is found out as well.
#[tokio::test(start_paused = true)]
async fn the_bound_is_over_the_whole_call_and_not_over_each_step() {
    let (sim, pool) = pool_of_one(bounded()).await;
    // Preparing, running: each answer in time by itself, both together not.
    sim.server("a").set_answer_latency(millis(200));
    let (result, took) = timed(pool.query("SELECT 1", &[])).await;
    assert!(is_timed_out(&result), "{result:?}");
    assert!((BOUND..BOUND + millis(2)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_bound_is_not_taken_for_one_in_time() {
    let (sim, pool) = pool_of_one(bounded()).await;
    let conn = pool.get().await.unwrap();
    sim.server("a")
        .script(Script::on("late", Effect::Delay(millis(100))));
    let mut call = std::pin::pin!(conn.batch_execute("SELECT 'late'"));
    assert!(futures_util::poll!(call.as_mut()).is_pending());
    // The caller's task does nothing for a second, in which both the answer and the end of the bound come.
    pass(seconds(1)).await;
    assert!(is_timed_out(&call.await));
    assert!(conn.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_client_itself_is_not_bounded() {
    let (sim, pool) = pool_of_one(bounded()).await;
    sim.server("a").set_answer_latency(seconds(10));
    let conn = pool.get().await.unwrap();
    (*conn)
        .batch_execute("SELECT 1")
        .await
        .expect("it has all the time it wants");
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_a_call_takes_as_long_as_it_does() {
    let config = bounded().socket_timeout(None).rebalance_interval(seconds(600));
    let (_sim, pool) = pool_of_one(config).await;
    pool.batch_execute("SELECT pg_sleep(86400)").await.unwrap();
}

/// A bounded pool of one in which nothing is ever due by itself.
fn with_nothing_due() -> Config {
    bounded()
        .rebalance_interval(seconds(1_000_000))
        .max_lifetime(seconds(10_000_000))
}

/// Every clause of it, against a server whose sockets stay open and that does nothing any more.
#[tokio::test(start_paused = true)]
async fn a_call_to_a_frozen_server_ends_at_its_bound_and_leaves_nothing_running() {
    let (sim, pool) = pool_of_one(with_nothing_due()).await;
    let tasks_before = tasks();
    for (turn, way) in WAYS.into_iter().enumerate() {
        let (opened, ended) = sockets(&sim);
        assert_eq!(opened, ended + 1, "{way}: one socket");
        let held = pool.get().await.unwrap();
        sim.server("a").freeze();
        let (result, took) = timed(held_call(&held, way)).await;
        assert!(is_timed_out(&result), "{way}: {result:?}");
        assert!((BOUND..BOUND + millis(2)).contains(&took), "{way}: {took:?}");
        assert!(held.is_closed(), "{way}: dead before the holder's next step");
        assert_eq!(Conn::transaction_status(&held), None, "{way}");
        assert_eq!(pool.cluster().snapshot().failed().len(), 0, "{way}");
        drop(held);

        sim.server("a").thaw();
        until("the pool is whole again", || pool.status().idle == 1).await;
        assert_eq!(pool.cluster().snapshot().failed().len(), 0, "{way}");
        assert_eq!(counted(&pool.cluster().snapshot()), "a:1", "{way}");
        until("the server has one session", || sim.live() == 1).await;
        until("every other socket is gone", || {
            let (opened, ended) = sockets(&sim);
            opened == ended + 1
        })
        .await;
        assert_eq!(tasks(), tasks_before, "{way}");
        assert_eq!(pool.status().totals.opened, turn as u64 + 2, "{way}");
    }
}

async fn held_call(held: &Conn, way: &str) -> Result<(), Error> {
    match way {
        "extended" => held.query("SELECT 1", &[]).await.map(drop),
        "simple" => held.batch_execute("SELECT 1").await,
        "held extended" => held.query_one_cached("SELECT 1::int", &[]).await.map(drop),
        _ => held.simple_query("SELECT 1").await.map(drop),
    }
}

/// How often the runtime rests in the second after so many calls, which take no time; what `leave` leaves counts too.
/// Nothing else is left by them, and the connection is the same.
async fn rests_after(calls: usize, limit: Option<Duration>, leave: impl FnOnce()) -> u64 {
    let (sim, pool) = pool_of_one(with_nothing_due().socket_timeout(limit)).await;
    let (tasks_before, sockets_before) = (tasks(), sockets(&sim));
    let pid = sim.sessions()[0].pid;
    let calls = async {
        for turn in 0..calls {
            call(&pool, WAYS[turn % WAYS.len()], "SELECT 1").await.unwrap();
        }
    };
    assert_eq!(timed(calls).await.1, Duration::ZERO);
    leave();
    let rests = || tokio::runtime::Handle::current().metrics().worker_park_count(0);
    let before = rests();
    tokio::time::sleep(seconds(1)).await;
    let rested = rests() - before;
    assert_eq!((tasks(), sockets(&sim)), (tasks_before, sockets_before));
    let status = pool.status();
    assert_eq!((status.idle, status.totals.lost, status.totals.opened), (1, 0, 1));
    assert_eq!(whoami(&pool.get().await.unwrap()).await.1, pid);
    rested
}

/// A runtime of its own for each, so that nothing differs but the limit.
fn in_a_runtime_of_its_own(work: impl Future<Output = u64>) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Covers: E-323
#[test]
fn ten_thousand_calls_in_time_leave_no_timer_no_task_no_socket_and_the_same_connection() {
    let limit = Some(millis(200));
    let rests = |calls, limit| in_a_runtime_of_its_own(rests_after(calls, limit, || ()));
    assert_eq!(rests(10_000, limit), rests(10_000, None));
    // A timer that was left would run out within that second, as this one does.
    let one_left = in_a_runtime_of_its_own(rests_after(4, limit, || {
        tokio::spawn(tokio::time::sleep(millis(200)));
    }));
    assert!(one_left > rests(4, limit));
}

/// What the server heard after a call of a second that had a third of that: how it ended, and whether a cancel came.
async fn stopped_by(grace: Option<Duration>, cancellable: bool) -> (Duration, bool) {
    let (sim, pool) = pool_of_one(bounded().cancel_on_timeout(grace)).await;
    sim.server("a")
        .script(Script::on("silent", Effect::Hang { cancellable }).once());
    let conn = pool.get().await.unwrap();
    let (result, took) = timed(conn.batch_execute("SELECT 'silent'")).await;
    assert!(is_timed_out(&result), "{result:?}");
    assert!(conn.is_closed(), "cancelled or not, the connection goes");
    let cancelled = sim
        .log()
        .iter()
        .any(|entry| matches!(entry.event, Event::CancelRequest { .. }));
    (took, cancelled)
}

#[tokio::test(start_paused = true)]
async fn cancel_on_timeout_stops_the_statement_first_and_waits_no_longer_than_its_grace() {
    let rows = [
        (None, true, BOUND, false),
        (Some(millis(200)), true, BOUND, true),
        (Some(millis(200)), false, BOUND + millis(200), true),
    ];
    for (grace, cancellable, expected, cancelled) in rows {
        let (took, heard) = stopped_by(grace, cancellable).await;
        assert_eq!(heard, cancelled, "{grace:?} {cancellable}");
        assert!(
            (expected..expected + millis(10)).contains(&took),
            "{grace:?} {cancellable}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_call_that_is_dropped_leaves_the_connection_to_the_return_rule() {
    let (sim, pool) = pool_of_one(bounded().return_cancel_after(seconds(2))).await;
    let before = tasks();
    let pid = sim.sessions()[0].pid;
    drop(tokio::time::timeout(millis(100), pool.batch_execute("SELECT pg_sleep(1)")).await);
    // The bound would have run out by now; the statement has not ended.
    pass(millis(500)).await;
    assert_eq!(pool.status().totals.lost, 0);
    assert_eq!(whoami(&pool.get().await.unwrap()).await.1, pid);
    assert_eq!(tasks(), before);
}

/// The cancel request may be on its way by then, and must not hit what comes next on the connection.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_in_its_grace_costs_the_connection() {
    let (sim, pool) = pool_of_one(bounded().cancel_on_timeout(seconds(2))).await;
    sim.server("a")
        .script(Script::on("silent", Effect::Hang { cancellable: false }).once());
    let conn = pool.get().await.unwrap();
    let call = conn.batch_execute("SELECT 'silent'");
    assert!(tokio::time::timeout(BOUND + millis(100), call).await.is_err());
    until("it is dead", || conn.is_closed()).await;
    assert_eq!(
        Conn::end(&conn).map(|end| end.cause),
        Some(EndCause::SocketTimeout)
    );
    drop(conn);
    pool.batch_execute("SELECT 1").await.unwrap();
}
