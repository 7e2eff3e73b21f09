//! Whole frames from and to a stream, for those that need no more than that.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::{DEFAULT_MAX_FRAME, FrameError, HEADER_LEN, header, parse_header};

/// How much room is made beyond what has arrived. A buffer so is never more than twice, and this much, of what a peer has
/// really sent.
const ROOM: usize = 64 * 1024;

/// Reads and writes whole frames; an item is a payload.
///
/// It keeps nothing between calls: a frame's bytes stay in the buffer until the last has come, so a failure takes none.
/// The stream's end between two frames is an ordinary end; inside one it is [`FrameError::Cut`].
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    limit: u32,
}

impl FrameCodec {
    /// A codec that takes and sends payloads of up to `limit` bytes.
    pub fn new(limit: u32) -> Self {
        FrameCodec { limit }
    }

    /// The longest payload that is taken and sent, in bytes.
    pub fn limit(&self) -> u32 {
        self.limit
    }
}

impl Default for FrameCodec {
    /// With [`DEFAULT_MAX_FRAME`].
    fn default() -> Self {
        FrameCodec::new(DEFAULT_MAX_FRAME)
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(header) = buffer.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let length = parse_header(*header, self.limit)?;
        let missing = (HEADER_LEN + length).saturating_sub(buffer.len());
        if missing > 0 {
            buffer.reserve(missing.min(ROOM));
            return Ok(None);
        }
        buffer.advance(HEADER_LEN);
        Ok(Some(buffer.split_to(length).freeze()))
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        match self.decode(buffer)? {
            Some(payload) => Ok(Some(payload)),
            None if buffer.is_empty() => Ok(None),
            None => {
                let announced = buffer.first_chunk::<HEADER_LEN>().copied();
                let announced = announced.map(|header| u32::from_be_bytes(header) as usize);
                Err(FrameError::cut(buffer.len(), announced))
            }
        }
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, payload: Bytes, buffer: &mut BytesMut) -> Result<(), FrameError> {
        let header = header(payload.len(), self.limit)?;
        buffer.reserve(HEADER_LEN + payload.len());
        buffer.put_slice(&header);
        buffer.put_slice(&payload);
        Ok(())
    }
}
