//! Getting a connection out of what it is doing: a cancel request on a socket of its own. It relies on the world's
//! dialler, at the address the connection itself has, and never resolves a name again.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Client, NoTls};

use crate::world::{Endpoint, SocketOptions, World};

/// Cancels what one connection is doing. Clone is cheap enough; does not keep the connection open.
#[derive(Clone)]
pub(crate) struct Canceller {
    token: CancelToken,
    endpoint: Endpoint,
    socket: SocketOptions,
    world: World,
}

impl Canceller {
    pub(super) fn new(client: &Client, endpoint: Endpoint, socket: SocketOptions, world: World) -> Self {
        Canceller {
            token: client.cancel_token(),
            endpoint,
            socket,
            world,
        }
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
        let attempt = async {
            let mut socket = self.world.dialler().dial(&self.endpoint, &self.socket).await?;
            self.token
                .cancel_query_raw(&mut socket, NoTls)
                .await
                .map_err(io::Error::other)?;
            let mut rest = [0; 64];
            // However the other side ends it, it has ended.
            while matches!(socket.read(&mut rest).await, Ok(read) if read > 0) {}
            Ok(())
        };
        timeout(limit, attempt)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canceller")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
