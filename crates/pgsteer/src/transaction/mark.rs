//! What is found out about a transaction before its COMMIT is sent, so that it can be asked about afterwards. A server that
//! does not answer, or whose answer is of no use, commits all the same.

use pgsteer_core::commit::{Doubt, Mark};
use pgsteer_core::verdict::{Evidence, refuses_question};

use super::attempt::evidence;
use super::options::TransactionOptions;
use super::question;
use crate::config::Settings;
use crate::error::Error;
use crate::pool::{Conn, TransactionStatus};

/// What is known of a transaction before its COMMIT is sent.
#[derive(Debug)]
pub(super) enum Marked {
    /// Nothing: it is not wanted.
    NotWanted,
    /// It has nothing to commit: it only reads.
    OnlyReads,
    /// Nothing, for this reason.
    Not(Doubt),
    /// Its id, and where the server stands.
    With(Box<Mark>),
}

/// Asks for the transaction's id and where the server stands, if that is wanted and can be.
///
/// Not cancel safe: after the future was dropped the connection is only fit to be closed.
///
/// # Errors
/// The connection is lost, and COMMIT has not been sent.
pub(super) async fn mark(
    conn: &Conn,
    options: &TransactionOptions,
    settings: &Settings,
) -> Result<Marked, Error> {
    if !options.resolves(settings) {
        return Ok(Marked::NotWanted);
    }
    if options.only_reads() {
        return Ok(Marked::OnlyReads);
    }
    if let Some(doubt) = Conn::unasked(conn) {
        return Ok(Marked::Not(doubt.clone()));
    }
    if Conn::transaction_status(conn) == Some(TransactionStatus::Failed) {
        let why = "the transaction had failed".to_owned();
        return Ok(Marked::Not(Doubt::NotMarked(why)));
    }
    let error = match conn.simple_query(question::MARK).await {
        Ok(answer) => {
            let marked = question::read_mark(&answer);
            if let Marked::Not(doubt) = &marked {
                Conn::never_ask(conn, doubt.clone());
            }
            return Ok(marked);
        }
        Err(error) => error,
    };
    let refused = match evidence(&error) {
        Evidence::Server {
            fatal: false,
            sqlstate,
        } => refuses_question(sqlstate),
        _ => return Err(error),
    };
    let doubt = Doubt::NotMarked(error.to_string());
    if refused {
        Conn::never_ask(conn, doubt.clone());
    }
    match conn.batch_execute(question::UNDO_MARK).await {
        // If there is nothing to go back to, the transaction has failed by itself, as COMMIT will say.
        Ok(()) | Err(Error::Postgres(_)) => Ok(Marked::Not(doubt)),
        Err(error) => Err(error),
    }
}
