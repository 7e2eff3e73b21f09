//! What these tests share: universes, a few at a time; pools on them; waiting for what is wanted. It decides nothing
//! about the library's behaviour.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgsteer::{Cluster, Config, Conn, Error, HostKey, Pool};
use pgsteer_testkit::{Builder, DATABASE, PASSWORD, Server, USER, Universe};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::log::record_log;

/// How long anything may take that must happen. Generous: the machine may be slow and busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Options by which hosts are found back and connections moved soon.
pub(crate) const QUICK: &str =
    "failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1&rebalance_interval=100ms";

/// Universes that may be up at once.
static TURNS: Semaphore = Semaphore::const_new(3);

/// A universe, and the right to have one.
pub(crate) struct Rig {
    // Dropped first, so that its servers are gone before the next one's start.
    universe: Universe,
    _turn: SemaphorePermit<'static>,
}

impl Deref for Rig {
    type Target = Universe;
    fn deref(&self) -> &Universe {
        &self.universe
    }
}

/// Starts a universe when there is room for it.
pub(crate) async fn rig(builder: Builder) -> Rig {
    record_log();
    let turn = TURNS.acquire().await.unwrap();
    Rig {
        universe: builder.start(),
        _turn: turn,
    }
}

/// Three primaries in the zones us-east1-b, -c and -d of gcp.
pub(crate) async fn three() -> Rig {
    rig(Universe::builder().servers(3)).await
}

/// Two universes of three servers each.
pub(crate) async fn two_universes() -> (Rig, Rig) {
    record_log();
    let mut turns = TURNS.acquire_many(2).await.unwrap();
    let second = turns.split(1).unwrap();
    let start = || Universe::builder().servers(3).start();
    (
        Rig {
            universe: start(),
            _turn: turns,
        },
        Rig {
            universe: start(),
            _turn: second,
        },
    )
}

/// A configuration that names these hosts, with patient time limits unless the parameters name some.
pub(crate) fn config_for(addresses: &str, parameters: &str) -> Config {
    let patient = [("connect_timeout", "1min"), ("checkout_timeout", "1min")];
    let given = parameters
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(str::to_owned);
    let missing = patient.iter().filter(|(name, _)| !parameters.contains(name));
    let all: Vec<String> = given
        .chain(missing.map(|(name, value)| format!("{name}={value}")))
        .collect();
    format!(
        "postgresql://{USER}:{PASSWORD}@{addresses}/{DATABASE}?{}",
        all.join("&")
    )
    .parse()
    .unwrap()
}

/// A pool over all servers of the universe, with `load_balance=any` unless the parameters say otherwise.
pub(crate) fn pool(universe: &Universe, parameters: &str) -> Pool {
    Pool::start(config(universe, parameters)).unwrap()
}

/// As [`pool`], once all its connections are open.
pub(crate) async fn full_pool(universe: &Universe, parameters: &str) -> Pool {
    let pool = pool(universe, parameters);
    pool.ready(pool.status().size, LIMIT).await.unwrap();
    pool
}

/// A cluster over all servers of the universe, with `load_balance=any` unless the parameters say otherwise.
pub(crate) fn cluster(universe: &Universe, parameters: &str) -> Cluster {
    Cluster::start(config(universe, parameters)).unwrap()
}

fn config(universe: &Universe, parameters: &str) -> Config {
    let mode = if parameters.contains("load_balance=") {
        ""
    } else {
        "load_balance=any&"
    };
    config_for(&universe.addresses(), &format!("{mode}{parameters}"))
}

pub(crate) fn key(server: &Server) -> HostKey {
    HostKey::new(server.host(), server.port())
}

/// The keys of these servers, sorted as a snapshot sorts its lists of failed hosts.
pub(crate) fn keys(universe: &Universe, servers: &[usize]) -> Vec<HostKey> {
    servers.iter().map(|&index| key(universe.server(index))).collect()
}

/// The pool's connections by server.
pub(crate) fn spread(pool: &Pool, universe: &Universe) -> Vec<u32> {
    let by_host = pool.status().by_host;
    universe
        .servers()
        .iter()
        .map(|server| by_host.get(&key(server)).copied().unwrap_or(0))
        .collect()
}

/// The cluster's open connections by server.
pub(crate) fn counts(cluster: &Cluster, universe: &Universe) -> Vec<u32> {
    let counts = cluster.snapshot().counts;
    universe
        .servers()
        .iter()
        .map(|server| counts.get(&key(server)).copied().unwrap_or(0))
        .collect()
}

/// Waits, looking every 10 ms, until `seen` gives what is wanted.
pub(crate) async fn becomes<T: PartialEq + Debug>(wanted: T, mut seen: impl FnMut() -> T) {
    let reached = tokio::time::timeout(LIMIT, async {
        while seen() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    if reached.await.is_err() {
        panic!("wanted {wanted:?}, have {:?}", seen());
    }
}

/// As [`becomes`], for the pool's spread; says more when it does not.
pub(crate) async fn spread_becomes(pool: &Pool, universe: &Universe, wanted: &[u32]) {
    let reached = tokio::time::timeout(LIMIT, becomes_quietly(|| spread(pool, universe) == wanted));
    if reached.await.is_err() {
        let cluster = pool.cluster().snapshot();
        panic!(
            "wanted {wanted:?}, have {:?}: {:?}; {cluster:?}",
            spread(pool, universe),
            pool.status()
        );
    }
}

async fn becomes_quietly(mut reached: impl FnMut() -> bool) {
    while !reached() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Watches, every 10 ms for `time`, that `seen` goes on giving the same.
pub(crate) async fn stays<T: PartialEq + Debug>(wanted: T, time: Duration, mut seen: impl FnMut() -> T) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        assert_eq!(seen(), wanted);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The future's output, which must come within the limit.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("this takes too long")
}

/// Checks out until it works: for the time after a fault in which failing is right.
pub(crate) async fn get_in_the_end(pool: &Pool) -> Conn {
    soon(async {
        loop {
            match pool.get().await {
                Ok(conn) => return conn,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
}

/// The server process behind a connection.
pub(crate) async fn backend(client: &tokio_postgres::Client) -> i32 {
    client
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0)
}

/// Every server process of this application, on the servers that run.
pub(crate) fn backends(universe: &Universe, application: &str) -> Vec<(usize, i32)> {
    let running = universe
        .servers()
        .iter()
        .enumerate()
        .filter(|(_, server)| server.is_running());
    running
        .flat_map(|(index, server)| {
            server
                .backends(application)
                .into_iter()
                .map(move |pid| (index, pid))
        })
        .collect()
}

/// How many sessions of a pool the servers had at one moment. Exact in that it never counts a session that was not
/// there at that moment, though the servers are asked one after the other: only those count that began before the
/// first question and are still there when asked. Discovery shares the pool's application name and is told by its
/// statement.
pub(crate) fn sessions_at_one_moment(universe: &Universe, application: &str) -> usize {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
         AND application_name = '{application}' AND query <> 'SELECT * FROM yb_servers()' \
         AND (extract(epoch FROM backend_start) * 1000000)::bigint <= {moment}"
    );
    let running = universe.servers().iter().filter(|server| server.is_running());
    // A server that is killed between the two lines answers nothing, and has no session either.
    let rows = running.filter_map(|server| server.try_sql(&sql).ok());
    rows.map(|rows| rows[0][0].as_ref().unwrap().parse::<usize>().unwrap())
        .sum()
}

/// Whether a query failed because its connection was lost.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error {
        Error::ConnectionLost(_) => true,
        Error::Postgres(_) => error
            .code()
            .is_none_or(|state| matches!(state, "57P01" | "57P02" | "57P03")),
        _ => false,
    }
}

pub(crate) use pgsteer::tokio_postgres;
