//! What is said on a new connection before anybody may use it: `SET statement_timeout`, and the question whether the
//! server is in recovery. Both are sent together and take one round trip.
//!
//! The question is asked with SQL because the server's reported parameters cannot be trusted behind a pooler, which
//! replays old ones.

use std::time::Duration;

use pgsteer_core::verdict::Stage;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::error::{Failure, Observed};
use super::tap::Wire;

/// What a new session must be asked and told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup {
    /// Set as it is, zero (no limit) included. `None` leaves the server's default.
    pub(super) statement_timeout: Option<Duration>,
    /// Whether a server in recovery is refused.
    pub(super) refuse_recovery: bool,
}

/// Sets up the session. The connection must be driven meanwhile.
pub(super) async fn set_up(client: &Client, setup: Setup, wire: &Wire) -> Result<(), Failure> {
    let limit = async {
        match setup.statement_timeout {
            Some(limit) => {
                client
                    .batch_execute(&format!("SET statement_timeout = {}", limit.as_millis()))
                    .await
            }
            None => Ok(()),
        }
    };
    let recovery = async {
        match setup.refuse_recovery {
            true => client.simple_query("SELECT pg_is_in_recovery()").await.map(Some),
            false => Ok(None),
        }
    };
    let (limit, recovery) = futures_util::future::join(limit, recovery).await;
    limit.map_err(|error| Failure::driver(Stage::SessionSetup, error, wire))?;
    match recovery.map_err(|error| Failure::driver(Stage::SessionSetup, error, wire))? {
        None => Ok(()),
        Some(answer) => judge(&answer),
    }
}

fn judge(answer: &[SimpleQueryMessage]) -> Result<(), Failure> {
    let mut rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let value = match (rows.next(), rows.next()) {
        (Some(row), None) if row.len() == 1 => row.try_get(0).ok().flatten(),
        _ => None,
    };
    match value {
        Some("f") => Ok(()),
        Some("t") => Err(Failure::new(
            Stage::SessionSetup,
            Observed::InRecovery,
            "the server is in recovery (read-only)",
        )),
        _ => Err(Failure::new(
            Stage::SessionSetup,
            Observed::BadServer,
            "the server gave no clear answer to whether it is in recovery",
        )),
    }
}
