//! What a pool looks like at one moment.

use std::collections::BTreeMap;
use std::time::Duration;

use pgsteer_core::host::HostKey;

use super::closes::Closes;
use super::ends::LastEnd;
use super::holders::Holder;
use crate::cluster::BreakerStatus;

/// A pool at one moment. The numbers are read one after the other, so under load they may not add up exactly.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// `pool_size`: how many connections there may be.
    pub size: u32,
    /// Ready to be handed out.
    pub idle: u32,
    /// Handed out.
    pub leased: u32,
    /// Of those leased, how many will be closed when they come back.
    pub draining: u32,
    /// Being opened.
    pub opening: u32,
    /// Returned busy or dirty, being made clean.
    pub settling: u32,
    /// Being closed; their sockets are not gone yet.
    pub closing: u32,
    /// Callers waiting for a connection.
    pub waiting: u32,
    /// Idle and leased connections by host; hosts without any are absent.
    pub by_host: BTreeMap<HostKey, u32>,
    /// What is out, oldest first.
    pub holders: Vec<Holder>,
    /// Why the newest connection that ended by itself did so, by host. Ends that the pool brought about are not among
    /// them.
    pub last_ends: BTreeMap<HostKey, LastEnd>,
    /// The circuit breaker, which is that of all pools on the cluster; `None` if `breaker_threshold` is 0.
    pub breaker: Option<BreakerStatus>,
    /// Counters since the pool started.
    pub totals: Totals,
}

/// Counters since the pool started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Connections opened.
    pub opened: u64,
    /// Searches for a host that ended without a connection.
    pub open_failures: u64,
    /// Connections closed because `after_connect` or `on_return` failed on them.
    pub hook_failures: u64,
    /// Connections that `before_checkout` refused and that were closed.
    pub refused: u64,
    /// Connections that ended by themselves: server gone, socket broken, terminated.
    pub lost: u64,
    /// Connections closed because of their age.
    pub expired: u64,
    /// Connections closed or drained to move them to another host.
    pub moved: u64,
    /// Returned connections that still owed answers, and whose answers all came by themselves. As a rule of a query
    /// whose future was dropped, or of an error whose last message was on its way.
    pub came_clean: u64,
    /// Returned connections that had to be rolled back.
    pub rolled_back: u64,
    /// Returned connections whose running statement had to be cancelled.
    pub cancelled: u64,
    /// Returned connections that did not come clean in time and were cut.
    pub cut: u64,
    /// Checkouts that ran out of time.
    pub timeouts: u64,
    /// Checkouts turned away at once because nothing was to be dialled.
    pub circuit_open: u64,
    /// COMMITs of transactions whose answer was lost and which were found to be done (`resolve_commit`).
    pub commits_found_committed: u64,
    /// COMMITs of transactions whose answer was lost and which were found not to be done (`resolve_commit`).
    pub commits_found_aborted: u64,
    /// Attempts at a transaction that were followed by another one.
    pub transactions_retried: u64,
    /// Transactions of which it is not known whether they are committed.
    pub commits_unknown: u64,
    /// Connections that are no more, by reason.
    pub closes: Closes,
}

/// What [`Pool::close`](super::Pool::close) left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Connections that were still out at the deadline. They have been cut: their holders' queries fail.
    pub still_out: u32,
    /// How long closing took.
    pub took: Duration,
}
