//! Why connections of a pool are no more, counted. With those that are open they add up to those that were opened.

use std::sync::atomic::{AtomicU64, Ordering};

use pgsteer_core::pool::planner::CloseReason;

use crate::dial::EndReason;

/// Why a connection is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Lost,
    TimedOut,
    Expired,
    Unused,
    Moved,
    Unfit,
    Frozen,
    Retired,
    Discarded,
    Refused,
    Unclean,
    Cut,
    Detached,
    Shutdown,
}

const REASONS: usize = Gone::Shutdown as usize + 1;

impl Gone {
    /// It was closed, for this reason.
    pub(super) fn closed(why: CloseReason) -> Self {
        match why {
            CloseReason::Expired => Gone::Expired,
            CloseReason::IdleTimeout => Gone::Unused,
            CloseReason::Stray | CloseReason::Spread => Gone::Moved,
            CloseReason::Unfit => Gone::Unfit,
            CloseReason::Frozen => Gone::Frozen,
            CloseReason::Ordered => Gone::Retired,
            CloseReason::Discarded => Gone::Discarded,
            CloseReason::Refused => Gone::Refused,
            CloseReason::Unclean => Gone::Unclean,
            CloseReason::Shutdown => Gone::Shutdown,
        }
    }

    /// It ended without having been told to close, and this is what its task says, if anything.
    pub(super) fn ended(reason: Option<&EndReason>) -> Self {
        match reason {
            Some(EndReason::SocketTimeout | EndReason::Stalled) => Gone::TimedOut,
            Some(EndReason::Cut) => Gone::Cut,
            _ => Gone::Lost,
        }
    }
}

/// The counters behind [`Closes`].
#[derive(Default)]
pub(super) struct Counts([AtomicU64; REASONS]);

impl Counts {
    pub(super) fn add(&self, why: Gone) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Closes {
        let of = |why: Gone| self.0[why as usize].load(Ordering::Relaxed);
        Closes {
            lost: of(Gone::Lost),
            timed_out: of(Gone::TimedOut),
            expired: of(Gone::Expired),
            unused: of(Gone::Unused),
            moved: of(Gone::Moved),
            unfit: of(Gone::Unfit),
            frozen: of(Gone::Frozen),
            retired: of(Gone::Retired),
            discarded: of(Gone::Discarded),
            refused: of(Gone::Refused),
            unclean: of(Gone::Unclean),
            cut: of(Gone::Cut),
            detached: of(Gone::Detached),
            shutdown: of(Gone::Shutdown),
        }
    }
}

/// How many of a pool's connections are no more, by reason. Each is counted once, when its slot is free again; with those
/// that are open, or still closing, they add up to [`opened`](super::Totals::opened).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closes {
    /// Ended by themselves: server gone, socket broken, terminated.
    pub lost: u64,
    /// Cut because a call took longer than `socket_timeout`, or the server was silent for `stall_timeout`.
    pub timed_out: u64,
    /// Reached `max_lifetime`.
    pub expired: u64,
    /// Were idle for `idle_timeout`.
    pub unused: u64,
    /// Moved to another host: they were where connections may no longer be, or on a host with too many of them.
    pub moved: u64,
    /// Their host had become something that is not wanted.
    pub unfit: u64,
    /// Were idle on a host that had stopped to react to anything.
    pub frozen: u64,
    /// Replaced by [`Pool::retire_all`](super::Pool::retire_all).
    pub retired: u64,
    /// Discarded by their holders, or held through a panic.
    pub discarded: u64,
    /// Refused by `before_checkout`.
    pub refused: u64,
    /// Could not be made clean after they had come back.
    pub unclean: u64,
    /// Did not come clean in time and were cut, or were cut by their holder's transaction or at the end of the pool.
    pub cut: u64,
    /// Taken out of the pool by their holders.
    pub detached: u64,
    /// Closed with the pool.
    pub shutdown: u64,
}

impl Closes {
    /// Each reason by its name, with its count.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Closes {
            lost,
            timed_out,
            expired,
            unused,
            moved,
            unfit,
            frozen,
            retired,
            discarded,
            refused,
            unclean,
            cut,
            detached,
            shutdown,
        } = *self;
        [
            ("lost", lost),
            ("timed_out", timed_out),
            ("expired", expired),
            ("unused", unused),
            ("moved", moved),
            ("unfit", unfit),
            ("frozen", frozen),
            ("retired", retired),
            ("discarded", discarded),
            ("refused", refused),
            ("unclean", unclean),
            ("cut", cut),
            ("detached", detached),
            ("shutdown", shutdown),
        ]
        .into_iter()
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_reason().map(|(_, count)| count).sum()
    }
}
