//! What the client sends, as the tap sees it: which messages ask for an answer, and the end of the connection.

use super::frames::{BadLength, Frames, Visitor};
use super::ledger::Ledger;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_ENCRYPTION_REQUEST: u32 = 80_877_104;
const PROTOCOL_MAJOR: u32 = 3;

/// How far the client has come before its messages carry a type byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Startup, or a request for encryption before it.
    #[default]
    Untyped,
    /// After the startup message.
    Typed,
}

/// The client's side of the wire.
#[derive(Debug, Default)]
pub(super) struct Frontend {
    frames: Frames,
    reader: Reader,
}

#[derive(Debug, Default)]
struct Reader {
    phase: Phase,
    code: [u8; 4],
    code_length: usize,
    asked_encryption: bool,
    terminated: bool,
}

impl Frontend {
    /// Whether the bytes so far end within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.frames.is_within_message()
    }

    /// Whether Terminate was sent.
    pub(super) fn has_terminated(&self) -> bool {
        self.reader.terminated
    }

    /// Whether encryption has been asked for since this was last called: the server answers with a single byte.
    pub(super) fn take_asked_encryption(&mut self) -> bool {
        std::mem::take(&mut self.reader.asked_encryption)
    }

    /// Reads on, entering into the books what is owed an answer.
    pub(super) fn feed(&mut self, bytes: &[u8], ledger: &mut Ledger) -> Result<(), BadLength> {
        self.frames.feed(
            bytes,
            &mut Reading {
                reader: &mut self.reader,
                ledger,
            },
        )
    }
}

struct Reading<'a> {
    reader: &'a mut Reader,
    ledger: &'a mut Ledger,
}

impl Visitor for Reading<'_> {
    #[inline]
    fn typed(&self) -> bool {
        self.reader.phase == Phase::Typed
    }

    #[inline]
    fn heeds(&self, _kind: u8) -> bool {
        true
    }

    #[inline]
    fn whole(&mut self, kind: u8, _body: &[u8]) {
        match kind {
            b'Q' => self.ledger.query(),
            b'F' => self.ledger.function_call(),
            b'S' => self.ledger.sync(),
            b'P' | b'B' | b'E' | b'D' => self.ledger.extended(),
            b'C' => self.ledger.close(),
            b'c' | b'f' => self.ledger.copy_end(),
            b'X' => self.reader.terminated = true,
            // Copy data, passwords, Flush: nothing is owed for them.
            _ => {}
        }
    }

    fn begin(&mut self, kind: u8) -> usize {
        self.reader.code_length = 0;
        if kind == 0 && !self.typed() {
            self.reader.code.len()
        } else {
            0
        }
    }

    fn body(&mut self, _kind: u8, bytes: &[u8]) {
        let start = self.reader.code_length;
        let end = (start + bytes.len()).min(self.reader.code.len());
        self.reader.code[start..end].copy_from_slice(&bytes[..end - start]);
        self.reader.code_length = end;
    }

    fn end(&mut self, kind: u8) {
        if self.typed() {
            self.whole(kind, &[]);
        } else {
            self.untyped();
        }
    }
}

impl Reading<'_> {
    fn untyped(&mut self) {
        if self.reader.code_length < self.reader.code.len() {
            return;
        }
        match u32::from_be_bytes(self.reader.code) {
            SSL_REQUEST | GSS_ENCRYPTION_REQUEST => self.reader.asked_encryption = true,
            code if code >> 16 == PROTOCOL_MAJOR => {
                self.reader.phase = Phase::Typed;
                self.ledger.login();
            }
            // A cancel request is answered by the end of the connection.
            _ => {}
        }
    }
}
