//! One client connection with several requests at work at the same time, on whatever backends there are. Answers leave in
//! the order of the requests.
//!
//! Each request that is held is a task of its own; the client's task reads the next ones and waits for the oldest. A
//! request too long to be held waits until those before it are answered, and is then passed on alone.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::arrived::Arrived;
use super::buffer::{Buffer, SMALL};
use super::client::{Delivered, End, deliver};
use super::deadline::Deadline;
use super::exchange::{Answer, exchange};
use super::incoming::{Frame, Incoming, Stop};
use super::options::ServerOptions;
use super::pass_on::pass_on;
use super::shared::Shared;
use crate::aside::aside;
use crate::metrics::{Error, Outstanding};

/// A request at work. Dropped, it is given up.
struct AtWork<'a> {
    outstanding: Outstanding<'a>,
    task: AbortOnDropHandle<Answer>,
}

enum Event<'a> {
    Answer(Result<Answer, JoinError>),
    Frame(Result<Frame<'a>, Stop>),
    AllAnswered,
}

/// Serves a client up to `pipeline` requests at a time.
pub(crate) async fn serve_pipelined<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    arrived: Arrived<S>,
    shared: &Arc<Shared>,
) -> End {
    let mut incoming = Incoming::new(shared);
    let mut writing = Deadline::default();
    let mut queue: VecDeque<AtWork<'_>> = VecDeque::new();
    let mut long: Option<Frame<'_>> = None;
    let mut stop: Option<Stop> = None;
    loop {
        let event = poll_fn(|cx| {
            if let Some(oldest) = queue.front_mut() {
                incoming.is_waited_on();
                if let Poll::Ready(answer) = Pin::new(&mut oldest.task).poll(cx) {
                    return Poll::Ready(Event::Answer(answer));
                }
            }
            let done_reading = long.is_some() || stop.is_some();
            if done_reading && queue.is_empty() {
                return Poll::Ready(Event::AllAnswered);
            }
            if !done_reading && queue.len() < incoming.options.pipeline as usize {
                return incoming.poll_frame(stream, arrived, cx).map(Event::Frame);
            }
            Poll::Pending
        });
        match event.await {
            Event::Frame(Err(ended)) => stop = Some(ended),
            Event::Frame(Ok(frame)) if frame.length > SMALL => long = Some(frame),
            Event::Frame(Ok(frame)) => {
                let at_work = begin(shared, &mut incoming, frame);
                queue.push_back(at_work);
            }
            Event::Answer(answer) => {
                let Some(AtWork { outstanding, .. }) = queue.pop_front() else {
                    continue;
                };
                // A task that panicked has told so by itself.
                let answer = answer.unwrap_or(Answer::None(Error::BackendRead));
                let delivered = deliver(stream, shared, &incoming.options, &mut writing, answer).await;
                incoming.is_waited_on();
                match delivered {
                    Delivered::Answer => outstanding.answered(),
                    Delivered::Error(error) => outstanding.failed(error),
                    Delivered::Lost(error) => {
                        outstanding.failed(error);
                        // The client will not get the others either.
                        for AtWork { outstanding, .. } in queue {
                            outstanding.failed(Error::ClientWrite);
                        }
                        return End::Cut;
                    }
                }
            }
            Event::AllAnswered => {
                if let Some(stop) = stop {
                    return stop.into();
                }
                if let Some(frame) = long.take() {
                    if let Err(end) = aside(|| pass_on(stream, shared, &mut incoming, frame)).await {
                        return end;
                    }
                }
            }
        }
    }
}

/// Sets a request to work, and leaves what came behind it for the next.
fn begin<'a>(shared: &Arc<Shared>, incoming: &mut Incoming<'a>, frame: Frame<'a>) -> AtWork<'a> {
    let Frame {
        mut buffer,
        length,
        came,
        outstanding,
    } = frame;
    let mut request = match buffer.len() == length {
        true => buffer,
        false => {
            let request = Buffer::exactly(&buffer.bytes()[..length]);
            buffer.consume(length);
            incoming.put_back(buffer);
            request
        }
    };
    let shared = Arc::clone(shared);
    let options: Arc<ServerOptions> = Arc::clone(&incoming.options);
    let task = tokio::spawn(async move {
        let mut deadline = Deadline::default();
        exchange(&shared, &options, &mut request, length, &mut deadline, came).await
    });
    AtWork {
        outstanding,
        task: AbortOnDropHandle::new(task),
    }
}
