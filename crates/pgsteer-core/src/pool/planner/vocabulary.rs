//! The words the planner and the keeper speak: options, reasons, actions, and what the planner may ask of the slots.
//!
//! Plain data. Nothing here decides anything.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::host::HostKey;

/// The limits and times one pool is planned by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannerOptions {
    /// The number of slots, so the greatest number of connections the pool ever has on the servers. At least 1.
    pub size: u32,
    /// How many idle connections are kept ready. With `size` (or more) the pool is fixed: always filled to the brim.
    pub min_idle: u32,
    /// An idle connection unused for this long is closed, as long as more than `min_idle` are idle. `None` is never.
    pub idle_timeout: Option<Duration>,
    /// How long a connection may serve, before jitter. `None` is for ever.
    pub max_lifetime: Option<Duration>,
    /// Each connection lives longer than `max_lifetime` by an amount between zero and this, drawn once at its opening.
    pub lifetime_jitter: Duration,
    /// The time between two looks at where the connections are. Must be above zero.
    pub rebalance_interval: Duration,
    /// The most connections one such look closes or marks for moving them to another host. At least 1.
    pub rebalance_batch: u32,
    /// The most connections being opened at once. At least 1. The first one is opened alone, for half a second at most.
    pub max_dials: u32,
    /// How long filling rests after an open has failed.
    pub refill_delay: Duration,
    /// While logins are refused the rest doubles from `refill_delay` up to this.
    pub login_backoff_max: Duration,
    /// While hosts are not ready the rest doubles from 100 ms up to this.
    pub not_ready_max: Duration,
    /// How long a host is kept off after its `after_connect` hook failed there.
    pub hook_keep_off: Duration,
    /// How long a connection may stay busy after its return before a cancel request is sent for it.
    pub return_cancel_after: Duration,
    /// How long after its return (or its close) a connection must be clean (or gone); then its socket is cut.
    pub return_timeout: Duration,
}

/// What the planner may ask of the slots, which change under its eyes: checkouts and returns do not pass by it.
pub trait PoolView {
    /// Whether the slot holds a connection that nobody has.
    fn is_idle(&self, slot: u32) -> bool;
    /// Whether the slot's connection was given back busy and still waits for its answers, owned by nobody.
    fn is_parked(&self, slot: u32) -> bool;
    /// How often the connection in the slot has been handed out. Only changes are looked at.
    fn uses(&self, slot: u32) -> u64;
    /// How many callers wait for a connection.
    fn waiting(&self) -> usize;
    /// How many slots are idle.
    fn idle(&self) -> usize;
    /// Whether the slot's connection would be idle, but is being asked whether it works; the slot is the keeper's until the
    /// answer. It counts for the floor and for the idle timeout, and is not what a waiting caller gets. For pools that ask.
    fn is_being_checked(&self, _slot: u32) -> bool {
        false
    }
}

/// Why an open came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenFailure {
    /// Every host that was tried failed.
    Hosts,
    /// Every host refused the login: the credentials or the database name are wrong. Waiters fail at once.
    Login,
    /// There was no host to try: the load-balance mode refuses the ones that work.
    Refused,
    /// Some host answered, but none is what is wanted: a promotion may be under way. Waiters go on waiting.
    NoFit,
    /// Some host is starting up, shutting down or full, and no other will do. Waiters go on waiting.
    NotReady,
}

/// Why a slot came to the keeper with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnReason {
    /// All is answered, but the session is inside a transaction.
    Dirty,
    /// The connection has ended and its socket is closed. The slot counts as empty at once; no `Close` follows.
    Closed,
    /// It carries a retire mark.
    Retired,
    /// Its holder does not want it used again.
    Discarded,
    /// The application did not want it handed out.
    Refused,
    /// Its holder took the connection out of the pool. The slot counts as empty at once; no `Close` follows.
    Detached,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CloseReason {
    /// Its life is over, or so nearly over that it goes early lest many go together.
    Expired,
    /// It was unused for `idle_timeout`.
    IdleTimeout,
    /// It is on a host, or at an address of one, where connections may no longer stay.
    Stray,
    /// Its host has turned out to be something that is not wanted.
    Unfit,
    /// Its host carries too many; it is to be opened elsewhere.
    Spread,
    /// Its host reacts to nothing any more.
    Frozen,
    /// All connections, or all of its host, were told to go.
    Ordered,
    /// Its holder discarded it.
    Discarded,
    /// The application would not have it handed out.
    Refused,
    /// It could not be brought back into a clean state.
    Unclean,
    /// The pool is shutting down.
    Shutdown,
}

/// What the keeper is to do. Actions are carried out in the order in which they are given, before the next event is
/// told to the planner (the outcome of a claim excepted, which may be told in between).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection for the slot, which the keeper owns. Ends with `opened`, `open_failed`, `hook_failed` or
    /// `open_vanished`.
    Open {
        /// The slot the connection is for.
        slot: u32,
        /// The hosts to keep off while there is any other: the pick's avoid-list.
        avoid: Vec<HostKey>,
    },
    /// The slot's connection is fit and clean: release the slot, which the keeper owns, to the pool.
    Release {
        /// The slot to release.
        slot: u32,
    },
    /// Close the slot's connection in an orderly way and report `socket_closed` when the socket is really closed.
    ///
    /// With `claim` the slot is not the keeper's yet: it was idle a moment ago and has to be claimed first. If that
    /// fails, report `claim_failed` and do nothing else; the planner says whether to mark it.
    Close {
        /// The slot whose connection is to go.
        slot: u32,
        /// Why, for counters and logs.
        why: CloseReason,
        /// Whether the slot has to be claimed first.
        claim: bool,
    },
    /// Set the retire mark of a connection somebody holds or that is parked. Harmless if it has just come back.
    Retire {
        /// The slot whose connection is marked.
        slot: u32,
    },
    /// Take the retire mark away again.
    Unretire {
        /// The slot whose connection is no longer marked.
        slot: u32,
    },
    /// End the transaction on the slot's connection, which the keeper owns, and report `cleaned`.
    Rollback {
        /// The slot whose connection is to be rolled back.
        slot: u32,
    },
    /// The connection is parked and busy for too long: unpark it (`claim_failed` if that fails), send a cancel
    /// request, and report `cleaned` once the request is done with and all is answered, or `returned` as dirty if the
    /// session is then inside a transaction.
    Cancel {
        /// The slot whose connection is too busy.
        slot: u32,
    },
    /// The deadline is over: cut the socket, and report `socket_closed`.
    ///
    /// With `claim` it is still parked and has to be unparked first (`claim_failed` if that fails).
    Abort {
        /// The slot whose connection is cut.
        slot: u32,
        /// Whether the slot has to be unparked first.
        claim: bool,
    },
    /// Fail everybody who waits now, with the error of the open that has just been reported.
    FailWaiters,
}

/// An event that makes no sense in the state its slot is in. The event was ignored.
///
/// It means that the shell lost or doubled a slot. Worth a debug assertion and a line in the log there; the pool
/// itself goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// The slot the event was about.
    pub slot: u32,
    /// The event.
    pub event: &'static str,
    /// The state the slot was in.
    pub state: SlotState,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "event {} makes no sense for slot {}, which is {}",
            self.event, self.slot, self.state
        )
    }
}

impl std::error::Error for Oddity {}

/// What a slot is doing, as far as the planner is concerned. It does not tell idle from leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotState {
    /// No connection.
    Empty,
    /// A connection is being opened for it.
    Opening,
    /// It has a connection: idle, leased or parked.
    Live,
    /// The keeper has it and brings it back into a clean state.
    Settling,
    /// Its connection is being closed; the socket is not closed yet.
    Closing,
    /// There is no such slot.
    Unknown,
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlotState::Empty => "empty",
            SlotState::Opening => "opening",
            SlotState::Live => "live",
            SlotState::Settling => "settling",
            SlotState::Closing => "closing",
            SlotState::Unknown => "unknown",
        })
    }
}

/// What a pool's slots are doing, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of slots.
    pub size: usize,
    /// Connections that wait for a caller.
    pub idle: usize,
    /// Connections that a caller has.
    pub leased: usize,
    /// Connections among the leased and the settling that will be closed when they come back.
    pub draining: usize,
    /// Connections being opened.
    pub opening: usize,
    /// Connections that were given back busy or inside a transaction and are not clean yet.
    pub settling: usize,
    /// Connections being closed.
    pub closing: usize,
    /// Callers that wait for a connection.
    pub waiting: usize,
    /// Idle, leased and settling connections per host; hosts without any are absent.
    pub by_host: BTreeMap<HostKey, usize>,
}

/// One slot, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// What the slot is doing.
    pub state: SlotState,
    /// Where its connection goes, if it has one.
    pub host: Option<HostKey>,
    /// When its connection was opened.
    pub opened_at: Option<Instant>,
    /// When its connection's life ends.
    pub expires_at: Option<Instant>,
    /// Why it will be closed when it comes back, if it will.
    pub draining: Option<CloseReason>,
}
