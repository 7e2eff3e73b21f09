//! The wire format: four bytes, big-endian, that say how long the payload is, then the payload.
//!
//! The length counts the payload alone. Zero is legal, and is what a health check sends and expects back. A payload is never
//! looked into. What is announced to be longer than the limit is refused by its header, before a byte of it is read or room
//! is made for it; room grows with what has arrived, so that a header alone costs nobody memory.

mod codec;
mod error;

pub use codec::FrameCodec;
pub use error::FrameError;

/// The bytes before each payload.
pub const HEADER_LEN: usize = 4;

/// The longest payload that is taken unless said otherwise, in bytes: 16 MiB.
pub const DEFAULT_MAX_FRAME: u32 = 16 * 1024 * 1024;

/// What a header announces: the length of the payload in bytes. `limit` is the longest that is taken.
///
/// # Errors
///
/// [`FrameError::TooLong`] for a payload longer than `limit`.
pub fn parse_header(header: [u8; HEADER_LEN], limit: u32) -> Result<usize, FrameError> {
    let announced = u32::from_be_bytes(header);
    if announced > limit {
        return Err(FrameError::TooLong {
            length: u64::from(announced),
            limit,
        });
    }
    Ok(announced as usize)
}

/// The header of a payload of `length` bytes. `limit` is the longest that may be sent.
///
/// # Errors
///
/// [`FrameError::TooLong`] for a payload longer than `limit`.
pub fn header(length: usize, limit: u32) -> Result<[u8; HEADER_LEN], FrameError> {
    match u32::try_from(length) {
        Ok(short) if short <= limit => Ok(short.to_be_bytes()),
        _ => Err(FrameError::TooLong {
            length: length as u64,
            limit,
        }),
    }
}

/// The first frame of `bytes`: its payload, and how many bytes it took, header included. What follows it is left alone.
///
/// # Errors
///
/// [`FrameError::TooLong`] for a header that announces more than `limit`, and [`FrameError::Cut`] if the frame is not there
/// to its end, as when there is nothing at all.
pub fn parse(bytes: &[u8], limit: u32) -> Result<(&[u8], usize), FrameError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(FrameError::cut(bytes.len(), None));
    };
    let length = parse_header(*header, limit)?;
    match rest.get(..length) {
        Some(payload) => Ok((payload, HEADER_LEN + length)),
        None => Err(FrameError::cut(bytes.len(), Some(length))),
    }
}
