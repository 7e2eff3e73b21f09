//! One request that is held whole, on its way to a backend and back: borrow, write, read, and once more where that is safe.
//!
//! Nothing here knows the client. The answer is read to its end if it is small, else to where it has to be streamed.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::buffer::{Buffer, SMALL, poll_fill};
use super::deadline::Deadline;
use super::options::ServerOptions;
use super::retry::{Ending, Failed};
use super::shared::Shared;
use crate::backend::{BorrowError, Routed};
use crate::frame::{HEADER_LEN, parse_header};
use crate::metrics::Error;

/// What a backend made of a request.
pub(crate) enum Answer {
    /// All of it, header included, and nothing else.
    Whole(Buffer),
    /// The beginning of one that is too long to be held.
    Begun(Begun),
    /// None. Which of the three errors the client is told.
    None(Error),
}

/// An answer whose beginning has been read.
pub(crate) struct Begun {
    pub(crate) routed: Routed,
    /// What has been read and not yet written to the client.
    pub(crate) buffer: Option<Buffer>,
    /// How many bytes the frame has, header included, that have not yet been written to the client.
    pub(crate) left: usize,
    /// The whole frame's length.
    pub(crate) length: usize,
    /// When the request began to be written.
    pub(crate) since: Instant,
}

/// Sends a request, of which `request` is the whole frame, and reads the answer. `came` is a moment just before.
///
/// Dropped, it gives the request up: its connection is closed.
pub(crate) async fn exchange(
    shared: &Shared,
    options: &ServerOptions,
    request: &mut Buffer,
    length: usize,
    deadline: &mut Deadline,
    came: Instant,
) -> Answer {
    let mut again = false;
    loop {
        let (routed, since) = match borrow(shared, Some(&mut *request), again, came).await {
            Ok(borrowed) => borrowed,
            Err(error) => {
                shared.unavailable.tell(&error);
                return Answer::None(Error::Unavailable);
            }
        };
        deadline.set(since + options.backend().of(length));
        let mut attempt = Attempt {
            routed,
            answer: None,
            max_frame: options.max_frame,
        };
        let outcome = attempt.run(&request.bytes()[..length], deadline).await;
        deadline.clear();
        let Attempt { routed, answer, .. } = attempt;
        let broken = match outcome {
            Ok(length) => return finish(shared, routed, answer, length, since),
            Err(broken) => broken,
        };
        let failed = Failed {
            ending: broken.ending,
            reused: routed.is_reused(),
            answer_begun: answer.is_some(),
            held: true,
            again,
        };
        if !failed.may_be_sent_again() {
            routed.failed(&broken.why);
            return Answer::None(broken.step);
        }
        routed.stale();
        shared.metrics.retried.inc();
        again = true;
    }
}

/// The answer's header has been read, and all of it if it is small.
fn finish(shared: &Shared, routed: Routed, answer: Option<Buffer>, length: usize, since: Instant) -> Answer {
    match answer {
        Some(mut buffer) if length <= SMALL => {
            shared.backends.answered(routed.address(), since.elapsed());
            if buffer.len() > length {
                buffer.truncate(length);
                routed.failed(&"more than one answer came to one request");
            } else {
                routed.answered();
            }
            Answer::Whole(buffer)
        }
        buffer => Answer::Begun(Begun {
            routed,
            buffer,
            left: length,
            length,
            since,
        }),
    }
}

/// A connection, and when it was there. `came` is a moment just before.
pub(crate) async fn borrow(
    shared: &Shared,
    request: Option<&mut Buffer>,
    again: bool,
    came: Instant,
) -> Result<(Routed, Instant), BorrowError> {
    if again {
        let routed = shared.set.borrow_fresh().await?;
        return Ok((routed, Instant::now()));
    }
    let mut borrowing = pin!(shared.set.borrow());
    let first = poll_fn(|cx| Poll::Ready(borrowing.as_mut().poll(cx))).await;
    let (routed, since) = match first {
        Poll::Ready(borrowed) => (borrowed?, came),
        Poll::Pending => {
            // It may be long, and there may be many.
            if let Some(request) = request {
                request.shrink();
            }
            (borrowing.await?, Instant::now())
        }
    };
    shared.backends.waited(routed.address(), since - came);
    Ok((routed, since))
}

/// A request on a connection.
struct Attempt {
    routed: Routed,
    answer: Option<Buffer>,
    max_frame: u32,
}

/// Why there is no answer from a connection.
pub(crate) struct Broken {
    pub(crate) ending: Ending,
    pub(crate) step: Error,
    pub(crate) why: String,
}

impl Attempt {
    /// The length of the answer's frame. All of it has been read if it is small.
    async fn run(&mut self, request: &[u8], deadline: &mut Deadline) -> Result<usize, Broken> {
        let mut left = request;
        poll_fn(|cx| {
            let written = poll_write_all(self.routed.io(), &mut left, cx);
            or_passed(written, deadline, cx)
        })
        .await
        .map_err(|error| Broken::by(Error::BackendWrite, &error))?;
        poll_fn(|cx| {
            let read = self.poll_answer(cx);
            match read {
                Poll::Pending => or_passed(Poll::Pending, deadline, cx)
                    .map(|passed| passed.map_err(|error| Broken::by(Error::BackendRead, &error))),
                ready => ready,
            }
        })
        .await
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        loop {
            if let Some(length) = answer_length(self.answer.as_ref(), self.max_frame)? {
                let enough = self.answer.as_ref().is_some_and(|answer| answer.len() >= length);
                if enough || length > SMALL {
                    return Poll::Ready(Ok(length));
                }
            }
            match ready!(poll_fill(&mut self.answer, self.routed.io(), cx)) {
                Ok(0) => return Poll::Ready(Err(Broken::ended(self.answer.is_some()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Broken::by(Error::BackendRead, &error))),
            }
        }
    }
}

/// The length of an answer's frame, once its header is there.
pub(crate) fn answer_length(answer: Option<&Buffer>, max_frame: u32) -> Result<Option<usize>, Broken> {
    let header = answer.and_then(|answer| answer.bytes().first_chunk::<HEADER_LEN>());
    let Some(header) = header else {
        return Ok(None);
    };
    match parse_header(*header, max_frame) {
        Ok(length) => Ok(Some(HEADER_LEN + length)),
        Err(error) => Err(Broken {
            ending: Ending::Garbage,
            step: Error::BackendRead,
            why: error.to_string(),
        }),
    }
}

impl Broken {
    pub(crate) fn by(step: Error, error: &io::Error) -> Self {
        let ending = match error.kind() {
            io::ErrorKind::TimedOut => Ending::TimedOut,
            // What TLS finds wrong with what came.
            io::ErrorKind::InvalidData => Ending::Garbage,
            _ => Ending::Closed,
        };
        let doing = match step {
            Error::BackendWrite => "writing a request",
            _ => "reading an answer",
        };
        Broken {
            ending,
            step,
            why: format!("{doing}: {error}"),
        }
    }

    pub(crate) fn ended(inside: bool) -> Self {
        let why = match inside {
            true => "the connection was closed inside an answer",
            false => "the connection was closed before an answer",
        };
        Broken {
            ending: Ending::Closed,
            step: Error::BackendRead,
            why: why.to_owned(),
        }
    }
}

/// Writes what is left and sees that it leaves.
pub(crate) fn poll_write_all<W: AsyncWrite + Unpin>(
    io: &mut W,
    left: &mut &[u8],
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !left.is_empty() {
        match ready!(Pin::new(&mut *io).poll_write(cx, left))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => *left = &left[count..],
        }
    }
    Pin::new(io).poll_flush(cx)
}

/// The outcome, or that the limit has passed while there is none.
pub(crate) fn or_passed<T>(
    outcome: Poll<io::Result<T>>,
    deadline: &mut Deadline,
    cx: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    if outcome.is_pending() && deadline.poll_passed(cx).is_ready() {
        return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")));
    }
    outcome
}
