//! One connection to one server by itself: can it be reached, how long does that take, which role has it. The cluster
//! never hears of it.

use std::time::Duration;

use pgsteer::config::{Config, LoadBalance};
use pgsteer::tokio_postgres::{Client, SimpleQueryMessage};
use pgsteer::{Cluster, Error, HostKey};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Probes;

/// How long a server that let us in may take to say which role it has.
const ROLE_LIMIT: Duration = Duration::from_secs(5);
const ROLE_QUERY: &str = "SELECT pg_is_in_recovery()";

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Probe {
    /// It gave a connection.
    Reached {
        /// From the first packet to a session that is ready.
        connect: Duration,
        /// One query and its answer on the open connection; `None` if there was no answer.
        round_trip: Option<Duration>,
        /// Whether it is a standby; `None` if it did not say.
        in_recovery: Option<bool>,
    },
    /// It did not; why.
    Failed(String),
}

/// Connects to all of them at once.
pub(super) async fn all(config: &Config, hosts: &[HostKey]) -> Probes {
    let mut probes = JoinSet::new();
    for host in hosts {
        let (host, alone) = (host.clone(), alone(config, host));
        probes.spawn(async move {
            let probe = one(alone)
                .await
                .unwrap_or_else(|error| Probe::Failed(reason(&error)));
            (host, probe)
        });
    }
    probes.join_all().await.into_iter().collect()
}

/// The same settings with this host alone.
fn alone(config: &Config, host: &HostKey) -> Config {
    config
        .clone()
        .hosts([host])
        .load_balance(LoadBalance::Off)
        .topology_keys("")
}

async fn one(config: Config) -> Result<Probe, Error> {
    let cluster = Cluster::start(config)?;
    let started = Instant::now();
    let connection = cluster.connect().await?;
    let connect = started.elapsed();
    let (round_trip, in_recovery) = timeout(ROLE_LIMIT, role(&connection))
        .await
        .unwrap_or((None, None));
    Ok(Probe::Reached {
        connect,
        round_trip,
        in_recovery,
    })
}

async fn role(client: &Client) -> (Option<Duration>, Option<bool>) {
    let started = Instant::now();
    let answer = client.simple_query(ROLE_QUERY).await;
    let round_trip = started.elapsed();
    // A server that refuses the question has answered all the same.
    let answered = answer.as_ref().is_ok_and(|_| true)
        || answer.as_ref().is_err_and(|error| error.as_db_error().is_some());
    let in_recovery = answer.ok().and_then(|messages| {
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten().map(|value| value == "t"),
            _ => None,
        })
    });
    (answered.then_some(round_trip), in_recovery)
}

/// The reason alone: there was one host, and the row says which.
fn reason(error: &Error) -> String {
    match error {
        Error::Connect(failed) | Error::Login(failed) => match failed.tried.as_slice() {
            [only] => format!("{}: {}", only.state, only.reason),
            _ => error.to_string(),
        },
        other => other.to_string(),
    }
}
