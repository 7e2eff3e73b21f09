//! Both directions of one connection, driven by one task: requests go out while answers come in, so that a target which
//! answers before it has read all of a request cannot bring either side to a halt.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::payload::{Payloads, Stamp};
use super::stream::Stream;

/// Bytes written or read at a time, at most.
const PORTION: usize = 64 * 1024;
/// Bytes read at a time, at least.
const LEAST: usize = 4 * 1024;

/// A connection with the requests that are still to be written.
pub(super) struct Wire<'a> {
    stream: Stream,
    payloads: &'a Payloads,
    /// Requests not yet written; of the first one, this many bytes of its payload are in `out` or have gone.
    unwritten: VecDeque<Stamp>,
    begun: Option<usize>,
    out: Vec<u8>,
    written: usize,
    /// Whether what was written may still lie in the stream's own buffer.
    unflushed: bool,
    /// Why nothing can be written any more. What the other side has sent is read all the same.
    broken: Option<io::Error>,
    bytes: Box<[u8]>,
}

impl<'a> Wire<'a> {
    pub(super) fn new(stream: Stream, payloads: &'a Payloads, pipeline: u32) -> Self {
        let expected = (payloads.size() + 4).saturating_mul(pipeline as usize);
        Wire {
            stream,
            payloads,
            unwritten: VecDeque::new(),
            begun: None,
            out: Vec::new(),
            written: 0,
            unflushed: false,
            broken: None,
            bytes: vec![0; expected.clamp(LEAST, PORTION)].into(),
        }
    }

    /// Queues a request.
    pub(super) fn send(&mut self, stamp: Stamp) {
        self.unwritten.push_back(stamp);
    }

    /// Writes what is queued until something has been read, and gives that; nothing if the other side has ended. Cancel
    /// safe: what has been written stays written.
    pub(super) async fn read(&mut self) -> io::Result<&[u8]> {
        let length = poll_fn(|context| self.poll(context)).await?;
        Ok(&self.bytes[..length])
    }

    /// Says that no more requests will come.
    pub(super) async fn finish(&mut self) {
        let ended = poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection could not be ended");
        }
    }

    /// Ends it. Over TLS the target is told first, which without would have to take it for an attack.
    pub(super) async fn close(mut self) {
        if matches!(self.stream, Stream::Tls(_)) {
            self.finish().await;
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.broken.is_none()
            && let Poll::Ready(Err(error)) = self.poll_write(context)
        {
            self.broken = Some(error);
        }
        let mut buffer = ReadBuf::new(&mut self.bytes);
        match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
            Ok(()) => Poll::Ready(Ok(buffer.filled().len())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.out.len() {
                let rest = &self.out[self.written..];
                let count = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += count;
                self.unflushed = true;
            }
            if !self.fill() {
                break;
            }
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Puts what comes next into the empty buffer; whether there was anything.
    fn fill(&mut self) -> bool {
        self.out.clear();
        self.written = 0;
        let size = self.payloads.size();
        while let Some(stamp) = self.unwritten.front().copied() {
            if self.out.len() + 4 > PORTION {
                break;
            }
            let from = self.begun.unwrap_or_else(|| {
                // The option is a u32.
                self.out.extend_from_slice(&(size as u32).to_be_bytes());
                0
            });
            let room = PORTION - self.out.len();
            let added = self.payloads.append(stamp, from, room, &mut self.out);
            if from + added < size {
                self.begun = Some(from + added);
                break;
            }
            self.begun = None;
            self.unwritten.pop_front();
        }
        !self.out.is_empty()
    }
}
