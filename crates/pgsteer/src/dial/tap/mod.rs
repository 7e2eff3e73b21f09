//! The tap: reads message headers as they pass between the driver and the socket, in both directions.
//!
//! tokio-postgres hides the transaction status, the command tag and how many requests are unanswered; all three pass
//! through here in clear text. The tap sends nothing, holds nothing back and changes no byte. On a wire that is not
//! the protocol it stops reading and says so for good.

mod backend;
mod frames;
mod frontend;
mod ledger;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
pub(crate) use backend::CopyState;
pub(crate) use backend::{CommandTag, Report, Said, Severity, TransactionStatus};

use backend::{Backend, Next};
use frontend::Frontend;
use ledger::Ledger;

/// How the stream under the tap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The other side closed it.
    Eof,
    /// The operating system reported an error.
    Io(io::ErrorKind),
}

/// What the tap has seen of one connection. Shared by its driver, its holder and its keeper.
#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    frontend: Frontend,
    backend: Backend,
    ledger: Ledger,
    /// Nothing more is read: the bytes are encrypted or not the protocol.
    blind: bool,
    /// The bytes were not the protocol.
    nonsense: bool,
    /// A write was refused for now and has not been flushed since.
    write_blocked: bool,
    /// The socket had nothing more to read when it was last asked.
    drained: bool,
    end: Option<StreamEnd>,
}

/// What a pass of the driver left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AfterPass {
    /// A request is unanswered or half sent, a message half read, the write side blocked or the read side not drained.
    pub(crate) busy: bool,
    /// The transaction status is not idle, or the wire cannot be read.
    pub(crate) dirty: bool,
    /// Terminate has been sent.
    pub(crate) terminated: bool,
}

impl Wire {
    /// What the server has said so far.
    pub(crate) fn said(&self) -> Said {
        self.seen().backend.said().clone()
    }

    /// Transaction status of the last ReadyForQuery; unknown while an answer is owed or a COPY is open.
    pub(crate) fn status(&self) -> TransactionStatus {
        let seen = self.seen();
        if seen.blind || !seen.ledger.is_settled() {
            return TransactionStatus::Unknown;
        }
        seen.backend.said().status
    }

    /// Tag of the last command that completed. The command of a future that has returned is complete.
    #[allow(dead_code, reason = "asked by whoever must know whether a COMMIT committed")]
    pub(crate) fn last_tag(&self) -> Option<CommandTag> {
        self.seen().backend.said().tag
    }

    /// The last error the server sent.
    pub(crate) fn last_error(&self) -> Option<Report> {
        self.seen().backend.said().error
    }

    /// Answers the server still owes.
    #[cfg(test)]
    pub(crate) fn unanswered(&self) -> usize {
        self.seen().ledger.unanswered()
    }

    /// Whether Terminate has been sent.
    pub(crate) fn has_terminated(&self) -> bool {
        self.seen().frontend.has_terminated()
    }

    /// How the stream ended, if it has.
    pub(crate) fn end(&self) -> Option<StreamEnd> {
        self.seen().end
    }

    /// Whether what came was not the protocol.
    pub(crate) fn is_nonsense(&self) -> bool {
        self.seen().nonsense
    }

    /// The driver is about to poll: from now on it counts whether the socket is read until it has nothing more.
    pub(crate) fn begin_poll(&self) {
        self.seen().drained = false;
    }

    /// What the pass left behind.
    pub(crate) fn after_pass(&self) -> AfterPass {
        let seen = self.seen();
        let within_message = seen.frontend.is_within_message() || seen.backend.is_within_message();
        AfterPass {
            busy: seen.blind
                || !seen.ledger.is_settled()
                || within_message
                || seen.write_blocked
                || !seen.drained,
            dirty: seen.blind || seen.backend.said().status != TransactionStatus::Idle,
            terminated: seen.frontend.has_terminated(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing in here panics; if it did, what was seen until then still stands.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn sent(&mut self, bytes: &[u8]) {
        if self.blind {
            return;
        }
        if self.frontend.feed(bytes, &mut self.ledger).is_err() {
            self.give_up();
        } else if self.frontend.take_asked_encryption() {
            self.backend.expect_bare_answer();
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        if self.blind {
            return;
        }
        match self.backend.feed(bytes, &mut self.ledger) {
            Ok(Next::Messages) => {}
            Ok(Next::Encrypted) => self.blind = true,
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&mut self) {
        self.blind = true;
        self.nonsense = true;
    }
}

/// A stream whose messages are looked at as they pass.
#[derive(Debug)]
pub(crate) struct Tap<S> {
    stream: S,
    wire: Arc<Wire>,
    half_closed: bool,
}

impl<S> Tap<S> {
    /// Taps `stream`, from its first byte on.
    pub(crate) fn new(stream: S) -> Self {
        Tap {
            stream,
            wire: Arc::default(),
            half_closed: false,
        }
    }

    /// What is seen here.
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let mut seen = this.wire.seen();
        match &read {
            Poll::Pending => seen.drained = true,
            Poll::Ready(Err(error)) => seen.end = Some(StreamEnd::Io(error.kind())),
            Poll::Ready(Ok(())) => {
                let bytes = &buffer.filled()[before..];
                if bytes.is_empty() && room {
                    seen.end.get_or_insert(StreamEnd::Eof);
                } else {
                    seen.received(bytes);
                }
            }
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        let mut seen = this.wire.seen();
        match &written {
            Poll::Pending => seen.write_blocked = true,
            Poll::Ready(Err(error)) => seen.end = Some(StreamEnd::Io(error.kind())),
            Poll::Ready(Ok(length)) => seen.sent(&bytes[..*length]),
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        let mut seen = this.wire.seen();
        seen.write_blocked = flushed.is_pending();
        if let Poll::Ready(Err(error)) = &flushed {
            seen.end = Some(StreamEnd::Io(error.kind()));
        }
        flushed
    }

    /// Closes the write side, then reads on until the server has closed the other: only then has it let go of the
    /// session. The caller sets the time limit.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.half_closed {
            // If the other side has gone already, so much the better.
            let _ = ready!(Pin::new(&mut this.stream).poll_shutdown(cx));
            this.half_closed = true;
        }
        loop {
            let mut space = [0; 1024];
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut *this).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
