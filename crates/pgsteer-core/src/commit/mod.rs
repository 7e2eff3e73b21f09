//! What became of a COMMIT whose answer was lost: the rule that decides it from what the server said of itself before
//! COMMIT and says now.
//!
//! A transaction's id alone proves nothing. PostgreSQL keeps the ids it has given in memory, and in its log only once the
//! transaction has changed something and that part of the log is written out; after a crash it gives again those that were
//! lost. `committed` may then be said of somebody else's work. So the rule is
//!
//! - **aborted** is believed of the same database cluster on the same timeline. If the id is still that of the transaction
//!   asked about, the server says what became of it. If it was lost and is another's now, the commit was lost with it:
//!   in the log that commit comes after all else that has the id. An id that the server has not given yet says the same.
//! - **committed** is believed if the server has not crashed since it was asked before COMMIT, so that the id can only have
//!   been given once; [`History::has_gone_on`] says by what that is told.
//! - **committed** after a crash means *aborted* if the log ends, since then, before the place where it was already when
//!   COMMIT had not been sent ([`History::has_lost`]). Otherwise nobody knows.
//! - Where commits wait for synchronous standbys, **committed** is believed once another commit of that server has waited for
//!   them too: the transaction's may have been kept from it.
//! - Whatever comes from another timeline, another database cluster or a server in recovery proves nothing.
//!
//! What is assumed of the server is written down with `resolve_commit` in pgsteer's documentation. There is no I/O here and
//! no clock; what a server says is read by `history.rs`, and may be anything.

mod history;

use std::fmt;

pub use history::{COLUMNS, Checkpoint, History, Obstacle, Position, Version, Wait, may_be_asked};

/// What a server says of a transaction's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is committed.
    Committed,
    /// It is aborted.
    Aborted,
    /// It is running.
    InProgress,
    /// The server has not given the id to any transaction yet.
    NeverGiven,
    /// The id is so old that the server has forgotten.
    Forgotten,
    /// Something else.
    Unclear,
}

impl Fate {
    /// By the word of `txid_status()`, `None` being NULL.
    pub fn from_word(word: Option<&str>) -> Self {
        match word {
            None => Fate::Forgotten,
            Some("committed") => Fate::Committed,
            Some("aborted") => Fate::Aborted,
            Some("in progress") => Fate::InProgress,
            Some(_) => Fate::Unclear,
        }
    }
}

/// What is known before COMMIT is sent: the transaction's id, and where the server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The transaction's id, with its epoch.
    pub id: u64,
    /// The server's past up to then.
    pub history: History,
}

/// What became of the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is committed.
    Committed,
    /// It is committed on the server. Whether a standby has it, as the commit was to wait for, is not known: the server is
    /// to make another commit that waits for this, behind which the transaction's cannot be.
    Confirm(Wait),
    /// It is not, and never will be.
    Aborted,
    /// It may become clear. The doubt to tell of if it does not in time.
    AskAgain(Doubt),
    /// It will not become clear from asking again.
    Unknown(Doubt),
}

/// Why it is not known whether a transaction was committed, though that was to be found out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// Before COMMIT the server was asked for the transaction's id and did not say, for this reason.
    NotMarked(String),
    /// The server could not be asked in time. What the last attempt failed with.
    NoAnswer(String),
    /// The transaction is still running on the server, which may not have noticed that its client is gone.
    InProgress,
    /// The server is in recovery: it may be a standby by now.
    InRecovery,
    /// Another database cluster answers where the transaction was.
    OtherSystem,
    /// The server writes on another timeline: it was promoted since, or restored, and its past may be another. Or another
    /// server has been promoted over it.
    OtherTimeline {
        /// The one the transaction was on.
        before: u32,
        /// The one it writes on now.
        now: u32,
    },
    /// The server has crashed since, or may have, and says that a transaction of this id is committed. It may be another
    /// that was given the id afterwards.
    MayBeAnother,
    /// The server has it committed, and no synchronous standby has confirmed that: a failover may lose it.
    Unconfirmed,
    /// The id is so old that the server has forgotten what became of it.
    Forgotten,
    /// What the server said makes no sense, in words.
    Nonsense(String),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::NotMarked(why) => write!(f, "the server could not tell the transaction's id before COMMIT: {why}"),
            Doubt::NoAnswer(why) => write!(f, "the server could not be asked: {why}"),
            Doubt::InProgress => f.write_str("the transaction is still in progress on the server"),
            Doubt::InRecovery => f.write_str("the server is in recovery now"),
            Doubt::OtherSystem => f.write_str("another database cluster answers there now"),
            Doubt::OtherTimeline { before, now } => {
                write!(f, "it was on timeline {before}, and timeline {now} is written now")
            }
            Doubt::MayBeAnother => f.write_str(
                "the server may have crashed since, and given the transaction's id to the committed one that has it now",
            ),
            Doubt::Unconfirmed => f.write_str(
                "the server has it committed, but no synchronous standby has confirmed it, so a failover may lose it",
            ),
            Doubt::Forgotten => f.write_str("the server has forgotten a transaction as old as this"),
            Doubt::Nonsense(what) => write!(f, "what the server said makes no sense: {what}"),
        }
    }
}

/// What became of the transaction, from what was known before COMMIT and what the server says now of itself and of the
/// transaction's id. Both must have been said in one breath, by one process of the server; `confirmed` if that has also made
/// a commit that waited as the transaction's was to wait.
pub fn judge(mark: &Mark, now: Result<&History, &Obstacle>, fate: Fate, confirmed: bool) -> Finding {
    let before = &mark.history;
    let now = match now {
        Ok(now) => now,
        Err(Obstacle::InRecovery) => return Finding::AskAgain(Doubt::InRecovery),
        Err(obstacle) => return Finding::Unknown(Doubt::Nonsense(obstacle.to_string())),
    };
    if now.system != before.system {
        return Finding::Unknown(Doubt::OtherSystem);
    }
    if now.timeline != before.timeline {
        return Finding::Unknown(Doubt::OtherTimeline {
            before: before.timeline,
            now: now.timeline,
        });
    }
    let has_gone_on = before.has_gone_on(now);
    let is_lost = !has_gone_on && before.has_lost(now);
    match fate {
        Fate::Aborted => Finding::Aborted,
        Fate::NeverGiven if has_gone_on => {
            let what = "it has not given an id that it gave a moment ago";
            Finding::Unknown(Doubt::Nonsense(what.to_owned()))
        }
        Fate::NeverGiven => Finding::Aborted,
        Fate::Committed if has_gone_on => match before.wait {
            Some(wait) if now.has_synchronous_standbys && !confirmed => Finding::Confirm(wait),
            _ => Finding::Committed,
        },
        Fate::Committed | Fate::InProgress if is_lost => Finding::Aborted,
        Fate::Committed => Finding::Unknown(Doubt::MayBeAnother),
        Fate::InProgress => Finding::AskAgain(Doubt::InProgress),
        Fate::Forgotten => Finding::Unknown(Doubt::Forgotten),
        Fate::Unclear => {
            let what = "it does not say what became of a transaction";
            Finding::Unknown(Doubt::Nonsense(what.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests;
