//! Making a returned connection as good as new, in a task of its own, in pools that want that on every return: its
//! transaction is ended, `on_return` runs, and the state of its session is reset. `settle.rs` does the parts of it that
//! every pool does.
//!
//! The planner's deadline bounds it from outside by cutting the socket, whereupon the keeper ends the task.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;

use super::hooks::HookFailure;
use super::inner::{Counters, Inner, Settlement};
use super::settle::{cancel, settle};
use super::tenant::Tenant;
use crate::config::{Hook, Recycle, Settings};
use crate::dial::TransactionStatus;

/// What `DISCARD ALL` does, but for `DEALLOCATE ALL`, which would take the driver's own statements away, and `DISCARD
/// PLANS`, which leaves nothing behind that anybody sees. It may run inside the transaction of one simple query.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT \
                     pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP";

/// What resets a session under these settings, if they want that.
pub(super) fn reset_sql(settings: &Settings) -> Option<String> {
    match (settings.recycle, settings.statement_timeout) {
        (Recycle::Fast, _) => None,
        (Recycle::Clean, None) => Some(RESET.to_owned()),
        (Recycle::Clean, Some(limit)) => {
            Some(format!("{RESET}; SET statement_timeout = {}", limit.as_millis()))
        }
    }
}

/// Whether every connection that comes back is to be seen to.
pub(super) fn is_wanted(settings: &Settings) -> bool {
    settings.recycle == Recycle::Clean || settings.on_return.is_some()
}

/// Makes the connection, whatever state it came back in, ready for the next holder.
pub(super) async fn recycle(pool: &Inner, tenant: &mut Tenant) -> Settlement {
    let is_known =
        |tenant: &Tenant| tenant.session.is_quiet() && tenant.wire.status() != TransactionStatus::Unknown;
    while !is_known(tenant) {
        if tenant.session.is_closed() || !has_answered(pool, tenant).await {
            return Settlement::Failed;
        }
    }
    if tenant.session.is_dirty() {
        Counters::add(&pool.counters.rolled_back);
        if settle(tenant, "ROLLBACK").await != Settlement::Clean {
            return Settlement::Failed;
        }
    }
    if let Some(hook) = &pool.settings.on_return {
        let ran = run(hook, tenant).await;
        pool.tell_on_return(tenant, ran.as_ref().err());
        if ran.is_err() {
            return Settlement::Failed;
        }
    }
    let settled = match &pool.reset_sql {
        Some(sql) => settle(tenant, sql).await,
        None if is_known(tenant) && !tenant.session.is_dirty() => Settlement::Clean,
        // Whatever the hook has left behind unanswered is answered before this.
        None => settle(tenant, "").await,
    };
    match settled {
        Settlement::Clean => Settlement::Clean,
        // The hook has begun a transaction, and would do so again.
        Settlement::InTransaction | Settlement::Failed => Settlement::Failed,
    }
}

/// Waits for the answers that the holder did not wait for, and cancels what takes too long.
async fn has_answered(pool: &Inner, tenant: &Tenant) -> bool {
    let patience = pool.settings.return_cancel_after;
    // Answers come in order: once an empty query is answered, everything before it is.
    let answered = tokio::time::timeout(patience, tenant.client.batch_execute("")).await;
    match answered {
        Ok(answered) => answered.is_ok(),
        Err(_) => {
            Counters::add(&pool.counters.cancelled);
            cancel(pool, tenant).await != Settlement::Failed
        }
    }
}

async fn run(hook: &Hook, tenant: &mut Tenant) -> Result<(), HookFailure> {
    // What it unwinds out of is the application's own, and the connection goes.
    match AssertUnwindSafe(hook.run(&mut tenant.client))
        .catch_unwind()
        .await
    {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(HookFailure::Error(error)),
        Err(payload) => Err(HookFailure::of_panic(&*payload)),
    }
}

impl Inner {
    /// Tells people of the first failure of a run, and of its end.
    fn tell_on_return(&self, tenant: &Tenant, failure: Option<&HookFailure>) {
        let failed = failure.is_some();
        if failed {
            Counters::add(&self.counters.hook_failures);
        }
        if self.on_return_fails.swap(failed, Ordering::Relaxed) == failed {
            return;
        }
        let host = &tenant.host;
        match failure {
            Some(failure) => {
                tracing::warn!(target: "pgsteer::pool", "on_return failed on {host}: {failure}; its connection is closed");
            }
            None => tracing::info!(target: "pgsteer::pool", "on_return works again"),
        }
    }
}
