//! Several backends, and which of them gets a request.

mod route;
mod routed;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use pgsteer_core::balance::Turns;

use super::address::BackendAddress;
use super::dial::Dial;
use super::error::SetError;
use super::inner::{Company, Inner, now};
use super::options::BackendOptions;
use super::pool::{self, BackendPool};
use super::status::{BackendStatus, Closed};
use crate::threads::Crew;

pub use routed::Routed;

/// The backends that requests are spread over. Cheap to clone; when the last clone is dropped all pools end as with
/// [`close`](Self::close), without waiting.
///
/// A request goes to the backend with the least requests in flight for its weight; where several are equal, each comes up
/// as often as its weight says. One that cannot be dialled, or fails too many requests in a row, is left out until a probe has
/// found it well; where all are, each is tried all the same, the one whose failure is the longest ago first. Choosing takes
/// no lock.
#[derive(Clone)]
pub struct BackendSet {
    shared: Arc<Shared>,
}

struct Shared {
    list: ArcSwap<Vec<BackendPool>>,
    turns: Turns,
    dialer: Arc<dyn Dial>,
    crew: Crew,
    changes: Mutex<Changes>,
}

/// Changes of the list are made one after the other.
#[derive(Default)]
struct Changes {
    closed: bool,
    /// Pools no longer in the list that may still have connections.
    leaving: Vec<Weak<Inner>>,
}

impl Company for Shared {
    fn others_serve(&self, one: &Inner) -> bool {
        let list = self.list.load();
        let others = list.iter().filter(|other| !std::ptr::eq(&**other.inner(), one));
        others.into_iter().any(|other| other.inner().is_well())
    }
}

impl BackendSet {
    /// Starts a pool for each backend. Returns at once; connections open in the background.
    ///
    /// # Errors
    ///
    /// An empty list, a backend that is in it twice, or an option out of its range.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        backends: Vec<(BackendAddress, BackendOptions)>,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, SetError> {
        BackendSet::start_across(backends, dialer, Crew::default())
    }

    /// As [`start`](Self::start), with each backend's connections spread over these threads.
    pub(crate) fn start_across(
        backends: Vec<(BackendAddress, BackendOptions)>,
        dialer: Arc<dyn Dial>,
        crew: Crew,
    ) -> Result<Self, SetError> {
        let set = BackendSet {
            shared: Arc::new(Shared {
                list: ArcSwap::default(),
                turns: Turns::new(),
                dialer,
                crew,
                changes: Mutex::default(),
            }),
        };
        set.update(backends)?;
        Ok(set)
    }

    /// Changes the list of backends. New ones are started, and weights change, at once. Those no longer in the list get no
    /// more requests; what is under way on them goes on, and they end with it. One whose options have changed is ended and
    /// started in the same way.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or [`SetError::Closed`]; then nothing has changed.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn update(&self, backends: Vec<(BackendAddress, BackendOptions)>) -> Result<(), SetError> {
        check(&backends)?;
        let mut changes = self.changes();
        if changes.closed {
            return Err(SetError::Closed);
        }
        let before = self.shared.list.load_full();
        let mut list = Vec::with_capacity(backends.len());
        let mut weights = Vec::with_capacity(backends.len());
        for (address, options) in backends {
            let known = before
                .iter()
                .find(|pool| pool.address().is_same_backend(&address) && *pool.options() == options);
            weights.push(address.weight());
            list.push(match known {
                Some(pool) => pool.clone(),
                None => self.start_one(address, options)?,
            });
        }
        for (pool, weight) in list.iter().zip(weights) {
            pool.inner().set_weight(weight);
        }
        changes.leaving.retain(|pool| pool.strong_count() > 0);
        for pool in before.iter() {
            if !list.iter().any(|kept| Arc::ptr_eq(kept.inner(), pool.inner())) {
                tracing::info!(target: "pgsteer::router", backend = %pool.address(), "the backend is taken out");
                changes.leaving.push(Arc::downgrade(pool.inner()));
            }
        }
        // The pools that are not in it end with their last handle.
        self.shared.list.store(Arc::new(list));
        Ok(())
    }

    fn start_one(&self, address: BackendAddress, options: BackendOptions) -> Result<BackendPool, SetError> {
        let (dialer, crew) = (Arc::clone(&self.shared.dialer), self.shared.crew.clone());
        let pool = BackendPool::start_across(address.clone(), options, dialer, crew)
            .map_err(|error| SetError::Option(address, error))?;
        let company: Weak<dyn Company> = Arc::downgrade(&(Arc::clone(&self.shared) as Arc<dyn Company>));
        // It is new, so it has none yet.
        let _ = pool.inner().company.set(company);
        Ok(pool)
    }

    /// What each backend looks like now, in the order of the list.
    pub fn status(&self) -> Vec<BackendStatus> {
        self.shared.list.load().iter().map(BackendPool::status).collect()
    }

    /// Ends all pools: waiting and later requests fail, idle connections are closed, borrowed ones when they come back. Waits
    /// until every socket is closed, for `grace` at most; see [`BackendPool::close`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pools ending by themselves.
    pub async fn close(&self, grace: Duration) -> Closed {
        let began = now();
        let mut pools: Vec<Arc<Inner>> = {
            let mut changes = self.changes();
            changes.closed = true;
            changes
                .leaving
                .drain(..)
                .filter_map(|pool| pool.upgrade())
                .collect()
        };
        pools.extend(
            self.shared
                .list
                .load()
                .iter()
                .map(|pool| Arc::clone(pool.inner())),
        );
        let ends = pools.iter().map(|pool| pool::close(pool, grace));
        let ended = futures_util::future::join_all(ends).await;
        Closed {
            still_out: ended.iter().map(|one| one.still_out).sum(),
            took: now().saturating_duration_since(began),
        }
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.changes().closed
    }
}

fn check(backends: &[(BackendAddress, BackendOptions)]) -> Result<(), SetError> {
    if backends.is_empty() {
        return Err(SetError::Empty);
    }
    for (number, (address, options)) in backends.iter().enumerate() {
        let earlier = backends.iter().take(number);
        if earlier
            .into_iter()
            .any(|(other, _)| other.is_same_backend(address))
        {
            return Err(SetError::Twice(address.clone()));
        }
        options
            .check()
            .map_err(|error| SetError::Option(address.clone(), error))?;
    }
    Ok(())
}

impl fmt::Debug for BackendSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackendSet").field(&self.status()).finish()
    }
}
