//! The tap: reads message headers as they pass between the driver and the socket, in both directions.
//!
//! tokio-postgres hides the transaction status, the command tag and how many requests are unanswered; all three pass
//! through here in clear text. The tap sends nothing, holds nothing back and changes no byte. On a wire that is not
//! the protocol it stops reading and says so for good.

mod backend;
mod frames;
mod frontend;
mod ledger;
mod routine;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
pub(crate) use backend::{CommandTag, CopyState};
pub(crate) use backend::{Report, Said, Severity, TransactionStatus};

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
///
/// What a pass of the driver asks is in `marks`, which need no lock; the lock is taken when bytes have passed, and by
/// others who ask.
///
/// Here and in [`Seen`] the order is as it stands: what a round trip looks at comes first, and close together.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Wire {
    /// Written on the driver's task alone, by the tap and by [`Wire::begin_poll`], so plain loads and stores do.
    marks: AtomicU8,
    seen: Mutex<Seen>,
}

/// A request is unanswered or half sent, a message half read, or the wire cannot be read.
const OPEN: u8 = 1;
/// The transaction status is not idle, or the wire cannot be read.
const DIRTY: u8 = 1 << 1;
/// Terminate has been sent.
const TERMINATED: u8 = 1 << 2;
/// A write was refused for now and has not been flushed since.
const WRITE_BLOCKED: u8 = 1 << 3;
/// The socket had nothing more to read when it was last asked.
const DRAINED: u8 = 1 << 4;

/// A write has been refused because the session takes none.
const ROLE_DOUBTED: u8 = 1 << 5;

/// It is the server's turn: it owes an answer.
const OWED: u8 = 1 << 6;

/// The server has shown a sign of life since this was last asked: it sent something, or took in what it would not.
const HEARD: u8 = 1 << 7;

/// What [`Seen::marks`] says.
const SEEN: u8 = OPEN | DIRTY | TERMINATED | ROLE_DOUBTED | OWED;

#[derive(Debug, Default)]
#[repr(C)]
struct Seen {
    /// Nothing more is read: the bytes are encrypted or not the protocol.
    blind: bool,
    /// The bytes were not the protocol.
    nonsense: bool,
    /// The transaction status when the last simple query was sent, as far as it was known.
    at_query: TransactionStatus,
    end: Option<StreamEnd>,
    ledger: Ledger,
    frontend: Frontend,
    backend: Backend,
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
    /// A write has been refused, at any time, because the session takes none.
    pub(crate) role_doubted: bool,
    /// All that came is read, and the server has to answer or to take in more before anything goes on.
    pub(crate) awaits_server: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Wire::of(Seen::default())
    }
}

impl Wire {
    fn of(seen: Seen) -> Self {
        Wire {
            marks: AtomicU8::new(seen.marks()),
            seen: Mutex::new(seen),
        }
    }

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

    /// The same, known too while the only answers owed are those to the closing of statements or portals, which may come
    /// at any time: their last row may be kept for long.
    pub(crate) fn transaction(&self) -> TransactionStatus {
        // What a caller has had the answer to was marked before that answer was passed on.
        if self.marks.load(Ordering::Relaxed) & (OPEN | DIRTY) == 0 {
            return TransactionStatus::Idle;
        }
        let seen = self.seen();
        if seen.blind || !seen.ledger.is_settled_but_for_asides() {
            return TransactionStatus::Unknown;
        }
        seen.backend.said().status
    }

    /// Tag of the last command that completed. The command of a future that has returned is complete.
    #[cfg(test)]
    pub(crate) fn last_tag(&self) -> Option<CommandTag> {
        self.seen().backend.said().tag
    }

    /// Simple queries that have been sent, each to its last byte. What has ended before it was sent never reached the
    /// server.
    pub(crate) fn queries_sent(&self) -> u64 {
        self.seen().ledger.queries()
    }

    /// The transaction status when the last simple query was sent; unknown if anything but the closing of statements was
    /// unanswered then.
    pub(crate) fn status_at_query(&self) -> TransactionStatus {
        self.seen().at_query
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

    /// Whether a write has been refused, at any time, because the session takes none.
    pub(crate) fn is_role_doubted(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & ROLE_DOUBTED != 0
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
        self.mark(DRAINED, 0);
    }

    /// What the pass left behind. For the driver, on its task.
    pub(crate) fn after_pass(&self) -> AfterPass {
        let marks = self.marks.load(Ordering::Relaxed);
        AfterPass {
            busy: marks & (OPEN | WRITE_BLOCKED) != 0 || marks & DRAINED == 0,
            dirty: marks & DIRTY != 0,
            terminated: marks & TERMINATED != 0,
            role_doubted: marks & ROLE_DOUBTED != 0,
            awaits_server: marks & (OWED | WRITE_BLOCKED) != 0 && marks & DRAINED != 0,
        }
    }

    /// Whether the server has shown a sign of life since this was last asked. For the driver, on its task.
    pub(crate) fn take_heard(&self) -> bool {
        let heard = self.marks.load(Ordering::Relaxed) & HEARD != 0;
        self.mark(HEARD, 0);
        heard
    }

    /// Sets those of the marks that are asked for, and clears the others of them.
    fn mark(&self, which: u8, set: u8) {
        let before = self.marks.load(Ordering::Relaxed);
        let after = (before & !which) | (set & which);
        if after != before {
            self.marks.store(after, Ordering::Relaxed);
        }
    }

    /// The server has sent these bytes.
    fn received(&self, bytes: &[u8]) {
        let mut seen = self.seen();
        seen.received(bytes);
        self.mark(SEEN | HEARD, seen.marks() | HEARD);
    }

    /// These bytes have gone out.
    fn sent(&self, bytes: &[u8]) {
        let mut seen = self.seen();
        seen.sent(bytes);
        // It has taken in what it would not before.
        let unblocked = match self.marks.load(Ordering::Relaxed) & WRITE_BLOCKED {
            0 => 0,
            _ => HEARD,
        };
        self.mark(SEEN | unblocked, seen.marks() | unblocked);
    }

    /// The stream has ended. That the other side has closed it says less than an error of the system's.
    #[cold]
    fn ended(&self, end: StreamEnd) {
        let mut seen = self.seen();
        match end {
            StreamEnd::Eof => _ = seen.end.get_or_insert(end),
            StreamEnd::Io(_) => seen.end = Some(end),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing in here panics; if it did, what was seen until then still stands.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn marks(&self) -> u8 {
        let within_message = self.frontend.is_within_message() || self.backend.is_within_message();
        let open = self.blind || !self.ledger.is_settled() || within_message;
        let dirty = self.blind || self.backend.said().status != TransactionStatus::Idle;
        let terminated = self.frontend.has_terminated();
        let mark = |is: bool, mark: u8| if is { mark } else { 0 };
        let role_doubted = self.backend.said().role_doubted;
        mark(open, OPEN)
            | mark(dirty, DIRTY)
            | mark(terminated, TERMINATED)
            | mark(role_doubted, ROLE_DOUBTED)
            | mark(!self.blind && self.ledger.awaits_server(), OWED)
    }

    fn sent(&mut self, bytes: &[u8]) {
        if self.blind {
            return;
        }
        let queries = self.ledger.queries();
        let fed = self.frontend.feed(bytes, &mut self.ledger);
        if self.ledger.queries() != queries {
            self.at_query = match self.ledger.query_was_alone() {
                true => self.backend.said().status,
                false => TransactionStatus::Unknown,
            };
        }
        if fed.is_err() {
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
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Pending => {
                this.wire.mark(DRAINED, DRAINED);
                Poll::Pending
            }
            Poll::Ready(Ok(())) => {
                let bytes = &buffer.filled()[before..];
                if bytes.is_empty() && room {
                    this.wire.ended(StreamEnd::Eof);
                } else {
                    this.wire.received(bytes);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                this.wire.ended(StreamEnd::Io(error.kind()));
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        match &written {
            Poll::Ready(Ok(length)) => this.wire.sent(&bytes[..*length]),
            Poll::Pending => this.wire.mark(WRITE_BLOCKED, WRITE_BLOCKED),
            Poll::Ready(Err(error)) => this.wire.ended(StreamEnd::Io(error.kind())),
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        match &flushed {
            Poll::Ready(Ok(())) => this.wire.mark(WRITE_BLOCKED, 0),
            Poll::Pending => this.wire.mark(WRITE_BLOCKED, WRITE_BLOCKED),
            Poll::Ready(Err(error)) => {
                this.wire.mark(WRITE_BLOCKED, 0);
                this.wire.ended(StreamEnd::Io(error.kind()));
            }
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
