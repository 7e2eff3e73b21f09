//! A long answer on its way down to its client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::Terms;
use super::step::{Step, Waits, poll_more};
use crate::backend::BackendIo;
use crate::metrics::Error;
use crate::server::buffer::{Buffer, SMALL};
use crate::server::exchange::{Broken, answer_length};

/// The answer on its way down.
pub(super) struct Download {
    pub(super) buffer: Option<Buffer>,
    /// The whole frame's length, once its header is there.
    pub(super) length: Option<usize>,
    /// How many bytes of it have not yet been written to the client.
    pub(super) left: usize,
    /// When the backend must have sent it; unknown while the request is still on its way up.
    pub(super) backend_until: Option<Instant>,
    /// When the client must have taken it; unknown until it is sent something.
    pub(super) client_until: Option<Instant>,
    /// The backend is not asked any more.
    pub(super) given_up: bool,
}

impl Download {
    /// Nothing of it has come.
    pub(super) fn unbegun() -> Self {
        Download {
            buffer: None,
            length: None,
            left: 0,
            backend_until: None,
            client_until: None,
            given_up: false,
        }
    }

    /// A byte of the answer has come.
    pub(super) fn begun(&self) -> bool {
        self.length.is_some() || self.buffer.is_some()
    }

    /// A byte of the answer has gone down to the client.
    pub(super) fn passed_on(&self) -> bool {
        self.length.is_some_and(|length| self.left < length)
    }

    /// Brings the answer down as far as it goes. A small one is only brought here.
    pub(super) fn poll<S: AsyncWrite + Unpin>(
        &mut self,
        client: &mut S,
        backend: &mut BackendIo,
        terms: Terms,
        cx: &mut Context<'_>,
    ) -> Step {
        if self.given_up {
            return Step::Waits(Waits::ForBackend);
        }
        loop {
            if self.length.is_none() {
                match answer_length(self.buffer.as_ref(), terms.max_frame) {
                    Ok(Some(length)) => {
                        self.length = Some(length);
                        self.left = length;
                        if let Some(until) = &mut self.backend_until {
                            *until = Instant::now() + terms.backend.of(length);
                        }
                    }
                    Ok(None) => {}
                    Err(broken) => return Step::BackendFailed(broken),
                }
            }
            let there = self.buffer.as_ref().map_or(0, Buffer::len);
            match self.length {
                Some(length) if length <= SMALL && there >= length => return Step::Done,
                Some(length) if length > SMALL && self.left == 0 => {
                    return match Pin::new(&mut *client).poll_flush(cx) {
                        Poll::Ready(Ok(())) => Step::Done,
                        Poll::Ready(Err(_)) => Step::ClientFailed,
                        Poll::Pending => Step::Waits(Waits::ForClient),
                    };
                }
                Some(length) if length > SMALL && there > 0 => {
                    match self.poll_pass_down(length, client, terms, cx) {
                        Poll::Ready(Ok(())) => continue,
                        Poll::Ready(Err(_)) => return Step::ClientFailed,
                        Poll::Pending => return Step::Waits(Waits::ForClient),
                    }
                }
                _ => {}
            }
            match poll_more(&mut self.buffer, backend, cx) {
                Poll::Ready(Ok(0)) => {
                    let inside = self.buffer.is_some() || self.length.is_some();
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
    fn poll_pass_down<S: AsyncWrite + Unpin>(
        &mut self,
        length: usize,
        client: &mut S,
        terms: Terms,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(buffer) = &mut self.buffer else {
            return Poll::Ready(Ok(()));
        };
        if self.client_until.is_none() {
            self.client_until = Some(Instant::now() + terms.client.of(length));
        }
        let count = buffer.len().min(self.left);
        match Pin::new(&mut *client).poll_write(cx, &buffer.bytes()[..count]) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                buffer.consume(count);
                self.left -= count;
                if buffer.is_empty() {
                    self.buffer = None;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}
