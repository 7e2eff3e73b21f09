//! What an application has run on the pool's connections: its hooks, as values.
//!
//! Nothing here runs one, and nothing here prints what one holds.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio_postgres::Client;

use crate::pool::Candidate;
use crate::world::BoxFuture;

/// What a hook fails with. Its text is logged and shown, so it must not hold secrets.
pub type HookError = Box<dyn Error + Send + Sync>;

type Run = dyn for<'a> Fn(&'a mut Client) -> BoxFuture<'a, Result<(), HookError>> + Send + Sync;

/// Asynchronous work on a connection that nobody else has. Clone is cheap.
#[derive(Clone)]
pub(crate) struct Hook(Arc<Run>);

impl Hook {
    pub(super) fn new<F>(run: F) -> Self
    where
        F: for<'a> Fn(&'a mut Client) -> BoxFuture<'a, Result<(), HookError>> + Send + Sync + 'static,
    {
        Hook(Arc::new(run))
    }

    /// Runs it. The closure itself is called at the first poll.
    pub(crate) async fn run(&self, client: &mut Client) -> Result<(), HookError> {
        (self.0)(client).await
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

type Allows = dyn Fn(&Candidate<'_>) -> bool + Send + Sync;

/// Decides at each checkout whether a connection may be handed out. Clone is cheap.
#[derive(Clone)]
pub(crate) struct Check(Arc<Allows>);

impl Check {
    pub(super) fn new(allows: impl Fn(&Candidate<'_>) -> bool + Send + Sync + 'static) -> Self {
        Check(Arc::new(allows))
    }

    pub(crate) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        (self.0)(candidate)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}
