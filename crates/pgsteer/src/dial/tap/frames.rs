//! Walking a stream of protocol messages without keeping them: type byte, length, body.
//!
//! Fed any split of the bytes, it calls a [`Visitor`] at the same places. It keeps at most one header, never a body,
//! and never trusts a length further than to count it down.

/// What is told of each message as it passes.
pub(super) trait Visitor {
    /// Whether the next message starts with a type byte. Only a client's first messages do not.
    fn typed(&self) -> bool {
        true
    }

    /// Whether anything is to be told of messages of this kind. Most carry data, and pass unseen.
    fn heeds(&self, kind: u8) -> bool;

    /// The everyday case: a message has passed in one piece.
    fn whole(&mut self, kind: u8, body: &[u8]);

    /// A message begins; `kind` is zero for one without a type byte. Returns how many bytes of its body to show.
    fn begin(&mut self, kind: u8) -> usize;

    /// The next bytes of a body, at most as many in all as `begin` asked for.
    fn body(&mut self, kind: u8, bytes: &[u8]);

    /// The message that was begun has passed.
    fn end(&mut self, kind: u8);
}

/// A length that no message can have. Everything behind it is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLength;

/// How long a message's body is. The length that is sent counts itself, not the type byte, and has a sign.
#[inline]
fn body_length(sent: [u8; 4]) -> Result<usize, BadLength> {
    match u32::from_be_bytes(sent) {
        length @ 4..=0x7fff_ffff => Ok(length as usize - 4),
        _ => Err(BadLength),
    }
}

/// How far the walk has come.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; 5],
    header_length: usize,
    kind: u8,
    /// Bytes of the body still to pass.
    body_left: usize,
    /// Bytes of the body still to show.
    shown_left: usize,
    in_body: bool,
}

impl Frames {
    /// Whether the bytes so far end within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.in_body || self.header_length > 0
    }

    /// Walks on over `bytes`.
    #[inline]
    pub(super) fn feed(&mut self, mut bytes: &[u8], visitor: &mut impl Visitor) -> Result<(), BadLength> {
        loop {
            if !self.is_within_message() && visitor.typed() {
                bytes = pass_whole(bytes, visitor);
            }
            if bytes.is_empty() {
                return Ok(());
            }
            bytes = self.pass_piece(bytes, visitor)?;
        }
    }

    /// Walks on to the end of a header or of a body, which are not all in these bytes. Returns what is behind.
    #[cold]
    fn pass_piece<'a>(&mut self, bytes: &'a [u8], visitor: &mut impl Visitor) -> Result<&'a [u8], BadLength> {
        if self.in_body {
            return Ok(self.pass_body(bytes, visitor));
        }
        let wanted = if visitor.typed() { 5 } else { 4 };
        let taken = wanted.min(self.header_length + bytes.len()) - self.header_length;
        let (header, behind) = bytes.split_at(taken);
        self.header[self.header_length..self.header_length + taken].copy_from_slice(header);
        self.header_length += taken;
        if self.header_length == wanted {
            self.begin(wanted, visitor)?;
        }
        Ok(behind)
    }

    fn begin(&mut self, wanted: usize, visitor: &mut impl Visitor) -> Result<(), BadLength> {
        let [first, second, third, fourth, fifth] = self.header;
        let (kind, length) = if wanted == 5 {
            (first, [second, third, fourth, fifth])
        } else {
            (0, [first, second, third, fourth])
        };
        let body = body_length(length)?;
        self.header_length = 0;
        self.kind = kind;
        self.body_left = body;
        self.shown_left = visitor.begin(kind).min(body);
        self.in_body = body > 0;
        if body == 0 {
            visitor.end(kind);
        }
        Ok(())
    }

    fn pass_body<'a>(&mut self, bytes: &'a [u8], visitor: &mut impl Visitor) -> &'a [u8] {
        let (passing, rest) = bytes.split_at(self.body_left.min(bytes.len()));
        let shown = self.shown_left.min(passing.len());
        if shown > 0 {
            visitor.body(self.kind, &passing[..shown]);
            self.shown_left -= shown;
        }
        self.body_left -= passing.len();
        if self.body_left == 0 {
            self.in_body = false;
            visitor.end(self.kind);
        }
        rest
    }
}

/// Walks over the messages at the front that are whole. There may be a million of them, of which nothing is told.
#[inline]
fn pass_whole<'a>(mut bytes: &'a [u8], visitor: &mut impl Visitor) -> &'a [u8] {
    while let Some((&[kind, first, second, third, fourth], behind)) = bytes.split_first_chunk() {
        // What cannot be is told where messages are walked in pieces.
        let Ok(length) = body_length([first, second, third, fourth]) else {
            break;
        };
        let Some((body, rest)) = behind.split_at_checked(length) else {
            break;
        };
        if visitor.heeds(kind) {
            visitor.whole(kind, body);
        }
        bytes = rest;
    }
    bytes
}
