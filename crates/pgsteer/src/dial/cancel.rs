//! Getting a connection out of what it is doing: a cancel request on a socket of its own. It relies on the world's
//! dialler, at the address the connection itself has, and never resolves a name again. Where the connection has TLS,
//! the request has it too: it carries the key of the session.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::host::HostKey;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{CancelToken, Client};

use super::error::Observed;
use super::limit::Limit;
use super::tls::{Demand, Tls};
use crate::world::{Endpoint, SocketOptions, World};

/// Cancels what one connection is doing. Clone is cheap enough; does not keep the connection open.
#[derive(Clone)]
pub(crate) struct Canceller {
    token: CancelToken,
    route: Arc<Route>,
}

/// The way to the server.
pub(super) struct Route {
    pub(super) host: HostKey,
    pub(super) endpoint: Endpoint,
    pub(super) encrypted: bool,
    pub(super) tls: Arc<Tls>,
    pub(super) socket: SocketOptions,
    pub(super) world: World,
}

impl Canceller {
    pub(super) fn new(client: &Client, route: Route) -> Self {
        Canceller {
            token: client.cancel_token(),
            route: Arc::new(route),
        }
    }

    /// The address the connection is to.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.route.endpoint
    }

    /// Asks the server, on a socket of its own and at the address of the connection, to cancel the running request.
    ///
    /// Returns once the server has closed that socket, which it does after it has passed the cancellation on. Waiting
    /// for that keeps a late cancellation from hitting the next request. Whether anything was cancelled is not told.
    ///
    /// Cancel safe in that dropping the future closes the socket; the request may have been sent by then.
    ///
    /// # Errors
    ///
    /// The connect's error, or `TimedOut` if all of it takes longer than `limit`.
    pub(crate) async fn cancel(&self, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        timeout_at(deadline, self.route.cancel(&self.token, deadline))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Route {
    async fn cancel(&self, token: &CancelToken, deadline: Instant) -> io::Result<()> {
        let socket = self.world.dialler().dial(&self.endpoint, &self.socket).await?;
        let demand = match self.encrypted {
            true => Demand::Always,
            false => Demand::Never,
        };
        let limit = Limit::until(deadline, &self.endpoint);
        let link = self.tls.open(socket, &self.host, demand, &limit).await;
        let mut link = link.map_err(|failure| match failure.observed {
            Observed::Deadline => io::ErrorKind::TimedOut.into(),
            _ => io::Error::other(failure.text),
        })?;
        token
            .cancel_query_raw(&mut link.socket, link.established)
            .await
            .map_err(io::Error::other)?;
        let mut rest = [0; 64];
        // However the other side ends it, it has ended.
        while matches!(link.socket.read(&mut rest).await, Ok(read) if read > 0) {}
        Ok(())
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canceller")
            .field("endpoint", &self.route.endpoint)
            .finish_non_exhaustive()
    }
}
