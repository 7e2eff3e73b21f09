//! What comes from a client: where a frame begins, how long it is, and whether there will be another.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::arrived::Arrived;
use super::buffer::{Buffer, SMALL, poll_fill};
use super::deadline::Deadline;
use super::options::ServerOptions;
use super::phase::Phase;
use super::shared::Shared;
use crate::frame::{HEADER_LEN, parse_header};
use crate::metrics::{Error, Outstanding};

/// A request that has come: all of it if it is small, else its beginning.
pub(crate) struct Frame<'a> {
    /// Begins with the frame; what follows it may have come with it.
    pub(crate) buffer: Buffer,
    /// The whole frame's length, header included.
    pub(crate) length: usize,
    /// When it was there.
    pub(crate) came: Instant,
    pub(crate) outstanding: Outstanding<'a>,
}

/// A request of which a byte has come.
struct Begun<'a> {
    at: Instant,
    /// It did not come in one piece.
    waited: bool,
    outstanding: Outstanding<'a>,
}

/// Why there is no further request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The client has ended between two requests.
    Clean,
    /// The router is draining, or the client was idle for too long.
    Ours,
    /// The client is in the middle of a request that cannot go on.
    Inside(Error),
}

/// How often a drain lets the system be asked whether something has come, before an idle client is ended.
const LAST_LOOKS: u8 = 2;

/// A client's requests.
pub(crate) struct Incoming<'a> {
    shared: &'a Shared,
    pub(crate) options: Arc<ServerOptions>,
    pub(crate) deadline: Deadline,
    inbox: Option<Buffer>,
    begun: Option<Begun<'a>>,
    /// When the client will have been idle for too long, or a drain has waited long enough for its first request.
    idle_until: Option<Instant>,
    /// A request has come before.
    asked: bool,
    last_looks: u8,
    /// In a drain: how many bytes of requests that had come when it began are still to be taken. A request that begins
    /// behind them is not.
    had_come: Option<usize>,
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Incoming {
            shared,
            options: shared.options.load_full(),
            deadline: Deadline::default(),
            inbox: None,
            begun: None,
            idle_until: None,
            asked: false,
            last_looks: 0,
            had_come: None,
        }
    }

    /// Bytes behind the last request, which begin the next.
    pub(crate) fn put_back(&mut self, rest: Buffer) {
        if !rest.is_empty() {
            self.inbox = Some(rest);
        }
    }

    /// The client has a request at work: however long it says nothing meanwhile, it is not idle.
    pub(crate) fn is_waited_on(&mut self) {
        self.idle_until = None;
    }

    /// The next request, as soon as enough of it is there. Nothing is lost by not asking to the end.
    pub(crate) fn poll_frame<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        arrived: Arrived<S>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Frame<'a>, Stop>> {
        loop {
            let mut length = None;
            if self.begun.is_none() && self.had_come == Some(0) {
                return Poll::Ready(Err(Stop::Ours));
            }
            if self.inbox.is_none() {
                if self.is_over() {
                    return Poll::Ready(Err(Stop::Ours));
                }
            } else if self.begun.is_none() {
                self.begin();
            }
            let inbox = self.inbox.as_ref().map_or(&[][..], Buffer::bytes);
            if self.asked && self.had_come.is_none() && self.shared.clients.phase() != Phase::Serving {
                // At least one request, for the last looks may have found it.
                self.had_come = Some(arrived(stream).saturating_add(inbox.len()).max(1));
            }
            if let Some(header) = inbox.first_chunk::<HEADER_LEN>() {
                match parse_header(*header, self.options.max_frame) {
                    Ok(payload) => length = Some(HEADER_LEN + payload),
                    Err(_) => return self.ends_inside(Error::ClientTooLong),
                }
            }
            if let Some(length) = length {
                if length > SMALL || self.inbox.as_ref().is_some_and(|inbox| inbox.len() >= length) {
                    if let (Some(buffer), Some(begun)) = (self.inbox.take(), self.begun.take()) {
                        self.deadline.clear();
                        if let Some(had_come) = &mut self.had_come {
                            *had_come = had_come.saturating_sub(length);
                        }
                        let came = match begun.waited {
                            false => begun.at,
                            true => Instant::now(),
                        };
                        return Poll::Ready(Ok(Frame {
                            buffer,
                            length,
                            came,
                            outstanding: begun.outstanding,
                        }));
                    }
                }
            }
            match poll_fill(&mut self.inbox, stream, cx) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                // Between two requests it makes no difference how a client goes.
                Poll::Ready(_) if self.begun.is_none() => return Poll::Ready(Err(Stop::Clean)),
                Poll::Ready(_) => return self.ends_inside(Error::ClientCut),
                Poll::Pending => return self.poll_wait(length, cx),
            }
        }
    }

    /// The first byte of a request has come. From now on what the router was last told counts.
    fn begin(&mut self) {
        self.begun = Some(Begun {
            at: Instant::now(),
            waited: false,
            outstanding: self.shared.metrics.begin(),
        });
        self.idle_until = None;
        self.asked = true;
        let newest = self.shared.options.load();
        if !Arc::ptr_eq(&newest, &self.options) {
            self.options = Arc::clone(&newest);
        }
    }

    fn ends_inside(&mut self, error: Error) -> Poll<Result<Frame<'a>, Stop>> {
        if let Some(begun) = self.begun.take() {
            begun.outstanding.failed(error);
        }
        Poll::Ready(Err(Stop::Inside(error)))
    }

    /// Nothing has come. Whether to wait on.
    fn poll_wait(&mut self, length: Option<usize>, cx: &mut Context<'_>) -> Poll<Result<Frame<'a>, Stop>> {
        if let Some(begun) = &mut self.begun {
            begun.waited = true;
            let allowed = self.options.client().of(length.unwrap_or(0));
            self.deadline.set(begun.at + allowed);
            if self.deadline.poll_passed(cx).is_ready() {
                return self.ends_inside(Error::ClientSlow);
            }
            return Poll::Pending;
        }
        let wait = match self.shared.clients.phase() {
            Phase::Serving => self.options.client_idle_timeout,
            _ if self.asked => {
                // What the system has taken for us before the drain counts as accepted; this wakes us when it was asked.
                self.last_looks += 1;
                let _ = pin!(tokio::task::yield_now()).poll(cx);
                return Poll::Pending;
            }
            _ if self.last_looks == 0 => {
                self.last_looks = LAST_LOOKS;
                self.idle_until = None;
                Some(self.options.first_request_wait)
            }
            _ => Some(self.options.first_request_wait),
        };
        match wait {
            None => self.deadline.clear(),
            Some(wait) => {
                let until = *self.idle_until.get_or_insert_with(|| Instant::now() + wait);
                self.deadline.set(until);
                if self.deadline.poll_passed(cx).is_ready() {
                    return Poll::Ready(Err(Stop::Ours));
                }
            }
        }
        Poll::Pending
    }

    /// There is a drain, nothing of a further request has come, and it has been waited for long enough.
    fn is_over(&self) -> bool {
        self.asked && self.last_looks >= LAST_LOOKS && self.shared.clients.phase() != Phase::Serving
    }
}
