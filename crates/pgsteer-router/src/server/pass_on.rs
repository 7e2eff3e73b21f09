//! A request too long to be held, from the borrow to the answer.

use std::future::poll_fn;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::buffer::{Buffer, poll_fill};
use super::client::{Delivered, End, deliver};
use super::exchange::{Answer, borrow};
use super::incoming::{Frame, Incoming};
use super::relay::{Passed, Relay, Upload};
use super::shared::Shared;
use crate::metrics::Error;

/// Passes a request on while it comes, and its answer back. It cannot be sent again, since nobody has all of it.
pub(crate) async fn pass_on<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    shared: &Shared,
    incoming: &mut Incoming<'_>,
    frame: Frame<'_>,
) -> Result<(), End> {
    let Frame {
        buffer,
        length,
        came,
        outstanding,
    } = frame;
    let terms = incoming.options.terms();
    let answer = match borrow(shared, None, false, came).await {
        Err(error) => {
            shared.unavailable.tell(&error);
            let until = Instant::now() + terms.client.of(length);
            match throw_away(stream, incoming, buffer, length, until).await {
                Ok(()) => Answer::None(Error::Unavailable),
                Err(error) => {
                    outstanding.failed(error);
                    return Err(End::after(error));
                }
            }
        }
        Ok((routed, since)) => {
            let upload = Upload::new(buffer, length, since, terms);
            let relay = Relay::of_request(stream, routed, upload, terms, since);
            let ended = relay.run(&mut incoming.deadline).await;
            ended.count(shared);
            if let Some(rest) = ended.rest {
                incoming.put_back(rest);
            }
            match ended.passed {
                Passed::Answered => {
                    outstanding.answered();
                    return Ok(());
                }
                Passed::Held(answer) => answer,
                Passed::Refused(error) => Answer::None(error),
                Passed::Lost(error) => {
                    outstanding.failed(error);
                    return Err(End::after(error));
                }
            }
        }
    };
    match deliver(stream, shared, &incoming.options, &mut incoming.deadline, answer).await {
        Delivered::Answer => outstanding.answered(),
        Delivered::Error(error) => outstanding.failed(error),
        Delivered::Lost(error) => {
            outstanding.failed(error);
            return Err(End::Cut);
        }
    }
    Ok(())
}

/// Hears a request out that will not be sent, so that the client can go on after it.
async fn throw_away<S: AsyncRead + Unpin>(
    stream: &mut S,
    incoming: &mut Incoming<'_>,
    begun: Buffer,
    length: usize,
    until: Instant,
) -> Result<(), Error> {
    let mut left = length;
    let mut slot = Some(begun);
    incoming.deadline.set(until);
    let thrown = poll_fn(|cx| {
        loop {
            if let Some(buffer) = &mut slot {
                let count = buffer.len().min(left);
                buffer.consume(count);
                left -= count;
                if left == 0 {
                    return Poll::Ready(Ok(()));
                }
                slot = None;
            }
            match poll_fill(&mut slot, stream, cx) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(Error::ClientCut)),
                Poll::Pending => {
                    let passed = incoming.deadline.poll_passed(cx);
                    return passed.map(|()| Err(Error::ClientSlow));
                }
            }
        }
    })
    .await;
    incoming.deadline.clear();
    thrown?;
    if let Some(rest) = slot {
        incoming.put_back(rest);
    }
    Ok(())
}
