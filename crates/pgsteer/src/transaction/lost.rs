//! A COMMIT whose answer was lost: found out about where that is wanted and can be done, and told of otherwise.

use std::time::Duration;

use pgsteer_core::commit::{Doubt, Finding, Mark};
use pgsteer_core::host::HostKey;
use pgsteer_core::transaction::back_off;
use pgsteer_core::verdict::HostEffect;
use tokio::time::{Instant, sleep, timeout_at};

use super::attempt::Ended;
use super::mark::Marked;
use super::options::{AttemptEnd, TransactionOptions};
use super::question;
use crate::config::LONGEST;
use crate::error::{CommitAborted, CommitUnknown, Error, shortened};
use crate::pool::Pool;
use crate::world::Endpoint;

/// The longest rest between two questions.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A transaction whose COMMIT was sent and not answered, once its connection is gone.
pub(super) struct Lost<T> {
    /// What the closure gave.
    pub(super) value: T,
    pub(super) marked: Marked,
    pub(super) host: HostKey,
    pub(super) endpoint: Endpoint,
    /// Why there is no answer, in words, and its SQLSTATE.
    pub(super) lost: String,
    pub(super) code: Option<String>,
}

/// What was found, unless it is "committed" on a primary that another has been promoted over: what it committed last may be
/// lost with it, though it still answers.
fn unless_outranked(found: Finding, mark: &Mark, pool: &Pool) -> Finding {
    let before = mark.history.timeline;
    match (found, pool.highest_timeline()) {
        (Finding::Committed, Some(now)) if now > before => {
            Finding::Unknown(Doubt::OtherTimeline { before, now })
        }
        (found, _) => found,
    }
}

impl<T> Lost<T> {
    /// How the attempt has ended, as far as that can be found out.
    ///
    /// Cancel safe: nothing is changed by it.
    pub(super) async fn settle<E: From<Error>>(
        self,
        pool: &Pool,
        options: &TransactionOptions,
    ) -> Ended<T, E> {
        let finding = match &self.marked {
            Marked::NotWanted => return self.unknown(None),
            // To read again does no harm, whatever became of the first time. What was read would not do: a serializable
            // transaction may have been refused.
            Marked::BegunToRead | Marked::OnlyReads => Finding::Aborted,
            Marked::Not(doubt) => Finding::Unknown(doubt.clone()),
            Marked::With(mark) => self.find_out(pool, options, mark).await,
        };
        match finding {
            Finding::Committed => self.committed(),
            Finding::Aborted => self.aborted(),
            Finding::Confirm(_) => self.unknown(Some(Doubt::Unconfirmed)),
            Finding::AskAgain(doubt) | Finding::Unknown(doubt) => self.unknown(Some(doubt)),
        }
    }

    /// Asks the server, again and again until it is clear or the time is over.
    async fn find_out(&self, pool: &Pool, options: &TransactionOptions, mark: &Mark) -> Finding {
        let settings = pool.settings();
        let limit = options
            .resolve_commit_timeout
            .unwrap_or(settings.resolve_commit_timeout)
            .min(LONGEST);
        let deadline = Instant::now() + limit;
        let mut doubt = Doubt::NoAnswer(format!("it did not answer within {limit:?}"));
        let mut questions = 0;
        loop {
            questions += 1;
            let found = timeout_at(deadline, self.ask(pool, mark, deadline)).await;
            match found.map(|found| unless_outranked(found, mark, pool)) {
                // What it said before is more than that it has not answered in the end.
                Err(_) => return Finding::Unknown(doubt),
                Ok(Finding::AskAgain(Doubt::NoAnswer(_))) if questions > 1 && Instant::now() >= deadline => {
                    return Finding::Unknown(doubt);
                }
                Ok(Finding::AskAgain(more)) => doubt = more,
                Ok(clear) => return clear,
            }
            let rest = back_off(questions, LONGEST_REST, pool.draw());
            if Instant::now() + rest >= deadline {
                return Finding::Unknown(doubt);
            }
            sleep(rest).await;
        }
    }

    /// Asks once, on a connection of its own to where the transaction was.
    async fn ask(&self, pool: &Pool, mark: &Mark, deadline: Instant) -> Finding {
        let asking = pool.beside(&self.host, &self.endpoint, deadline, async |dialled| {
            question::ask(dialled, mark).await
        });
        let error = match asking.await {
            Ok(finding) => return finding,
            Err(error) => error,
        };
        let doubt = Doubt::NoAnswer(shortened(&error.to_string()).into_owned());
        match error.host_effect() {
            // To log in again and again would only bring a lock-out nearer.
            HostEffect::JudgeAtEndOfPass => Finding::Unknown(doubt),
            _ => Finding::AskAgain(doubt),
        }
    }

    fn committed<E>(self) -> Ended<T, E> {
        let Lost {
            host,
            lost,
            code,
            value,
            ..
        } = self;
        tracing::info!(target: "pgsteer::transaction", %host, "a COMMIT whose answer was lost was done: {lost}");
        Ended {
            result: Ok(value),
            end: AttemptEnd::FoundCommitted,
            code,
        }
    }

    fn aborted<E: From<Error>>(self) -> Ended<T, E> {
        let Lost {
            host,
            lost,
            code,
            marked,
            ..
        } = self;
        tracing::info!(target: "pgsteer::transaction", %host, "a COMMIT whose answer was lost was not done: {lost}");
        let only_reads = matches!(marked, Marked::BegunToRead | Marked::OnlyReads);
        let aborted = CommitAborted {
            host,
            lost,
            code,
            only_reads,
        };
        Ended::failed(AttemptEnd::FoundAborted, Error::CommitAborted(aborted.into()))
    }

    fn unknown<E: From<Error>>(self, doubt: Option<Doubt>) -> Ended<T, E> {
        let Lost { host, lost, code, .. } = self;
        if let Some(doubt) = &doubt {
            tracing::warn!(target: "pgsteer::transaction", %host, "it could not be found out whether a COMMIT was done: {doubt}");
        }
        let unknown = CommitUnknown {
            host,
            lost,
            code,
            doubt,
        };
        Ended::failed(
            AttemptEnd::OutcomeUnknown,
            Error::CommitOutcomeUnknown(unknown.into()),
        )
    }
}
