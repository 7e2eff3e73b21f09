//! A stream of length-prefixed frames, taken apart as its bytes arrive. Nothing is gathered, so a frame may be of any
//! length; nothing is judged either, since tools that test have to deal with every header there is.

use pgsteer_router::frame::HEADER_LEN;

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame begins; its payload has this many bytes.
    Begin(u32),
    /// Some of its payload, never empty.
    Payload(&'a [u8]),
    /// The frame is complete.
    End,
}

/// Where in a frame a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// This much of the header has been read.
    Header(usize),
    /// This much of the payload is still to come; none: the end is to be told.
    Payload(u32),
}

/// Takes one stream apart.
#[derive(Clone, Debug)]
pub struct Pieces {
    header: [u8; HEADER_LEN],
    place: Place,
}

impl Pieces {
    /// At a stream's beginning.
    pub fn new() -> Self {
        Pieces {
            header: [0; HEADER_LEN],
            place: Place::Header(0),
        }
    }

    /// Takes the next piece off the front of `bytes`; `None` if more bytes are needed.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        match self.place {
            Place::Header(read) => {
                let part = take(bytes, HEADER_LEN - read);
                self.header[read..read + part.len()].copy_from_slice(part);
                let read = read + part.len();
                if read < HEADER_LEN {
                    self.place = Place::Header(read);
                    return None;
                }
                let length = u32::from_be_bytes(self.header);
                self.place = Place::Payload(length);
                Some(Piece::Begin(length))
            }
            Place::Payload(0) => {
                self.place = Place::Header(0);
                Some(Piece::End)
            }
            Place::Payload(left) => {
                let part = take(bytes, usize::try_from(left).unwrap_or(usize::MAX));
                // No longer than what is left.
                self.place = Place::Payload(left - part.len() as u32);
                (!part.is_empty()).then_some(Piece::Payload(part))
            }
        }
    }

    /// Whether the stream may end here without cutting a frame.
    pub fn between_frames(&self) -> bool {
        self.place == Place::Header(0)
    }
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces::new()
    }
}

fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads that a stream, cut into reads of this many bytes, is found to hold.
    fn frames(stream: &[u8], read: usize) -> (Vec<Vec<u8>>, bool) {
        let (mut pieces, mut frames, mut frame) = (Pieces::new(), Vec::new(), Vec::new());
        for mut bytes in stream.chunks(read) {
            while let Some(piece) = pieces.next(&mut bytes) {
                match piece {
                    Piece::Begin(_) => frame = Vec::new(),
                    Piece::Payload(part) => frame.extend_from_slice(part),
                    Piece::End => frames.push(std::mem::take(&mut frame)),
                }
            }
        }
        (frames, pieces.between_frames())
    }

    #[test]
    fn frames_are_the_same_however_the_stream_is_cut_into_reads() {
        let stream = b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01z";

        for read in 1..=stream.len() {
            let (found, whole) = frames(stream, read);

            assert_eq!(found, [b"abc".to_vec(), Vec::new(), b"z".to_vec()], "{read}");
            assert!(whole, "{read}");
        }
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_not_between_frames() {
        let whole = b"\0\0\0\x02ab";

        for length in 1..whole.len() {
            assert!(!frames(&whole[..length], 64).1, "{length}");
        }
    }
}
