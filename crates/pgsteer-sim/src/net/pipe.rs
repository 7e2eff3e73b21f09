//! A connection in memory with TCP's manners: ends of file after the data, resets, half-closing, bounded buffers, and
//! a peer that vanishes without a packet. It keeps no time of its own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::cluster::lock;

/// Bytes on their way in one direction before the writer has to wait.
const CAPACITY: usize = 64 * 1024;

/// One direction.
#[derive(Debug, Default)]
struct Lane {
    data: BytesMut,
    /// The writer has no more to say.
    finished: bool,
    /// Nobody reads any more: the next write is answered with a reset.
    deaf: bool,
    /// Reading and writing fail, once what has arrived is read.
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Lane {
    fn wake(&mut self) {
        self.reader
            .take()
            .into_iter()
            .chain(self.writer.take())
            .for_each(Waker::wake);
    }
}

/// Both directions: `lanes[side]` is what `side` reads.
type Lanes = Mutex<[Lane; 2]>;

/// One end of a connection in memory. Dropping it closes it: the peer reads what was sent and then the end of the
/// file, or a reset if this end had not read everything.
#[derive(Debug)]
pub struct Stream {
    lanes: Arc<Lanes>,
    side: usize,
    vanished: bool,
}

/// A connection whose server end vanished without a packet.
#[derive(Debug)]
pub(crate) struct Vanished {
    lanes: Weak<Lanes>,
    side: usize,
}

/// A new connection: the client's end and the server's.
pub(crate) fn pair() -> (Stream, Stream) {
    let lanes = Arc::new(Lanes::default());
    let end = |side| Stream {
        lanes: lanes.clone(),
        side,
        vanished: false,
    };
    (end(0), end(1))
}

impl Stream {
    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let mut lanes = lock(&self.lanes);
        for lane in lanes.iter_mut() {
            lane.reset = true;
            lane.wake();
        }
    }

    /// Goes without a packet: the peer reads nothing more, and what it writes fills the buffer and is lost.
    pub(crate) fn vanish(mut self) -> Vanished {
        self.vanished = true;
        Vanished {
            lanes: Arc::downgrade(&self.lanes),
            side: self.side,
        }
    }
}

impl Vanished {
    /// The host is back and knows nothing of the connection: the peer's next packet, or one still under way, is
    /// answered with a reset.
    pub(crate) fn forget(self) {
        let Some(lanes) = self.lanes.upgrade() else { return };
        let mut lanes = lock(&lanes);
        let pending = !lanes[self.side].data.is_empty();
        lanes[self.side].deaf = true;
        if pending {
            for lane in lanes.iter_mut() {
                lane.reset = true;
                lane.wake();
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.vanished {
            return;
        }
        let mut lanes = lock(&self.lanes);
        let unread = !lanes[self.side].data.is_empty();
        lanes[self.side].deaf = true;
        lanes[1 - self.side].finished = true;
        if unread {
            lanes[1 - self.side].reset = true;
        }
        lanes.iter_mut().for_each(Lane::wake);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut lanes = lock(&self.lanes);
        let lane = &mut lanes[self.side];
        if !lane.data.is_empty() {
            let count = lane.data.len().min(buffer.remaining());
            buffer.put_slice(&lane.data[..count]);
            lane.data.advance(count);
            if let Some(writer) = lane.writer.take() {
                writer.wake();
            }
            return Poll::Ready(Ok(()));
        }
        if lane.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if lane.finished {
            return Poll::Ready(Ok(()));
        }
        lane.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut lanes = lock(&self.lanes);
        let lane = &mut lanes[1 - self.side];
        if lane.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if lane.finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if lane.deaf {
            // As with TCP, the write itself works; it is its answer that resets the connection.
            for lane in lanes.iter_mut() {
                lane.reset = true;
                lane.wake();
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        let room = CAPACITY.saturating_sub(lane.data.len());
        if room == 0 && !bytes.is_empty() {
            lane.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = room.min(bytes.len());
        lane.data.extend_from_slice(&bytes[..count]);
        if let Some(reader) = lane.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lanes = lock(&self.lanes);
        let lane = &mut lanes[1 - self.side];
        lane.finished = true;
        lane.wake();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_sent_before_a_close_is_read_before_the_end_of_file() {
        let (mut client, mut server) = pair();
        server.write_all(b"bye").await.unwrap();
        drop(server);
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"bye");
    }

    #[tokio::test]
    async fn a_reset_is_met_by_reads_and_writes() {
        let (mut client, server) = pair();
        server.reset();
        assert_eq!(
            client.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
        assert_eq!(
            client.write_u8(1).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }

    #[tokio::test]
    async fn closing_with_unread_data_resets() {
        let (mut client, server) = pair();
        client.write_all(b"unread").await.unwrap();
        drop(server);
        assert_eq!(
            client.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }

    #[tokio::test]
    async fn a_write_to_a_closed_peer_works_once_and_then_the_connection_is_reset() {
        let (mut client, server) = pair();
        drop(server);
        client.write_all(b"anyone?").await.unwrap();
        assert_eq!(
            client.write_u8(1).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }

    #[tokio::test]
    async fn a_half_closed_stream_can_still_be_read() {
        let (mut client, mut server) = pair();
        client.shutdown().await.unwrap();
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        server.write_all(b"late").await.unwrap();
        drop(server);
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_vanished_peer_says_nothing_until_its_host_is_back() {
        let (mut client, server) = pair();
        let vanished = server.vanish();
        client.write_all(b"hello?").await.unwrap();
        let wait = std::time::Duration::from_secs(3600);
        assert!(tokio::time::timeout(wait, client.read_u8()).await.is_err());
        vanished.forget();
        assert_eq!(
            client.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_buffer_holds_the_writer_until_it_is_read() {
        let (mut client, mut server) = pair();
        client.write_all(&vec![7; CAPACITY]).await.unwrap();
        let wait = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(wait, client.write_u8(8)).await.is_err());
        server.read_exact(&mut vec![0; CAPACITY]).await.unwrap();
        client.write_u8(8).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 8);
    }
}
