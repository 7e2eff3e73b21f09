//! Frames too long to be held, passed on while they come in: a request up to the backend and an answer down to the client,
//! both at once, since a backend may answer before it has read everything.
//!
//! Each direction has one buffer of bounded size, and none while it waits. Nothing is read that could not be written: who
//! does not read stops the other side and nobody else.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::buffer::{Buffer, SMALL};
use super::deadline::{Allowance, Deadline};
use super::exchange::{Answer, Begun, Broken, answer_length};
use super::shared::Shared;
use crate::backend::{BackendAddress, Routed};
use crate::metrics::Error;

/// What may be asked of a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Allowance,
    pub(crate) backend: Allowance,
    pub(crate) max_frame: u32,
}

/// A request of which the beginning has been read.
pub(crate) struct Upload {
    /// What has been read of the frame, and at its end perhaps of what follows it.
    pub(crate) buffer: Option<Buffer>,
    /// How many bytes of the frame have not yet been written to the backend.
    pub(crate) left: usize,
    /// When all of it must have come from the client, and when the backend must have taken it.
    client_until: Instant,
    backend_until: Instant,
    /// Why the backend has not got all of it, or will not answer it. What is left is thrown away, so that the client can go
    /// on after it.
    broken: Option<Broken>,
}

impl Upload {
    /// A request of which `buffer` has the beginning. Its time begins with `since`, when it was given a backend.
    pub(crate) fn new(buffer: Buffer, length: usize, since: Instant, terms: Terms) -> Self {
        Upload {
            buffer: Some(buffer),
            left: length,
            client_until: since + terms.client.of(length),
            backend_until: since + terms.backend.of(length),
            broken: None,
        }
    }
}

/// The answer on its way down.
struct Download {
    buffer: Option<Buffer>,
    /// The whole frame's length, once its header is there.
    length: Option<usize>,
    /// How many bytes of it have not yet been written to the client.
    left: usize,
    /// When the backend must have sent it; unknown while the request is still on its way up.
    backend_until: Option<Instant>,
    /// When the client must have taken it; unknown until it is sent something.
    client_until: Option<Instant>,
    /// The backend is not asked any more.
    given_up: bool,
}

/// How a request that was passed on ended.
pub(crate) enum Passed {
    /// The client has got a backend's answer to its last byte.
    Answered,
    /// The answer is small, all there, and still to be written.
    Held(Answer),
    /// The client is at the beginning of its next frame and must be told of an error.
    Refused(Error),
    /// The client cannot go on.
    Lost(Error),
}

/// What one direction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    ForClient,
    ForBackend,
}

/// What polling one direction came to.
enum Step {
    Done,
    Waits(Waits),
    ClientFailed,
    BackendFailed(Broken),
}

/// A client and a backend, and what goes between them.
pub(crate) struct Relay<'a, S> {
    client: &'a mut S,
    routed: Routed,
    upload: Option<Upload>,
    download: Download,
    terms: Terms,
    since: Instant,
    /// Bytes of the client's next frame that came with this one.
    rest: Option<Buffer>,
}

/// A relay that has ended.
pub(crate) struct Ended {
    pub(crate) passed: Passed,
    pub(crate) rest: Option<Buffer>,
    /// The backend, and how long it took, if it has answered.
    took: Option<(BackendAddress, Duration)>,
}

impl Ended {
    pub(crate) fn count(&self, shared: &Shared) {
        if let Some((backend, took)) = &self.took {
            shared.backends.answered(backend, *took);
        }
    }
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Relay<'a, S> {
    /// A request that is passed on while it comes.
    pub(crate) fn of_request(
        client: &'a mut S,
        routed: Routed,
        upload: Upload,
        terms: Terms,
        since: Instant,
    ) -> Self {
        Relay {
            client,
            routed,
            upload: Some(upload),
            download: Download {
                buffer: None,
                length: None,
                left: 0,
                backend_until: None,
                client_until: None,
                given_up: false,
            },
            terms,
            since,
            rest: None,
        }
    }

    /// An answer that has begun.
    pub(crate) fn of_answer(client: &'a mut S, begun: Begun, terms: Terms) -> Self {
        let Begun {
            routed,
            buffer,
            left,
            length,
            since,
        } = begun;
        Relay {
            client,
            routed,
            upload: None,
            download: Download {
                buffer,
                length: Some(length),
                left,
                backend_until: Some(Instant::now() + terms.backend.of(length)),
                client_until: None,
                given_up: false,
            },
            terms,
            since,
            rest: None,
        }
    }

    /// Passes on until both directions are done or one cannot go on.
    ///
    /// Dropped, it leaves the client in the middle of a frame, and the backend's connection is closed.
    pub(crate) async fn run(mut self, deadline: &mut Deadline) -> Ended {
        let end = poll_fn(|cx| self.poll(deadline, cx)).await;
        deadline.clear();
        self.end(end)
    }

    fn poll(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let up = self.poll_upload(cx);
            if let Step::Done = up {
                self.upload_is_done();
            }
            let down = self.poll_download(cx);
            let (up, down) = match (up, down) {
                (Step::ClientFailed, _) => return Poll::Ready(End::Client(Error::ClientCut)),
                (_, Step::ClientFailed) => return Poll::Ready(End::Client(Error::ClientWrite)),
                (Step::BackendFailed(broken), _) => {
                    self.break_upload(broken);
                    continue;
                }
                (Step::Waits(_), Step::BackendFailed(broken)) if !self.download.passed_on() => {
                    // The client is heard out, then told.
                    let step = match self.download.begun() {
                        true => Error::BackendRead,
                        false => Error::BackendWrite,
                    };
                    self.break_upload(Broken { step, ..broken });
                    self.download.given_up = true;
                    continue;
                }
                (_, Step::BackendFailed(broken)) => return Poll::Ready(End::Backend(broken)),
                (Step::Done, Step::Done) => return Poll::Ready(End::Answered),
                (Step::Done, Step::Waits(_)) if self.none_will_come() => return Poll::Ready(End::NoAnswer),
                (Step::Done, Step::Waits(down)) => (None, Some(down)),
                (Step::Waits(up), Step::Done) => (Some(up), None),
                (Step::Waits(up), Step::Waits(down)) => (Some(up), Some(down)),
            };
            match self.poll_limits(up, down, deadline, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Ready(None) => {}
            }
        }
    }

    /// Brings the request up as far as it goes.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(upload) = &mut self.upload else {
            return Step::Done;
        };
        loop {
            if upload.left == 0 {
                if upload.broken.is_some() {
                    return Step::Done;
                }
                return match Pin::new(self.routed.io()).poll_flush(cx) {
                    Poll::Ready(Ok(())) => Step::Done,
                    Poll::Ready(Err(error)) => Step::BackendFailed(Broken::by(Error::BackendWrite, &error)),
                    Poll::Pending => Step::Waits(Waits::ForBackend),
                };
            }
            match &mut upload.buffer {
                Some(buffer) if !buffer.is_empty() => {
                    let count = buffer.len().min(upload.left);
                    let written = match &upload.broken {
                        Some(_) => Poll::Ready(Ok(count)),
                        None => Pin::new(self.routed.io()).poll_write(cx, &buffer.bytes()[..count]),
                    };
                    match written {
                        Poll::Ready(Ok(0)) => {
                            let error = io::ErrorKind::WriteZero.into();
                            return Step::BackendFailed(Broken::by(Error::BackendWrite, &error));
                        }
                        Poll::Ready(Ok(count)) => {
                            buffer.consume(count);
                            upload.left -= count;
                        }
                        Poll::Ready(Err(error)) => {
                            return Step::BackendFailed(Broken::by(Error::BackendWrite, &error));
                        }
                        Poll::Pending => return Step::Waits(Waits::ForBackend),
                    }
                }
                slot => match poll_more(slot, self.client, cx) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Step::ClientFailed,
                    Poll::Pending => return Step::Waits(Waits::ForClient),
                },
            }
        }
    }

    /// Brings the answer down as far as it goes. A small one is only brought here.
    fn poll_download(&mut self, cx: &mut Context<'_>) -> Step {
        if self.download.given_up {
            return Step::Waits(Waits::ForBackend);
        }
        loop {
            if self.download.length.is_none() {
                match answer_length(self.download.buffer.as_ref(), self.terms.max_frame) {
                    Ok(Some(length)) => {
                        self.download.length = Some(length);
                        self.download.left = length;
                        if let Some(until) = &mut self.download.backend_until {
                            *until = Instant::now() + self.terms.backend.of(length);
                        }
                    }
                    Ok(None) => {}
                    Err(broken) => return Step::BackendFailed(broken),
                }
            }
            let there = self.download.buffer.as_ref().map_or(0, Buffer::len);
            match self.download.length {
                Some(length) if length <= SMALL && there >= length => return Step::Done,
                Some(length) if length > SMALL && self.download.left == 0 => {
                    return match Pin::new(&mut *self.client).poll_flush(cx) {
                        Poll::Ready(Ok(())) => Step::Done,
                        Poll::Ready(Err(_)) => Step::ClientFailed,
                        Poll::Pending => Step::Waits(Waits::ForClient),
                    };
                }
                Some(length) if length > SMALL && there > 0 => match self.poll_pass_down(length, cx) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(_)) => return Step::ClientFailed,
                    Poll::Pending => return Step::Waits(Waits::ForClient),
                },
                _ => {}
            }
            match poll_more(&mut self.download.buffer, self.routed.io(), cx) {
                Poll::Ready(Ok(0)) => {
                    let inside = self.download.buffer.is_some() || self.download.length.is_some();
                    return Step::BackendFailed(Broken::ended(inside));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => {
                    return Step::BackendFailed(Broken::by(Error::BackendRead, &error));
                }
                Poll::Pending => return Step::Waits(Waits::ForBackend),
            }
        }
    }

    /// Writes to the client what there is of the answer, once.
    fn poll_pass_down(&mut self, length: usize, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let download = &mut self.download;
        let Some(buffer) = &mut download.buffer else {
            return Poll::Ready(Ok(()));
        };
        if download.client_until.is_none() {
            download.client_until = Some(Instant::now() + self.terms.client.of(length));
        }
        let count = buffer.len().min(download.left);
        match Pin::new(&mut *self.client).poll_write(cx, &buffer.bytes()[..count]) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                buffer.consume(count);
                download.left -= count;
                if buffer.is_empty() {
                    download.buffer = None;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// The soonest limit of those that are waited under. Once it has passed: how that ends everything, or `None` if the
    /// relay goes on without the backend.
    fn poll_limits(
        &mut self,
        up: Option<Waits>,
        down: Option<Waits>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Option<End>> {
        let up_until = up.zip(self.upload.as_ref()).map(|(waits, upload)| match waits {
            Waits::ForClient => upload.client_until,
            Waits::ForBackend => upload.backend_until,
        });
        let down_until = down.and_then(|waits| match waits {
            Waits::ForClient => self.download.client_until,
            Waits::ForBackend => self.download.backend_until,
        });
        let Some(until) = up_until.into_iter().chain(down_until).min() else {
            return Poll::Pending;
        };
        deadline.set(until);
        if deadline.poll_passed(cx).is_pending() {
            return Poll::Pending;
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long");
        let end = match (up_until == Some(until), up, down) {
            (true, Some(Waits::ForClient), _) => End::Client(Error::ClientSlow),
            (true, Some(Waits::ForBackend), _) => {
                self.break_upload(Broken::by(Error::BackendWrite, &late()));
                return Poll::Ready(None);
            }
            (_, _, Some(Waits::ForClient)) => End::Client(Error::ClientWrite),
            _ => End::Backend(Broken::by(Error::BackendRead, &late())),
        };
        Poll::Ready(Some(end))
    }

    /// From now on what the client still sends of the request is thrown away.
    fn break_upload(&mut self, broken: Broken) {
        if let Some(upload) = &mut self.upload {
            upload.broken.get_or_insert(broken);
            // The backend may have used up the time of both.
            upload.client_until = Instant::now() + self.terms.client.of(upload.left);
        }
    }

    /// The backend did not take the request, or did not answer it, and has ended or shows no sign of an answer.
    fn none_will_come(&self) -> bool {
        let broken = self.upload.as_ref().is_some_and(|upload| upload.broken.is_some());
        broken && (self.download.given_up || !self.download.begun())
    }

    /// All of the request has gone up, or has been thrown away: from now on the backend owes an answer.
    fn upload_is_done(&mut self) {
        if self.download.backend_until.is_some() {
            return;
        }
        let length = self.download.length.unwrap_or(0);
        self.download.backend_until = Some(Instant::now() + self.terms.backend.of(length));
    }
}

impl Download {
    /// A byte of the answer has come.
    fn begun(&self) -> bool {
        self.length.is_some() || self.buffer.is_some()
    }

    /// A byte of the answer has gone down to the client.
    fn passed_on(&self) -> bool {
        self.length.is_some_and(|length| self.left < length)
    }
}

/// What a relay ended with.
enum End {
    Answered,
    NoAnswer,
    Client(Error),
    Backend(Broken),
}

impl<S> Relay<'_, S> {
    /// Says of the backend how it went, and of the client where it stands.
    fn end(mut self, end: End) -> Ended {
        let mut upload = self.upload.take();
        let broken = upload.as_mut().and_then(|upload| upload.broken.take());
        self.rest = upload
            .and_then(|upload| upload.buffer)
            .filter(|rest| !rest.is_empty());
        let passed_on = self.download.passed_on();
        let mut took = None;
        let passed = match end {
            End::Answered => {
                took = Some((self.routed.address().clone(), self.since.elapsed()));
                let length = self.download.length.unwrap_or(0);
                let there = self.download.buffer.as_ref().map_or(0, Buffer::len);
                let held = length <= SMALL;
                let too_much = if held { there > length } else { there > 0 };
                match broken {
                    // It has answered without hearing it all. Its connection is good for nothing more.
                    Some(_) => drop(self.routed),
                    None if too_much => self.routed.failed(&"more than one answer came to one request"),
                    None => self.routed.answered(),
                }
                match self.download.buffer {
                    Some(mut buffer) if held => {
                        buffer.truncate(length);
                        Passed::Held(Answer::Whole(buffer))
                    }
                    _ => Passed::Answered,
                }
            }
            End::NoAnswer => {
                let step = broken.as_ref().map_or(Error::BackendRead, |broken| broken.step);
                if let Some(broken) = broken {
                    self.routed.failed(&broken.why);
                }
                Passed::Refused(step)
            }
            End::Client(error) => {
                // The backend may have failed as well; what the client did comes first, and the connection is closed.
                drop(self.routed);
                Passed::Lost(error)
            }
            End::Backend(now) => {
                let first = broken.unwrap_or(now);
                self.routed.failed(&first.why);
                match passed_on {
                    true => Passed::Lost(Error::AnswerCut),
                    false => Passed::Refused(first.step),
                }
            }
        };
        Ended {
            passed,
            rest: self.rest,
            took,
        }
    }
}

/// Reads once; a long buffer is taken only if bytes come.
fn poll_more<R: AsyncRead + Unpin>(
    slot: &mut Option<Buffer>,
    io: &mut R,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut buffer = match slot.take() {
        Some(buffer) if !buffer.is_empty() => buffer,
        _ => Buffer::large(),
    };
    let polled = buffer.poll_read(io, cx);
    if !buffer.is_empty() {
        *slot = Some(buffer);
    }
    polled
}
