//! A client connection around its requests: the TLS handshake before them, and how it is closed after them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::buffer::poll_fill;
use super::client::{End, serve};
use super::pipelined::serve_pipelined;
use super::shared::Shared;

/// Serves a client over a stream as it is.
pub(crate) async fn in_clear<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, shared: Arc<Shared>) {
    match requests(&mut stream, &shared).await {
        // Closing says all there is to say.
        End::ByClient | End::Cut => {}
        End::ByRouter => {
            let limit = shared.options.load().linger;
            say_goodbye(&mut stream, limit).await;
        }
    }
}

/// Serves a client over TLS.
pub(crate) async fn encrypted(socket: TcpStream, config: Arc<ServerConfig>, shared: Arc<Shared>) {
    let limit = shared.options.load().tls_handshake_timeout;
    let peer = socket.peer_addr();
    let handshake = Box::pin(timeout(limit, TlsAcceptor::from(config).accept(socket))).await;
    let why = match handshake {
        Ok(Ok(stream)) => {
            let mut stream = Box::new(stream);
            match requests(&mut stream, &shared).await {
                // Without a last word the client knows that something is missing.
                End::Cut => {}
                End::ByClient | End::ByRouter => {
                    let limit = shared.options.load().linger;
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
        Ok(peer) => tracing::info!("no TLS with client {peer}: {why}"),
        Err(_) => tracing::info!("no TLS with a client: {why}"),
    }
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, shared: &Arc<Shared>) -> End {
    let one_by_one = shared.options.load().pipeline == 1;
    if one_by_one {
        serve(stream, shared).await
    } else {
        Box::pin(serve_pipelined(stream, shared)).await
    }
}

/// Closes our side and hears the client out, so that its system does not throw the last answer away for what it sends
/// meanwhile.
async fn say_goodbye<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, limit: Duration) {
    let heard_out = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut slot = None;
        while matches!(poll_fn(|cx| poll_fill(&mut slot, stream, cx)).await, Ok(count) if count > 0) {
            slot = None;
        }
    };
    let _ = Box::pin(timeout(limit, heard_out)).await;
}
