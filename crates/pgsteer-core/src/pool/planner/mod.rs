//! The planner: the pure brain of one pool. It knows what every slot is doing and says what is to be opened, closed,
//! marked, rolled back or cut, and when it wants to be woken.
//!
//! It is owned by one task, the keeper, which tells it events and carries out its actions. It relies on being told
//! what became of every slot the keeper owns; checkouts and clean returns do not pass by it, it sees them through
//! [`PoolView`]. It never performs I/O, reads a clock or draws a random number.

mod vocabulary;

use std::collections::VecDeque;
use std::time::Instant;

use crate::host::HostKey;
use crate::hosts::Snapshot;

pub use vocabulary::{
    Action, CloseReason, Oddity, OpenFailure, PlannerOptions, PoolView, ReturnReason, SlotInfo, SlotState,
    Stats,
};

/// What every slot of one pool is doing, and what is to be done about it.
///
/// After every event, take all actions with [`Planner::next_action`] and carry them out; then sleep until
/// [`Planner::next_wake`] or the next event, whichever comes first, and call [`Planner::tick`] in the first case.
#[derive(Debug)]
pub struct Planner {
    options: PlannerOptions,
    actions: VecDeque<Action>,
}

#[allow(unused_variables)]
impl Planner {
    /// A planner for a pool whose slots are all empty and all owned by the keeper. Does nothing until `start`.
    pub fn new(options: PlannerOptions) -> Self {
        Planner {
            options,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, if there is any left.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `tick` is to be called next; `None` if only events matter. The keeper's single timer.
    pub fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// Event: the pool begins. Fills it.
    pub fn start(&mut self, view: &dyn PoolView, now: Instant) {}

    /// Event: the connection for the slot is open, its session check passed and its hook too. The keeper has put it into the slot and
    /// still owns the slot; `Release` (or `Close`) follows. `jitter` is any random number, used for this
    /// connection's lifetime only.
    pub fn opened(
        &mut self,
        slot: u32,
        host: HostKey,
        jitter: u64,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the open for the slot failed. Waiters fail if nothing else can come, and at once if the login was refused.
    pub fn open_failed(
        &mut self,
        slot: u32,
        why: OpenFailure,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the connection for the slot opened on `host`, but the `after_connect` hook failed there and the
    /// connection is closed. Another is opened at once if that host was not one to avoid; else it is a failed open.
    pub fn hook_failed(
        &mut self,
        slot: u32,
        host: HostKey,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the task that opened the slot's connection ended without a report. The slot is free; waiters go on waiting.
    pub fn open_vanished(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the slot came to the keeper with its connection, which owns it now: from its holder, from a checkout
    /// that found it unfit, or from the driver that found a parked one dirty or retired.
    pub fn returned(
        &mut self,
        slot: u32,
        why: ReturnReason,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the slot's connection was given back busy and is parked: its driver releases it by itself when all is
    /// answered. May be told late; it is ignored unless the view still calls the slot parked.
    pub fn parked(&mut self, slot: u32, view: &dyn PoolView, now: Instant) {}

    /// Event: a `Rollback` or `Cancel` ended. `ok`: all is answered and no transaction is open. The keeper owns the slot.
    pub fn cleaned(&mut self, slot: u32, ok: bool, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the socket of a connection under `Close` or `Abort` is really closed. The keeper has emptied the slot and
    /// owns it.
    pub fn socket_closed(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        Ok(())
    }

    /// Outcome: the slot of a `Close`, `Cancel` or `Abort` could not be claimed, because a caller or its driver was faster. It is
    /// live again; `Retire` follows if it still has to go.
    pub fn claim_failed(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: the slot's connection ended by itself, so its socket is closed. `owned`: the keeper owns the slot now (it was idle and
    /// the keeper claimed it, or parked, or the keeper's already) and has emptied it. Otherwise it comes back later
    /// through `returned` as closed, and this is no more than news.
    pub fn died(&mut self, slot: u32, owned: bool, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        Ok(())
    }

    /// Event: a caller began to wait. The pool may grow.
    pub fn demand(&mut self, view: &dyn PoolView, now: Instant) {}

    /// Event: the time of `next_wake` has come. `snapshot` is the cluster's, and is only looked at if
    /// [`Planner::rebalance_due`]; without one nothing is moved this time.
    pub fn tick(&mut self, snapshot: Option<&Snapshot>, view: &dyn PoolView, now: Instant) {}

    /// Whether a `tick` now would look at where the connections are, and so wants a snapshot.
    pub fn rebalance_due(&self, now: Instant) -> bool {
        false
    }

    /// Request: look at where the connections are, now. At most a batch is moved, as on a tick.
    pub fn rebalance(&mut self, snapshot: &Snapshot, view: &dyn PoolView, now: Instant) {}

    /// Request: every connection goes, those being opened included: idle ones now, others when they come back.
    pub fn retire_all(&mut self, view: &dyn PoolView, now: Instant) {}

    /// Request: every connection to the host goes: idle ones now, others when they come back.
    pub fn retire_host(&mut self, host: &HostKey, view: &dyn PoolView, now: Instant) {}

    /// Request: the pool ends. Nothing is opened any more; idle connections are closed now, others when they come back.
    /// The shell closes the waiters' queue itself, and aborts its openers (reporting `open_vanished`).
    pub fn shutdown(&mut self, view: &dyn PoolView, now: Instant) {}

    /// Whether every slot is empty: after `shutdown`, that all is over.
    pub fn is_drained(&self) -> bool {
        true
    }

    /// What the slots are doing, in numbers.
    pub fn stats(&self, view: &dyn PoolView) -> Stats {
        Stats::default()
    }

    /// One slot, for people. `None` if there is no such slot.
    pub fn slot_info(&self, slot: u32) -> Option<SlotInfo> {
        None
    }
}
