//! The server's end of a connection, over memory or TCP, behind the gate of a network partition. It counts what comes
//! in, and knows the ways a connection can go.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::gate::Gate;
use super::pipe::{Stream, Vanished};
use crate::fault::Death;

/// Over what the connection runs.
#[derive(Debug)]
pub(crate) enum Transport {
    Memory(Stream),
    Tcp(TcpStream),
}

/// What remains of a connection whose server end vanished without a packet.
#[derive(Debug)]
pub(crate) enum Remains {
    Memory(Vanished),
    /// Kept open and unread: that is what silence looks like over real TCP.
    Tcp(TcpStream),
}

impl Remains {
    /// The host is back and answers with a reset.
    pub(crate) fn forget(self) {
        match self {
            Remains::Memory(vanished) => vanished.forget(),
            // A socket that cannot be told to linger closes with a FIN instead, which ends the connection as well.
            Remains::Tcp(stream) => drop(socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))),
        }
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    transport: Transport,
    partition: Arc<Gate>,
    received: Arc<AtomicU64>,
}

impl Link {
    pub(crate) fn new(transport: Transport, partition: Arc<Gate>, received: Arc<AtomicU64>) -> Self {
        Link {
            transport,
            partition,
            received,
        }
    }

    /// Goes without a word. Silence leaves remains that have to be kept.
    pub(crate) fn die(self, death: Death) -> Option<Remains> {
        match (death, self.transport) {
            (Death::Fin, _) => None,
            (Death::Rst, Transport::Memory(stream)) => {
                stream.reset();
                None
            }
            (Death::Rst, Transport::Tcp(stream)) => {
                Remains::Tcp(stream).forget();
                None
            }
            (Death::Silence, Transport::Memory(stream)) => Some(Remains::Memory(stream.vanish())),
            (Death::Silence, Transport::Tcp(stream)) => Some(Remains::Tcp(stream)),
        }
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let link = self.get_mut();
        ready!(link.partition.poll_open(context));
        let before = buffer.filled().len();
        ready!(match &mut link.transport {
            Transport::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        link.received
            .fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let link = self.get_mut();
        ready!(link.partition.poll_open(context));
        match &mut link.transport {
            Transport::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Memory(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Memory(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
