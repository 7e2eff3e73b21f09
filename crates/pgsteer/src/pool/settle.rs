//! Making a returned connection clean, in a task of its own: end its transaction, or cancel what still runs on it.
//! The planner's deadline bounds it from outside by cutting the socket, so nothing here needs a timer.

use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::host::HostKey;
use tokio::time::timeout;

use super::inner::{Inner, Message, Settlement};
use super::recycle::recycle;
use super::tenant::Tenant;
use crate::dial::{Canceller, TransactionStatus};
use crate::error::driver_in_words;

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
    /// All that the pool does to each connection that comes back.
    Recycle,
}

/// Does the job and gives the tenant back to the keeper.
pub(super) async fn run(pool: Arc<Inner>, slot: u32, epoch: u64, mut tenant: Tenant, job: Job) {
    let outcome = match job {
        Job::Rollback => settle(&tenant, "ROLLBACK").await,
        Job::Cancel => cancel(&pool, &tenant).await,
        Job::Recycle => recycle(&pool, &mut tenant).await,
    };
    pool.tell_keeper(Message::Settled {
        slot,
        epoch,
        tenant: Box::new(tenant),
        outcome,
    });
}

/// Cancels what runs on the connection and waits until all is answered.
pub(super) async fn cancel(pool: &Inner, tenant: &Tenant) -> Settlement {
    match ask_to_stop(pool, &tenant.host, &tenant.canceller).await {
        // Answers come in order: once this empty query is answered, everything before it is.
        true => settle(tenant, "").await,
        false => Settlement::Failed,
    }
}

/// Asks a host to cancel what runs on a connection to it. If that fails, the request may lie in a queue of the server and hit
/// whatever runs on the connection later, so nobody may have it any more.
pub(super) async fn ask_to_stop(pool: &Inner, host: &HostKey, canceller: &Canceller) -> bool {
    let limit = pool.settings.connect_timeout.min(CANCEL_LIMIT);
    match canceller.cancel(limit).await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(target: "pgsteer::pool", %host, "cancel request failed: {error}");
            pool.cluster.shared().unresponsive(host);
            false
        }
    }
}

/// Lets a connection go that is not to be used any more, and has the server cancel what still runs on it if that does not end
/// soon: a server that works on something does not notice that its client has gone, and keeps its locks.
pub(super) async fn let_go(pool: Arc<Inner>, tenant: Tenant) {
    let Tenant {
        client,
        host,
        handle,
        canceller,
        ..
    } = tenant;
    // Its driver says goodbye to the server once all is answered.
    drop(client);
    if timeout(pool.settings.return_cancel_after, handle.ended())
        .await
        .is_err()
    {
        ask_to_stop(&pool, &host, &canceller).await;
    }
}

/// Sends the statements, or only waits for what is unanswered if there are none.
pub(super) async fn settle(tenant: &Tenant, sql: &str) -> Settlement {
    let mut next = sql;
    loop {
        if let Err(error) = tenant.client.batch_execute(next).await {
            let (host, said) = (&tenant.host, driver_in_words(&error));
            tracing::debug!(target: "pgsteer::pool", "a connection to {host} could not be made clean: {said}");
            return Settlement::Failed;
        }
        match tenant.wire.status() {
            TransactionStatus::Idle => return Settlement::Clean,
            TransactionStatus::InTransaction | TransactionStatus::Failed => return Settlement::InTransaction,
            TransactionStatus::Unknown if tenant.session.is_closed() => return Settlement::Failed,
            // A row that its holder has kept closes its statement when it is dropped, whenever that is: here, after
            // what was sent just now.
            TransactionStatus::Unknown => next = "",
        }
    }
}
