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
    /// It has nothing to commit: it was begun as one that only reads.
    BegunToRead,
    /// It has nothing to commit: nothing can be written where it is.
    OnlyReads,
    /// Nothing, for this reason.
    Not(Doubt),
    /// Its id, and where the server stands.
    With(Box<Mark>),
}

impl Marked {
    /// The same, unless all it relies on is how the transaction was begun, and the transaction may have been made another
    /// since, by `SET TRANSACTION READ WRITE` say.
    pub(super) fn unless_remade(self, may_be_remade: bool) -> Self {
        match self {
            Marked::BegunToRead if may_be_remade => {
                let why = "it was begun to read, and may have been made writable since";
                Marked::Not(Doubt::NotMarked(why.to_owned()))
            }
            other => other,
        }
    }
}

/// Asks for the transaction's id and where the server stands, if that is wanted and can be. Not of one that only reads, as far
/// as is known.
///
/// Not cancel safe: after the future was dropped the connection is only fit to be closed.
///
/// # Errors
/// The connection is lost, and COMMIT has not been sent.
pub(super) async fn mark(
    conn: &Conn,
    options: &TransactionOptions,
    settings: &Settings,
    only_reads: bool,
) -> Result<Marked, Error> {
    if !options.resolves(settings) {
        return Ok(Marked::NotWanted);
    }
    if only_reads {
        return Ok(Marked::BegunToRead);
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
        Ok(()) => Ok(Marked::Not(doubt)),
        // There is nothing to go back to: the transaction has failed by itself, as COMMIT will say. Once this is answered, so
        // is all before it, and nothing is missing of what the server has to say of the transaction.
        Err(Error::Postgres(_)) => conn.batch_execute("").await.map(|()| Marked::Not(doubt)),
        Err(error) => Err(error),
    }
}
