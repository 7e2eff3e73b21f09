//! Making a returned connection clean, in a task of its own: end its transaction, or cancel what still runs on it.
//! The planner's deadline bounds it from outside by cutting the socket, so nothing here needs a timer.

use std::sync::Arc;

use super::inner::{Inner, Message, Settlement};
use super::tenant::Tenant;
use crate::dial::TransactionStatus;

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
            // A failed cancel request changes nothing: the statement may end by itself, or the deadline ends it.
            if let Err(error) = tenant.canceller.cancel(pool.settings.connect_timeout).await {
                tracing::debug!(target: "pgsteer::pool", host = %tenant.host, "cancel request failed: {error}");
            }
            // Answers come in order: once this empty query is answered, everything before it is.
            settle(&tenant, "").await
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
