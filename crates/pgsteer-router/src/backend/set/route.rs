//! A request's way to a connection: the least loaded backend first, and on to the next where one fails or does not come to it.

use std::sync::Arc;

use pgsteer_core::balance::pick;
use pgsteer_core::pool::Rejected;
use tokio::time::{Duration, Instant};

use super::{BackendSet, Routed, Shared};
use crate::backend::address::BackendAddress;
use crate::backend::borrowed::Borrowed;
use crate::backend::counters::Counters;
use crate::backend::error::{BorrowError, Unavailable};
use crate::backend::inner::Inner;
use crate::backend::pool::BackendPool;

/// How often a choice is made again because somebody was faster with the chosen one.
const RACES: usize = 4;

/// What kind of connection a request wants, and from whom it wants none.
#[derive(Clone, Copy)]
struct Wish<'a> {
    fresh: bool,
    not: Option<&'a BackendAddress>,
}

/// What came of waiting at a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// None came free while it waited.
    Busy,
    /// It has failed.
    Failed,
    /// It has been taken out of the list.
    Gone,
}

struct Tried {
    pool: Arc<Inner>,
    outcome: Outcome,
}

impl BackendSet {
    /// Borrows a connection to the backend that carries least for its weight, waiting up to its `borrow_timeout`. If that one
    /// cannot be dialled, or nothing comes free there in half the time that is left, the next has its turn.
    ///
    /// # Errors
    ///
    /// [`BorrowError`] says which, with what each backend looked like.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue; a connection granted in that instant goes to the next request. Dials are never
    /// a request's own, so none is wasted.
    pub async fn borrow(&self) -> Result<Routed, BorrowError> {
        let wish = Wish {
            fresh: false,
            not: None,
        };
        self.route(wish).await
    }

    /// As [`borrow`](Self::borrow), but a connection that is dialled for this request, for one that met a stale one. Where all
    /// are in use it is one that has just come back.
    ///
    /// # Errors
    ///
    /// As [`borrow`](Self::borrow).
    ///
    /// # Cancel safety
    ///
    /// As [`borrow`](Self::borrow).
    pub async fn borrow_fresh(&self) -> Result<Routed, BorrowError> {
        let wish = Wish {
            fresh: true,
            not: None,
        };
        self.route(wish).await
    }

    /// As [`borrow`](Self::borrow), but from any backend other than `not`.
    ///
    /// # Errors
    ///
    /// As [`borrow`](Self::borrow); [`BorrowError::NoBackend`] if there is no other.
    ///
    /// # Cancel safety
    ///
    /// As [`borrow`](Self::borrow).
    pub async fn borrow_other(&self, not: &BackendAddress) -> Result<Routed, BorrowError> {
        let wish = Wish {
            fresh: false,
            not: Some(not),
        };
        self.route(wish).await
    }

    #[inline]
    async fn route(&self, wish: Wish<'_>) -> Result<Routed, BorrowError> {
        tokio::task::coop::consume_budget().await;
        let Some(mut borrowed) = self.shared.choose(|pool| wish.takes(pool)) else {
            return Err(self.nobody());
        };
        if !wish.fresh && borrowed.take_idle() {
            return Ok(Routed::new(borrowed));
        }
        self.wait(borrowed, wish).await
    }

    /// Waits at one backend after the other, until one has a connection or the time is over.
    #[cold]
    async fn wait(&self, first: Borrowed, wish: Wish<'_>) -> Result<Routed, BorrowError> {
        let began = Instant::now();
        let deadline = began + first.pool().options.borrow_timeout;
        let mut tried: Vec<Tried> = Vec::new();
        let mut next = Some(first);
        while let Some(mut borrowed) = next.take() {
            let pool = Arc::clone(borrowed.pool());
            let until = self.shared.share(&pool, &tried, wish, deadline);
            let waited = if wish.fresh {
                borrowed.wait_fresh(until).await
            } else {
                borrowed.wait(until).await
            };
            let outcome = match waited {
                Ok(()) => return Ok(Routed::new(borrowed)),
                Err(Rejected::TimedOut) => Outcome::Busy,
                Err(Rejected::Failed(_)) => Outcome::Failed,
                Err(Rejected::Closed) => Outcome::Gone,
            };
            drop(borrowed);
            tried.retain(|tried| !Arc::ptr_eq(&tried.pool, &pool));
            tried.push(Tried { pool, outcome });
            if Instant::now() >= deadline {
                break;
            }
            let untried = |pool: &BackendPool| wish.takes(pool) && outcome_of(&tried, pool).is_none();
            // Once everybody has been tried, those that were merely busy have the rest of the time.
            let busy =
                |pool: &BackendPool| wish.takes(pool) && outcome_of(&tried, pool) == Some(Outcome::Busy);
            next = self.shared.choose(untried).or_else(|| self.shared.choose(busy));
        }
        Err(self.unavailable(began, &tried))
    }

    fn nobody(&self) -> BorrowError {
        if self.is_closed() {
            BorrowError::Closed
        } else {
            BorrowError::NoBackend
        }
    }

    #[cold]
    fn unavailable(&self, began: Instant, tried: &[Tried]) -> BorrowError {
        let backends: Vec<_> = tried
            .iter()
            .filter(|tried| tried.outcome != Outcome::Gone)
            .map(|tried| tried.pool.status())
            .collect();
        if backends.is_empty() {
            return self.nobody();
        }
        let busy = tried.iter().filter(|tried| tried.outcome == Outcome::Busy);
        let is_busy = busy
            .inspect(|tried| Counters::add(&tried.pool.counters.timeouts))
            .count()
            > 0;
        let unavailable = Arc::new(Unavailable {
            waited: began.elapsed(),
            backends,
        });
        if is_busy {
            BorrowError::TimedOut(unavailable)
        } else {
            BorrowError::Failed(unavailable)
        }
    }
}

impl Wish<'_> {
    fn takes(&self, pool: &BackendPool) -> bool {
        !self.not.is_some_and(|not| not.is_same_backend(pool.address()))
    }
}

fn outcome_of(tried: &[Tried], pool: &BackendPool) -> Option<Outcome> {
    let tried = tried.iter().find(|tried| Arc::ptr_eq(&tried.pool, pool.inner()));
    tried.map(|tried| tried.outcome)
}

impl Shared {
    /// Chooses among those that are acceptable, and counts the request in there. Loads of atomics, no lock; again if somebody
    /// was faster, but not for ever.
    #[inline]
    fn choose(&self, acceptable: impl Fn(&BackendPool) -> bool) -> Option<Borrowed> {
        let list = self.list.load();
        let look = |place: usize| {
            let pool = list.get(place).filter(|pool| acceptable(pool))?;
            Some(pool.inner().candidate())
        };
        for _ in 0..RACES {
            let picked = pick(list.len(), look, &self.turns)?;
            let pool = list.get(picked.place)?.inner();
            let was_first = picked.in_flight.is_none_or(|seen| pool.count_in(seen));
            if was_first {
                let counted = !picked.is_anyway();
                return Some(Borrowed::begin(Arc::clone(pool), counted));
            }
        }
        let picked = pick(list.len(), look, &self.turns)?;
        Some(Borrowed::begin(
            Arc::clone(list.get(picked.place)?.inner()),
            false,
        ))
    }

    /// How long a request waits at this backend: half of what is left if another serves, an equal part if all have failed,
    /// and all of it at the last.
    fn share(&self, pool: &Arc<Inner>, tried: &[Tried], wish: Wish<'_>, deadline: Instant) -> Instant {
        let now = Instant::now();
        let list = self.list.load();
        let others = || {
            list.iter().filter(|other| {
                let is_other = !Arc::ptr_eq(other.inner(), pool);
                is_other && wish.takes(other) && outcome_of(tried, other).is_none()
            })
        };
        let parts = if others().any(|other| other.inner().is_well()) {
            2
        } else if pool.is_well() {
            1
        } else {
            u32::try_from(others().count())
                .unwrap_or(u32::MAX)
                .saturating_add(1)
        };
        now + deadline.saturating_duration_since(now).max(Duration::ZERO) / parts
    }
}
