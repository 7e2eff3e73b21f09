//! The planner: the pure brain of one pool. It knows what every slot is doing and says what is to be opened, closed,
//! marked, rolled back or cut, and when it wants to be woken.
//!
//! It is owned by one task, the keeper, which tells it events and carries out its actions. It relies on being told
//! what became of every slot the keeper owns; checkouts and clean returns do not pass by it, it sees them through
//! [`PoolView`]. It never performs I/O, reads a clock or draws a random number.

mod backoff;
mod barred;
mod fill;
mod frozen;
mod lifetime;
mod rebalance;
mod returns;
mod slots;
mod vocabulary;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::host::HostKey;
use crate::hosts::Snapshot;

use self::backoff::Backoff;
use self::slots::{Slot, Table};

pub use vocabulary::{
    Action, CloseReason, Oddity, OpenFailure, PlannerOptions, PoolView, ReturnReason, SlotInfo, SlotState,
    Stats,
};

/// The least time between two ticks for what comes due one connection at a time, and so the most by which a
/// connection can outlive its life.
const TICK: Duration = Duration::from_secs(1);

/// Where the pool is in its own life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Running,
    Down,
}

/// What opening a connection has come to so far. A hook that fails says nothing: no connection came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Experience {
    /// None has been opened, and none has failed: whether the login is right is not known.
    None,
    /// The last open that ended gave a connection.
    Works,
    /// The last open that ended had tried every host in vain.
    Fails,
}

/// What every slot of one pool is doing, and what is to be done about it.
///
/// After every event, take all actions with [`Planner::next_action`] and carry them out; then sleep until
/// [`Planner::next_wake`] or the next event, whichever comes first, and call [`Planner::tick`] in the first case.
///
/// The keeper owns a slot from `Open` until `Release`, and again from the event that brings it back (`returned`,
/// `died` as owned, a claim that succeeded) until the next `Release`.
#[derive(Debug)]
pub struct Planner {
    options: PlannerOptions,
    stage: Stage,
    table: Table,
    actions: VecDeque<Action>,
    /// Filling rests until then.
    refill_at: Option<Instant>,
    /// The rest is a circuit breaker's.
    barred: bool,
    experience: Experience,
    /// While nothing is known: the others join the first opener then.
    alone_until: Option<Instant>,
    /// Why filling rests longer, or less long, than after any failure, and how long.
    backoff: Option<Backoff>,
    /// When an open last failed because nothing fits or nothing is ready.
    asked_at: Option<Instant>,
    /// Hosts whose hook failed, and when.
    kept_off: BTreeMap<HostKey, Instant>,
    /// Frozen hosts whose idle connections have been given up, and when those hosts were found to be so.
    given_up: BTreeMap<HostKey, Instant>,
    /// Connections that ended right after they were opened: since when they are counted, and how many.
    young_deaths: Option<(Instant, usize)>,
    last_tick: Option<Instant>,
    rebalance_at: Option<Instant>,
    /// When a look is due whether a marked connection slipped back.
    sweep_at: Option<Instant>,
    /// When lives were last ended early.
    early_at: Option<Instant>,
    /// No deadline is over before. It may be earlier than need be, never later.
    deadline_wake: Option<Instant>,
    /// No life ends before. It may be earlier than need be, never later.
    lifetime_wake: Option<Instant>,
}

impl Planner {
    /// A planner for a pool whose slots are all empty and all owned by the keeper. Does nothing until `start`.
    ///
    /// Numbers and times that must be above zero are raised to the least possible.
    pub fn new(mut options: PlannerOptions) -> Self {
        options.size = options.size.max(1);
        options.max_dials = options.max_dials.max(1);
        options.rebalance_batch = options.rebalance_batch.max(1);
        options.rebalance_interval = options.rebalance_interval.max(Duration::from_millis(1));
        options.return_timeout = options.return_timeout.max(Duration::from_millis(1));
        Planner {
            table: Table::new(options.size),
            options,
            stage: Stage::New,
            actions: VecDeque::new(),
            refill_at: None,
            barred: false,
            experience: Experience::None,
            alone_until: None,
            backoff: None,
            asked_at: None,
            kept_off: BTreeMap::new(),
            given_up: BTreeMap::new(),
            young_deaths: None,
            last_tick: None,
            rebalance_at: None,
            sweep_at: None,
            early_at: None,
            deadline_wake: None,
            lifetime_wake: None,
        }
    }

    /// The next thing to do, if there is any left.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `tick` is to be called next; `None` if only events matter. The keeper's single timer.
    ///
    /// After `tick(.., now)` it is always later than that `now`.
    pub fn next_wake(&self) -> Option<Instant> {
        let after_last = |least| self.last_tick.map(|last: Instant| last + least);
        let mut wake = None;
        if self.stage == Stage::Down && self.is_drained() {
            return None;
        }
        for exact in [
            self.refill_at,
            self.alone_until,
            self.rebalance_at,
            self.sweep_at,
            self.deadline_wake,
        ] {
            earlier(&mut wake, exact);
        }
        if self.stage == Stage::Running {
            earlier(
                &mut wake,
                self.lifetime_wake
                    .max(after_last(TICK).filter(|_| self.lifetime_wake.is_some())),
            );
            if let Some(pause) = self.pause_between_looks() {
                earlier(&mut wake, after_last(pause));
            }
        }
        wake
    }

    /// Checkouts are silent. Where they matter, that is when an elastic pool may have to refill its floor or to shed
    /// what is above it, it has to look from time to time. A full fixed pool never does.
    fn pause_between_looks(&self) -> Option<Duration> {
        let (size, floor) = (self.table.len(), self.options.min_idle as usize);
        let may_shrink = self.options.idle_timeout.filter(|_| self.table.live() > floor);
        let may_refill = 0 < floor && floor < size && self.table.present() < size;
        match may_shrink {
            Some(timeout) => Some(timeout.clamp(Duration::from_millis(1), TICK)),
            None => may_refill.then_some(TICK),
        }
    }

    /// Event: the time of `next_wake` has come. `snapshot` is the cluster's, and is only looked at if
    /// [`Planner::rebalance_due`]; without one nothing is moved this time.
    pub fn tick(&mut self, snapshot: Option<&Snapshot>, view: &dyn PoolView, now: Instant) {
        let rebalance = self.rebalance_due(now);
        self.last_tick = Some(now);
        if rebalance {
            self.rebalance_at = now.checked_add(self.options.rebalance_interval);
        }
        if self.refill_at.is_some_and(|at| at <= now) {
            self.refill_at = None;
            self.barred = false;
        }
        if self.alone_until.is_some_and(|at| at <= now) {
            self.alone_until = None;
        }
        self.enforce_deadlines(view, now);
        if self.stage == Stage::Running {
            self.enforce_lifetimes(view, now);
            self.enforce_idle_timeout(view, now);
            if let (true, Some(snapshot)) = (rebalance, snapshot) {
                self.rebalance(snapshot, view, now);
            }
        }
        // After the look, by which marks may have lapsed.
        self.sweep(view, now);
        self.fill(view, now);
        self.recompute_deadline_wake();
        self.recompute_lifetime_wake();
    }

    /// Whether a `tick` now would look at where the connections are, and so wants a snapshot.
    pub fn rebalance_due(&self, now: Instant) -> bool {
        self.rebalance_at.is_some_and(|at| at <= now)
    }

    /// Whether every slot is empty: after `shutdown`, that all is over.
    pub fn is_drained(&self) -> bool {
        self.table.present() + self.table.closing() == 0
    }

    /// Whether logins are refused at present, and if so how long filling rests between two attempts.
    pub fn login_back_off(&self) -> Option<Duration> {
        self.backoff
            .filter(|backoff| backoff.why == OpenFailure::Login)
            .map(|backoff| backoff.rest)
    }

    /// What the slots are doing, in numbers.
    pub fn stats(&self, view: &dyn PoolView) -> Stats {
        let mut stats = Stats {
            size: self.table.len(),
            opening: self.table.opening(),
            settling: self.table.settling(),
            closing: self.table.closing(),
            waiting: view.waiting(),
            ..Stats::default()
        };
        for (number, slot) in self.table.iter() {
            let Some(connection) = slot.serving() else {
                continue;
            };
            *stats.by_host.entry(connection.host.clone()).or_default() += 1;
            stats.draining += usize::from(connection.draining.is_some());
            match slot {
                Slot::Live { .. } if view.is_idle(number) || view.is_being_checked(number) => stats.idle += 1,
                Slot::Live { .. } if view.is_parked(number) => stats.settling += 1,
                Slot::Live { .. } => stats.leased += 1,
                _ => {}
            }
        }
        stats
    }

    /// One slot, for people. `None` if there is no such slot.
    pub fn slot_info(&self, slot: u32) -> Option<SlotInfo> {
        self.table.get(slot).map(Slot::info)
    }

    fn state(&self, slot: u32) -> SlotState {
        self.table.get(slot).map_or(SlotState::Unknown, Slot::state)
    }

    fn odd(&self, slot: u32, event: &'static str) -> Result<(), Oddity> {
        Err(Oddity {
            slot,
            event,
            state: self.state(slot),
        })
    }
}

/// Lowers `wake` to `at`, if that is earlier.
fn earlier(wake: &mut Option<Instant>, at: Option<Instant>) {
    *wake = match (*wake, at) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}
