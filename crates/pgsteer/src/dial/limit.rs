//! The time that one attempt at one address has.

use std::future::Future;

use pgsteer_core::verdict::Stage;
use tokio::time::{Instant, timeout_at};

use super::error::{Failure, Observed};
use crate::world::Endpoint;

/// One deadline over everything that is done at an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<'a> {
    pub(super) endpoint: &'a Endpoint,
    began: Instant,
    deadline: Instant,
}

impl<'a> Limit<'a> {
    /// From now until the deadline.
    pub(super) fn until(deadline: Instant, endpoint: &'a Endpoint) -> Self {
        Limit {
            endpoint,
            began: Instant::now(),
            deadline,
        }
    }

    /// Does the work, or drops it when the time is over: the server then `lacked` what is said.
    pub(super) async fn hold<T>(
        &self,
        stage: Stage,
        lacked: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        timeout_at(self.deadline, work).await.map_err(|_| {
            let given = self.deadline.saturating_duration_since(self.began);
            let text = format!("{} {lacked} within {given:?}", self.endpoint);
            Failure::new(stage, Observed::Deadline, text)
        })
    }
}
