//! The guards: a connection while somebody has it. They return it when dropped, in plain code: no runtime needed, no
//! task, no clock, nothing sent. Pool matters are associated functions, so that they hide no method of the client; its
//! query functions are hidden on purpose, by those in `calls`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::host::HostKey;
use pgsteer_core::pool::Lease;
use tokio_postgres::Client;

use super::ends::ConnectionEnd;
use super::inner::Inner;
use super::now;
use crate::dial::{self, Wire};

/// A connection checked out of a [`Pool`](super::Pool), owned: it can be moved into tasks and outlive the pool's
/// handle. Dereferences to [`tokio_postgres::Client`].
///
/// The query functions it has itself hide those of the client, which have the same names and parameters: they heed
/// `socket_timeout` and fail with [`Error`](crate::Error). Everything else is the client's. `(*conn).query(…)` is the
/// client's own function.
///
/// Dropping it gives the connection back. A clean one goes to the next caller at once. One that still owes answers (a
/// query future was dropped, an error's last message is on its way) or is inside a transaction is made clean in the
/// background first, or closed; the next holder never sees any of it. While panicking it is closed. What outlives the
/// guard holds its slot back: a row stream or COPY sink that is kept is cut after `return_timeout` (5 s unless set).
///
/// What is *not* undone is the state of the session: `SET`, temporary tables, advisory locks, `LISTEN`, statements
/// prepared by hand. Undo it before the guard goes, [`discard`](Self::discard) the connection, or have it undone by
/// [`recycle`](crate::Config::recycle) or [`on_return`](crate::Config::on_return). Notifications are not delivered to
/// pooled connections.
///
/// A cancel request sent by hand, by [`cancel_token`](Client::cancel_token), may hit whoever has the connection next if it
/// is still under way when the guard goes: keep the guard until the server has closed the request's socket.
///
/// As with any guard that dereferences mutably, `std::mem::swap` on two guards' clients exchanges the clients under the
/// guards. The pool then looks at the wrong wire when they come back; do not do it.
#[must_use = "dropping it gives the connection back"]
pub struct Conn {
    // Both are `Some` until drop or one of the consuming functions.
    pub(super) pool: Arc<Inner>,
    lease: Option<Lease>,
}

/// As [`Conn`], but borrowing the pool: one atomic count cheaper.
#[must_use = "dropping it gives the connection back"]
pub struct ConnRef<'pool> {
    pool: &'pool Inner,
    lease: Option<Lease>,
}

impl Conn {
    #[inline]
    pub(super) fn new(pool: Arc<Inner>, lease: Lease) -> Self {
        Conn {
            pool,
            lease: Some(lease),
        }
    }
}

impl<'pool> ConnRef<'pool> {
    #[inline]
    pub(super) fn new(pool: &'pool Inner, lease: Lease) -> Self {
        ConnRef {
            pool,
            lease: Some(lease),
        }
    }
}

macro_rules! guard {
    ([$($generics:tt)*] $guard:ty, $name:literal) => {
        impl<$($generics)*> $guard {
            /// The host the connection is on.
            pub fn host(conn: &Self) -> &HostKey {
                &conn.pool.tenant(conn.lease()).host
            }

            /// How long ago the connection was opened.
            pub fn age(conn: &Self) -> Duration {
                now().saturating_duration_since(conn.pool.tenant(conn.lease()).opened_at)
            }

            /// How often the connection has been handed out, this time included.
            pub fn uses(conn: &Self) -> u64 {
                u64::from(conn.pool.slots.uses(conn.lease().index()))
            }

            /// What the server last said of the transaction: read off the wire as it passed, nothing is asked. `None`
            /// while a request is unanswered, unless it only closes a statement, or the connection is closed.
            pub fn transaction_status(conn: &Self) -> Option<TransactionStatus> {
                let tenant = conn.pool.tenant(conn.lease());
                if tenant.session.is_closed() { None } else { TransactionStatus::of(&tenant.wire) }
            }

            /// Why the connection has ended, if it has: the server's last words, the operating system's error, or that it
            /// was closed in silence. The driver's own error says no more than that it is closed.
            pub fn end(conn: &Self) -> Option<ConnectionEnd> {
                conn.pool.end_of(conn.lease())
            }

            /// Gives the connection back to be closed instead of used again. The pool opens another. A statement that still
            /// runs on it is cancelled after [`return_cancel_after`](crate::Config::return_cancel_after), and its socket is
            /// cut after [`return_timeout`](crate::Config::return_timeout).
            pub fn discard(mut conn: Self) {
                if let Some(lease) = conn.lease.take() {
                    conn.pool.discard(lease);
                }
            }

            /// Takes the connection out of the pool for good. The pool opens another in its place, so the server may
            /// see one more than `pool_size`. It goes on counting as the cluster's load on its host until it is closed.
            pub fn detach(mut conn: Self) -> Client {
                let client = conn.lease.take().and_then(|lease| conn.pool.detach(lease));
                client.expect("a guard has its connection until it is consumed")
            }

            #[inline]
            pub(super) fn pool(&self) -> &Inner {
                &self.pool
            }

            #[inline]
            pub(super) fn client(&self) -> &Client {
                self
            }

            #[inline]
            pub(super) fn lease(&self) -> &Lease {
                self.lease.as_ref().expect("a guard has its lease until it is consumed")
            }
        }

        impl<$($generics)*> Deref for $guard {
            type Target = Client;
            #[inline]
            fn deref(&self) -> &Client {
                &self.pool.tenant(self.lease()).client
            }
        }

        impl<$($generics)*> DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut Client {
                let lease = self.lease.as_mut().expect("a guard has its lease until it is consumed");
                &mut self.pool.slots.get_mut(lease).client
            }
        }

        impl<$($generics)*> Drop for $guard {
            #[inline]
            fn drop(&mut self) {
                if let Some(lease) = self.lease.take() {
                    self.pool.give_back(lease);
                }
            }
        }

        impl<$($generics)*> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("host", Self::host(self)).finish_non_exhaustive()
            }
        }
    };
}

guard!([] Conn, "Conn");
guard!(['pool] ConnRef<'pool>, "ConnRef");

/// What the server said of the session's transaction with its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// Not in a transaction.
    Idle,
    /// In a transaction.
    InTransaction,
    /// In a failed transaction, which only ROLLBACK ends.
    Failed,
}

impl TransactionStatus {
    fn of(wire: &Wire) -> Option<Self> {
        match wire.transaction() {
            dial::TransactionStatus::Unknown => None,
            dial::TransactionStatus::Idle => Some(TransactionStatus::Idle),
            dial::TransactionStatus::InTransaction => Some(TransactionStatus::InTransaction),
            dial::TransactionStatus::Failed => Some(TransactionStatus::Failed),
        }
    }
}
