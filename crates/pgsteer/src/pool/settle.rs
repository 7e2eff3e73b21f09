//! Making a returned connection clean, in a task of its own: end its transaction, or cancel what still runs on it.
//! The planner's deadline bounds it from outside by cutting the socket, so nothing here needs a timer.

use std::sync::Arc;
use std::time::Duration;

use super::inner::{Inner, Message, Settlement};
use super::tenant::Tenant;
use crate::dial::TransactionStatus;

/// How long a cancel request may take at most. A server that works is done with it in a moment; one that is not is
/// probably frozen, and the sooner that is known, the sooner callers are served elsewhere.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// End the open transaction.
    Rollback,
    /// Cancel the running statement and wait until all is answered.
    Cancel,
}

/// Does the job and gives the tenant back to the keeper.
pub(super) async fn run(pool: Arc<Inner>, slot: u32, epoch: u64, tenant: Tenant, job: Job) {
    let outcome = match job {
        Job::Rollback => settle(&tenant, "ROLLBACK").await,
        Job::Cancel => {
            let limit = pool.settings.connect_timeout.min(CANCEL_LIMIT);
            match tenant.canceller.cancel(limit).await {
                // Answers come in order: once this empty query is answered, everything before it is.
                Ok(()) => settle(&tenant, "").await,
                Err(error) => {
                    // The request may lie in a queue of the server and hit whatever runs on the connection later, so
                    // nobody may have it any more.
                    tracing::debug!(target: "pgsteer::pool", host = %tenant.host, "cancel request failed: {error}");
                    pool.cluster.shared().unresponsive(&tenant.host);
                    Settlement::Failed
                }
            }
        }
    };
    pool.tell_keeper(Message::Settled {
        slot,
        epoch,
        tenant: Box::new(tenant),
        outcome,
    });
}

async fn settle(tenant: &Tenant, sql: &str) -> Settlement {
    match tenant.client.batch_execute(sql).await {
        Err(_) => Settlement::Failed,
        Ok(()) => match tenant.wire.status() {
            TransactionStatus::Idle => Settlement::Clean,
            TransactionStatus::InTransaction | TransactionStatus::Failed => Settlement::InTransaction,
            TransactionStatus::Unknown => Settlement::Failed,
        },
    }
}
