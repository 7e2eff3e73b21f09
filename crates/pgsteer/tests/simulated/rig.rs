//! What the tests here share: the standard cluster and configuration, opening and counting connections, and waiting in
//! simulated time. Asserts nothing but that a wait ends.

use std::future::Future;
use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::{Cluster, ClusterConnection, Config, Conn, Error, HostKey, Pool, Snapshot, Status};
use pgsteer_sim::{Accept, Server, ServerSpec, Sim, SimBuilder};
use tokio::time::Instant;

pub const PORT: u16 = 5433;

/// Keys that prefer server `a`, then the rest of its region.
pub const NEAR_A: &str = "gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2";

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn key(name: &str) -> HostKey {
    HostKey::new(name, PORT)
}

/// The standard configuration: a refresh every 300 s, failed hosts left alone for 1 s, a look at the spread every
/// 100 ms, no jitter.
pub fn config(seeds: &[&str]) -> Config {
    crate::log_lines::install();
    Config::yugabyte()
        .hosts(seeds.iter().copied())
        .user("app")
        .load_balance(LoadBalance::Any)
        .failed_host_reconnect_delay_secs(1)
        .rebalance_interval(millis(100))
        .max_lifetime(seconds(600))
        .lifetime_jitter(Duration::ZERO)
}

/// The standard configuration with seeds a, b and c.
pub fn abc() -> Config {
    config(&["a", "b", "c"])
}

/// The standard cluster before it is built: a, b and c in zones b, c and d of gcp.us-east1.
pub fn three() -> SimBuilder {
    crate::log_lines::install();
    Sim::builder(1)
        .server(in_zone("a", "us-east1-b"))
        .server(in_zone("b", "us-east1-c"))
        .server(in_zone("c", "us-east1-d"))
}

/// The same with a load balancer in front: a server that is not listed.
pub fn behind_lb() -> Sim {
    three().server(ServerSpec::new("lb").unlisted()).build()
}

pub fn in_zone(name: &str, zone: &str) -> ServerSpec {
    ServerSpec::new(name).placement("gcp", "us-east1", zone)
}

/// Plain PostgreSQL servers, which cannot list servers.
pub fn plain(servers: impl IntoIterator<Item = ServerSpec>) -> Sim {
    crate::log_lines::install();
    let sim = servers
        .into_iter()
        .fold(Sim::builder(1), SimBuilder::server)
        .build();
    for server in sim.servers() {
        server.set_discovery(pgsteer_sim::Discovery::Missing);
    }
    sim
}

pub fn start(sim: &Sim, config: Config) -> Pool {
    Pool::start_in(config, sim.world()).expect("the configuration is good")
}

/// A pool that is full.
pub async fn full(sim: &Sim, config: Config) -> Pool {
    let pool = start(sim, config);
    pool.ready(u32::MAX, seconds(60)).await.expect("the pool fills");
    // The last of them is idle once its keeper has let it go.
    until("all are idle", || pool.status().idle == pool.status().size).await;
    pool
}

/// A cluster whose first discovery is over.
pub async fn cluster(sim: &Sim, config: Config) -> Cluster {
    let cluster = Cluster::start_in(config, sim.world()).expect("the configuration is good");
    cluster.ready().await.expect("the first discovery ends");
    cluster
}

pub async fn open(cluster: &Cluster, count: usize) -> Vec<ClusterConnection> {
    let mut open = Vec::new();
    for _ in 0..count {
        open.push(cluster.connect().await.expect("a connection opens"));
    }
    open
}

/// Connects, gives the connection up at once, and says where it was.
pub async fn landing(cluster: &Cluster) -> String {
    let connection = cluster.connect().await.expect("a connection opens");
    ClusterConnection::host(&connection).name().to_owned()
}

pub fn hosts_of(connections: &[ClusterConnection]) -> Vec<&str> {
    connections
        .iter()
        .map(|connection| ClusterConnection::host(connection).name())
        .collect()
}

/// The names of hosts, in their order.
pub fn names(keys: &[HostKey]) -> Vec<&str> {
    keys.iter().map(HostKey::name).collect()
}

/// The names of hosts, sorted.
pub fn sorted(keys: &[HostKey]) -> Vec<&str> {
    let mut names = names(keys);
    names.sort_unstable();
    names
}

/// Open connections as the cluster counts them: `a:3 b:3`.
pub fn counted(snapshot: &Snapshot) -> String {
    spread(snapshot.counts.iter())
}

/// Connections as the pool has them: `a:2 b:2`.
pub fn placed(status: &Status) -> String {
    spread(status.by_host.iter())
}

fn spread<'a>(counts: impl Iterator<Item = (&'a HostKey, &'a u32)>) -> String {
    let parts: Vec<String> = counts
        .map(|(host, count)| format!("{}:{count}", host.name()))
        .collect();
    parts.join(" ")
}

/// Waits, in steps of simulated time, until something is so.
#[track_caller]
pub fn until(what: &str, so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    within(what, seconds(30), so)
}

/// As [`until`], with a limit.
#[track_caller]
pub fn within(what: &str, limit: Duration, mut so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + limit;
        while !so() {
            assert!(
                Instant::now() < deadline,
                "{place}: {what}: not so within {limit:?}"
            );
            tokio::time::sleep(millis(5)).await;
        }
    }
}

/// Lets this much simulated time pass, and everything that is ready then run.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    tokio::time::sleep(millis(1)).await;
}

/// How long a future takes, in simulated time, and what it gives.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let result = work.await;
    (result, started.elapsed())
}

/// Connects are refused, and what is open stays.
pub fn refuse(server: &Server) {
    server.set_accept(Accept::Refuse);
}

/// Connects are not answered.
pub fn blackhole(server: &Server) {
    server.set_accept(Accept::Blackhole);
}

pub fn serve(server: &Server) {
    server.set_accept(Accept::Serve);
}

pub fn attempts(sim: &Sim, name: &str) -> u64 {
    sim.server(name).counts().attempts
}

pub fn discoveries(sim: &Sim) -> u64 {
    sim.servers()
        .iter()
        .map(|server| server.counts().discovery_queries)
        .sum()
}

/// Which server, by its own words, and which of its back-ends a connection is on.
pub async fn whoami(conn: &Conn) -> (String, i32) {
    let row = conn
        .query_one("SELECT rig_whoami(), pg_backend_pid()", &[])
        .await
        .expect("the connection works");
    (row.get(0), row.get(1))
}

/// The back-ends the servers have, sorted by their number in the log.
pub fn sessions(sim: &Sim) -> Vec<u64> {
    sim.sessions().iter().map(|session| session.id).collect()
}

/// Background tasks, the current one not counted.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// The state in which each host of an error was found: `a down, b down`.
pub fn tried(error: &Error) -> String {
    let parts: Vec<String> = error
        .hosts_tried()
        .iter()
        .map(|tried| format!("{} {}", tried.host.name(), tried.state))
        .collect();
    parts.join(", ")
}
