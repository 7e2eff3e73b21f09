//! Buffers that are taken when bytes are there and given back when they have gone, so that whoever waits holds none.
//!
//! Each thread keeps a few for the next who needs one. They are zeroed once, when they are made, and never again.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Frames up to this length, header included, are held whole; the longest are streamed.
pub(crate) const SMALL: usize = 16 * 1024;

/// What a frame that is streamed goes through, in each direction.
pub(crate) const LARGE: usize = 64 * 1024;

/// How many of each a thread keeps: 4 MiB and 1 MiB.
const KEPT_SMALL: usize = 256;
const KEPT_LARGE: usize = 16;

struct Kept {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { small: Vec::new(), large: Vec::new() }) };
}

/// Bytes that have been read and not yet written, and room for more behind them.
#[derive(Debug)]
pub(crate) struct Buffer {
    storage: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn small() -> Self {
        let kept = KEPT.try_with(|kept| kept.borrow_mut().small.pop());
        Buffer::over(kept.ok().flatten(), SMALL)
    }

    pub(crate) fn large() -> Self {
        let kept = KEPT.try_with(|kept| kept.borrow_mut().large.pop());
        Buffer::over(kept.ok().flatten(), LARGE)
    }

    fn over(storage: Option<Box<[u8]>>, size: usize) -> Self {
        Buffer {
            storage: storage.unwrap_or_else(|| vec![0; size].into_boxed_slice()),
            start: 0,
            end: 0,
        }
    }

    /// One that holds these bytes and has no room behind them.
    pub(crate) fn exactly(bytes: &[u8]) -> Self {
        Buffer {
            end: bytes.len(),
            storage: bytes.into(),
            start: 0,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes `count` bytes off the front, or all there are.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Forgets what comes behind the first `count` bytes.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.end = self.end.min(self.start + count);
    }

    /// Makes the room behind the bytes as long as it can be: at least `SMALL` altogether.
    fn make_room(&mut self) {
        if self.storage.len() < SMALL {
            let mut roomier = Buffer::small();
            roomier.put(self.bytes());
            *self = roomier;
        } else if self.start > 0 && self.end == self.storage.len() {
            self.storage.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Copies as many of the bytes behind the others as there is room for.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.storage.len() - self.end);
        self.storage[self.end..self.end + count].copy_from_slice(&bytes[..count]);
        self.end += count;
        count
    }

    /// Lets go of room that is not needed while the bytes have to wait.
    pub(crate) fn shrink(&mut self) {
        if self.len() <= SMALL / 4 && self.storage.len() >= SMALL {
            *self = Buffer::exactly(self.bytes());
        }
    }

    /// Reads once, behind the bytes that are there. `Ok(0)` is the end of the stream, or that there is no room.
    pub(crate) fn poll_read<R: AsyncRead + Unpin>(
        &mut self,
        io: &mut R,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.storage[self.end..]);
        let polled = Pin::new(io).poll_read(cx, &mut room);
        let count = room.filled().len();
        self.end += count;
        polled.map_ok(|()| count)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let storage = std::mem::take(&mut self.storage);
        // A thread that ends keeps nothing.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            match storage.len() {
                SMALL if kept.small.len() < KEPT_SMALL => kept.small.push(storage),
                LARGE if kept.large.len() < KEPT_LARGE => kept.large.push(storage),
                _ => {}
            }
        });
    }
}

/// Reads once into the buffer in `slot`. Where there is none, one is taken only if bytes come.
pub(crate) fn poll_fill<R: AsyncRead + Unpin>(
    slot: &mut Option<Buffer>,
    io: &mut R,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut buffer = slot.take().unwrap_or_else(Buffer::small);
    let polled = buffer.poll_read(io, cx);
    if !buffer.is_empty() {
        *slot = Some(buffer);
    }
    polled
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;

    use super::{Buffer, SMALL, poll_fill};

    #[tokio::test]
    async fn whoever_waits_for_bytes_holds_no_buffer() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut slot = None;

        let waiting = poll_fn(|cx| std::task::Poll::Ready(poll_fill(&mut slot, &mut near, cx).is_pending()));
        assert!(waiting.await);
        assert!(slot.is_none());

        far.write_all(b"abc").await.unwrap();
        let count = poll_fn(|cx| poll_fill(&mut slot, &mut near, cx)).await.unwrap();

        assert_eq!(count, 3);
        assert_eq!(slot.unwrap().bytes(), b"abc");
    }

    #[tokio::test]
    async fn bytes_behind_a_consumed_part_stay_in_order_when_room_is_made() {
        let (mut near, mut far) = tokio::io::duplex(2 * SMALL);
        let first: Vec<u8> = (0..SMALL).map(|n| (n % 251) as u8).collect();
        far.write_all(&first).await.unwrap();
        far.write_all(b"end").await.unwrap();
        let mut buffer = Buffer::small();
        poll_fn(|cx| buffer.poll_read(&mut near, cx)).await.unwrap();

        buffer.consume(SMALL - 2);
        poll_fn(|cx| buffer.poll_read(&mut near, cx)).await.unwrap();

        let mut expected = first[SMALL - 2..].to_vec();
        expected.extend_from_slice(b"end");
        assert_eq!(buffer.bytes(), expected);
    }

    #[tokio::test]
    async fn a_shrunk_buffer_keeps_its_bytes_and_takes_more() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut buffer = Buffer::small();
        buffer.put(b"abcdef");
        buffer.consume(2);

        buffer.shrink();
        assert_eq!(buffer.storage.len(), 4);
        far.write_all(b"gh").await.unwrap();
        poll_fn(|cx| buffer.poll_read(&mut near, cx)).await.unwrap();

        assert_eq!(buffer.bytes(), b"cdefgh");
    }

    #[test]
    fn a_buffer_that_was_used_before_starts_empty() {
        let mut used = Buffer::small();
        used.put(b"secret");
        drop(used);

        assert!(Buffer::small().is_empty());
    }
}
