//! What a pool's handles, guards, openers, drivers and keeper share. Nothing here waits: a slot that needs work is
//! passed to the keeper by message.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{Fit, Role, Snapshot};
use pgsteer_core::pool::planner::{Planner, PoolView};
use pgsteer_core::pool::{self, GivenBack, Lease, Session, Slots};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::closes;
use super::ends::{ConnectionEnd, Ends};
use super::holders::Holders;
use super::hooks::HookFailed;
use super::statements::Edition;
use super::status::{Status, Totals};
use super::tenant::Tenant;
use crate::cluster::{Cluster, Membership, SearchError};
use crate::config::Settings;
use crate::dial::{EndReason, Handle};
use crate::error::{ConnectionLost, Error, Exhausted};

/// What the keeper is told.
pub(super) enum Message {
    /// An opener has a connection for its slot; its driver starts next.
    Opened {
        slot: u32,
        epoch: u64,
        tenant: Box<Tenant>,
        driver: Handle,
        /// Any random number, for the connection's lifetime.
        jitter: u64,
    },
    /// An opener found no connection.
    OpenFailed {
        slot: u32,
        epoch: u64,
        error: SearchError,
    },
    /// An opener has closed its connection again, because `after_connect` failed on it.
    HookFailed {
        slot: u32,
        epoch: u64,
        failed: HookFailed,
    },
    /// An opener ended without a word.
    OpenVanished { slot: u32, epoch: u64 },
    /// The slot came back and is not fit for the next caller: dirty, closed, retired, discarded, or to be seen to on every
    /// return.
    Returned { lease: Lease, discarded: bool },
    /// `before_checkout` would not have the connection handed out.
    Refused { lease: Lease },
    /// The holder took the connection out for good; the slot is empty.
    Detached { lease: Lease },
    /// The slot was given back busy; its driver releases it when all is answered.
    Parked { slot: u32 },
    /// A background rollback or cancel has ended; the tenant comes back.
    Settled {
        slot: u32,
        epoch: u64,
        tenant: Box<Tenant>,
        outcome: Settlement,
    },
    /// A connection's socket is gone. With a lease, the slot was parked and is the keeper's now.
    Ended {
        slot: u32,
        epoch: u64,
        host: HostKey,
        reason: EndReason,
        lease: Option<Lease>,
    },
    /// Every connection is to be replaced.
    RetireAll,
    /// Look at where the connections are now.
    Rebalance,
    /// The pool ends.
    Shutdown,
    /// Whatever is still open is cut.
    Cut,
}

/// How a background rollback or cancel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settlement {
    /// All is answered and no transaction is open.
    Clean,
    /// All is answered, and a transaction is open.
    InTransaction,
    /// It did not come to an end.
    Failed,
}

/// Connections that may be open beside those of the pool to ask what became of a COMMIT. What a lost server leaves in
/// doubt is as much as was open to it, which is more than should log in at once when it is back.
pub(super) const QUESTIONS_AT_A_TIME: usize = 4;

/// What everybody shares. Aligned so that the reference count in front of it, which every owned guard changes, is not on
/// a cache line that every checkout reads.
#[repr(align(128))]
pub(super) struct Inner {
    pub(super) slots: Slots<Tenant, Error>,
    pub(super) sheets: Box<[Sheet]>,
    pub(super) settings: Arc<Settings>,
    pub(super) cluster: Cluster,
    /// Given up when the pool is closed.
    pub(super) membership: Membership,
    pub(super) planner: Mutex<Planner>,
    pub(super) holders: Holders,
    pub(super) counters: Counters,
    pub(super) ends: Ends,
    /// Which statements of its connections are still good.
    pub(super) statements: Edition,
    /// The newest failed search, for the error of a checkout that runs out of time.
    pub(super) last_failure: Mutex<Option<(Instant, Error)>>,
    /// The last look at the exhausted pool.
    pub(super) diagnosis: Mutex<Option<(Instant, Exhausted)>>,
    pub(super) keeper: mpsc::UnboundedSender<Message>,
    /// Rouses the keeper: a waiter with an earlier deadline came, or one that may make the pool grow.
    pub(super) nudge: Arc<Notify>,
    /// Whether a waiting caller may make the pool grow.
    pub(super) elastic: bool,
    /// Whether the last search was refused the login everywhere and no connection is open: whoever comes now is told
    /// so at once, since the next attempt may be half a minute away.
    pub(super) login_refused: AtomicBool,
    /// Whether anything is to be done at a checkout beside handing the connection out.
    pub(super) attends_checkouts: bool,
    /// Whether every connection that comes back is seen to before anybody else gets it.
    pub(super) recycles: bool,
    /// What resets the session of one that comes back.
    pub(super) reset_sql: Option<String>,
    /// Whether `on_return` has failed when it last ran.
    pub(super) on_return_fails: AtomicBool,
    /// Whether the cluster's breaker lets nobody dial and no connection is open or being opened.
    pub(super) circuit_open: AtomicBool,
    /// How many connections are open: idle, leased or settling.
    pub(super) live: watch::Sender<u32>,
    /// Set when the pool is shut down.
    pub(super) closed: watch::Sender<bool>,
    /// Set when the last connection is gone after a shutdown.
    pub(super) drained: watch::Sender<bool>,
    /// How its numbers are told from those of other pools.
    #[cfg(feature = "metrics")]
    pub(super) labels: Arc<super::metrics::Labels>,
    /// Leave to open a connection beside those of the pool, to ask what became of a COMMIT.
    pub(super) questions: Arc<Semaphore>,
}

/// The counters behind [`Totals`].
#[derive(Default)]
pub(super) struct Counters {
    pub(super) opened: AtomicU64,
    pub(super) open_failures: AtomicU64,
    pub(super) hook_failures: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) came_clean: AtomicU64,
    pub(super) rolled_back: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) circuit_open: AtomicU64,
    pub(super) transactions_retried: AtomicU64,
    pub(super) commits_unknown: AtomicU64,
    pub(super) closes: closes::Counts,
    pub(super) commits_found_committed: AtomicU64,
    pub(super) commits_found_aborted: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            opened: read(&self.opened),
            open_failures: read(&self.open_failures),
            hook_failures: read(&self.hook_failures),
            refused: read(&self.refused),
            lost: read(&self.lost),
            expired: read(&self.expired),
            moved: read(&self.moved),
            came_clean: read(&self.came_clean),
            rolled_back: read(&self.rolled_back),
            cancelled: read(&self.cancelled),
            cut: read(&self.cut),
            timeouts: read(&self.timeouts),
            circuit_open: read(&self.circuit_open),
            transactions_retried: read(&self.transactions_retried),
            commits_unknown: read(&self.commits_unknown),
            closes: self.closes.read(),
            commits_found_committed: read(&self.commits_found_committed),
            commits_found_aborted: read(&self.commits_found_aborted),
        }
    }
}

/// What is known of a slot without owning it.
#[derive(Default)]
pub(super) struct Sheet {
    /// The session of the slot's connection, while it has one.
    session: Mutex<Option<Arc<Session>>>,
    /// Whether the keeper owns the slot.
    pub(super) keeper_has: AtomicBool,
}

impl Sheet {
    /// A sheet of a slot that the keeper owns and that has no connection.
    pub(super) fn empty() -> Self {
        Sheet {
            session: Mutex::new(None),
            keeper_has: AtomicBool::new(true),
        }
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_session(&self, session: Option<Arc<Session>>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }
}

/// The slots' way to the keeper: on whatever thread, by message.
pub(super) struct ToKeeper {
    pub(super) messages: mpsc::UnboundedSender<Message>,
    pub(super) nudge: Arc<Notify>,
}

impl pool::Keeper for ToKeeper {
    fn receive(&self, lease: Lease) {
        let _ = self.messages.send(Message::Returned {
            lease,
            discarded: false,
        });
    }

    fn due(&self, _at: Instant) {
        self.nudge.notify_one();
    }
}

impl Inner {
    pub(super) fn sheet(&self, slot: u32) -> &Sheet {
        &self.sheets[slot as usize]
    }

    pub(super) fn last_failure(&self) -> MutexGuard<'_, Option<(Instant, Error)>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Status {
        let stats = self.planner().stats(self);
        Status {
            size: stats.size as u32,
            idle: stats.idle as u32,
            leased: self.leased(stats.leased as u32),
            draining: stats.draining as u32,
            opening: stats.opening as u32,
            settling: stats.settling as u32,
            closing: stats.closing as u32,
            waiting: stats.waiting as u32,
            by_host: stats
                .by_host
                .into_iter()
                .map(|(host, count)| (host, count as u32))
                .collect(),
            holders: self.holders.held(super::now(), |slot| self.leased_uses(slot)),
            last_ends: self.ends.last(super::now()),
            breaker: self.cluster.breaker(),
            totals: self.counters.totals(),
        }
    }

    /// How many connections are out, by what the planner knows, which is not told of returns any more once the keeper is
    /// gone with its runtime.
    pub(super) fn leased(&self, planned: u32) -> u32 {
        match self.keeper.is_closed() {
            true => (0..self.settings.pool_size)
                .filter(|slot| self.leased_uses(*slot).is_some())
                .count() as u32,
            false => planned,
        }
    }

    /// Why the connection ended, if it has.
    pub(super) fn end_of(&self, lease: &Lease) -> Option<ConnectionEnd> {
        let reason = self.tenant(lease).handle.end_reason();
        reason.as_ref().map(ConnectionEnd::of)
    }

    /// A query's error as ours: where it is that the connection has gone, with the reason for that, which the driver's
    /// error does not have.
    #[cold]
    pub(super) fn query_error(&self, lease: &Lease, error: tokio_postgres::Error) -> Error {
        let server_said = error.as_db_error().is_some();
        match self.end_of(lease).filter(|_| !server_said) {
            Some(end) => Error::ConnectionLost(Arc::new(ConnectionLost {
                host: self.tenant(lease).host.clone(),
                end,
                error: Some(error),
            })),
            None => Error::from(error),
        }
    }

    /// The pool has no more use for its cluster, and whoever waits for connections to open is told so.
    pub(super) fn leave_cluster(&self) {
        self.closed.send_replace(true);
        self.membership.leave();
    }

    /// Returns once the pool is shut down, or its cluster has been stopped, so that nothing will open any more.
    pub(super) async fn wait_closed(&self) {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            // The sender lives in `self`, so this ends only by the value.
            _ = closed.wait_for(|closed| *closed) => {}
            () = self.cluster.shared().wait_stopped() => {}
        }
    }

    #[inline]
    pub(super) fn tenant<'a>(&'a self, lease: &'a Lease) -> &'a Tenant {
        self.slots.get(lease)
    }

    pub(super) fn tell_keeper(&self, message: Message) {
        if let Err(unheard) = self.keeper.send(message) {
            self.unheard(&unheard.0);
        }
    }

    /// The keeper does not hear of this any more. It outlives every lease, so its runtime is gone, and with that every
    /// connection; what comes back is nobody's.
    #[cold]
    pub(super) fn unheard(&self, message: &Message) {
        if let Message::Returned { lease, .. } | Message::Refused { lease } | Message::Detached { lease } =
            message
        {
            self.sheet(lease.index())
                .keeper_has
                .store(true, Ordering::Release);
        }
    }

    /// A holder's return, in plain code.
    #[inline]
    pub(super) fn give_back(&self, lease: Lease) {
        if std::thread::panicking() {
            return self.discard(lease);
        }
        if self.recycles {
            return self.unfit(lease);
        }
        self.put_back(lease);
    }

    /// Gives back a connection that nobody has used, or that is ready for the next holder.
    #[inline]
    pub(super) fn put_back(&self, lease: Lease) {
        let slot = lease.index();
        match self.slots.give_back(lease) {
            GivenBack::Released => {}
            GivenBack::Parked => self.parked(slot),
            GivenBack::Unfit(lease) => self.unfit(lease),
        }
    }

    /// Takes the connection out of its slot for good. Its driver no longer reports to the pool.
    pub(super) fn detach(&self, mut lease: Lease) -> Option<tokio_postgres::Client> {
        let tenant = self.slots.take(&mut lease)?;
        self.tell_keeper(Message::Detached { lease });
        Some(tenant.client)
    }

    // A message to the keeper is large. Whoever gives a connection back should need no room for one on the stack.
    #[cold]
    #[inline(never)]
    fn parked(&self, slot: u32) {
        self.tell_keeper(Message::Parked { slot });
    }

    #[cold]
    #[inline(never)]
    pub(super) fn discard(&self, lease: Lease) {
        self.tell_keeper(Message::Returned {
            lease,
            discarded: true,
        });
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unfit(&self, lease: Lease) {
        self.tell_keeper(Message::Returned {
            lease,
            discarded: false,
        });
    }

    /// A caller has joined the queue.
    pub(super) fn began_to_wait(&self, now: Instant) {
        self.holders.look_soon(now, |slot| self.leased_uses(slot));
        // The circuit may have opened between the look and the queue.
        let told_at_once =
            self.login_refused.load(Ordering::Relaxed) || self.circuit_open.load(Ordering::Acquire);
        if self.elastic || told_at_once {
            self.nudge.notify_one();
        }
    }

    /// The error of a caller that would have to wait while nothing can come, because nothing may be dialled.
    pub(super) fn turned_away(&self) -> Option<Error> {
        if !self.circuit_open.load(Ordering::Acquire) || self.slots.is_closed() {
            return None;
        }
        let error = self.cluster.shared().circuit_open()?;
        Counters::add(&self.counters.circuit_open);
        Some(error)
    }

    /// The use counter of a slot that somebody holds.
    pub(super) fn leased_uses(&self, slot: u32) -> Option<u64> {
        let sheet = self.sheet(slot);
        let held = !sheet.keeper_has.load(Ordering::Acquire)
            && !self.slots.is_idle(slot)
            && sheet.session().is_some_and(|session| !session.is_parked());
        held.then(|| u64::from(self.slots.uses(slot)))
    }

    pub(super) fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections are wanted on a server that takes writes, so that one that takes none is on the wrong one.
    pub(super) fn wants_writes(&self) -> bool {
        let target = self.settings.target_session_attrs;
        target.asks() && target.fit(Role::Primary) == Fit::Wanted && target.fit(Role::Standby) != Fit::Wanted
    }

    /// What is known now, as it matters for the pool's target.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.cluster.shared().snapshot(self.settings.target_session_attrs)
    }
}

impl PoolView for Inner {
    fn is_idle(&self, slot: u32) -> bool {
        self.slots.is_idle(slot)
    }

    fn is_parked(&self, slot: u32) -> bool {
        self.sheet(slot)
            .session()
            .is_some_and(|session| session.is_parked())
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
}
