//! What a server is asked about itself and a transaction: before COMMIT, and again when its answer was lost.
//!
//! The answers go to the rule in `pgsteer_core::commit` as they come. Nothing is read into them here.

use std::time::Duration;

use futures_util::TryStreamExt;
use pgsteer_core::commit::{COLUMNS, Doubt, Fate, Finding, History, Mark, Obstacle, judge};
use pgsteer_core::verdict::{is_never_given, refuses_question};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, SimpleQueryMessage, SimpleQueryRow};

use super::mark::Marked;
use crate::dial::Dialled;
use crate::error::driver_in_words;

/// What the server says of itself, in the order of [`COLUMNS`] and without the last. Every function is one that anybody may
/// call, and none fails on a standby. Those that are known by one name from PostgreSQL 10 on are called by that. Times are
/// numbers, so that no setting of a session writes them differently.
macro_rules! situation {
    () => {
        "pg_catalog.version(), \
         pg_catalog.current_setting('server_version_num'), \
         CASE WHEN pg_catalog.to_regproc('pg_catalog.aurora_version') IS NOT NULL THEN 'Aurora' \
         ELSE CASE WHEN pg_catalog.current_setting('neon.timeline_id', true) IS NOT NULL THEN 'Neon' \
         ELSE NULL END END, \
         pg_catalog.pg_is_in_recovery(), \
         system_identifier, \
         CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL \
         ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END, \
         CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL \
         ELSE pg_catalog.pg_current_wal_insert_lsn() END, \
         checkpoint_lsn, \
         redo_lsn, \
         pg_catalog.date_part('epoch', checkpoint_time), \
         pg_catalog.current_setting('wal_level'), \
         pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()), \
         CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 150000 \
         THEN pg_catalog.date_part('epoch', pg_catalog.pg_stat_get_bgwriter_stat_reset_time()) \
         ELSE NULL END, \
         pg_catalog.current_setting('synchronous_commit'), \
         pg_catalog.current_setting('synchronous_standby_names')"
    };
}

macro_rules! control_file {
    () => {
        " FROM pg_catalog.pg_control_system(), pg_catalog.pg_control_checkpoint()"
    };
}

/// Asked before COMMIT, in the transaction and one round trip. A transaction without an id is given one. Within a savepoint,
/// so that an error does not fail the transaction.
pub(super) const MARK: &str = concat!(
    "SAVEPOINT pgsteer_mark; SELECT ",
    situation!(),
    ", CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.txid_current() END",
    control_file!(),
    "; RELEASE SAVEPOINT pgsteer_mark"
);

/// Takes back an error of [`MARK`].
pub(super) const UNDO_MARK: &str = "ROLLBACK TO SAVEPOINT pgsteer_mark; RELEASE SAVEPOINT pgsteer_mark";

/// The first part of the question what became of it. Both parts are one message, and so go to one process.
const SITUATION: &str = concat!("SELECT ", situation!(), control_file!());

/// How long synchronous standbys may take to confirm what is committed, each time they are asked for it.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

/// Reads the answer to [`MARK`].
pub(super) fn read_mark(answer: &[SimpleQueryMessage]) -> Marked {
    let not = |why: String| Marked::Not(Doubt::NotMarked(why));
    let rows: Vec<_> = answer.iter().filter_map(row).collect();
    let [row] = rows[..] else {
        return not("it gave another number of rows than one".to_owned());
    };
    let history = match read(row) {
        Ok(history) => history,
        // Nothing can be written there.
        Err(Obstacle::InRecovery) => return Marked::OnlyReads,
        Err(obstacle) => return not(obstacle.to_string()),
    };
    let last = COLUMNS.len() - 1;
    match text(row, last).and_then(|id| id.parse().ok()) {
        Some(id) => Marked::With(Box::new(Mark { id, history })),
        None => not(Obstacle::Unclear(COLUMNS[last]).to_string()),
    }
}

/// Asks what became of the transaction.
///
/// Where it is committed and synchronous standbys have to confirm it, asks the same again within a transaction that writes
/// into the log, and commits that: once that is answered in the ordinary way, they have confirmed all that came before.
///
/// Not cancel safe: after the future was dropped the connection is only fit to be closed. So it is if they take too long.
pub(super) async fn ask(dialled: &mut Dialled, mark: &Mark) -> Finding {
    let question = format!("{SITUATION}; SELECT pg_catalog.txid_status({})", mark.id);
    let (client, driver, wire) = (&dialled.client, &mut dialled.driver, &dialled.wire);
    let wait = match driver.drive_while(put(client, &question, mark, false)).await {
        Finding::Confirm(wait) => wait,
        clear => return clear,
    };
    let confirm = format!(
        "BEGIN READ WRITE; SET LOCAL synchronous_commit = {}; {question}; \
         SELECT pg_catalog.pg_logical_emit_message(true, 'pgsteer', ''); COMMIT",
        wait.as_setting(),
    );
    let before = wire.said().unconfirmed;
    let confirming = driver.drive_while(put(client, &confirm, mark, true));
    let Ok(finding) = timeout(CONFIRMED_WITHIN, confirming).await else {
        return Finding::AskAgain(Doubt::Unconfirmed);
    };
    let said = wire.said();
    let is_done = said.tag.is_some_and(|tag| tag.as_str() == "COMMIT") && said.unconfirmed == before;
    match finding {
        Finding::Committed if !is_done => Finding::AskAgain(Doubt::Unconfirmed),
        other => other,
    }
}

/// Puts a question to which two rows are the answer, the situation and what became of the transaction; and one more where
/// it also has that confirmed.
async fn put(client: &Client, question: &str, mark: &Mark, confirmed: bool) -> Finding {
    let most = if confirmed { 3 } else { 2 };
    let mut rows = Vec::new();
    match collect(client, question, most, &mut rows).await {
        Ok(()) => {}
        // It has answered the first part by then.
        Err(error) if rows.len() == 1 && says(&error, is_never_given) => {
            return judge(mark, read(&rows[0]).as_ref(), Fate::NeverGiven, confirmed);
        }
        Err(error) if says(&error, refuses_question) => {
            return Finding::Unknown(Doubt::NoAnswer(driver_in_words(&error)));
        }
        Err(error) => return Finding::AskAgain(Doubt::NoAnswer(driver_in_words(&error))),
    }
    match &rows[..] {
        [situation, fate, rest @ ..] if fate.len() == 1 && rest.len() == most - 2 => {
            let fate = Fate::from_word(text(fate, 0));
            judge(mark, read(situation).as_ref(), fate, confirmed)
        }
        _ => Finding::Unknown(Doubt::Nonsense(
            "it gave other rows than were asked for".to_owned(),
        )),
    }
}

/// The rows of an answer, one more at most than it should have.
async fn collect(
    client: &Client,
    question: &str,
    most: usize,
    rows: &mut Vec<SimpleQueryRow>,
) -> Result<(), Error> {
    let mut stream = std::pin::pin!(client.simple_query_raw(question).await?);
    while let Some(message) = stream.try_next().await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push(row);
        }
        if rows.len() > most {
            break;
        }
    }
    Ok(())
}

fn read(row: &SimpleQueryRow) -> Result<History, Obstacle> {
    History::read(|at| text(row, at))
}

fn row(message: &SimpleQueryMessage) -> Option<&SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

/// A column's text; `None` for NULL, and where there is no such column or it is not text.
fn text(row: &SimpleQueryRow, at: usize) -> Option<&str> {
    (at < row.len()).then(|| row.try_get(at).ok().flatten()).flatten()
}

fn says(error: &Error, what: fn(&str) -> bool) -> bool {
    error.as_db_error().is_some_and(|said| what(said.code().code()))
}
