//! `pgsteer echo`: a backend that sends every frame back, for trying the router out, for measuring it and, with the faults it
//! can be given, for testing what becomes of requests when backends misbehave.

pub mod arguments;
mod connection;
pub mod fault;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use pgsteer_router::tls::ServerTls;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::descriptors;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::sockets;
use arguments::EchoArguments;
use connection::{Manners, Served};
use fault::{Fault, Kind};

/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 4096;
/// How long nothing is accepted after the system refused to, which it does where descriptors run out.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves until interrupted.
///
/// # Errors
///
/// Certificates that cannot be used; an address that is none or cannot be listened on; output that cannot be written.
pub async fn run(
    arguments: &EchoArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    descriptors::raise_limit();
    let tls = tls(arguments)?;
    let address = sockets::resolve("--listen", &arguments.listen).await?;
    let refuses = arguments.faults.iter().any(|fault| fault.kind == Kind::Refuse);
    let socket = bind(address, !refuses)?;
    let bound = socket.local_addr().map_err(Failure::work)?;
    let server = Arc::new(Server::new(arguments, tls));
    let listener = if refuses {
        None
    } else {
        let cannot = |error| Failure::work(format!("cannot listen on {bound}: {error}"));
        Some(socket.listen(BACKLOG).map_err(cannot)?)
    };
    output.line(format!("listening on {bound}"))?;
    if server.has_chances() {
        output.line(format!("seed {}", server.seed))?;
    }
    match listener {
        Some(listener) => tokio::select! {
            () = interrupt.asked() => {}
            () = server.accept(listener) => {}
        },
        None => interrupt.asked().await,
    }
    output.line(server.totals())
}

fn tls(arguments: &EchoArguments) -> Result<Option<TlsAcceptor>, Failure> {
    let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(None);
    };
    let files = ServerTls {
        cert: cert.clone(),
        key: key.clone(),
        client_ca: arguments.tls_client_ca.clone(),
    };
    Ok(Some(files.load()?.into()))
}

/// An address taken, and not listened on yet. One that will never be listened on is not to be shared: others could take it.
fn bind(address: SocketAddr, shared: bool) -> Result<TcpSocket, Failure> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let cannot = |error| Failure::work(format!("cannot listen on {address}: {error}"));
    let socket = socket.map_err(cannot)?;
    socket.set_reuseaddr(shared).map_err(cannot)?;
    socket.bind(address).map_err(cannot)?;
    Ok(socket)
}

struct Server {
    manners: Manners,
    tls: Option<TlsAcceptor>,
    /// Connections closed as soon as they are accepted.
    closes: Option<Fault>,
    seed: u64,
    connections: AtomicU64,
    requests: AtomicU64,
    faults: AtomicU64,
}

impl Server {
    fn new(arguments: &EchoArguments, tls: Option<TlsAcceptor>) -> Self {
        let (at_accept, faults) = (arguments.faults.iter().copied())
            .partition::<Vec<Fault>, _>(|fault| matches!(fault.kind, Kind::CloseAtAccept | Kind::Refuse));
        Server {
            manners: Manners {
                delay: arguments.delay_ms,
                jitter: arguments.jitter_ms,
                faults,
                spare_pings: arguments.spare_pings,
                answers: arguments.answers_per_connection,
            },
            tls,
            closes: at_accept
                .into_iter()
                .find(|fault| fault.kind == Kind::CloseAtAccept),
            seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        }
    }

    /// Whether the seed matters.
    fn has_chances(&self) -> bool {
        let shares = self.manners.faults.iter().chain(&self.closes);
        let corrupts = |fault: &Fault| fault.kind == Kind::Corrupt;
        !self.manners.jitter.is_zero()
            || shares
                .into_iter()
                .any(|fault| fault.share < 1.0 || corrupts(fault))
    }

    async fn accept(self: &Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.accepted(stream),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(AFTER_REFUSAL).await;
                }
            }
        }
    }

    fn accepted(self: &Arc<Self>, stream: TcpStream) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        // A draw of its own for each connection: what happens on one does not depend on what the others do.
        let mut chance = Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        if self.closes.is_some_and(|fault| chance.f64() < fault.share) {
            self.faults.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let server = self.clone();
        tokio::spawn(async move {
            let ended = server.serve(stream, chance).await;
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }

    async fn serve(&self, stream: TcpStream, chance: Rng) -> io::Result<()> {
        let counted = |served: Served| {
            self.requests.fetch_add(served.requests, Ordering::Relaxed);
            self.faults.fetch_add(served.faults, Ordering::Relaxed);
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            None => connection::serve(stream, &self.manners, chance, counted).await,
            Some(tls) => encrypted(tls, stream, &self.manners, chance, counted).await,
        }
    }

    fn totals(&self) -> String {
        format!(
            "{} connections, {} requests, {} faults",
            self.connections.load(Ordering::Relaxed),
            self.requests.load(Ordering::Relaxed),
            self.faults.load(Ordering::Relaxed)
        )
    }
}

/// Serves a connection over TLS. Made apart, or that of every connection in clear were as large.
#[inline(never)]
fn encrypted(
    tls: &TlsAcceptor,
    stream: TcpStream,
    manners: &Manners,
    chance: Rng,
    counted: impl Fn(Served),
) -> Pin<Box<impl Future<Output = io::Result<()>>>> {
    Box::pin(async move {
        let stream = timeout(HANDSHAKE, tls.accept(stream)).await??;
        connection::serve(stream, manners, chance, counted).await
    })
}
