//! Lookouts: while nothing fits, a connection to each server that answered is kept and its server asked again and again
//! what it is.
//!
//! A promotion keeps the sessions of the server that is promoted. So it is seen here within a tenth of a second, at the
//! price of a trivial query on an open connection; connecting as often would cost the servers a process and a login each
//! time. What is seen is told to the cluster, which wakes the pools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgsteer_core::host::HostKey;
use tokio::task::AbortHandle;

use super::Shared;
use crate::dial::Dialled;

/// The time between two questions.
const STEP: Duration = Duration::from_millis(100);

/// Steps without a search that found nothing, after which a lookout is over: two of the longest rests between searches.
const STEPS_UNUSED: u32 = 50;

/// The most lookouts of a cluster. Where more servers answered and none fits, the rounds of searches see the rest.
const MOST: usize = 8;

/// One lookout, as the cluster knows it.
pub(super) struct Lookout {
    task: AbortHandle,
    /// Set by each search that would have had use for it.
    used: Arc<AtomicBool>,
}

impl Lookout {
    pub(super) fn abort(&self) {
        self.task.abort();
    }
}

impl Shared {
    /// Keeps the connection as a lookout, unless there is one to its host already: then that one goes on.
    pub(super) fn look_out(self: &Arc<Self>, key: HostKey, dialled: Dialled) {
        let mut tasks = self.tasks();
        if let Some(lookout) = tasks.lookouts.get(&key) {
            lookout.used.store(true, Ordering::Relaxed);
        } else if tasks.lookouts.len() < MOST && !self.is_stopped() {
            let used = Arc::new(AtomicBool::new(true));
            let lookout = watch(self.clone(), key.clone(), dialled, used.clone());
            let task = self.runtime.spawn(lookout).abort_handle();
            tasks.lookouts.insert(key, Lookout { task, used });
            return;
        }
        drop(tasks);
        dialled.close_in_background();
    }
}

/// Asks until the answer is another, the connection ends or nobody has use for it any longer.
async fn watch(shared: Arc<Shared>, key: HostKey, mut dialled: Dialled, used: Arc<AtomicBool>) {
    // Also when the task is aborted or panics.
    let _forgotten = Forgotten {
        shared: shared.clone(),
        key: key.clone(),
    };
    let limit = shared.settings.connect_timeout;
    let mut unused = 0;
    while unused < STEPS_UNUSED {
        unused = if used.swap(false, Ordering::Relaxed) {
            0
        } else {
            unused + 1
        };
        tokio::time::sleep(STEP).await;
        let before = dialled.role;
        let Ok(Some(role)) = tokio::time::timeout(limit, dialled.ask_role_again()).await else {
            return shared.suspect(&key);
        };
        shared.heard(&key, &dialled);
        shared.with_state(|state, now| state.role_seen(&key, role, now));
        if Some(role) != before {
            break;
        }
    }
    dialled.close_in_background();
}

struct Forgotten {
    shared: Arc<Shared>,
    key: HostKey,
}

impl Drop for Forgotten {
    fn drop(&mut self) {
        self.shared.tasks().lookouts.remove(&self.key);
    }
}
