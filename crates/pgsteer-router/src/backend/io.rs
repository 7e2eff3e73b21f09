//! The stream to a backend: a TCP socket as it is, or anything else behind a box.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A stream in both directions that can be moved between threads.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// An open stream to a backend. A TCP socket is kept as it is, so that reading and writing need no indirect call.
pub struct BackendIo(Kind);

enum Kind {
    Tcp(TcpStream),
    Boxed(Box<dyn Stream>),
}

impl BackendIo {
    /// A TCP socket. Whoever opened it has set its options: it should have no delay (`TCP_NODELAY`).
    pub fn tcp(socket: TcpStream) -> Self {
        BackendIo(Kind::Tcp(socket))
    }

    /// Any other stream: TLS over a socket, or one in memory.
    pub fn boxed(stream: impl Stream + 'static) -> Self {
        BackendIo(Kind::Boxed(Box::new(stream)))
    }

    /// The socket, if it is one with nothing around it.
    pub fn as_tcp(&mut self) -> Option<&mut TcpStream> {
        match &mut self.0 {
            Kind::Tcp(socket) => Some(socket),
            Kind::Boxed(_) => None,
        }
    }

    fn stream(self: Pin<&mut Self>) -> &mut Kind {
        &mut self.get_mut().0
    }
}

impl AsyncRead for BackendIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.stream() {
            Kind::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Kind::Boxed(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for BackendIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream() {
            Kind::Tcp(socket) => Pin::new(socket).poll_write(cx, buf),
            Kind::Boxed(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.stream() {
            Kind::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Kind::Boxed(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Kind::Tcp(socket) => socket.is_write_vectored(),
            Kind::Boxed(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream() {
            Kind::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Kind::Boxed(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream() {
            Kind::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Kind::Boxed(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl fmt::Debug for BackendIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tcp(socket) => f.debug_tuple("BackendIo").field(socket).finish(),
            Kind::Boxed(_) => f.write_str("BackendIo(stream)"),
        }
    }
}
