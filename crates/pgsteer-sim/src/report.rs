//! What the simulation tells of itself, as plain values: counters, sessions, and what names resolve to.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a name resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// These addresses, in this order.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    Unknown,
    /// The resolver fails with this kind of error.
    Fail(io::ErrorKind),
    /// The resolver never answers.
    Hang,
}

/// What a server has counted since the simulation was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connects that were begun, whatever came of them; those for cancel requests are among them.
    pub attempts: u64,
    /// Sessions that began.
    pub logins: u64,
    /// The same, by the name the client gave itself.
    pub logins_by_application: BTreeMap<String, u64>,
    /// Cancel requests.
    pub cancel_requests: u64,
    /// Statements that were begun.
    pub statements: u64,
    /// Those among them that asked for `yb_servers()`.
    pub discovery_queries: u64,
    /// Sessions now.
    pub live: usize,
    /// The most sessions there were at one moment.
    pub most_live: usize,
    /// Bytes received over all connections.
    pub received: u64,
}

/// A session as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The connection's number in the log.
    pub id: u64,
    /// The server's name.
    pub server: Arc<str>,
    /// The backend's process id, as `pg_backend_pid()` gives it.
    pub pid: i32,
    /// Who is logged in.
    pub user: String,
    /// To which database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// When the session began, since the simulation was built.
    pub since: Duration,
    /// As the last ReadyForQuery told it.
    pub transaction_status: TransactionStatus,
    /// The statement that runs, if one does.
    pub running: Option<String>,
    /// Whether it has ever asked for `yb_servers()`.
    pub asked_for_servers: bool,
}

/// The status byte of ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionStatus {
    /// Outside of a transaction.
    Idle = b'I',
    /// In a transaction.
    InTransaction = b'T',
    /// In a transaction that has failed.
    Failed = b'E',
}
