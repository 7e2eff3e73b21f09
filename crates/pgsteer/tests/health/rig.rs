//! Work that ends as told, and connections to simulated servers by the driver alone.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use pgsteer::health::Finding;
use pgsteer::world::{Dial, Endpoint, Resolve, SocketOptions};
use pgsteer::{CircuitOpen, ConnectionHealth, Guarded};
use pgsteer_sim::Sim;
use tokio_postgres::{Client, NoTls};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// An error of the work, which says itself what it is to be taken for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) finding: Finding,
    pub(crate) text: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl std::error::Error for Failure {}

pub(crate) const DOWN: Failure = Failure {
    finding: Finding::Down,
    text: "connection refused",
};

/// An error that has nothing to do with a database.
pub(crate) const OTHER: Failure = Failure {
    finding: Finding::Nothing,
    text: "no such job",
};

/// Windows of exactly 1, 2, 4 … 60 s, and errors that are taken for what they say.
pub(crate) fn exact() -> pgsteer::health::Builder {
    ConnectionHealth::builder().jitter(0.0).judge(|error| {
        let failure = error.downcast_ref::<Failure>().expect("one of ours");
        failure.finding
    })
}

pub(crate) fn guard() -> ConnectionHealth {
    exact().build().unwrap()
}

/// Open since just now, for 1 s.
pub(crate) async fn tripped() -> ConnectionHealth {
    let health = guard();
    fail(&health, 5).await;
    assert!(health.is_open());
    health
}

pub(crate) async fn run(
    health: &ConnectionHealth,
    result: Result<u32, Failure>,
) -> Result<u32, Guarded<Failure>> {
    health.run_guarded(async { result }).await
}

/// Work that fails this often, and is run each time.
pub(crate) async fn fail(health: &ConnectionHealth, times: u32) {
    for _ in 0..times {
        assert_eq!(run(health, Err(DOWN)).await, Err(Guarded::Failed(DOWN)));
    }
}

/// Work that succeeds, and is run.
pub(crate) async fn succeed(health: &ConnectionHealth) {
    assert_eq!(run(health, Ok(7)).await, Ok(7));
}

/// Work that is not begun.
pub(crate) async fn rejected(health: &ConnectionHealth) -> CircuitOpen {
    let never: Result<u32, Guarded<Failure>> = health.run_guarded(async { panic!("begun") }).await;
    match never {
        Err(Guarded::CircuitOpen(open)) => open,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A connection to the simulated server of this name, made by tokio-postgres without pgsteer. It must accept connections.
pub(crate) async fn connect(sim: &Sim, name: &str) -> Result<Client, tokio_postgres::Error> {
    let address = Resolve::resolve(sim, name).await.unwrap()[0];
    let target = Endpoint::Tcp(SocketAddr::new(address, sim.server(name).port()));
    let socket = Dial::dial(sim, &target, &SocketOptions::default()).await.unwrap();
    let (client, connection) = tokio_postgres::Config::new()
        .user("app")
        .dbname("app")
        .connect_raw(socket, NoTls)
        .await?;
    tokio::spawn(connection);
    Ok(client)
}
