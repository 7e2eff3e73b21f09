//! The pool: guards, checkout, the keeper task and what people see of it. Decisions are the planner's in
//! `pgsteer-core`; this carries them out.

mod aside;
mod before_checkout;
mod bound;
mod cached;
mod calls;
mod checkout;
mod closes;
mod diagnosis;
mod ends;
mod generic;
mod guard;
mod holders;
mod hooks;
mod inner;
mod inside;
mod keeper;
#[cfg(feature = "metrics")]
mod metrics;
mod opener;
mod query;
mod recycle;
mod settle;
mod statements;
mod status;
mod tenant;
mod unnamed;

use std::fmt;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer_core::hosts::Snapshot;
use pgsteer_core::pool::Slots;
use pgsteer_core::pool::planner::{Planner, PlannerOptions};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

pub use before_checkout::Candidate;
pub use checkout::{Get, GetRef};
pub use closes::Closes;
pub use ends::{ConnectionEnd, EndCause, LastEnd};
pub use generic::GenericClient;
pub use guard::{Conn, ConnRef, TransactionStatus};
pub use holders::Holder;
pub use hooks::{HookFailed, HookFailure};
pub use status::{Closed, Status, Totals};

use crate::cluster::Cluster;
pub(crate) use crate::cluster::now;
use crate::config::{Config, Settings, TargetSessionAttrs};
use crate::error::Error;
use crate::world::World;
pub(crate) use aside::aside;
use ends::Ends;
use holders::Holders;
use inner::{Counters, Inner, Message, Sheet, ToKeeper};
use statements::Edition;

/// How long filling rests after a failed open.
const REFILL_DELAY: Duration = Duration::from_secs(1);
/// The longest rest while logins are refused.
const LOGIN_BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A pool of connections spread over a cluster. Cheap to clone; made once and passed around.
///
/// It opens its connections in the background, keeps them spread over the servers that the configuration prefers,
/// replaces those that die, and never sends a query of its own on an idle connection. When the last clone is dropped
/// the pool ends as with [`close`](Pool::close), without waiting.
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
}

/// Ends the pool when the last [`Pool`] goes.
struct Handle {
    inner: Arc<Inner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.slots.close();
        self.inner.tell_keeper(Message::Shutdown);
    }
}

impl Pool {
    /// Starts a pool from a connection string and waits until its first connection is open.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad string; [`Error::Login`], [`Error::Connect`] or [`Error::NoNode`] as soon as an open
    /// has failed and nothing else can come; [`Error::CheckoutTimeout`] after the configured `checkout_timeout`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future ends the pool.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let pool = Self::start(url.parse::<Config>()?)?;
        drop(pool.get().await?);
        Ok(pool)
    }

    /// Starts a pool. Returns at once; connections open in the background.
    ///
    /// # Errors
    /// [`Error::Config`] when an option is bad.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(config: Config) -> Result<Self, Error> {
        Self::start_in(config, World::real())
    }

    /// As [`start`](Self::start), with name resolution, dialling and randomness given by the caller.
    ///
    /// # Errors
    /// [`Error::Config`] when an option is bad.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_in(config: Config, world: World) -> Result<Self, Error> {
        let settings = Arc::new(config.settings()?);
        config.warn_without_effect();
        let cluster = Cluster::for_pool(settings.clone(), world)?;
        Self::begin(cluster, settings)
    }

    /// Starts a pool on a cluster that is there already, beside whatever else uses it: what one of them learns of a
    /// host, all know, and its connections count as the host's load for all. Returns at once.
    ///
    /// The options of hosts, login, TLS, sockets and placement must be those of the cluster, since it is the cluster
    /// that opens the connections. `target_session_attrs` and all options of the pool are the pool's own. The cluster
    /// goes on when the pool is closed.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), pgsteer::Error> {
    /// use pgsteer::config::{Config, TargetSessionAttrs};
    /// use pgsteer::{Cluster, Pool};
    ///
    /// let config = "postgresql://app@pg1,pg2,pg3/app".parse::<Config>()?;
    /// let cluster = Cluster::start(config.clone())?;
    /// let writes = config.clone().target_session_attrs(TargetSessionAttrs::ReadWrite);
    /// let reads = config.target_session_attrs(TargetSessionAttrs::PreferStandby).pool_size(30);
    /// let writes = Pool::start_on(&cluster, writes)?;
    /// let reads = Pool::start_on(&cluster, reads)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] when an option is bad, or is the cluster's and differs from what it was started with;
    /// [`Error::Closed`] when the cluster has been stopped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_on(cluster: &Cluster, config: Config) -> Result<Self, Error> {
        let settings = Arc::new(config.settings()?);
        config.warn_without_effect();
        Self::begin(cluster.clone(), settings)
    }

    /// Starts another pool with the same options on the same cluster, whose connections are wanted on other servers: a
    /// pool for reads beside one for writes, say. Returns at once. Each of the two is closed for itself; a cluster that
    /// the first made for itself goes on until both are.
    ///
    /// # Errors
    /// [`Error::Closed`] when the cluster has been stopped, as that of a closed pool is.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn with_target(&self, target: TargetSessionAttrs) -> Result<Self, Error> {
        let settings = Settings {
            target_session_attrs: target,
            ..Settings::clone(&self.inner().settings)
        };
        Self::begin(self.cluster().clone(), Arc::new(settings))
    }

    fn begin(cluster: Cluster, settings: Arc<Settings>) -> Result<Self, Error> {
        let membership = cluster.join(&settings)?;
        let (keeper, messages) = mpsc::unbounded_channel();
        let nudge = Arc::new(Notify::new());
        let to_keeper = ToKeeper {
            messages: keeper.clone(),
            nudge: nudge.clone(),
        };
        let (slots, leases) = Slots::new(settings.pool_size, Box::new(to_keeper));
        let inner = Arc::new(Inner {
            slots,
            sheets: (0..settings.pool_size).map(|_| Sheet::empty()).collect(),
            planner: Mutex::new(Planner::new(planner_options(&settings))),
            holders: Holders::new(settings.pool_size, settings.record_holders),
            counters: Counters::default(),
            ends: Ends::default(),
            statements: Edition::default(),
            last_failure: Mutex::new(None),
            diagnosis: Mutex::new(None),
            keeper,
            nudge,
            elastic: settings.min_idle < settings.pool_size,
            login_refused: AtomicBool::new(false),
            attends_checkouts: settings.record_holders || settings.before_checkout.is_some(),
            recycles: recycle::is_wanted(&settings),
            reset_sql: recycle::reset_sql(&settings),
            on_return_fails: AtomicBool::new(false),
            circuit_open: AtomicBool::new(false),
            live: watch::Sender::new(0),
            drained: watch::Sender::new(false),
            closed: watch::Sender::new(false),
            questions: Arc::new(Semaphore::new(inner::QUESTIONS_AT_A_TIME)),
            membership,
            cluster,
            #[cfg(feature = "metrics")]
            labels: Arc::new(metrics::Labels::new(&settings)),
            settings,
        });
        #[cfg(feature = "metrics")]
        metrics::watch(&inner);
        tokio::spawn(keeper::Keeper::new(inner.clone(), messages, leases).run());
        Ok(Pool {
            handle: Arc::new(Handle { inner }),
        })
    }

    #[inline]
    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// Checks a connection out, waiting up to the configured `checkout_timeout` (5 s unless set). Callers are served
    /// strictly first come, first served.
    ///
    /// While hosts answer and none is what `target_session_attrs` wants, or none is ready, callers wait: a promotion may
    /// be under way. The pool asks again at short intervals, of two seconds at most, and as soon as it learns of a change.
    ///
    /// # Errors
    /// [`Error::CheckoutTimeout`], which names each host that does not fit or has failed; [`Error::Closed`]; and, when
    /// nothing can come because an open has failed in another way and no connection is open or opening, that open's
    /// error at once. [`Error::CircuitOpen`] at once while so many passes have failed that nothing is dialled, unless a
    /// connection is out and may come back.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue; a connection granted in that instant goes to the next caller. Connects
    /// are never a caller's, so none is wasted.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> Get<'_> {
        Get::new(
            self.inner(),
            self.inner().settings.checkout_timeout,
            Location::caller(),
        )
    }

    /// As [`get`](Self::get), with a limit of its own; `None` waits for ever.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// As [`get`](Self::get).
    #[inline]
    #[track_caller]
    pub fn get_timeout(&self, limit: impl Into<Option<Duration>>) -> Get<'_> {
        Get::new(self.inner(), limit.into(), Location::caller())
    }

    /// As [`get`](Self::get), with a guard that borrows the pool.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// As [`get`](Self::get).
    #[inline]
    #[track_caller]
    pub fn get_ref(&self) -> GetRef<'_> {
        GetRef::new(
            self.inner(),
            self.inner().settings.checkout_timeout,
            Location::caller(),
        )
    }

    /// Checks a connection out if one is idle and nobody waits. Never waits. Under load it may say `None` although one has just
    /// become idle, or although whoever looked whether they had to wait need not.
    #[track_caller]
    pub fn try_get(&self) -> Option<Conn> {
        let at = Location::caller();
        loop {
            let lease = self.inner().try_take()?;
            if let Some(lease) = self.inner().attend(lease, at) {
                return Some(Conn::new(self.inner().clone(), lease));
            }
        }
    }

    /// What the pool looks like now.
    pub fn status(&self) -> Status {
        self.inner().status()
    }

    /// What is known of the cluster now, as it matters for this pool's `target_session_attrs`.
    pub fn snapshot(&self) -> Snapshot {
        self.inner().snapshot()
    }

    /// The cluster behind the pool: its snapshot, and refreshes on demand. Other pools may be on it as well.
    pub fn cluster(&self) -> &Cluster {
        &self.inner().cluster
    }

    /// Waits until at least `n` connections are open (idle or leased), for `deadline` at most. More than `pool_size`
    /// counts as `pool_size`.
    ///
    /// # Errors
    /// [`Error::CheckoutTimeout`] at the deadline, with what the last connects failed with; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn ready(&self, n: u32, deadline: Duration) -> Result<(), Error> {
        let n = n.min(self.inner().settings.pool_size);
        let started = now();
        let mut live = self.inner().live.subscribe();
        if self.is_closed() {
            return Err(Error::Closed);
        }
        tokio::select! {
            biased;
            () = self.inner().wait_closed() => Err(Error::Closed),
            _ = live.wait_for(|live| *live >= n) => Ok(()),
            () = tokio::time::sleep(deadline) => {
                Err(self.inner().exhausted(now().saturating_duration_since(started)))
            }
        }
    }

    /// Replaces every connection: idle ones are closed now, leased ones when they come back. Returns at once.
    pub fn retire_all(&self) {
        self.inner().tell_keeper(Message::RetireAll);
    }

    /// Has every connection forget the statements it keeps prepared, as after a change of the schema or of a setting that
    /// plans depend on. Each does so when a statement is next asked of it. Returns at once.
    pub fn clear_statement_caches(&self) {
        self.inner().statements.next();
    }

    /// Looks now, instead of at the next `rebalance_interval`, at where the connections are, and moves at most a
    /// batch. Returns at once.
    pub fn rebalance(&self) {
        self.inner().tell_keeper(Message::Rebalance);
    }

    /// Ends the pool: waiting and later checkouts fail with [`Error::Closed`], idle connections are closed, leased
    /// ones when they come back. Waits until every socket is gone, for `deadline` at most; then what is left is cut. Nothing
    /// is sent for that: a server may go on with a statement that runs there until it has an answer to send.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the pool ending by itself, without the cut.
    pub async fn close(&self, deadline: Duration) -> Closed {
        let started = now();
        self.inner().slots.close();
        self.inner().tell_keeper(Message::Shutdown);
        let mut drained = self.inner().drained.subscribe();
        let in_time = tokio::time::timeout(deadline, drained.wait_for(|drained| *drained)).await;
        let still_out = match in_time {
            // Drained, or the runtime has gone and took the keeper with it while connections were out.
            Ok(_) => self.leased(),
            Err(_) => {
                let still_out = self.leased();
                self.inner().tell_keeper(Message::Cut);
                still_out
            }
        };
        Closed {
            still_out,
            took: now().saturating_duration_since(started),
        }
    }

    fn leased(&self) -> u32 {
        let planned = self.inner().planner().stats(&**self.inner()).leased;
        self.inner().leased(planned as u32)
    }

    /// Whether the pool has been closed.
    pub fn is_closed(&self) -> bool {
        self.inner().slots.is_closed()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("settings", &self.inner().settings)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

fn planner_options(settings: &Settings) -> PlannerOptions {
    PlannerOptions {
        size: settings.pool_size,
        min_idle: settings.min_idle,
        idle_timeout: settings.idle_timeout,
        max_lifetime: Some(settings.max_lifetime),
        lifetime_jitter: settings.lifetime_jitter,
        rebalance_interval: settings.rebalance_interval,
        rebalance_batch: settings.rebalance_batch,
        max_dials: settings.max_dials,
        refill_delay: REFILL_DELAY,
        login_backoff_max: LOGIN_BACKOFF_MAX,
        not_ready_max: settings.failed_host_delay,
        hook_keep_off: settings.hook_keep_off(),
        return_cancel_after: settings.return_cancel_after,
        return_timeout: settings.return_timeout,
    }
}
