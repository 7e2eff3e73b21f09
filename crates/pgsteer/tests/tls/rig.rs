//! What these tests share: universes, a few at a time, and configurations for them.

use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use pgsteer::{Cluster, Config, Error, HostKey, Pool};
use pgsteer_testkit::{Builder, DATABASE, PASSWORD, Server, Tls, USER, Universe};
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

/// One server with this TLS.
pub(crate) async fn one(tls: impl Into<Option<Tls>>) -> Rig {
    let tls = tls.into();
    rig(Universe::builder().servers(1).configure(0, |spec| match tls {
        Some(tls) => spec.tls(tls),
        None => spec,
    }))
    .await
}

/// A configuration that names these hosts, with patient time limits.
pub(crate) fn config(addresses: &str, parameters: &str) -> Config {
    let patient = "connect_timeout=60&checkout_timeout=1min";
    format!("postgresql://{USER}:{PASSWORD}@{addresses}/{DATABASE}?{patient}&{parameters}")
        .parse()
        .unwrap()
}

/// The parameters that trust the universe's authority.
pub(crate) fn trusting(universe: &Universe, mode: &str) -> String {
    format!("sslmode={mode}&sslrootcert={}", universe.tls_files().ca.display())
}

/// A pool of two over the universe's servers.
pub(crate) fn pool(universe: &Universe, parameters: &str) -> Pool {
    Pool::start(config(
        &universe.addresses(),
        &format!("pool_size=2&{parameters}"),
    ))
    .unwrap()
}

/// Whether a session that these parameters open has TLS, or what became of it.
pub(crate) async fn encrypted(universe: &Universe, parameters: &str) -> Result<bool, Error> {
    encrypted_by(config(&universe.addresses(), parameters)).await
}

/// As [`encrypted`], by a whole configuration.
pub(crate) async fn encrypted_by(config: Config) -> Result<bool, Error> {
    let cluster = Cluster::start(config)?;
    let client = cluster.connect().await?;
    let row = client
        .query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[])
        .await?;
    Ok(row.get(0))
}

/// Asserts that no session came about, and that its failure is told with these words.
#[track_caller]
pub(crate) fn assert_failed(case: &str, outcome: Result<bool, Error>, words: &str) {
    let text = outcome.expect_err(case).to_string();
    assert!(text.contains(words), "{case}: {text}");
}

pub(crate) fn key(server: &Server) -> HostKey {
    HostKey::new(server.host(), server.port())
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
