//! Frames too long to be held, passed on while they come in: a request up to the backend and an answer down to the client,
//! both at once, since a backend may answer before it has read everything.
//!
//! Each direction has one buffer of bounded size, and none while it waits. Nothing is read that could not be written: who
//! does not read stops the other side and nobody else.

mod download;
mod step;
mod upload;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::buffer::{Buffer, SMALL};
use super::deadline::{Allowance, Deadline};
use super::exchange::{Answer, Begun, Broken};
use super::shared::Shared;
use crate::backend::{BackendAddress, Routed};
use crate::metrics::Error;
use download::Download;
use step::{Step, Waits};

pub(crate) use upload::Upload;

/// What may be asked of a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Allowance,
    pub(crate) backend: Allowance,
    pub(crate) max_frame: u32,
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
            download: Download::unbegun(),
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
                ..Download::unbegun()
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
            let backend = self.routed.io();
            let up = match &mut self.upload {
                Some(upload) => upload.poll(self.client, backend, cx),
                None => Step::Done,
            };
            if let Step::Done = up {
                self.upload_is_done();
            }
            let backend = self.routed.io();
            let down = self.download.poll(self.client, backend, self.terms, cx);
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

    fn break_upload(&mut self, broken: Broken) {
        if let Some(upload) = &mut self.upload {
            upload.break_off(broken, self.terms);
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
