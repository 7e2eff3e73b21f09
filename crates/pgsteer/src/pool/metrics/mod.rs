//! The pool's numbers for the `metrics` facade, where the feature of that name is on.
//!
//! A task beside the keeper looks at the pool once a second and tells the recorder what has become of it since. So a
//! checkout that finds a connection, and a return, do nothing for it; only a caller that had to wait, and an opener, tell
//! how long that took. The recorder is asked for anew each time, so that it may be installed at any time.

mod labels;
mod look;
mod table;

use std::sync::Arc;
use std::time::Duration;

pub(super) use labels::Labels;
use look::Look;

use super::inner::Inner;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Begins to look at the pool. It ends with the last of its connections.
pub(super) fn watch(pool: &Arc<Inner>) {
    table::describe();
    let mut look = Look::new(pool);
    // The keeper is there as long, and it is the keeper that ends the pool.
    let pool = pool.clone();
    tokio::spawn(async move {
        let mut drained = pool.drained.subscribe();
        loop {
            look.take(&pool);
            tokio::select! {
                biased;
                _ = drained.wait_for(|drained| *drained) => break look.take(&pool),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    });
}
