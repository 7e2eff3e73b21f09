//! What lives in a slot: one open connection and what the pool knows of it.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pgsteer_core::commit::Doubt;
use pgsteer_core::host::HostKey;
use pgsteer_core::pool::{self, HasSession, Session};
use tokio_postgres::Client;

use super::statements::Statements;
use crate::dial::{Canceller, Handle, Wire};

/// One open connection. It stays in its slot from opening to closing; holders reach it through their lease.
///
/// In the order in which they stand here: what every call looks at is behind the client's own end, on one cache line.
#[repr(C)]
pub(crate) struct Tenant {
    pub(crate) client: Client,
    /// The pool's.
    pub(crate) socket_timeout: Option<Duration>,
    pub(crate) session: Arc<Session>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) canceller: Canceller,
    /// Knows why it ended, once it has.
    pub(crate) handle: Handle,
    pub(crate) host: HostKey,
    /// Which of the host's addresses it is on, unless that is a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) opened_at: Instant,
    pub(crate) statements: Statements,
    /// `server_version`, as the server reported it at the login.
    pub(crate) version: Option<Box<str>>,
    /// Why its transactions are not asked for their ids, once that is known.
    pub(crate) unasked: OnceLock<Doubt>,
}

impl pool::Tenant for Tenant {
    #[inline]
    fn is_fit(&self) -> bool {
        self.session.is_fit()
    }
}

impl HasSession for Tenant {
    #[inline]
    fn session(&self) -> &Arc<Session> {
        &self.session
    }
}
