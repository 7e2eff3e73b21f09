//! What one direction of a relay comes to when it is polled.

use std::io;
use std::task::{Context, Poll};

use tokio::io::AsyncRead;

use crate::server::buffer::Buffer;
use crate::server::exchange::Broken;

/// What one direction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    ForClient,
    ForBackend,
}

/// What polling one direction came to.
pub(super) enum Step {
    Done,
    Waits(Waits),
    ClientFailed,
    BackendFailed(Broken),
}

/// Reads once; a long buffer is taken only if bytes come.
pub(super) fn poll_more<R: AsyncRead + Unpin>(
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
