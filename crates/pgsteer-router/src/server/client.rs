//! One client connection from its first byte to its last: requests one after the other, each answered before the next.

use std::future::poll_fn;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::arrived::Arrived;
use super::buffer::SMALL;
use super::deadline::Deadline;
use super::exchange::{Answer, exchange, or_passed, poll_write_all};
use super::incoming::{Frame, Incoming, Stop};
use super::options::ServerOptions;
use super::pass_on::pass_on;
use super::relay::{Passed, Relay};
use super::shared::Shared;
use crate::aside::aside;
use crate::metrics::Error;

/// Why a client connection is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client has ended it.
    ByClient,
    /// The router ends it, and the client must not lose what was sent last.
    ByRouter,
    /// It is broken, or the client must not take for whole what is not.
    Cut,
}

impl End {
    /// How a connection ends after a request that nothing can follow.
    pub(crate) fn after(error: Error) -> Self {
        match error {
            // It may still be to get the answers of earlier requests.
            Error::ClientSlow | Error::ClientTooLong => End::ByRouter,
            _ => End::Cut,
        }
    }
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Clean => End::ByClient,
            Stop::Ours => End::ByRouter,
            Stop::Inside(error) => End::after(error),
        }
    }
}

/// The errors that a client is told, each a frame.
pub(crate) fn error_frame(error: Error) -> &'static [u8] {
    match error {
        Error::Unavailable => b"\0\0\0\x17ERR backend unavailable",
        Error::BackendWrite => b"\0\0\0\x11ERR backend write",
        _ => b"\0\0\0\x10ERR backend read",
    }
}

/// Serves a client one request at a time.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    arrived: Arrived<S>,
    shared: &Shared,
) -> End {
    let mut incoming = Incoming::new(shared);
    loop {
        let frame = match poll_fn(|cx| incoming.poll_frame(stream, arrived, cx)).await {
            Ok(frame) => frame,
            Err(stop) => return stop.into(),
        };
        if frame.length > SMALL {
            if let Err(end) = aside(|| pass_on(stream, shared, &mut incoming, frame)).await {
                return end;
            }
            continue;
        }
        let Frame {
            mut buffer,
            length,
            came,
            outstanding,
        } = frame;
        let options = &incoming.options;
        let deadline = &mut incoming.deadline;
        let answer = exchange(shared, options, &mut buffer, length, deadline, came).await;
        buffer.consume(length);
        incoming.put_back(buffer);
        match deliver(stream, shared, &incoming.options, &mut incoming.deadline, answer).await {
            Delivered::Answer => outstanding.answered(),
            Delivered::Error(error) => outstanding.failed(error),
            Delivered::Lost(error) => {
                outstanding.failed(error);
                return End::Cut;
            }
        }
    }
}

/// What the client has got.
pub(crate) enum Delivered {
    Answer,
    Error(Error),
    /// Less than that, and nothing can follow.
    Lost(Error),
}

/// Gives the client an answer, or the error that it gets instead. What is held leaves in one write where the system takes
/// it.
pub(crate) async fn deliver<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    shared: &Shared,
    options: &ServerOptions,
    deadline: &mut Deadline,
    answer: Answer,
) -> Delivered {
    match answer {
        Answer::Whole(buffer) => match write(stream, options, deadline, buffer.bytes()).await {
            Ok(()) => Delivered::Answer,
            Err(_) => Delivered::Lost(Error::ClientWrite),
        },
        Answer::None(error) => match write(stream, options, deadline, error_frame(error)).await {
            Ok(()) => Delivered::Error(error),
            Err(_) => Delivered::Lost(Error::ClientWrite),
        },
        Answer::Begun(begun) => {
            let ended = aside(|| Relay::of_answer(stream, begun, options.terms()).run(deadline)).await;
            ended.count(shared);
            match ended.passed {
                Passed::Lost(error) => Delivered::Lost(error),
                // An answer that is passed on is neither held, nor refused once it has begun to go down.
                Passed::Answered | Passed::Held(_) => Delivered::Answer,
                Passed::Refused(error) => match write(stream, options, deadline, error_frame(error)).await {
                    Ok(()) => Delivered::Error(error),
                    Err(_) => Delivered::Lost(Error::ClientWrite),
                },
            }
        }
    }
}

async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    options: &ServerOptions,
    deadline: &mut Deadline,
    frame: &[u8],
) -> io::Result<()> {
    let mut left = frame;
    let mut until = None;
    let written = poll_fn(|cx| {
        let written = poll_write_all(stream, &mut left, cx);
        if written.is_pending() && until.is_none() {
            let limit = Instant::now() + options.client().of(frame.len());
            until = Some(limit);
            deadline.set(limit);
        }
        or_passed(written, deadline, cx)
    })
    .await;
    deadline.clear();
    written
}
