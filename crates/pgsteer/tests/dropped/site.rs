//! Where rounds are made, and how a cancel request gets there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pgsteer::tokio_postgres::{CancelToken, NoTls};
use pgsteer::{Conn, Pool};
use pgsteer_sim::Sim;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Rows that are there from the beginning, and how long the notes of those are.
pub(crate) const ROWS: i64 = 20;
pub(crate) const LENGTH: usize = 4_000;

/// A pool, and the server that its connections are on.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) pool: Pool,
    pub(crate) server: Server,
    /// Rows inserted so far; each has a number of its own.
    ids: Arc<AtomicI64>,
}

#[derive(Clone)]
pub(crate) enum Server {
    Memory(Sim),
    /// The path of its socket.
    Unix(PathBuf),
}

impl Site {
    pub(crate) fn new(pool: Pool, server: Server) -> Self {
        Site {
            pool,
            server,
            ids: Arc::default(),
        }
    }

    /// Whether the server knows everything that PostgreSQL does.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.server, Server::Unix(_))
    }

    /// A number that no row has yet.
    pub(crate) fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Rows below zero, which all the reading is about.
    pub(crate) async fn fill(&self) {
        let note = "x".repeat(LENGTH);
        let conn = self.pool.get().await.unwrap();
        for id in 1..=ROWS {
            conn.execute_cached("INSERT INTO ledger VALUES ($1, $2)", &[&-id, &note])
                .await
                .unwrap();
        }
    }

    /// Sends a cancel request and waits until the server is done with it: one that is under way when the connection goes
    /// back may hit whoever has it next.
    pub(crate) async fn cancel(&self, conn: &Conn, token: CancelToken) {
        match &self.server {
            Server::Memory(sim) => {
                let host = Conn::host(conn);
                send(token, sim.connect(host.name(), host.port()).await.unwrap()).await;
            }
            Server::Unix(path) => send(token, tokio::net::UnixStream::connect(path).await.unwrap()).await,
        }
    }
}

async fn send(token: CancelToken, mut stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
    token.cancel_query_raw(&mut stream, NoTls).await.unwrap();
    let mut rest = [0; 16];
    while matches!(stream.read(&mut rest).await, Ok(read) if read > 0) {}
}
