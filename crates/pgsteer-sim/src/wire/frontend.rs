//! Reads what a client sends. Every length and every string is checked; bytes that make no sense become
//! [`Malformed`], never a panic. It relies on whole frames being cut out first, so a body cannot read into the next.

use bytes::{Buf, Bytes, BytesMut};

/// Larger frames are refused, so that a wild length cannot make the server wait for gigabytes.
const LARGEST_FRAME: usize = 64 << 20;
/// PostgreSQL's own bound for what is sent before a login.
const LARGEST_FIRST: usize = 10_000;

const CANCEL: i32 = 80_877_102;
const SSL: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// Bytes that are no message, with what is wrong about them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// What a connection can begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    Tls,
    Gss,
    Cancel {
        pid: i32,
        key: i32,
    },
    Startup {
        major: u16,
        minor: u16,
        parameters: Vec<(String, String)>,
    },
}

/// What a Describe or Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement,
    Portal,
}

/// A message after the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frontend {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        target: Target,
        name: String,
    },
    Execute {
        portal: String,
        limit: i32,
    },
    Close {
        target: Target,
        name: String,
    },
    Sync,
    Flush,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// Password, SASLInitialResponse or SASLResponse: only the login knows which.
    Password(Bytes),
}

/// A Bind message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    pub(crate) parameters: Vec<Option<Bytes>>,
    pub(crate) results: Vec<i16>,
}

/// Takes the first message off `buffer`; `None` while it is not complete.
pub(crate) fn take_first(buffer: &mut BytesMut) -> Result<Option<First>, Malformed> {
    let Some(length) = peek_length(buffer, 0) else {
        return Ok(None);
    };
    let length = checked_length(length, 8, LARGEST_FIRST)?;
    if buffer.len() < length {
        return Ok(None);
    }
    let mut body = buffer.split_to(length).freeze();
    body.advance(4);
    let code = int4(&mut body)?;
    let first = match code {
        SSL => First::Tls,
        GSS => First::Gss,
        CANCEL => First::Cancel {
            pid: int4(&mut body)?,
            key: int4(&mut body)?,
        },
        _ => First::Startup {
            major: (code >> 16) as u16,
            minor: (code & 0xffff) as u16,
            parameters: parameters(&mut body)?,
        },
    };
    Ok(Some(first))
}

fn parameters(body: &mut Bytes) -> Result<Vec<(String, String)>, Malformed> {
    let mut list = Vec::new();
    loop {
        let name = string(body)?;
        if name.is_empty() {
            return Ok(list);
        }
        list.push((name, string(body)?));
    }
}

/// Takes the next message off `buffer`; `None` while it is not complete.
pub(crate) fn take_message(buffer: &mut BytesMut) -> Result<Option<Frontend>, Malformed> {
    let Some(length) = peek_length(buffer, 1) else {
        return Ok(None);
    };
    let length = checked_length(length, 4, LARGEST_FRAME)?;
    if buffer.len() < 1 + length {
        return Ok(None);
    }
    let mut body = buffer.split_to(1 + length).freeze();
    let kind = body[0];
    body.advance(5);
    let message = match kind {
        b'Q' => Frontend::Query(string(&mut body)?),
        b'P' => Frontend::Parse {
            name: string(&mut body)?,
            sql: string(&mut body)?,
            types: list(&mut body, |body| int4(body).map(|oid| oid as u32))?,
        },
        b'B' => Frontend::Bind(Bind {
            portal: string(&mut body)?,
            statement: string(&mut body)?,
            formats: list(&mut body, int2)?,
            parameters: list(&mut body, parameter)?,
            results: list(&mut body, int2)?,
        }),
        b'D' => Frontend::Describe {
            target: target(&mut body)?,
            name: string(&mut body)?,
        },
        b'E' => Frontend::Execute {
            portal: string(&mut body)?,
            limit: int4(&mut body)?,
        },
        b'C' => Frontend::Close {
            target: target(&mut body)?,
            name: string(&mut body)?,
        },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => Frontend::Terminate,
        b'd' => Frontend::CopyData(body.split_to(body.len())),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(string(&mut body)?),
        b'p' => Frontend::Password(body.split_to(body.len())),
        _ => return Err(Malformed("invalid frontend message type")),
    };
    if body.has_remaining() {
        return Err(Malformed("message has bytes left over"));
    }
    Ok(Some(message))
}

/// SASLInitialResponse, out of a password message: the mechanism and its first data.
pub(crate) fn sasl_initial(mut body: Bytes) -> Result<(String, Bytes), Malformed> {
    let mechanism = string(&mut body)?;
    let data = parameter(&mut body)?.unwrap_or_default();
    Ok((mechanism, data))
}

/// A clear-text password out of a password message.
pub(crate) fn password(body: &Bytes) -> &[u8] {
    body.strip_suffix(b"\0").unwrap_or(body)
}

fn peek_length(buffer: &BytesMut, offset: usize) -> Option<i32> {
    let bytes: [u8; 4] = buffer.get(offset..offset + 4)?.try_into().ok()?;
    Some(i32::from_be_bytes(bytes))
}

fn checked_length(length: i32, least: usize, most: usize) -> Result<usize, Malformed> {
    match usize::try_from(length) {
        Ok(length) if (least..=most).contains(&length) => Ok(length),
        _ => Err(Malformed("invalid message length")),
    }
}

fn int2(body: &mut Bytes) -> Result<i16, Malformed> {
    body.try_get_i16()
        .map_err(|_| Malformed("message ends too early"))
}

fn int4(body: &mut Bytes) -> Result<i32, Malformed> {
    body.try_get_i32()
        .map_err(|_| Malformed("message ends too early"))
}

fn string(body: &mut Bytes) -> Result<String, Malformed> {
    let end = body
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(Malformed("string has no end"))?;
    let text = body.split_to(end);
    body.advance(1);
    String::from_utf8(text.to_vec()).map_err(|_| Malformed("invalid byte sequence for encoding \"UTF8\""))
}

/// A count of 16 bits, then that many items.
fn list<T>(body: &mut Bytes, item: impl Fn(&mut Bytes) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
    let count = int2(body)? as u16;
    (0..count).map(|_| item(body)).collect()
}

fn parameter(body: &mut Bytes) -> Result<Option<Bytes>, Malformed> {
    let length = int4(body)?;
    if length == -1 {
        return Ok(None);
    }
    match usize::try_from(length) {
        Ok(length) if length <= body.len() => Ok(Some(body.split_to(length))),
        _ => Err(Malformed("invalid parameter length")),
    }
}

fn target(body: &mut Bytes) -> Result<Target, Malformed> {
    match body.try_get_u8() {
        Ok(b'S') => Ok(Target::Statement),
        Ok(b'P') => Ok(Target::Portal),
        _ => Err(Malformed("invalid describe or close target")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[kind][..]);
        bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_message_is_only_taken_when_it_is_whole() {
        let whole = frame(b'Q', b"SELECT 1\0");
        for end in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..end]);
            assert_eq!(take_message(&mut part), Ok(None), "after {end} bytes");
            assert_eq!(part.len(), end);
        }
        let mut all = whole.clone();
        assert_eq!(
            take_message(&mut all),
            Ok(Some(Frontend::Query("SELECT 1".into())))
        );
        assert!(all.is_empty());
    }

    #[test]
    fn a_body_that_lies_about_its_lengths_is_malformed() {
        let rows: [(u8, &[u8]); 9] = [
            (b'Q', b"no end"),
            (b'P', b"\0SELECT 1\0\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe"),
            (b'D', b""),
            (b'D', b"x\0"),
            (b'E', b"\0\0\0"),
            (b'S', b"more"),
            (b'?', b""),
        ];
        for (kind, body) in rows {
            let outcome = take_message(&mut frame(kind, body));
            assert!(outcome.is_err(), "{} {body:?} gave {outcome:?}", kind as char);
        }
    }

    #[test]
    fn lengths_out_of_range_are_malformed() {
        for length in [-1, 0, 3, i32::MAX] {
            let mut bytes = BytesMut::from(&b"Q"[..]);
            bytes.extend_from_slice(&length.to_be_bytes());
            assert!(take_message(&mut bytes).is_err(), "length {length}");
            assert!(
                take_first(&mut BytesMut::from(&length.to_be_bytes()[..])).is_err(),
                "first, length {length}"
            );
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let length = random.usize(0..40);
            let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            if length >= 5 && random.bool() {
                bytes[0] = *b"QPBDECSHXdcfp".get(random.usize(0..13)).unwrap_or(&b'Q');
                bytes[1..5].copy_from_slice(&(length as i32 - 1).to_be_bytes());
            }
            let _ = take_first(&mut BytesMut::from(&bytes[..]));
            let _ = take_message(&mut BytesMut::from(&bytes[..]));
        }
    }
}
