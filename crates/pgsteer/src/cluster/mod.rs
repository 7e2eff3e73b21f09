//! The cluster shell: carries out what the pure `ClusterState` decides (discoveries, probes, timers) and
//! gives it what happened. The state sits behind a plain lock that is never held across an await, so a pick or a
//! snapshot answers at once even while connects hang.

mod breaker;
mod connection;
mod joining;
mod lookout;
mod membership;
mod names;
mod pass;
mod race;
mod refresh;
mod reservation;
mod search;
mod shared;
mod straggler;

use std::fmt;
use std::sync::Arc;

use pgsteer_core::hosts::Snapshot;

pub(crate) use breaker::LastError;
pub use connection::ClusterConnection;
pub(crate) use membership::Membership;
pub(crate) use reservation::Counted;
pub(crate) use search::{Opened, SearchError, Wanted};
pub(crate) use shared::{Shared, now};

use crate::config::{Config, Settings};
use crate::dial::Purpose;
use crate::error::Error;
use crate::world::World;
use membership::MadeBy;

/// Placement and failover without a pool, for code that manages its own connections.
///
/// A cluster discovers its servers, keeps count of the connections opened through it, leaves failed hosts out and
/// probes them at each refresh. It stops when the last clone and the last pool on it are dropped; connections opened
/// through it live on. One that a [`Pool`](crate::Pool) made for itself stops with the last pool on it.
///
/// When [`breaker_threshold`](Config::breaker_threshold) passes over the hosts in a row have met no host that answered,
/// nothing is dialled any more but one pass a window, by whoever asks first when the window is over.
///
/// Several pools can share what one cluster knows: [`Pool::start_on`](crate::Pool::start_on).
///
/// ```no_run
/// # async fn example() -> Result<(), pgsteer::Error> {
/// let config = "postgresql://app@yb-1:5433,yb-2:5433/app?load_balance=any".parse::<pgsteer::Config>()?;
/// let cluster = pgsteer::Cluster::start(config)?;
/// let connection = cluster.connect().await?;
/// let row = connection.query_one("SELECT 1", &[]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Cluster {
    handle: Arc<Handle>,
}

/// The circuit breaker of a cluster at one moment.
pub type BreakerStatus = pgsteer_core::breaker::Status<LastError>;

/// Stops the cluster's background work when the last [`Cluster`] goes.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Cluster {
    /// Starts a cluster on the real network: the first discovery begins at once, in the background.
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
        Self::made_by(MadeBy::Application, settings, world)
    }

    /// A cluster for a pool, and for those that are put beside it: it ends with the last of them.
    pub(crate) fn for_pool(settings: Arc<Settings>, world: World) -> Result<Self, Error> {
        Self::made_by(MadeBy::Pool, settings, world)
    }

    fn made_by(made_by: MadeBy, settings: Arc<Settings>, world: World) -> Result<Self, Error> {
        let shared = Shared::start(settings, world, made_by)?;
        Ok(Cluster {
            handle: Arc::new(Handle { shared }),
        })
    }

    /// A place for a pool with these settings.
    ///
    /// # Errors
    /// [`Error::Config`] if they say something else of the cluster than its own; [`Error::Closed`] if it is stopped.
    pub(crate) fn join(&self, settings: &Settings) -> Result<Membership, Error> {
        joining::check(&self.shared().settings, settings)?;
        Membership::join(self.shared(), settings.target_session_attrs)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Opens a connection where `target_session_attrs`, the load-balance mode, the topology keys and the failures known
    /// say. Waits for the first discovery to end, either way, then tries each suitable host once, each within
    /// `connect_timeout`.
    ///
    /// The connection is counted as this cluster's load on its host until its socket is gone.
    ///
    /// # Errors
    /// [`Error::NoFit`] when hosts answered and none is what `target_session_attrs` wants, as while a promotion is under
    /// way (a pool's checkouts wait then); [`Error::NoNode`] when the mode refuses; [`Error::Login`] when every host that answered refused the login;
    /// [`Error::Connect`] with every host tried, its state and reason; [`Error::CircuitOpen`] at once while the cluster is
    /// taken to be down; [`Error::Closed`] after [`stop`](Self::stop).
    ///
    /// # Cancel safety
    /// Dropping the future closes the attempt under way and marks no host. If it was the one that was to find out whether
    /// the cluster is back, the next may do so after another window of the same length.
    pub async fn connect(&self) -> Result<ClusterConnection, Error> {
        let wanted = Wanted {
            target: self.shared().target(),
            avoid: &[],
            purpose: Purpose::Cluster,
        };
        let opened = self.shared().open(wanted).await?;
        Ok(ClusterConnection::new(opened))
    }

    /// Waits until the first discovery has ended, successfully or not. Returns at once with `load_balance` off.
    ///
    /// # Errors
    /// [`Error::Closed`] when the cluster is stopped meanwhile.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn ready(&self) -> Result<(), Error> {
        self.shared().wait_ready().await.map_err(Error::from)
    }

    /// What is known now: servers, placement, allowed hosts, roles, counts, failures, as it matters for the
    /// `target_session_attrs` the cluster was started with. Never waits for the network.
    pub fn snapshot(&self) -> Snapshot {
        self.shared().snapshot(self.shared().target())
    }

    /// The cluster's circuit breaker now; `None` if `breaker_threshold` is 0.
    pub fn breaker(&self) -> Option<BreakerStatus> {
        self.shared().breaker_status()
    }

    /// Starts a refresh now: probes of the failed hosts that are due, and a discovery unless one is running. Returns
    /// at once; the result shows in [`snapshot`](Self::snapshot).
    pub fn refresh(&self) {
        self.shared().refresh();
    }

    /// Stops all background work at once. Connections stay open; later [`connect`](Self::connect)s fail.
    pub fn stop(&self) {
        self.shared().stop();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}
