//! Serving over real loopback TCP. Refusing closes the listener, so the operating system refuses; what the operating
//! system will not do, such as leaving a connect unanswered, becomes silence after the connect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::cluster::{Cluster, Verdict};
use crate::log::Event;
use crate::net::link::Transport;
use crate::session;

/// Before a port that is not free yet is tried again.
const REBIND_AFTER: Duration = Duration::from_millis(20);

/// Listens on `address` (port 0: any free port) and serves until the task is aborted.
pub(crate) async fn listen(
    cluster: &Arc<Cluster>,
    server: &Arc<str>,
    address: SocketAddr,
) -> io::Result<(SocketAddr, tokio::task::AbortHandle)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(cluster.clone(), server.clone(), address, listener));
    Ok((address, task.abort_handle()))
}

async fn accept(cluster: Arc<Cluster>, server: Arc<str>, address: SocketAddr, listener: TcpListener) {
    let mut listener = Some(listener);
    let changed = cluster.with(&server, |state| state.changed.clone());
    loop {
        let mut change = std::pin::pin!(changed.notified());
        change.as_mut().enable();
        let Some(verdict) = cluster.with(&server, |state| Some(state.verdict())) else {
            return;
        };
        let open = match (verdict, &listener) {
            (Verdict::Failed(_), _) => {
                listener = None;
                change.await;
                continue;
            }
            (Verdict::Wait, _) => {
                change.await;
                continue;
            }
            (Verdict::Accepted(_), Some(open)) => open,
            (Verdict::Accepted(_), None) => {
                match TcpListener::bind(address).await {
                    Ok(bound) => listener = Some(bound),
                    Err(_) => tokio::time::sleep(REBIND_AFTER).await,
                }
                continue;
            }
        };
        let accepted = tokio::select! {
            biased;
            () = change => continue,
            accepted = open.accept() => accepted,
        };
        // An error here is about one connection that is gone already, or about a lack of descriptors that passes.
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(REBIND_AFTER).await;
            continue;
        };
        cluster.record(&server, 0, Event::Attempt);
        let (latency, verdict) = cluster.with(&server, |state| {
            state.counts.attempts += 1;
            (state.connect_latency, Some(state.verdict()))
        });
        if !matches!(verdict, Some(Verdict::Accepted(_))) {
            continue;
        }
        // Small answers must not wait for one another; a socket that cannot be told so works all the same.
        let _ = stream.set_nodelay(true);
        let (cluster, server) = (cluster.clone(), server.clone());
        tokio::spawn(async move {
            tokio::time::sleep(latency).await;
            // A server that was killed meanwhile takes the connection with it.
            if let Ok(accepted) = cluster.connected(&server) {
                session::serve(&cluster, &server, Transport::Tcp(stream), accepted);
            }
        });
    }
}
