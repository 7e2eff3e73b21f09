//! `socket_timeout`: one limit over one whole call. While it is off nothing is read, armed or kept for it; a call that
//! ends in time takes its timer with it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pgsteer_core::pool::Lease;
use tokio::time::{sleep, timeout};

use super::aside::aside;
use super::ends::ConnectionEnd;
use super::inner::Inner;
use crate::dial::{EndReason, Handle};
use crate::error::{ConnectionLost, Error};

/// Makes a call on a guard's connection, within `socket_timeout` where there is one.
///
/// Spelt out at each call: a future that is passed on to another is copied, and a call's is large. One with a limit is made
/// aside, which costs an allocation.
macro_rules! bounded {
    ($guard:expr, $call:expr) => {{
        let (pool, lease, call) = ($guard.pool(), $guard.lease(), $call);
        match pool.tenant(lease).socket_timeout {
            None => call().await.map_err(|error| pool.query_error(lease, error)),
            Some(limit) => aside(|| pool.bounded(lease, limit, call)).await,
        }
    }};
}
pub(super) use bounded;

impl Inner {
    /// Makes a call on the lease's connection, within `limit`.
    ///
    /// When that runs out the connection is cut, and the call fails once its socket is closed: whoever looks at the
    /// connection afterwards finds it dead. An answer that comes later than the limit is not taken for one in time.
    ///
    /// Cancel safe: no timer is left, and a connection that was to be cut is cut.
    pub(super) async fn bounded<T, F>(
        &self,
        lease: &Lease,
        limit: Duration,
        call: impl FnOnce() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let mut call = pin!(call());
        match within(limit, call.as_mut()).await {
            Some(result) => result.map_err(|error| self.query_error(lease, error)),
            None => {
                let condemned = Condemned(&self.tenant(lease).handle);
                if let Some(grace) = self.settings.cancel_on_timeout {
                    aside(|| self.ask_to_stop(lease, grace, call)).await;
                }
                drop(condemned);
                Err(self.give_up(lease, EndReason::SocketTimeout).await)
            }
        }
    }

    /// Asks the server to cancel what runs, and waits until it has stopped, for `grace` at most. What becomes of the
    /// call does not matter any more.
    #[cold]
    async fn ask_to_stop(&self, lease: &Lease, grace: Duration, call: impl Future) {
        let cancel = self.tenant(lease).canceller.cancel(grace);
        let _ = timeout(grace, futures_util::future::join(cancel, call)).await;
    }

    /// Cuts the connection, waits until its socket is closed, and says so.
    #[cold]
    async fn give_up(&self, lease: &Lease, reason: EndReason) -> Error {
        let tenant = self.tenant(lease);
        let end = ConnectionEnd::of(&reason);
        tenant.handle.cut(reason);
        tenant.handle.ended().await;
        Error::ConnectionLost(Arc::new(ConnectionLost {
            host: tenant.host.clone(),
            end,
            error: None,
        }))
    }
}

/// A connection whose call has run out of time. It is cut when this is dropped, with the call if that is given up: the
/// cancel request may be on its way and hit whatever comes next.
struct Condemned<'a>(&'a Handle);

impl Drop for Condemned<'_> {
    fn drop(&mut self) {
        self.0.cut(EndReason::SocketTimeout);
    }
}

/// What the call gives, unless it takes longer.
async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut timer = pin!(sleep(limit));
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(_) if timer.is_elapsed() => Poll::Ready(None),
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
