//! What is said on a new connection before anybody may use it: `SET statement_timeout`, and the questions what the
//! server is. All of it is sent together and takes one round trip.
//!
//! The questions are asked with SQL because the server's reported parameters cannot be trusted behind a pooler, which
//! replays old ones.

use std::time::Duration;

use pgsteer_core::hosts::{Role, TargetSessionAttrs};
use pgsteer_core::verdict::Stage;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::error::{Failure, Observed};
use super::tap::Wire;

/// Works on everything from PostgreSQL 9.4 and Greenplum 6 on. `transaction_read_only` takes the session's own default
/// into account, so it is asked for beside the recovery, not derived from it.
const ROLE: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')";

/// A file name of the write-ahead log begins with its timeline. Any user may ask, on a primary only.
const TIMELINE: &str = "SELECT pg_walfile_name(pg_current_wal_lsn())";

/// Hexadecimal digits of the timeline at the beginning of such a file name, and of the whole name.
const TIMELINE_DIGITS: usize = 8;
const FILE_NAME_DIGITS: usize = 24;

/// What a new connection's server is asked about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// What it is: primary, standby, read-only by default.
    pub(crate) role: bool,
    /// On which timeline it writes.
    pub(crate) timeline: bool,
    /// What is wanted: where a name has several addresses, those of servers that suit it less are passed over.
    pub(crate) target: TargetSessionAttrs,
}

/// What it answered. `None` where nothing was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) role: Option<Role>,
    /// `None` also where it has none to tell: a standby, another product, an old version.
    pub(super) timeline: Option<u32>,
}

/// Sets up the session. The connection must be driven meanwhile.
///
/// `statement_timeout` is set as it is, zero (no limit) included; `None` leaves the server's default.
pub(super) async fn set_up(
    client: &Client,
    statement_timeout: Option<Duration>,
    ask: Ask,
    wire: &Wire,
) -> Result<Answered, Failure> {
    let limit = async {
        match statement_timeout {
            Some(limit) => {
                let set = format!("SET statement_timeout = {}", limit.as_millis());
                client.batch_execute(&set).await
            }
            None => Ok(()),
        }
    };
    let role = async {
        match ask.role {
            true => client.simple_query(ROLE).await.map(Some),
            false => Ok(None),
        }
    };
    let timeline = async {
        match ask.timeline {
            true => client.simple_query(TIMELINE).await.map(Some),
            false => Ok(None),
        }
    };
    let (limit, role, timeline) = futures_util::future::join3(limit, role, timeline).await;
    let failed = |error| Failure::driver(Stage::SessionSetup, error, wire);
    limit.map_err(failed)?;
    let role = match role.map_err(failed)? {
        None => None,
        Some(answer) => Some(read_role(&answer)?),
    };
    let timeline = match timeline {
        Ok(answer) => answer.as_deref().and_then(read_timeline),
        // A server that cannot say is none the worse for it, as long as it is still there.
        Err(error) if error.as_db_error().is_some() && !client.is_closed() => None,
        Err(error) => return Err(failed(error)),
    };
    Ok(Answered { role, timeline })
}

/// Asks what the server is now. The connection must be driven meanwhile.
pub(super) async fn ask_role(client: &Client, wire: &Wire) -> Result<Role, Failure> {
    match client.simple_query(ROLE).await {
        Ok(answer) => read_role(&answer),
        Err(error) => Err(Failure::driver(Stage::SessionSetup, error, wire)),
    }
}

fn read_role(answer: &[SimpleQueryMessage]) -> Result<Role, Failure> {
    let row = only_row(answer).filter(|row| row.len() == 2);
    let text = |at| row.and_then(|row| row.try_get(at).ok().flatten());
    let in_recovery = match text(0) {
        Some("t") => Some(true),
        Some("f") => Some(false),
        _ => None,
    };
    let read_only = match text(1) {
        Some("on") => Some(true),
        Some("off") => Some(false),
        _ => None,
    };
    match (in_recovery, read_only) {
        (Some(in_recovery), Some(read_only)) => Ok(Role::of_session(in_recovery, read_only)),
        _ => Err(Failure::new(
            Stage::SessionSetup,
            Observed::BadServer,
            "the server gave no clear answer to whether it is in recovery and read-only",
        )),
    }
}

fn read_timeline(answer: &[SimpleQueryMessage]) -> Option<u32> {
    let row = only_row(answer).filter(|row| row.len() == 1)?;
    let name = row.try_get(0).ok().flatten()?;
    let is_file_name = name.len() == FILE_NAME_DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = name.get(..TIMELINE_DIGITS).filter(|_| is_file_name)?;
    u32::from_str_radix(digits, 16)
        .ok()
        .filter(|timeline| *timeline > 0)
}

fn only_row(answer: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    let mut rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    match (rows.next(), rows.next()) {
        (Some(row), None) => Some(row),
        _ => None,
    }
}
