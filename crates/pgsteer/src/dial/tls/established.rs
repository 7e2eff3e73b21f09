//! From a TLS session that exists to the traits by which tokio-postgres wants to make one.
//!
//! tokio-postgres is told to use TLS directly, and its "handshake" finds everything done: the stream it is given is the
//! clear side already. What it learns here is only what a SCRAM login can be bound to.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// A handshake that has been done, or was not wanted.
pub(in crate::dial) struct Established {
    binding: ChannelBinding,
}

impl Established {
    pub(super) fn new(binding: ChannelBinding) -> Self {
        Established { binding }
    }

    /// Makes tokio-postgres take the stream for encrypted or not. Never makes it negotiate.
    pub(in crate::dial) fn configure(config: &mut tokio_postgres::Config, encrypted: bool) {
        if encrypted {
            config
                .ssl_mode(SslMode::Require)
                .ssl_negotiation(SslNegotiation::Direct);
        } else {
            config.ssl_mode(SslMode::Disable);
        }
    }
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Established")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Established {
    type Stream = Encrypted<S>;
    type Error = Infallible;
    type Future = Ready<Result<Encrypted<S>, Infallible>>;

    fn connect(self, stream: S) -> Self::Future {
        ready(Ok(Encrypted {
            stream,
            binding: Mutex::new(Some(self.binding)),
        }))
    }
}

/// The clear side of a TLS session.
pub(in crate::dial) struct Encrypted<S> {
    stream: S,
    /// Given out once: a login asks once, and the type cannot be copied.
    binding: Mutex<Option<ChannelBinding>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let mut binding = self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        binding.take().unwrap_or_else(ChannelBinding::none)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
