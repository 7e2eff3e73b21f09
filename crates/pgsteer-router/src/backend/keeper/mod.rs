//! The keeper: the one task of a backend's pool. It owns every slot that is neither idle nor borrowed, tells the planner and
//! the backend's standing what happens, carries out what follows, and times out whoever waits. It never waits for the network
//! itself: dials, pings and goodbyes are tasks of their own that report back by message.

mod actions;
mod events;
mod health;
mod repute;
mod slots;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgsteer_core::balance::{Standing, StandingOptions};
use pgsteer_core::pool::planner::{Oddity, Planner};
use pgsteer_core::pool::{HealthChecks, Lease};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::borrowed::Borrowed;
use super::checkout::NotFresh;
use super::connection::{Connection, Restless};
use super::inner::{Inner, Turned, now};
use super::opener::Manner;
use slots::Kept;

/// Messages handled before the clock is looked at again.
const BATCH: usize = 128;

/// Whom a connection dialled on purpose goes to.
pub(super) type Fresh = oneshot::Sender<Result<Borrowed, NotFresh>>;

/// What the keeper is told.
pub(super) enum Message {
    /// An opener has a connection for its slot.
    Opened {
        slot: u32,
        epoch: u64,
        connection: Box<Connection>,
        /// Any random number, for the connection's lifetime.
        jitter: u64,
        /// Whether it was opened to see whether the backend, which had failed, is well; it has answered a ping then, if
        /// pings are allowed.
        was_probe: bool,
    },
    /// An opener found none.
    OpenFailed {
        slot: u32,
        epoch: u64,
        reason: Turned,
        /// What was missing is missing here.
        is_ours: bool,
    },
    /// The breaker did not let an opener begin.
    OpenBarred {
        slot: u32,
        epoch: u64,
        rest: std::time::Duration,
    },
    /// An opener ended without a word.
    OpenVanished { slot: u32, epoch: u64 },
    /// The slot came back and is not simply idle.
    Returned { lease: Lease, back: Back },
    /// Something has come on a connection that nobody has.
    Stirred { slot: u32, epoch: u64 },
    /// A ping has ended; the connection comes back, unless its task died.
    Checked {
        slot: u32,
        epoch: u64,
        connection: Option<Box<Connection>>,
        result: std::io::Result<()>,
    },
    /// A connection that was told to go has said goodbye, or its time was over: its socket is closed.
    SocketClosed { slot: u32, epoch: u64 },
    /// Requests have failed, too many in a row.
    RequestsFailed(Turned),
    /// A request wants a connection that is dialled for it.
    Fresh(Fresh),
    /// The pool ends.
    Shutdown,
    /// Goodbyes are not waited for any longer.
    Cut,
}

/// Why a slot comes to the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// With its connection, which is retired or on which something has come; or the pool is closed.
    Unfit,
    /// Without: it could not be laid down.
    Lost {
        restless: Restless,
        /// It had answered a request before.
        has_served: bool,
    },
    /// Without: its request failed, and that was the backend's doing.
    Failed,
    /// Without: it was closed before its request had begun.
    Stale,
    /// Without: whoever had it has gone.
    GivenUp,
}

pub(super) struct Keeper {
    pool: Arc<Inner>,
    messages: UnboundedReceiver<Message>,
    slots: Vec<Kept>,
    standing: Standing,
    checks: Option<HealthChecks>,
    fresh: VecDeque<Fresh>,
    /// When the oldest waiter's time is up, as far as known.
    expiry: Option<Instant>,
    /// When the failed backend is tried again.
    probe_at: Option<Instant>,
    /// When it was last tried on request, or in vain.
    tried_at: Option<Instant>,
    /// How the next opener is to go about it.
    manner: Manner,
    /// Open connections.
    live: u32,
    left_out: bool,
    closing: bool,
}

impl Keeper {
    pub(super) fn new(pool: Arc<Inner>, messages: UnboundedReceiver<Message>, leases: Vec<Lease>) -> Self {
        let options = &pool.options;
        let standing = Standing::new(StandingOptions {
            failed_delay: options.failed_backend_delay,
        });
        let checks = options
            .enable_health_check
            .then(|| HealthChecks::new(options.max_size, options.health_check_interval));
        Keeper {
            messages,
            slots: leases.into_iter().map(Kept::new).collect(),
            standing,
            checks,
            fresh: VecDeque::new(),
            expiry: None,
            probe_at: None,
            tried_at: None,
            manner: Manner::default(),
            live: 0,
            left_out: false,
            closing: false,
            pool,
        }
    }

    /// Runs until the pool has been shut down and every connection is gone.
    pub(super) async fn run(mut self) {
        self.plan(|planner, pool, now| planner.start(pool, now));
        let mut batch = Vec::with_capacity(BATCH);
        while !(self.closing && self.pool.planner().is_drained()) {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                received = self.messages.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        break;
                    }
                    for message in batch.drain(..) {
                        self.heard(message);
                    }
                }
                () = self.pool.nudge.notified() => self.nudged(),
                () = sleep_until(wake) => {}
            }
            self.on_time(now());
        }
        self.messages.close();
    }

    fn next_wake(&self) -> Option<Instant> {
        let planner = self.pool.planner().next_wake();
        let checks = self.checks.as_ref().and_then(HealthChecks::next_wake);
        let checks = checks.filter(|_| !self.closing);
        [planner, self.expiry, self.probe_at, checks]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whatever is due.
    fn on_time(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.expiry) {
            self.expiry = self.pool.slots.expire(now);
        }
        let planned = self.pool.planner().next_wake();
        if is_due(planned) {
            self.plan(|planner, pool, now| planner.tick(None, pool, now));
        }
        if is_due(self.probe_at) {
            self.probe(now);
        }
        let checks = self.checks.as_ref().and_then(HealthChecks::next_wake);
        if is_due(checks) && !self.closing {
            self.check_health(now);
        }
    }

    /// Somebody waits: with an earlier deadline than any known, or for the pool to grow.
    fn nudged(&mut self) {
        self.expiry = self.pool.slots.expire(now());
        if self.pool.wanted_anyway.swap(false, Ordering::AcqRel) {
            self.try_anyway(now());
        }
        if self.pool.slots.waiting() > 0 {
            self.plan(|planner, pool, now| planner.demand(pool, now));
        }
    }

    fn shut_down(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.probe_at = None;
        self.fresh.clear();
        self.plan(|planner, pool, now| planner.shutdown(pool, now));
        for kept in &self.slots {
            // Its report's drop frees the slot.
            if let Some(opener) = &kept.opener {
                opener.abort();
            }
        }
    }

    /// Goodbyes and pings end now. What requests have is theirs, and closed when it comes back.
    fn cut_all(&mut self) {
        for kept in &self.slots {
            if let Some(task) = &kept.task {
                task.abort();
            }
        }
    }

    /// Tells the planner something that cannot be odd, then carries its actions out.
    fn plan(&mut self, tell: impl FnOnce(&mut Planner, &Inner, Instant)) {
        tell(&mut self.pool.planner(), &self.pool, now());
        self.carry_out();
    }

    /// Tells the planner an event about one slot, then carries its actions out.
    fn report(&mut self, event: impl FnOnce(&mut Planner, &Inner, Instant) -> Result<(), Oddity>) {
        self.tell(event);
        self.carry_out();
    }

    /// Tells the planner an event about one slot; whoever calls it sees to the actions.
    fn tell(&self, event: impl FnOnce(&mut Planner, &Inner, Instant) -> Result<(), Oddity>) {
        if let Err(oddity) = event(&mut self.pool.planner(), &self.pool, now()) {
            debug_assert!(false, "{oddity}");
            tracing::error!(target: "pgsteer::router", backend = %self.pool.address, "{oddity}: please report this");
        }
    }

    fn carry_out(&mut self) {
        loop {
            let action = self.pool.planner().next_action();
            let Some(action) = action else { break };
            self.act(action);
        }
        let is_full = !self.pool.planner().has_empty_slot();
        self.pool.full.store(is_full, Ordering::Relaxed);
    }
}

impl Drop for Keeper {
    /// Without a keeper nothing comes to anybody: if its runtime goes before the pool was closed, or it dies, requests are
    /// told so instead of waiting for ever.
    fn drop(&mut self) {
        self.pool.slots.close();
        self.pool.drained.send_replace(true);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
