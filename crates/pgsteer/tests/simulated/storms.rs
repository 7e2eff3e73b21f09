//! What keeps a pool from making trouble worse: few dials while nothing can be had, never more at once than allowed.

use std::io;
use std::sync::Arc;

use pgsteer::config::LoadBalance;
use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};
use pgsteer::{Error, Pool};
use pgsteer_sim::{Auth, Death, Event, Login, Sim};
use tokio::time::Instant;

use crate::rig::*;

fn all_attempts(sim: &Sim) -> u64 {
    sim.servers().iter().map(|server| server.counts().attempts).sum()
}

/// Times of the attempts on one server, in whole seconds.
fn attempt_seconds(sim: &Sim, name: &str) -> Vec<u64> {
    let log = sim.log();
    let of_server = log
        .iter()
        .filter(|entry| &*entry.server == name && entry.event == Event::Attempt);
    of_server.map(|entry| entry.at.as_secs()).collect()
}

/// Covers: F-09, R-08
#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_tried_by_one_opener_ever_more_rarely() {
    let sim = three().login(Auth::Scram, "app", "right").build();
    let config = config(&["a"])
        .load_balance(LoadBalance::Off)
        .password("wrong")
        .pool_size(10);
    let pool = start(&sim, config);
    let (result, took) = timed(pool.get()).await;
    assert!(
        matches!(result, Err(Error::Login(_))) && took < millis(100),
        "{result:?} after {took:?}"
    );
    assert_eq!(
        all_attempts(&sim),
        1,
        "nine others wait for what becomes of the first"
    );
    sim.clear_log();
    pass(seconds(600)).await;
    let times = attempt_seconds(&sim, "a");
    // After 1, 2, 4, 8 and 16 s, then every 30 s.
    assert_eq!(times[..6], [1, 3, 7, 15, 31, 61]);
    assert_eq!(times.len(), 5 + (600 - 31) / 30);
    assert_eq!(
        sim.log()
            .iter()
            .filter(|entry| matches!(entry.event, Event::Login { .. }))
            .count(),
        0
    );
    let (result, took) = timed(pool.get_timeout(seconds(31))).await;
    assert!(
        matches!(result, Err(Error::Login(_))) && took <= seconds(30),
        "{result:?} after {took:?}"
    );
    assert!(pool.cluster().snapshot().failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn once_the_login_works_the_pool_fills_at_its_next_try_with_all_its_openers() {
    let sim = three().build();
    sim.servers()
        .iter()
        .for_each(|server| server.set_login(Login::fatal("28P01")));
    let pool = start(&sim, abc().pool_size(10));
    pass(seconds(300)).await;
    sim.servers()
        .iter()
        .for_each(|server| server.set_login(Login::Work));
    let (ready, took) = timed(pool.ready(10, seconds(60))).await;
    ready.unwrap();
    assert!(took <= seconds(30) + millis(10), "{took:?}");
}

///
#[tokio::test(start_paused = true)]
async fn an_hour_without_any_host_costs_a_bounded_number_of_dials() {
    let sim = three().log_limit(0).build();
    let pool = full(&sim, abc().pool_size(10).yb_servers_refresh_interval(seconds(60))).await;
    sim.servers().iter().for_each(|server| server.kill(Death::Fin));
    pass(seconds(1)).await;
    let before = all_attempts(&sim);
    let started = Instant::now();
    let mut told = 0;
    while started.elapsed() < seconds(3600) {
        let (result, took) = timed(pool.get()).await;
        assert!(result.is_err() && took < seconds(5), "{took:?}");
        told += 1;
        tokio::time::sleep(seconds(1)).await;
    }
    assert!(told > 1000);
    let dials = all_attempts(&sim) - before;
    // Each minute one opener tries each of the three hosts, after some earlier windows; it and each refresh have each of
    // them probed and asked.
    assert!(dials <= 3 * 3 * 2 * (60 + 10), "{dials} dials");
    sim.servers().iter().for_each(pgsteer_sim::Server::start);
    let (ready, took) = timed(pool.ready(10, seconds(80))).await;
    ready.unwrap();
    assert!(
        took <= seconds(61),
        "it is full again after the next refresh: {took:?}"
    );
}

/// A server that lets everybody in only to throw them out at once is not dialled in a circle.
///
///
#[tokio::test(start_paused = true)]
async fn connections_that_end_as_soon_as_they_are_open_are_not_replaced_without_rest() {
    let sim = three().log_limit(0).build();
    let pool = start(&sim, config(&["a"]).load_balance(LoadBalance::Off).pool_size(5));
    let throwing_out = tokio::spawn({
        let sim = sim.clone();
        async move {
            loop {
                sim.server("a").terminate_all();
                tokio::time::sleep(millis(1)).await;
            }
        }
    });
    pass(seconds(60)).await;
    throwing_out.abort();
    let attempts = all_attempts(&sim);
    assert!(attempts <= 60 * 2 * 6, "{attempts} connects in a minute");
    pool.ready(5, seconds(5)).await.unwrap();
}

/// Dials in flight, from the first packet to the end of the login, are the openers at work.
#[tokio::test(start_paused = true)]
async fn ten_thousand_connections_open_with_no_more_dials_at_once_than_allowed_and_close() {
    let sim = three().log_limit(200_000).build();
    sim.servers().iter().for_each(|server| {
        server.set_connect_latency(millis(3));
        server.set_answer_latency(millis(1));
    });
    let before = tasks();
    let config = abc()
        .pool_size(10_000)
        .max_dials(32)
        .rebalance_interval(seconds(30))
        .max_lifetime(seconds(24 * 3600));
    let pool = start(&sim, config);
    pool.ready(10_000, seconds(600)).await.unwrap();
    let mut in_flight = 0i64;
    let mut most = 0;
    for entry in sim.log() {
        match entry.event {
            Event::Attempt => in_flight += 1,
            Event::Login { .. } => in_flight -= 1,
            _ => {}
        }
        most = most.max(in_flight);
    }
    // Discovery comes before them.
    assert!((30..=32).contains(&most), "{most} at once");
    assert_eq!(sim.live(), 10_000);
    let mut spread: Vec<u32> = pool.status().by_host.into_values().collect();
    spread.sort_unstable();
    assert_eq!(spread, [3333, 3333, 3334]);
    let mut held = Vec::new();
    while let Some(conn) = pool.try_get() {
        held.push(conn);
    }
    assert_eq!(held.len(), 10_000);
    drop(held);
    let closed = pool.close(seconds(60)).await;
    assert_eq!((closed.still_out, sim.live()), (0, 0));
    drop(pool);
    until("no task is left", || tasks() == before).await;
}

/// A world whose dials panic.
struct Panicking(Sim);

impl Dial for Panicking {
    fn dial<'a>(&'a self, _: &'a Endpoint, _: &'a SocketOptions) -> BoxFuture<'a, io::Result<Socket>> {
        panic!("the dialler's own trouble")
    }
}

impl Resolve for Panicking {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<std::net::IpAddr>>> {
        Resolve::resolve(&self.0, host)
    }
}

impl Draw for Panicking {
    fn draw(&self) -> u64 {
        7
    }
}

/// A dialler that panics ends that open and no more; the pool goes on trying and can be closed.
#[tokio::test(start_paused = true)]
async fn a_dialler_that_panics_ends_the_open_and_not_the_pool() {
    let sim = three().build();
    let before = tasks();
    let panicking = || Arc::new(Panicking(sim.clone()));
    let world = World::new(panicking(), panicking(), panicking());
    let pool = Pool::start_in(abc().pool_size(2), world).unwrap();
    let (result, took) = timed(pool.get_timeout(seconds(5))).await;
    assert!(result.is_err() && took <= seconds(5) + millis(2), "{took:?}");
    assert!(pool.cluster().snapshot().pending.is_empty());
    pool.close(seconds(1)).await;
    drop(pool);
    until("no task is left", || tasks() == before).await;
}
