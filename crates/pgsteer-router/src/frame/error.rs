//! What can be wrong with a frame.

use std::fmt;
use std::io;

use super::HEADER_LEN;

/// Why there is no frame. A stream that ends between two frames is no error.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// The payload is longer than is taken.
    TooLong {
        /// The length that was announced, or that was to be sent, in bytes.
        length: u64,
        /// The longest that is taken.
        limit: u32,
    },
    /// The stream ended inside a frame.
    Cut {
        /// How many bytes of it had arrived, those of the header included.
        arrived: u64,
        /// How many it would have had, header included; `None` if not even the header was there.
        expected: Option<u64>,
    },
    /// The stream failed.
    Io(io::Error),
}

impl FrameError {
    pub(super) fn cut(arrived: usize, payload: Option<usize>) -> Self {
        FrameError::Cut {
            arrived: arrived as u64,
            expected: payload.map(|payload| (HEADER_LEN + payload) as u64),
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { length, limit } => {
                write!(
                    f,
                    "a frame of {length} bytes is longer than the {limit} that are taken"
                )
            }
            FrameError::Cut {
                arrived,
                expected: Some(expected),
            } => write!(
                f,
                "the stream ended after {arrived} of a frame's {expected} bytes"
            ),
            FrameError::Cut {
                arrived,
                expected: None,
            } => write!(
                f,
                "the stream ended after {arrived} of a header's {HEADER_LEN} bytes"
            ),
            FrameError::Io(error) => write!(f, "the stream failed: {error}"),
        }
    }
}

impl std::error::Error for FrameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FrameError::Io(error) => Some(error),
            FrameError::TooLong { .. } | FrameError::Cut { .. } => None,
        }
    }
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        FrameError::Io(error)
    }
}
