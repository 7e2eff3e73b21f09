//! A client connection around its requests: the TLS handshake before them, and how it is closed after them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::arrived::{self, Arrived};
use super::buffer::poll_fill;
use super::client::{End, serve};
use super::pipelined::serve_pipelined;
use super::shared::Shared;
use crate::aside::aside;

/// Serves a client over a stream as it is.
pub(crate) async fn in_clear<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    arrived: Arrived<S>,
    shared: Arc<Shared>,
) {
    match requests(&mut stream, arrived, &shared).await {
        // Closing says all there is to say.
        End::ByClient | End::Cut => {}
        End::ByRouter => {
            let limit = shared.options.load().linger;
            let _leaving = shared.clients.leave();
            say_goodbye(&mut stream, limit).await;
        }
    }
}

/// Serves a client over TLS.
pub(crate) async fn encrypted(socket: TcpStream, config: Arc<ServerConfig>, shared: Arc<Shared>) {
    let limit = shared.options.load().tls_handshake_timeout;
    let peer = socket.peer_addr();
    let handshake = aside(|| timeout(limit, TlsAcceptor::from(config).accept(socket))).await;
    let why = match handshake {
        Ok(Ok(stream)) => {
            let mut stream = Box::new(stream);
            match requests(&mut stream, arrived::over_tls, &shared).await {
                // Without a last word the client knows that something is missing.
                End::Cut => {}
                End::ByClient | End::ByRouter => {
                    let limit = shared.options.load().linger;
                    let _leaving = shared.clients.leave();
                    say_goodbye(&mut stream, limit).await;
                }
            }
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took longer than {limit:?}"),
    };
    shared.metrics.client_tls.inc();
    match peer {
        Ok(peer) => tracing::debug!(target: "pgsteer::router", "no TLS with client {peer}: {why}"),
        Err(_) => tracing::debug!(target: "pgsteer::router", "no TLS with a client: {why}"),
    }
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    arrived: Arrived<S>,
    shared: &Arc<Shared>,
) -> End {
    let one_by_one = shared.options.load().pipeline == 1;
    if one_by_one {
        serve(stream, arrived, shared).await
    } else {
        aside(|| serve_pipelined(stream, arrived, shared)).await
    }
}

/// Closes our side and hears the client out, so that its system does not throw the last answer away for what it sends
/// meanwhile.
async fn say_goodbye<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, limit: Duration) {
    let heard_out = async move |stream: &mut S| {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut slot = None;
        while matches!(poll_fn(|cx| poll_fill(&mut slot, stream, cx)).await, Ok(count) if count > 0) {
            slot = None;
        }
    };
    let _ = aside(|| timeout(limit, heard_out(stream))).await;
}

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;
    use std::sync::Arc;

    use tokio::net::{TcpListener, TcpStream};

    use super::{Shared, arrived, in_clear};
    use crate::backend::{BackendAddress, BackendOptions, BackendSet, TcpDialer};
    use crate::server::ServerOptions;
    use crate::threads::Crew;

    /// The task of a client is a part of what ten thousand idle clients cost.
    /// Covers: S-79
    #[tokio::test]
    async fn the_task_of_a_client_is_no_more_than_two_kibibytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let backends = vec![(
            BackendAddress::new("127.0.0.1", 1).unwrap(),
            BackendOptions::default(),
        )];
        let set = BackendSet::start(backends, Arc::new(TcpDialer::new())).unwrap();
        let shared = Arc::new(Shared::new(set, ServerOptions::default(), None, Crew::default()));

        let place = shared.clients.enrol();
        let task = place.watch(in_clear(socket, arrived::over_tcp, Arc::clone(&shared)));

        let size = size_of_val(&task);
        assert!(size <= 2048, "{size} bytes");
    }
}
