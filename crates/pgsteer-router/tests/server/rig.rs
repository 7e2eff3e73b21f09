//! What the tests run against: a router, backends that do as a test says, and clients, joined by streams in memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pgsteer_router::backend::{BackendAddress, BackendIo, BackendOptions, BoxFuture, Dial};
use pgsteer_router::server::{Router, RouterConfig, ServerOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::Instant;

/// What a stream in memory holds in each direction.
pub(crate) const PIPE: usize = 64 * 1024;

/// What a backend does with its connections: told which one it is, from 0 on, it gets the stream.
pub(crate) type Manner = Arc<dyn Fn(usize, DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

pub(crate) fn manner<F>(act: impl Fn(usize, DuplexStream) -> F + Send + Sync + 'static) -> Manner
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |number, stream| Box::pin(act(number, stream)))
}

/// Sends every frame back.
pub(crate) fn echo() -> Manner {
    manner(|_, mut stream| async move {
        while let Some(payload) = receive(&mut stream).await {
            if send(&mut stream, &payload).await.is_err() {
                return;
            }
        }
    })
}

/// Backends in memory, by their ports; the others refuse.
#[derive(Clone, Default)]
pub(crate) struct Backends {
    by_port: Vec<(u16, Manner)>,
    pipe: Option<usize>,
    dials: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Backends {
    pub(crate) fn one(manner: Manner) -> Self {
        Backends::default().with(1, manner)
    }

    pub(crate) fn with(mut self, port: u16, manner: Manner) -> Self {
        self.by_port.push((port, manner));
        self
    }

    /// With streams that hold so much.
    pub(crate) fn pipe(mut self, bytes: usize) -> Self {
        self.pipe = Some(bytes);
        self
    }

    /// How many connections there have been.
    pub(crate) fn dials(&self) -> usize {
        self.dials.load(Ordering::SeqCst)
    }

    /// How many writes there have been from the router to a backend.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    pub(crate) fn addresses(&self) -> Vec<BackendAddress> {
        let ports = self.by_port.iter().map(|(port, _)| *port);
        ports.map(backend).collect()
    }

    /// A router in front of them. No pings, and nothing opened before it is needed.
    pub(crate) fn router(&self, server: ServerOptions) -> impl Future<Output = Router> + use<> {
        let starting = Router::start_over(self.config(server), Arc::new(self.clone()));
        async { starting.await.expect("the router starts") }
    }

    pub(crate) fn config(&self, server: ServerOptions) -> RouterConfig {
        RouterConfig {
            listen: "127.0.0.1:0".to_owned(),
            backends: self.addresses(),
            backend: BackendOptions {
                min_idle: 0,
                enable_health_check: false,
                idle_timeout: None,
                max_lifetime: None,
                ..BackendOptions::default()
            },
            server,
            ..RouterConfig::default()
        }
    }
}

pub(crate) fn backend(port: u16) -> BackendAddress {
    BackendAddress::new("memory", port).expect("an address")
}

impl Dial for Backends {
    fn dial<'a>(
        &'a self,
        backend: &'a BackendAddress,
        _deadline: Instant,
    ) -> BoxFuture<'a, io::Result<BackendIo>> {
        Box::pin(async move {
            let found = self.by_port.iter().find(|(port, _)| *port == backend.port());
            let Some((_, manner)) = found else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let (near, far) = tokio::io::duplex(self.pipe.unwrap_or(PIPE));
            let number = self.dials.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(manner(number, far));
            Ok(BackendIo::boxed(Counted {
                stream: near,
                writes: Arc::clone(&self.writes),
            }))
        })
    }
}

/// A stream that counts its writes.
pub(crate) struct Counted<S> {
    pub(crate) stream: S,
    pub(crate) writes: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client of the router, over a stream in memory.
pub(crate) fn connect(router: &Router) -> DuplexStream {
    connect_over(router, PIPE)
}

/// As [`connect`], with a stream that holds so much.
pub(crate) fn connect_over(router: &Router, pipe: usize) -> DuplexStream {
    let (near, far) = tokio::io::duplex(pipe);
    tokio::spawn(router.serve(far));
    near
}

pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len())
        .expect("a length")
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(payload);
    frame
}

/// A payload in which every place is different from its neighbours.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 % 253) as u8).collect()
}

/// Writes a frame in one piece.
pub(crate) async fn send(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> io::Result<()> {
    stream.write_all(&frame(payload)).await?;
    stream.flush().await
}

/// Reads a frame; `None` if the stream ends before it or within it.
pub(crate) async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let length = stream.read_u32().await.ok()?;
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some(payload)
}

/// Sends a request and gives its answer as text.
pub(crate) async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
) -> Option<String> {
    send(stream, request).await.ok()?;
    receive(stream)
        .await
        .map(|answer| String::from_utf8_lossy(&answer).into_owned())
}

/// How a stream goes on: whatever comes until its end.
pub(crate) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest).await;
    rest
}

/// Waits until something is so. For what has no event to wait for.
pub(crate) async fn until(so: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never became so");
}
