//! Preparing a connection before anybody gets it: running `after_connect`, judging what it leaves behind, and closing
//! what it did not pass on. It runs in the opener, which drives the connection meanwhile.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::slice;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;

use super::ends::ConnectionEnd;
use super::guard::TransactionStatus;
use crate::cluster::{Opened, now};
use crate::config::{Hook, HookError, Settings};
use crate::dial::{self, Dialled};
use crate::error::{HostTried, driver_in_words, shortened};

/// A connection that opened and that `after_connect` failed on.
#[derive(Debug)]
#[non_exhaustive]
pub struct HookFailed {
    /// Why it failed.
    pub failure: HookFailure,
    /// Why the connection ended, if it did so by itself meanwhile.
    pub end: Option<ConnectionEnd>,
    /// The host, for the list of hosts that an error is about.
    tried: HostTried,
}

/// Why `after_connect` failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum HookFailure {
    /// It returned this error.
    Error(HookError),
    /// It panicked, with this message if that is a literal. One that was put together at run time may hold anything and
    /// is not kept.
    Panicked(Option<&'static str>),
    /// It ran longer than `after_connect_timeout`, which this is.
    TimedOut(Duration),
    /// It returned no error, but the connection had ended.
    ConnectionLost,
    /// It left the connection inside a transaction.
    InTransaction(TransactionStatus),
    /// It left requests unanswered, for longer than `return_timeout`.
    Busy,
}

impl HookFailed {
    /// The host the connection was on.
    pub fn host(&self) -> &HostKey {
        &self.tried.host
    }

    /// The host as one that was tried.
    pub(crate) fn hosts_tried(&self) -> &[HostTried] {
        slice::from_ref(&self.tried)
    }

    /// The SQLSTATE of the hook's own error, or of the end of its connection.
    pub(crate) fn code(&self) -> Option<&str> {
        self.tried.code.as_deref()
    }

    /// Why, in words and without the host.
    pub(super) fn reason(&self) -> &str {
        &self.tried.reason
    }

    fn new(host: HostKey, failure: HookFailure, end: Option<ConnectionEnd>, age: Duration) -> Self {
        let said = failure.driver_error().and_then(tokio_postgres::Error::code);
        let code = match (said, &end) {
            (Some(code), _) => Some(code.code().to_owned()),
            (None, Some(end)) => end.code.clone(),
            (None, None) => None,
        };
        let reason = match &end {
            Some(end) if !matches!(failure, HookFailure::ConnectionLost) => {
                format!("{failure}; the connection was lost: {end}")
            }
            Some(end) => format!("{failure}: {end}"),
            None => failure.to_string(),
        };
        HookFailed {
            tried: HostTried {
                host,
                state: "failed after_connect",
                reason,
                code,
                role: None,
                age,
            },
            failure,
            end,
        }
    }
}

impl HookFailure {
    /// The driver's error, if the hook returned one.
    fn driver_error(&self) -> Option<&tokio_postgres::Error> {
        match self {
            HookFailure::Error(error) => error.downcast_ref(),
            _ => None,
        }
    }

    pub(super) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        HookFailure::Panicked(payload.downcast_ref::<&'static str>().copied())
    }
}

impl fmt::Display for HookFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tried.host, self.tried.reason)
    }
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.driver_error()) {
            (_, Some(error)) => f.write_str(&driver_in_words(error)),
            (HookFailure::Error(error), None) => f.write_str(&shortened(&error.to_string())),
            (HookFailure::Panicked(Some(message)), _) => write!(f, "it panicked: {}", shortened(message)),
            (HookFailure::Panicked(None), _) => f.write_str("it panicked"),
            (HookFailure::TimedOut(limit), _) => write!(f, "it took longer than {limit:?}"),
            (HookFailure::ConnectionLost, _) => f.write_str("the connection was lost"),
            (HookFailure::InTransaction(TransactionStatus::Failed), _) => {
                f.write_str("it left the connection inside a failed transaction")
            }
            (HookFailure::InTransaction(_), _) => f.write_str("it left the connection inside a transaction"),
            (HookFailure::Busy, _) => f.write_str("it left a request that was not answered in time"),
        }
    }
}

/// Runs the hook on a connection that has just been opened. A connection that it failed on is closed when this returns:
/// its place is taken by another only after its socket is gone.
///
/// Dropping the future cuts the socket.
pub(super) async fn prepare(
    hook: &Hook,
    mut opened: Opened,
    settings: &Settings,
) -> Result<Opened, HookFailed> {
    let since = now();
    let Err(failure) = run(hook, &mut opened.dialled, settings).await else {
        return Ok(opened);
    };
    let host = opened.key.clone();
    let end = opened.dialled.handle.end_reason();
    let end = end.as_ref().map(ConnectionEnd::of);
    let age = now().saturating_duration_since(since);
    close(opened, settings).await;
    Err(HookFailed::new(host, failure, end, age))
}

async fn run(hook: &Hook, dialled: &mut Dialled, settings: &Settings) -> Result<(), HookFailure> {
    let Dialled {
        client,
        driver,
        session,
        wire,
        ..
    } = dialled;
    // What it unwinds out of is the application's own, and the connection goes.
    let work = AssertUnwindSafe(hook.run(client)).catch_unwind();
    match driver
        .drive_while(within(settings.after_connect_timeout, work))
        .await
    {
        Err(limit) => return Err(HookFailure::TimedOut(limit)),
        Ok(Err(payload)) => return Err(HookFailure::of_panic(&*payload)),
        Ok(Ok(Err(error))) => return Err(HookFailure::Error(error)),
        Ok(Ok(Ok(()))) => {}
    }
    // A statement that was dropped, say, is closed on the server by a request of its own.
    let quiet = poll_fn(|_| {
        let is_known = session.is_quiet() && wire.status() != dial::TransactionStatus::Unknown;
        match session.is_closed() || is_known {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    let answered = driver
        .drive_while(within(Some(settings.return_timeout), quiet))
        .await;
    if session.is_closed() {
        return Err(HookFailure::ConnectionLost);
    }
    match (answered, wire.status()) {
        (Ok(()), dial::TransactionStatus::Idle) => Ok(()),
        (Ok(()), dial::TransactionStatus::InTransaction) => {
            Err(HookFailure::InTransaction(TransactionStatus::InTransaction))
        }
        (Ok(()), dial::TransactionStatus::Failed) => {
            Err(HookFailure::InTransaction(TransactionStatus::Failed))
        }
        (Ok(()), dial::TransactionStatus::Unknown) | (Err(_), _) => Err(HookFailure::Busy),
    }
}

/// The work's result, or the limit if it was reached.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Duration> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.map_err(|_| limit),
        None => Ok(work.await),
    }
}

/// Closes the connection and waits until its socket is gone. What still runs on it is cancelled: a statement that takes
/// longer than the hook may would otherwise go on, once for each try.
async fn close(opened: Opened, settings: &Settings) {
    let Opened { dialled, counted, .. } = opened;
    dialled.close(settings.return_timeout).await;
    drop(counted);
}
