//! The wire format: what is a frame, what is not, and how little a peer that only announces can cost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use pgsteer_router::frame::{self, DEFAULT_MAX_FRAME, FrameCodec, FrameError, HEADER_LEN};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio_util::codec::{Decoder, Encoder, Framed};

/// Short, so that random lengths fall on both sides of it.
const LIMIT: u32 = 64;

fn encoded(payload: &[u8]) -> BytesMut {
    let mut wire = BytesMut::new();
    FrameCodec::default()
        .encode(Bytes::copy_from_slice(payload), &mut wire)
        .expect("it is short enough");
    wire
}

/// Everything that a decoder makes of a stream that arrives in these pieces: the payloads, and how it ends.
fn decoded(pieces: &[&[u8]]) -> (Vec<Bytes>, Result<(), String>) {
    let (mut codec, mut buffer, mut payloads) = (FrameCodec::new(LIMIT), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, Err(error.to_string())),
            }
        }
    }
    let end = codec.decode_eof(&mut buffer);
    (
        payloads,
        end.map(|rest| assert_eq!(rest, None))
            .map_err(|error| error.to_string()),
    )
}

/// Covers: S-01
#[test]
fn a_frame_is_a_big_endian_length_and_the_payload_alone_is_counted() {
    let table: [(&[u8], &[u8]); 4] = [
        (b"", &[0, 0, 0, 0]),
        (b"x", &[0, 0, 0, 1, b'x']),
        (b"word", &[0, 0, 0, 4, b'w', b'o', b'r', b'd']),
        (b"\0\0\0\x01", &[0, 0, 0, 4, 0, 0, 0, 1]),
    ];
    for (payload, wire) in table {
        assert_eq!(encoded(payload), wire);
        assert_eq!(frame::parse(wire, LIMIT).unwrap(), (payload, wire.len()));
        assert_eq!(frame::header(payload.len(), LIMIT).unwrap(), wire[..HEADER_LEN]);
    }
}

/// Covers: S-03
#[test]
fn the_limit_is_sixteen_mebibytes_unless_said_otherwise_and_is_itself_taken() {
    assert_eq!(DEFAULT_MAX_FRAME, 16_777_216);
    assert_eq!(FrameCodec::default().limit(), DEFAULT_MAX_FRAME);
    assert_eq!(
        frame::parse_header(DEFAULT_MAX_FRAME.to_be_bytes(), DEFAULT_MAX_FRAME).unwrap(),
        16_777_216
    );
    let longer = frame::parse_header((DEFAULT_MAX_FRAME + 1).to_be_bytes(), DEFAULT_MAX_FRAME);
    assert!(matches!(
        longer,
        Err(FrameError::TooLong {
            length: 16_777_217,
            limit: DEFAULT_MAX_FRAME
        })
    ));
}

/// Covers: S-04
#[test]
fn a_frame_that_is_too_long_is_refused_by_its_header_before_any_payload() {
    let mut buffer = BytesMut::from(&[0, 0, 0, 65][..]);
    let room = buffer.capacity();
    for _ in 0..2 {
        let error = FrameCodec::new(LIMIT).decode(&mut buffer).unwrap_err();
        assert!(matches!(
            error,
            FrameError::TooLong {
                length: 65,
                limit: LIMIT
            }
        ));
        assert_eq!(&buffer[..], [0, 0, 0, 65], "nothing is taken");
        assert_eq!(buffer.capacity(), room, "no room is made");
    }
}

#[test]
fn a_header_that_announces_much_and_brings_nothing_costs_little_memory() {
    let mut buffer = BytesMut::from(&DEFAULT_MAX_FRAME.to_be_bytes()[..]);
    assert_eq!(FrameCodec::default().decode(&mut buffer).unwrap(), None);
    assert!(
        buffer.capacity() < 256 * 1024,
        "{} bytes of room",
        buffer.capacity()
    );
}

#[test]
fn what_is_too_long_to_be_taken_is_not_sent_either() {
    let mut wire = BytesMut::new();
    let payload = Bytes::from(vec![0; 65]);
    let error = FrameCodec::new(LIMIT).encode(payload, &mut wire).unwrap_err();
    assert!(matches!(
        error,
        FrameError::TooLong {
            length: 65,
            limit: LIMIT
        }
    ));
    assert!(wire.is_empty());
}

#[test]
fn errors_say_what_was_there_and_what_was_expected() {
    let said = |bytes: &[u8]| frame::parse(bytes, LIMIT).unwrap_err().to_string();
    assert_eq!(said(&[]), "the stream ended after 0 of a header's 4 bytes");
    assert_eq!(said(&[0, 0]), "the stream ended after 2 of a header's 4 bytes");
    assert_eq!(
        said(&[0, 0, 0, 5, 1]),
        "the stream ended after 5 of a frame's 9 bytes"
    );
    assert_eq!(
        said(&[0, 0, 1, 0]),
        "a frame of 256 bytes is longer than the 64 that are taken"
    );
    let failed = FrameError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    assert_eq!(failed.to_string(), "the stream failed: connection reset");
    assert!(std::error::Error::source(&failed).is_some());
}

/// Where a stream of one whole frame and part of a second ends, and what the reader sees then.
/// Covers: S-09
#[tokio::test]
async fn a_stream_that_ends_inside_a_frame_is_told_from_one_that_ends_between_two() {
    let wire = [&encoded(b"first")[..], &encoded(b"second")[..]].concat();
    let first = encoded(b"first").len();
    for sent in first..=wire.len() {
        let (mut peer, ours) = tokio::io::duplex(1024);
        peer.write_all(&wire[..sent]).await.unwrap();
        drop(peer);
        let mut frames = Framed::new(ours, FrameCodec::default());
        assert_eq!(frames.next().await.unwrap().unwrap(), "first");
        let whole = sent == first || sent == wire.len();
        if sent == wire.len() {
            assert_eq!(frames.next().await.unwrap().unwrap(), "second");
        }
        match frames.next().await {
            None => assert!(whole, "cut after {sent}"),
            Some(Err(FrameError::Cut { arrived, expected })) => {
                assert!(!whole, "whole after {sent}");
                assert_eq!(arrived, (sent - first) as u64);
                assert_eq!(expected, (sent >= first + HEADER_LEN).then_some(10));
            }
            other => panic!("{other:?} after {sent}"),
        }
    }
}

#[tokio::test]
async fn frames_pass_through_a_stream_in_both_directions() {
    let (peer, ours) = tokio::io::duplex(16);
    let echo = tokio::spawn(async move {
        let mut frames = Framed::new(peer, FrameCodec::default());
        while let Some(payload) = frames.next().await {
            frames.send(payload.unwrap()).await.unwrap();
        }
    });
    let mut frames = Framed::new(ours, FrameCodec::default());
    for payload in [
        Bytes::new(),
        Bytes::from_static(b"x"),
        Bytes::from(vec![7; 100_000]),
    ] {
        frames.send(payload.clone()).await.unwrap();
        assert_eq!(frames.next().await.unwrap().unwrap(), payload);
    }
    drop(frames);
    echo.await.unwrap();
}

/// Bytes that are often frames, whole or cut, and sometimes anything at all.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..(LIMIT as usize + 1));
    let frames = prop::collection::vec(payload, 0..5).prop_flat_map(|payloads| {
        let wire: Vec<u8> = payloads.iter().flat_map(|payload| encoded(payload)).collect();
        (Just(wire.clone()), 0..=wire.len()).prop_map(|(wire, cut)| wire[..cut].to_vec())
    });
    prop_oneof![frames, prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    /// The first four properties together: no input panics, the answer is the same twice, as many bytes are taken as the
    /// frame has and none on a failure, and a payload that is sent again reads the same.
    #[test]
    fn any_bytes_give_one_answer_that_takes_exactly_its_own_bytes(bytes in wire()) {
        let (first, second) = (frame::parse(&bytes, LIMIT), frame::parse(&bytes, LIMIT));
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));

        let mut buffer = BytesMut::from(&bytes[..]);
        let taken = FrameCodec::new(LIMIT).decode(&mut buffer);
        match first {
            Ok((payload, consumed)) => {
                prop_assert_eq!(consumed, HEADER_LEN + payload.len());
                prop_assert_eq!(&buffer[..], &bytes[consumed..]);
                prop_assert_eq!(&taken.unwrap().unwrap()[..], payload);
                let again = encoded(payload);
                prop_assert_eq!(&again[..], &bytes[..consumed]);
                prop_assert_eq!(frame::parse(&again, LIMIT).unwrap(), (payload, consumed));
            }
            Err(FrameError::Cut { .. }) => {
                prop_assert!(taken.unwrap().is_none());
                prop_assert_eq!(&buffer[..], &bytes[..]);
            }
            Err(_) => {
                prop_assert!(taken.is_err());
                prop_assert_eq!(&buffer[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn however_a_stream_is_cut_into_reads_it_gives_the_same_frames(
        bytes in wire(),
        cuts in prop::collection::vec(0_usize..200, 0..20),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for cut in cuts {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        pieces.push(&bytes[from..]);
        let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();

        let whole = decoded(&[&bytes]);
        prop_assert_eq!(&decoded(&pieces), &whole);
        prop_assert_eq!(&decoded(&one_by_one), &whole);
    }
}
