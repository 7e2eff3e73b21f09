//! What a pool's handles, guards, openers and keeper share. Nothing here waits: what takes time is told to the keeper.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use pgsteer_core::balance::{Candidate, Load, Streak};
use pgsteer_core::breaker::Breaker;
use pgsteer_core::pool::planner::{Planner, PoolView};
use pgsteer_core::pool::{self, Lease, Slots, Take};
use tokio::sync::{Notify, mpsc, watch};

use super::address::BackendAddress;
use super::connection::Connection;
use super::counters::{Counters, Traffic};
use super::dial::Dial;
use super::keeper::{Back, Message};
use super::options::BackendOptions;
use super::status::{BackendStatus, LastError};
use crate::threads::Crew;

/// Why a wait was ended before its time: what the last dial failed with.
pub(super) type Turned = Arc<str>;

/// The time, by the runtime's clock.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Those among which a pool is one.
pub(super) trait Company: Send + Sync {
    /// Whether a request that waits for this one would be better off at another.
    fn others_serve(&self, one: &Inner) -> bool;
}

/// What everybody shares. On cache lines of its own, away from the reference count that every guard changes.
#[repr(align(128))]
pub(super) struct Inner {
    pub(super) slots: Slots<Connection, Turned>,
    pub(super) address: BackendAddress,
    pub(super) weight: AtomicU32,
    pub(super) options: BackendOptions,
    pub(super) dialer: Arc<dyn Dial>,
    pub(super) planner: Mutex<Planner>,
    pub(super) breaker: Arc<Breaker<Turned>>,
    pub(super) company: OnceLock<Weak<dyn Company>>,
    pub(super) traffic: Traffic,
    pub(super) streak: Streak,
    /// When the backend last failed, if it has not been found well since: nanoseconds since `began`, from 1 on. 0: it has not.
    failed_at: AtomicU64,
    /// How many connections serve while it cannot be dialled.
    capacity: AtomicU32,
    pub(super) left_out_since: Mutex<Option<Instant>>,
    last_error: Mutex<Option<(Instant, Turned)>>,
    pub(super) counters: Counters,
    /// The slots whose connections are being pinged.
    pub(super) checked: Box<[AtomicBool]>,
    pub(super) crew: Crew,
    pub(super) keeper: mpsc::UnboundedSender<Message>,
    /// Rouses the keeper: somebody waits with an earlier deadline, or may make the pool grow.
    pub(super) nudge: Arc<Notify>,
    /// Every slot is taken, so that nobody who waits can make the pool grow.
    pub(super) full: AtomicBool,
    /// Somebody waits although the backend has failed: it is to be tried, not waited for.
    pub(super) wanted_anyway: AtomicBool,
    /// Set when the last connection is gone after a shutdown.
    pub(super) drained: watch::Sender<bool>,
    began: Instant,
}

/// The slots' way to the keeper: on whatever thread, by message.
pub(super) struct ToKeeper {
    pub(super) messages: mpsc::UnboundedSender<Message>,
    pub(super) nudge: Arc<Notify>,
}

impl pool::Keeper for ToKeeper {
    fn receive(&self, lease: Lease) {
        let back = Back::Unfit;
        let _ = self.messages.send(Message::Returned { lease, back });
    }

    fn due(&self, _at: Instant) {
        self.nudge.notify_one();
    }
}

/// The parts of a pool that are made before it.
pub(super) struct Parts {
    pub(super) slots: Slots<Connection, Turned>,
    pub(super) planner: Planner,
    pub(super) breaker: Breaker<Turned>,
    pub(super) crew: Crew,
    pub(super) keeper: mpsc::UnboundedSender<Message>,
    pub(super) nudge: Arc<Notify>,
}

impl Inner {
    pub(super) fn new(
        address: BackendAddress,
        options: BackendOptions,
        dialer: Arc<dyn Dial>,
        parts: Parts,
    ) -> Self {
        Inner {
            slots: parts.slots,
            weight: AtomicU32::new(address.weight().get()),
            address,
            dialer,
            planner: Mutex::new(parts.planner),
            breaker: Arc::new(parts.breaker),
            company: OnceLock::new(),
            traffic: Traffic::default(),
            streak: Streak::new(options.failure_threshold),
            failed_at: AtomicU64::new(0),
            capacity: AtomicU32::new(0),
            left_out_since: Mutex::new(None),
            last_error: Mutex::new(None),
            counters: Counters::default(),
            checked: (0..options.max_size).map(|_| AtomicBool::new(false)).collect(),
            crew: parts.crew,
            keeper: parts.keeper,
            nudge: parts.nudge,
            full: AtomicBool::new(false),
            wanted_anyway: AtomicBool::new(false),
            drained: watch::Sender::new(false),
            began: now(),
            options,
        }
    }

    // What others choose by.

    /// As whoever chooses a backend sees it. Loads of atomics, no more.
    #[inline]
    pub(super) fn candidate(&self) -> Candidate<u64> {
        let failed_at = self.failed_at.load(Ordering::Acquire);
        let capacity = if failed_at == 0 {
            self.options.max_size
        } else {
            self.capacity.load(Ordering::Relaxed)
        };
        let load = Load {
            in_flight: self.traffic.in_flight.load(Ordering::Relaxed),
            weight: self.weight(),
            capacity: u64::from(capacity),
        };
        Candidate::new(load, (failed_at != 0).then_some(failed_at))
    }

    /// Counts a request in, unless the number is not any more what it was seen to be.
    #[inline]
    pub(super) fn count_in(&self, seen: u64) -> bool {
        let next = seen.saturating_add(1);
        self.traffic
            .in_flight
            .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    pub(super) fn weight(&self) -> std::num::NonZeroU32 {
        // It is set from numbers that are not 0.
        std::num::NonZeroU32::new(self.weight.load(Ordering::Relaxed)).unwrap_or(std::num::NonZeroU32::MIN)
    }

    pub(super) fn set_weight(&self, weight: std::num::NonZeroU32) {
        self.weight.store(weight.get(), Ordering::Relaxed);
    }

    /// Whether nothing is known against it.
    pub(super) fn is_well(&self) -> bool {
        self.failed_at.load(Ordering::Acquire) == 0
    }

    /// Says when it last failed, if it has not been found well since, and on how many connections it serves all the same.
    pub(super) fn publish(&self, failed_at: Option<Instant>, capacity: u32) {
        let since = |at: Instant| at.saturating_duration_since(self.began).as_nanos();
        let nanos = failed_at.map_or(0, |at| u64::try_from(since(at)).unwrap_or(u64::MAX).max(1));
        self.capacity.store(capacity, Ordering::Relaxed);
        // Release: whoever sees the failure sees the capacity.
        self.failed_at.store(nanos, Ordering::Release);
    }

    /// Whether a request that waits here would be better off elsewhere.
    pub(super) fn others_serve(&self) -> bool {
        let company = self.company.get().and_then(Weak::upgrade);
        company.is_some_and(|company| company.others_serve(self))
    }

    // Slots.

    /// Takes an idle connection on which nothing has come, if there is one and nobody waits: one of this thread if it can be.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Lease> {
        loop {
            let take = match self.crew.lane() {
                None => self.slots.try_take(),
                Some(lane) => self.slots.try_take_near(lane),
            };
            match take {
                Take::Leased(lease) if self.slots.get(&lease).take_up() => return Some(lease),
                Take::Leased(lease) | Take::Unfit(lease) => self.tell_keeper(Message::Returned {
                    lease,
                    back: Back::Unfit,
                }),
                Take::Empty => return None,
            }
        }
    }

    /// Gives back a connection that may serve another request: makes it idle, or gives it to the oldest waiter.
    #[inline]
    pub(super) fn lay_down(&self, mut lease: Lease) {
        let connection = self.slots.get_mut(&mut lease);
        match connection.lay_down() {
            Ok(()) if pool::Tenant::is_fit(connection) => self.slots.release(lease),
            Ok(()) => self.unfit(lease),
            Err(restless) => {
                let has_served = connection.answered > 0;
                self.discard(lease, Back::Lost { restless, has_served });
            }
        }
    }

    /// Closes a connection that is not to be used again, at once and on this thread.
    #[cold]
    #[inline(never)]
    pub(super) fn discard(&self, mut lease: Lease, back: Back) {
        drop(self.slots.take(&mut lease));
        self.tell_keeper(Message::Returned { lease, back });
    }

    pub(super) fn tell_keeper(&self, message: Message) {
        // The keeper outlives every lease; without it the runtime is gone, and with it every connection.
        let _ = self.keeper.send(message);
    }

    pub(super) fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What went wrong.

    pub(super) fn note_error(&self, what: Turned) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((now(), what));
    }

    pub(super) fn last_error(&self) -> Option<(Instant, Turned)> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn left_out_for(&self, now: Instant) -> Option<Duration> {
        let since = *self.left_out_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| now.saturating_duration_since(since))
    }

    pub(super) fn status(&self) -> BackendStatus {
        let stats = self.planner().stats(self);
        let now = now();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        BackendStatus {
            address: self.address.clone().with_weight(self.weight()),
            in_flight: read(&self.traffic.in_flight),
            handled: read(&self.traffic.handled),
            failed: read(&self.traffic.failed),
            max_size: self.options.max_size,
            idle: short(stats.idle),
            in_use: short(stats.leased + stats.settling),
            opening: short(stats.opening),
            closing: short(stats.closing),
            waiting: short(stats.waiting),
            breaker: self.breaker.state(),
            left_out_for: self.left_out_for(now),
            last_error: self.last_error().map(|(at, text)| LastError {
                age: now.saturating_duration_since(at),
                text: text.to_string(),
            }),
            totals: self.counters.totals(),
        }
    }
}

impl PoolView for Inner {
    fn is_idle(&self, slot: u32) -> bool {
        self.slots.is_idle(slot)
    }

    /// A connection comes back with all its answers read, or not at all.
    fn is_parked(&self, _slot: u32) -> bool {
        false
    }

    fn uses(&self, slot: u32) -> u64 {
        u64::from(self.slots.uses(slot))
    }

    fn waiting(&self) -> usize {
        self.slots.waiting()
    }

    fn idle(&self) -> usize {
        self.slots.idle()
    }

    fn is_being_checked(&self, slot: u32) -> bool {
        self.checked
            .get(slot as usize)
            .is_some_and(|checked| checked.load(Ordering::Acquire))
    }
}
