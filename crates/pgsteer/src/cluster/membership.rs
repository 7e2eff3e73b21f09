//! The pools on one cluster, each counted from its start until it is closed. A cluster that a pool made for itself ends
//! with its last pool; one that the application started goes on until its last handle is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgsteer_core::hosts::TargetSessionAttrs;

use super::Shared;
use crate::error::Error;

/// How a cluster came to be, which decides when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MadeBy {
    Application,
    Pool,
}

/// The pools of one cluster.
pub(super) struct Members {
    made_by: MadeBy,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    pools: usize,
    /// How many of them ask servers what they are.
    asking: usize,
    /// The last pool has gone and took the cluster with it.
    over: bool,
}

impl Members {
    pub(super) fn new(made_by: MadeBy) -> Self {
        Members {
            made_by,
            count: Mutex::default(),
        }
    }

    /// Servers are asked at refreshes what they are for as long as that matters to anybody.
    fn tell(&self, shared: &Shared, count: &Count) {
        let own = self.made_by == MadeBy::Application && shared.target().asks();
        shared.watch_roles(own || count.asking > 0);
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One pool's place among those on its cluster. Given up when it is dropped, or earlier by [`leave`](Self::leave).
pub(crate) struct Membership {
    shared: Arc<Shared>,
    asks: bool,
    left: Mutex<bool>,
}

impl Membership {
    /// Takes a place.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the cluster has been stopped.
    pub(super) fn join(shared: &Arc<Shared>, target: TargetSessionAttrs) -> Result<Self, Error> {
        let mut count = shared.members.count();
        if count.over || shared.is_stopped() {
            return Err(Error::Closed);
        }
        count.pools += 1;
        let asks = target.asks();
        count.asking += usize::from(asks);
        shared.members.tell(shared, &count);
        Ok(Membership {
            shared: shared.clone(),
            asks,
            left: Mutex::new(false),
        })
    }

    /// The pool is closed. Stops the cluster if nobody else has it.
    pub(crate) fn leave(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *left, true) {
            return;
        }
        let members = &self.shared.members;
        let last = {
            let mut count = members.count();
            count.pools -= 1;
            count.asking -= usize::from(self.asks);
            members.tell(&self.shared, &count);
            count.over = count.pools == 0 && members.made_by == MadeBy::Pool;
            count.over
        };
        if last {
            self.shared.stop();
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.leave();
    }
}
