//! What these tests share: HA sets, a few at a time; pools on them; waiting for what is wanted. It decides nothing about
//! the library's behaviour.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use pgsteer::config::TargetSessionAttrs;
use pgsteer::{Config, Conn, Error, HostKey, Pool};
use pgsteer_testkit::{DATABASE, HaBuilder, HaSet, PASSWORD, Server, USER};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::log::record_log;

/// How long anything may take that must happen. Generous: the machine may be slow and busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How much later than promised something may happen on a slow and busy machine.
pub(crate) const SLACK: Duration = Duration::from_millis(1500);

/// The longest wait between two rounds of asking while no host fits.
pub(crate) const LONGEST_STEP: Duration = Duration::from_secs(2);

/// Options by which hosts are found back, roles asked and connections moved soon.
pub(crate) const QUICK: &str = "failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1&role_ttl=1s\
                                &rebalance_interval=100ms";

/// Sets that may be up at once.
static TURNS: Semaphore = Semaphore::const_new(3);

/// A set, and the right to have one.
pub(crate) struct Rig {
    // Dropped first, so that its servers are gone before the next one's start.
    set: HaSet,
    _turn: SemaphorePermit<'static>,
}

impl Deref for Rig {
    type Target = HaSet;
    fn deref(&self) -> &HaSet {
        &self.set
    }
}

/// Starts a set when there is room for it.
pub(crate) async fn rig(builder: HaBuilder) -> Rig {
    record_log();
    let turn = TURNS.acquire().await.unwrap();
    Rig {
        set: builder.start(),
        _turn: turn,
    }
}

/// A primary and this many standbys, with a table `written` that anybody may write to.
pub(crate) async fn primary_with(standbys: usize) -> Rig {
    with_table(HaSet::builder().standbys(standbys)).await
}

/// A set with the table.
pub(crate) async fn with_table(builder: HaBuilder) -> Rig {
    let set = rig(builder).await;
    set.node(0)
        .sql("CREATE TABLE written (n int); GRANT ALL ON written TO PUBLIC");
    (1..set.nodes().len()).for_each(|standby| set.wait_caught_up(standby, 0));
    set
}

/// A configuration that names these hosts, with patient time limits unless the parameters name some.
pub(crate) fn config(addresses: &str, parameters: &str) -> Config {
    let patient = [("connect_timeout", "1min"), ("checkout_timeout", "1min")];
    let missing = patient.iter().filter(|(name, _)| !parameters.contains(name));
    let mut all: Vec<String> = missing.map(|(name, value)| format!("{name}={value}")).collect();
    all.extend((!parameters.is_empty()).then(|| parameters.to_owned()));
    format!(
        "postgresql://{USER}:{PASSWORD}@{addresses}/{DATABASE}?{}",
        all.join("&")
    )
    .parse()
    .unwrap()
}

/// A pool over these hosts.
pub(crate) fn pool(addresses: &str, parameters: &str) -> Pool {
    Pool::start(config(addresses, parameters)).unwrap()
}

/// As [`pool`], once all its connections are open.
pub(crate) async fn full_pool(addresses: &str, parameters: &str) -> Pool {
    full(pool(addresses, parameters)).await
}

/// The pool, once all its connections are open.
pub(crate) async fn full(pool: Pool) -> Pool {
    pool.ready(pool.status().size, LIMIT).await.unwrap();
    pool
}

pub(crate) fn key(server: &Server) -> HostKey {
    HostKey::new(server.host(), server.port())
}

/// The pool's connections by node.
pub(crate) fn spread(pool: &Pool, set: &HaSet) -> Vec<u32> {
    let by_host = pool.status().by_host;
    let count = |node: &Server| by_host.get(&key(node)).copied().unwrap_or(0);
    set.nodes().iter().map(count).collect()
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
pub(crate) async fn spread_becomes(pool: &Pool, set: &HaSet, wanted: &[u32]) {
    let reached = tokio::time::timeout(LIMIT, async {
        while spread(pool, set) != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    if reached.await.is_err() {
        let cluster = pool.cluster().snapshot();
        let (have, status) = (spread(pool, set), pool.status());
        panic!("wanted {wanted:?}, have {have:?}: {status:?}; {cluster:?}");
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

/// Checks a connection out, which must work.
pub(crate) async fn get(pool: &Pool) -> Conn {
    pool.get_timeout(LIMIT).await.unwrap()
}

/// The error of a checkout that may wait this long.
pub(crate) async fn refused(pool: &Pool, limit: Duration) -> Error {
    match pool.get_timeout(limit).await {
        Ok(conn) => panic!(
            "a connection to {}, {:?} old, used {} times: {:?}; {:?}",
            Conn::host(&conn),
            Conn::age(&conn),
            Conn::uses(&conn),
            pool.status(),
            pool.cluster().snapshot()
        ),
        Err(error) => error,
    }
}

/// What an error says of each host it is about: host and state.
pub(crate) fn states(error: &Error) -> Vec<(HostKey, &'static str)> {
    let tried = error.hosts_tried().iter();
    tried.map(|tried| (tried.host.clone(), tried.state)).collect()
}

/// The server process behind a connection.
pub(crate) async fn backend(client: &pgsteer::tokio_postgres::Client) -> i32 {
    client
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0)
}

/// Writes a row.
pub(crate) async fn write(conn: &Conn) -> Result<(), Error> {
    conn.batch_execute("INSERT INTO written VALUES (1)").await
}

/// Another pool with the same options on the same cluster.
pub(crate) fn beside(pool: &Pool, target: TargetSessionAttrs) -> Pool {
    pool.with_target(target).unwrap()
}
