//! Everything that can go wrong, told so that a person knows what to do.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgsteer_core::commit::Doubt as CommitDoubt;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{FailureKind, Fit, HostFailure, Refused, Role, RoleSeen, TargetSessionAttrs};
use pgsteer_core::verdict::COLD_STANDBY;

use crate::config::ConfigError;
use crate::pool::{ConnectionEnd, HookFailed, HookFailure};

/// What can go wrong. Clone is cheap. No variant ever holds or prints a secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option is unknown or has a bad value.
    Config(Arc<ConfigError>),
    /// No connection came free in time. Says who holds what and what the last connects failed with.
    CheckoutTimeout(Arc<Exhausted>),
    /// Nothing could be connected to; every host tried is listed with its state and reason.
    Connect(Arc<ConnectFailed>),
    /// Every host refused the login: it is the credentials or the database name, not a host.
    Login(Arc<ConnectFailed>),
    /// The last passes over the hosts met none that answered, so nothing is dialled until the breaker's window is over, and
    /// no open connection can serve. Nothing was tried.
    CircuitOpen {
        /// What is left of the window, exactly: asking earlier is of no use.
        retry_after: Duration,
        /// Why the last pass failed; also the [`source`](std::error::Error::source).
        last_error: Arc<Error>,
    },
    /// Hosts answered, and none is what `target_session_attrs` wants; every host is listed with its state.
    NoFit(Arc<ConnectFailed>),
    /// A connection opened, but `after_connect` failed on it, and there was no other host to open one on.
    AfterConnect(Arc<HookFailed>),
    /// The load-balance mode allows no server that is up.
    NoNode(Refused),
    /// No server is known to try.
    NoServer,
    /// The pool or cluster has been closed.
    Closed,
    /// The connection ended during the query, whose outcome is unknown. Says why it ended, which the driver's error does
    /// not.
    ConnectionLost(Arc<ConnectionLost>),
    /// COMMIT was sent and its answer has not come, or the server says that no standby has confirmed what it committed: the
    /// transaction may be committed or not. Never retried.
    CommitOutcomeUnknown(Arc<CommitUnknown>),
    /// COMMIT was sent and its answer has not come, and `resolve_commit` has found that nothing is committed, nor ever will
    /// be.
    CommitAborted(Arc<CommitAborted>),
    /// COMMIT rolled the transaction back, because a statement had failed whose error the closure passed over: the server
    /// answered with ROLLBACK, or its answer was lost after it had said that the transaction has failed. Nothing is committed.
    TransactionAborted {
        /// The SQLSTATE that the statement failed with.
        code: Option<String>,
    },
    /// The closure of a transaction ended it by a COMMIT, ROLLBACK or PREPARE TRANSACTION of its own. What became of its work
    /// is for its own statements to say. A ROLLBACK AND CHAIN, or one with a BEGIN behind it in the same text, is not noticed
    /// once SAVEPOINT was used.
    TransactionEndedInside,
    /// The transaction or savepoint that a [`Tx`](crate::Tx) belongs to is over.
    TransactionOver,
    /// A transaction had not come to its COMMIT within this `attempt_timeout`. Nothing is committed.
    TransactionTimeout(Duration),
    /// The closure of a transaction asked for its rollback, for this reason: made by [`Error::rollback`].
    Rollback(Arc<dyn std::error::Error + Send + Sync>),
    /// The driver's own error; SQL errors arrive here untouched.
    Postgres(Arc<tokio_postgres::Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(error) => write!(f, "{error}"),
            Error::CheckoutTimeout(exhausted) => write!(f, "{exhausted}"),
            Error::Connect(failed) => write!(f, "no host could be connected to: {failed}"),
            Error::CircuitOpen {
                retry_after,
                last_error,
            } => write!(
                f,
                "the database is taken to be down, ask again in {retry_after:?}; the last attempt said: {last_error}"
            ),
            Error::NoFit(failed) => {
                write!(f, "no host fits target_session_attrs={}: {failed}", failed.target)
            }
            Error::Login(failed) => {
                write!(
                    f,
                    "every host refused the login; check user, password and database: {failed}"
                )
            }
            Error::AfterConnect(failed) => write!(f, "after_connect failed on {failed}"),
            Error::NoNode(refused) => write!(f, "no node available: {}", refused_text(*refused)),
            Error::NoServer => f.write_str("no server available"),
            Error::Closed => f.write_str("the pool is closed"),
            Error::ConnectionLost(lost) => write!(f, "{lost}"),
            Error::CommitOutcomeUnknown(unknown) => write!(f, "{unknown}"),
            Error::CommitAborted(aborted) => write!(f, "{aborted}"),
            Error::TransactionAborted { code } => {
                f.write_str("the server rolled the transaction back at its commit, since a statement in it had failed")?;
                match code {
                    Some(code) => write!(f, " (SQLSTATE {code})"),
                    None => Ok(()),
                }
            }
            Error::TransactionEndedInside => {
                f.write_str("the closure ended its transaction itself, which is the pool's to do")
            }
            Error::TransactionOver => f.write_str("the transaction is over"),
            Error::TransactionTimeout(limit) => {
                write!(f, "the transaction did not come to its commit within {limit:?}")
            }
            Error::Rollback(reason) => write!(f, "the transaction was rolled back: {reason}"),
            Error::Postgres(error) => f.write_str(&driver_in_words(error)),
        }
    }
}

impl std::error::Error for Error {
    /// The driver's error, for [`Error::Postgres`] and, where it has one, [`Error::ConnectionLost`]: it can be downcast to
    /// [`tokio_postgres::Error`]. The hook's own error, for [`Error::AfterConnect`] if it returned one. The reason, for
    /// [`Error::Rollback`]; the error of the last pass, for [`Error::CircuitOpen`].
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Postgres(error) => Some(&**error),
            Error::ConnectionLost(lost) => lost.error.as_ref().map(|error| error as _),
            Error::Rollback(reason) => Some(&**reason),
            Error::AfterConnect(failed) => match &failed.failure {
                HookFailure::Error(error) => Some(&**error),
                _ => None,
            },
            Error::CircuitOpen { last_error, .. } => Some(&**last_error),
            _ => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Error::Config(Arc::new(error))
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Error::Postgres(Arc::new(error))
    }
}

impl Error {
    /// The error with which a transaction's closure asks for its rollback for a reason that is not the database's.
    pub fn rollback(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Rollback(Arc::from(reason.into()))
    }

    /// The SQLSTATE, where a server gave one: of the statement that failed, of the end of its connection, or of the last
    /// host that refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Postgres(error) => error.code().map(tokio_postgres::error::SqlState::code),
            Error::ConnectionLost(lost) => lost.end.code.as_deref(),
            Error::AfterConnect(failed) => failed.code(),
            Error::CommitOutcomeUnknown(unknown) => unknown.code.as_deref(),
            Error::CommitAborted(aborted) => aborted.code.as_deref(),
            Error::TransactionAborted { code } => code.as_deref(),
            other => other
                .hosts_tried()
                .iter()
                .rev()
                .find_map(|tried| tried.code.as_deref()),
        }
    }

    /// The hosts this error is about, in the order they were tried; empty where it is about none.
    pub fn hosts_tried(&self) -> &[HostTried] {
        match self {
            Error::Connect(failed) | Error::Login(failed) | Error::NoFit(failed) => &failed.tried,
            Error::CheckoutTimeout(exhausted) => &exhausted.failures,
            Error::AfterConnect(failed) => failed.hosts_tried(),
            Error::CircuitOpen { last_error, .. } => last_error.hosts_tried(),
            _ => &[],
        }
    }
}

/// The driver's error in words.
pub(crate) fn driver_in_words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        // The driver's own text is only "db error"; what went wrong is one level down.
        Some(said) => {
            let (severity, code) = (said.severity(), said.code().code());
            format!("{severity}: {} (SQLSTATE {code})", shortened(said.message()))
        }
        // Its own text does not say why.
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {}", shortened(&cause.to_string())),
            None => error.to_string(),
        },
    }
}

/// What a host's failure is called in errors.
pub(crate) fn failure_in_words(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Down => "down",
        FailureKind::NotReady => "is not ready",
        FailureKind::Full => "takes no more connections",
        _ => "rejected the connection",
    }
}

/// What a host's role is called in errors where it is not what is wanted.
pub(crate) fn role_in_words(role: Role, target: TargetSessionAttrs) -> &'static str {
    match role {
        // It would fit if it were the only one.
        _ if target.fit(role) != Fit::Unfit => "is a primary on an old timeline",
        Role::Primary => "is a primary",
        Role::ReadOnlyPrimary => "is a read-only primary",
        Role::Standby => "is a standby",
        Role::ColdStandby => "is a standby that takes no sessions",
    }
}

fn refused_text(refused: Refused) -> &'static str {
    match refused {
        Refused::Primary => "no primary node is up (load_balance only_primary)",
        Refused::ReadReplica => "no read replica is up (load_balance only_rr)",
        _ => "no server of the listed topology_keys is up (fallback_to_topology_keys_only)",
    }
}

/// A connection that ended during a query.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConnectionLost {
    /// The host it was on.
    pub host: HostKey,
    /// Why it ended.
    pub end: ConnectionEnd,
    /// What the driver says. `None` where the call was given up while the driver had nothing to say yet, as by
    /// `socket_timeout`.
    pub error: Option<tokio_postgres::Error>,
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection to {} was lost: {}", self.host, self.end)
    }
}

/// A transaction that may be committed or not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommitUnknown {
    /// The host that COMMIT was sent to.
    pub host: HostKey,
    /// Why there is no answer, in words.
    pub lost: String,
    /// The SQLSTATE, where the server gave one.
    pub code: Option<String>,
    /// Why it was not found out what became of it. `None` where that was not wanted, since `resolve_commit` is off.
    pub doubt: Option<CommitDoubt>,
}

impl fmt::Display for CommitUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommitUnknown {
            host, lost, doubt, ..
        } = self;
        write!(f, "COMMIT was sent to {host} and may have been done: {lost}")?;
        match doubt {
            Some(doubt) => write!(f, "; it could not be found out: {doubt}"),
            None => Ok(()),
        }
    }
}

/// A transaction whose COMMIT was sent and not answered, and that is not committed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommitAborted {
    /// The host that COMMIT was sent to.
    pub host: HostKey,
    /// Why there is no answer, in words.
    pub lost: String,
    /// The SQLSTATE, where the server gave one.
    pub code: Option<String>,
    /// There was nothing to commit: the transaction was read-only, or on a standby.
    pub only_reads: bool,
}

impl fmt::Display for CommitAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommitAborted { host, lost, .. } = self;
        match self.only_reads {
            true => write!(
                f,
                "COMMIT of a transaction that only reads was sent to {host} and not answered: {lost}"
            ),
            false => write!(f, "COMMIT was sent to {host} and not done: {lost}"),
        }
    }
}

/// A checkout that ran out of time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exhausted {
    /// How long the caller waited.
    pub waited: Duration,
    /// `pool_size`.
    pub size: u32,
    /// Connections ready to be handed out.
    pub idle: u32,
    /// Connections handed out.
    pub leased: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being cleaned or closed after their return.
    pub settling: u32,
    /// Callers waiting, this one included.
    pub waiting: u32,
    /// Age of the oldest checkout still out.
    pub oldest_holder: Option<Duration>,
    /// Where that checkout was made (`record_holders`).
    pub oldest_holder_at: Option<String>,
    /// Set if the last connect found no host that `target_session_attrs`, which this is, wants.
    pub nothing_fits: Option<TargetSessionAttrs>,
    /// The newest connect failure of each host that failed, and the role of each that is not what is wanted.
    pub failures: Vec<HostTried>,
}

/// A search for a host that found none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectFailed {
    /// Every host tried, in order; then those that were left out because they had failed a moment ago.
    pub tried: Vec<HostTried>,
    /// `target_session_attrs`.
    pub target: TargetSessionAttrs,
}

/// One host of a failed search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostTried {
    /// Which host.
    pub host: HostKey,
    /// Its state in words: down, rejected, not ready, full, login refused, or what it is: a primary, a standby.
    pub state: &'static str,
    /// Why, in words, without secrets. Empty where the state says it all.
    pub reason: String,
    /// SQLSTATE, where the server gave one.
    pub code: Option<String>,
    /// What it is, where it is not what is wanted.
    pub role: Option<Role>,
    /// How long the attempt took, or how long ago it was for a remembered failure.
    pub age: Duration,
}

impl HostTried {
    /// A failure that the cluster remembers.
    pub(crate) fn remembered(host: &HostKey, failure: &HostFailure, now: Instant) -> Self {
        HostTried {
            host: host.clone(),
            state: failure_in_words(failure.kind),
            reason: failure.reason.clone(),
            code: None,
            role: None,
            age: now.saturating_duration_since(failure.at),
        }
    }

    /// A role that the cluster remembers and that is not what is wanted.
    pub(crate) fn unfit(host: &HostKey, seen: &RoleSeen, target: TargetSessionAttrs, now: Instant) -> Self {
        // The one role that is told by a refusal.
        let code = (seen.role == Role::ColdStandby).then_some(COLD_STANDBY);
        HostTried {
            host: host.clone(),
            state: role_in_words(seen.role, target),
            reason: code.map_or_else(String::new, |code| {
                format!("it refuses logins with SQLSTATE {code}")
            }),
            code: code.map(str::to_owned),
            role: Some(seen.role),
            age: now.saturating_duration_since(seen.at),
        }
    }
}

impl fmt::Display for HostTried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.state)?;
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}

impl fmt::Display for ConnectFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hosts(f, &self.tried, |age| format!("after {:?}", rounded(age)))
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no connection within {:?}: of {} there are {} idle, {} leased, {} opening, {} settling; {} waiting",
            self.waited, self.size, self.idle, self.leased, self.opening, self.settling, self.waiting
        )?;
        if let Some(age) = self.oldest_holder {
            write!(f, "; the oldest checkout has been out for {age:?}")?;
        }
        if let Some(place) = &self.oldest_holder_at {
            write!(f, ", taken at {place}")?;
        }
        if !self.failures.is_empty() {
            match self.nothing_fits {
                Some(target) => write!(f, "; no host fits target_session_attrs={target}: ")?,
                None => write!(f, "; last connect failures: ")?,
            }
            write_hosts(f, &self.failures, |age| format!("{:?} ago", rounded(age)))?;
        }
        Ok(())
    }
}

/// A time as people read it: of ten milliseconds or more only whole ones are told.
fn rounded(time: Duration) -> Duration {
    let millis = time.as_millis();
    match u64::try_from(millis) {
        Ok(millis @ 10..) => Duration::from_millis(millis),
        _ => time,
    }
}

/// Hosts an error's text names at most; all of them are in [`Error::hosts_tried`].
const HOSTS_TOLD: usize = 10;

fn write_hosts(
    f: &mut fmt::Formatter<'_>,
    hosts: &[HostTried],
    when: impl Fn(Duration) -> String,
) -> fmt::Result {
    for (place, tried) in hosts.iter().take(HOSTS_TOLD).enumerate() {
        let separator = if place == 0 { "" } else { "; " };
        write!(f, "{separator}{tried} ({})", when(tried.age))?;
    }
    match hosts.len().saturating_sub(HOSTS_TOLD) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

/// Characters of a text of foreign origin that are told. A server may send a megabyte.
const TEXT_TOLD: usize = 500;

/// The text, or its beginning if it is long.
pub(crate) fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(TEXT_TOLD) {
        None => text.into(),
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()).into(),
    }
}
