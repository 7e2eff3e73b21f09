//! What must hold of the router's frames, whatever the bytes. Used by the fuzz target and by an ordinary test.

use bytes::{Bytes, BytesMut};
use pgsteer_router::frame::{FrameCodec, FrameError, HEADER_LEN, header, parse};
use tokio_util::codec::{Decoder, Encoder};

/// Short enough that random headers fall on both sides of it.
const LIMIT: u32 = 64 * 1024;

/// How a stream of frames ends.
#[derive(Debug, PartialEq)]
enum End {
    Clean,
    TooLong,
    Cut,
}

impl End {
    fn of(error: &FrameError) -> Self {
        match error {
            FrameError::TooLong { .. } => End::TooLong,
            FrameError::Cut { .. } => End::Cut,
            other => panic!("nothing else can be wrong with bytes at hand: {other}"),
        }
    }
}

/// The first byte decides how the rest, a stream, is cut into reads.
pub(crate) fn check(input: &[u8]) {
    let Some((cut, stream)) = input.split_first() else {
        return;
    };
    first_frame(stream);
    let whole = parsed(stream);
    let reads = [usize::MAX, 1, usize::from(*cut).max(2)];
    for most in reads {
        let same = decoded(stream, |left| left.min(most));
        assert_eq!(same, whole, "in reads of {most}");
    }
    // Reads of ever other lengths.
    let mut state = u32::from(*cut);
    let odd = decoded(stream, |left| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (1 + (state >> 16) as usize % 97).min(left)
    });
    assert_eq!(odd, whole, "in odd reads");
}

/// Nothing is consumed of what is no frame, and a frame is what its payload encodes to.
fn first_frame(stream: &[u8]) {
    match parse(stream, LIMIT) {
        Ok((payload, used)) => {
            assert_eq!(used, HEADER_LEN + payload.len());
            let head = header(payload.len(), LIMIT).expect("what is taken is sent");
            assert_eq!([&head, payload].concat(), stream[..used]);
            let mut encoded = BytesMut::new();
            FrameCodec::new(LIMIT)
                .encode(Bytes::copy_from_slice(payload), &mut encoded)
                .expect("what is taken is sent");
            assert_eq!(encoded, stream[..used]);
            assert_eq!(parse(&encoded, LIMIT).expect("it is a frame"), (payload, used));
        }
        Err(error) => {
            let again = parse(stream, LIMIT).expect_err("it is the same");
            assert_eq!(error.to_string(), again.to_string());
            let announced = stream.first_chunk().map(|header| u32::from_be_bytes(*header));
            let too_long = announced.is_some_and(|length| length > LIMIT);
            assert_eq!(matches!(error, FrameError::TooLong { .. }), too_long, "{error}");
        }
    }
}

/// Everything in the stream, one frame after the other.
fn parsed(mut stream: &[u8]) -> (Vec<Bytes>, End) {
    let mut payloads = Vec::new();
    while !stream.is_empty() {
        match parse(stream, LIMIT) {
            Ok((payload, used)) => {
                payloads.push(Bytes::copy_from_slice(payload));
                stream = &stream[used..];
            }
            Err(error) => return (payloads, End::of(&error)),
        }
    }
    (payloads, End::Clean)
}

/// The same by the codec, from reads of these lengths.
fn decoded(mut stream: &[u8], mut length: impl FnMut(usize) -> usize) -> (Vec<Bytes>, End) {
    let (mut codec, mut buffer, mut payloads) = (FrameCodec::new(LIMIT), BytesMut::new(), Vec::new());
    while !stream.is_empty() {
        let (read, rest) = stream.split_at(length(stream.len()));
        stream = rest;
        buffer.extend_from_slice(read);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, End::of(&error)),
            }
        }
        assert!(
            buffer.capacity() <= 4 * (read.len() + HEADER_LEN + 2 * LIMIT as usize),
            "room for what has not come"
        );
    }
    match codec.decode_eof(&mut buffer) {
        Ok(None) => (payloads, End::Clean),
        Ok(Some(payload)) => panic!("{} bytes were held back", payload.len()),
        Err(error) => (payloads, End::of(&error)),
    }
}
