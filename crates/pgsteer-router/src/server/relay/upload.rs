//! A long request on its way up to its backend.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::Terms;
use super::step::{Step, Waits, poll_more};
use crate::backend::BackendIo;
use crate::metrics::Error;
use crate::server::buffer::Buffer;
use crate::server::exchange::Broken;

/// A request of which the beginning has been read.
pub(crate) struct Upload {
    /// What has been read of the frame, and at its end perhaps of what follows it.
    pub(crate) buffer: Option<Buffer>,
    /// How many bytes of the frame have not yet been written to the backend.
    pub(crate) left: usize,
    /// When all of it must have come from the client, and when the backend must have taken it.
    pub(super) client_until: Instant,
    pub(super) backend_until: Instant,
    /// Why the backend has not got all of it, or will not answer it. What is left is thrown away, so that the client can go
    /// on after it.
    pub(super) broken: Option<Broken>,
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

    /// Brings the request up as far as it goes.
    pub(super) fn poll<S: AsyncRead + Unpin>(
        &mut self,
        client: &mut S,
        backend: &mut BackendIo,
        cx: &mut Context<'_>,
    ) -> Step {
        loop {
            if self.left == 0 {
                if self.broken.is_some() {
                    return Step::Done;
                }
                return match Pin::new(&mut *backend).poll_flush(cx) {
                    Poll::Ready(Ok(())) => Step::Done,
                    Poll::Ready(Err(error)) => Step::BackendFailed(Broken::by(Error::BackendWrite, &error)),
                    Poll::Pending => Step::Waits(Waits::ForBackend),
                };
            }
            match &mut self.buffer {
                Some(buffer) if !buffer.is_empty() => {
                    let count = buffer.len().min(self.left);
                    let written = match &self.broken {
                        Some(_) => Poll::Ready(Ok(count)),
                        None => Pin::new(&mut *backend).poll_write(cx, &buffer.bytes()[..count]),
                    };
                    match written {
                        Poll::Ready(Ok(0)) => {
                            let error = io::ErrorKind::WriteZero.into();
                            return Step::BackendFailed(Broken::by(Error::BackendWrite, &error));
                        }
                        Poll::Ready(Ok(count)) => {
                            buffer.consume(count);
                            self.left -= count;
                        }
                        Poll::Ready(Err(error)) => {
                            return Step::BackendFailed(Broken::by(Error::BackendWrite, &error));
                        }
                        Poll::Pending => return Step::Waits(Waits::ForBackend),
                    }
                }
                slot => match poll_more(slot, client, cx) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Step::ClientFailed,
                    Poll::Pending => return Step::Waits(Waits::ForClient),
                },
            }
        }
    }

    /// From now on what the client still sends of the request is thrown away.
    pub(super) fn break_off(&mut self, broken: Broken, terms: Terms) {
        self.broken.get_or_insert(broken);
        // The backend may have used up the time of both.
        self.client_until = Instant::now() + terms.client.of(self.left);
    }
}
