//! What the server sends, as the tap sees it: answers, states, tags, and the codes of errors and notices.
//!
//! Of a body at most the first 256 bytes are kept, in a fixed buffer. Nothing here allocates or fails on what a
//! server sends; a length that cannot be is reported once.

use pgsteer_core::verdict::doubts_role;

use super::frames::{BadLength, Frames, Visitor};
use super::ledger::Ledger;
use super::routine::Routine;

/// The transaction status of the last ReadyForQuery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransactionStatus {
    /// None has come yet, or it was none that is known.
    #[default]
    Unknown,
    /// Outside a transaction (`I`).
    Idle,
    /// In a transaction (`T`).
    InTransaction,
    /// In a transaction that has failed and wants a rollback (`E`).
    Failed,
}

/// Whether a COPY is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// None.
    #[default]
    None,
    /// The server takes data.
    In,
    /// The server sends data.
    Out,
    /// Both at once: the replication protocol.
    Both,
}

/// How grave an error or notice is, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The whole server stops.
    Panic,
    /// The connection ends.
    Fatal,
    /// The request failed.
    Error,
    /// The server warns; 57P01 and 57P02 as warnings are all that an immediate stop or a crash says.
    Warning,
    /// Anything below.
    Notice,
}

/// A SQLSTATE: five ASCII letters and digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sqlstate([u8; 5]);

impl Sqlstate {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 5] = bytes.try_into().ok()?;
        bytes
            .iter()
            .all(u8::is_ascii_alphanumeric)
            .then_some(Sqlstate(bytes))
    }

    /// The code as text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Debug for Sqlstate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error or a notice, as far as the tap reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// How grave it is, by the field that is never translated where the server sends it.
    pub(crate) severity: Severity,
    /// Its code.
    pub(crate) sqlstate: Sqlstate,
}

/// As much of a command tag as is read: PostgreSQL cuts its own at 63 bytes.
const LONGEST_TAG: usize = 64;

/// A command tag such as `INSERT 0 1`, cut at 63 bytes as PostgreSQL's own are.
#[derive(Clone, Copy)]
pub(crate) struct CommandTag {
    bytes: [u8; CommandTag::LIMIT],
    length: u8,
}

impl CommandTag {
    const LIMIT: usize = 63;

    const EMPTY: Self = CommandTag {
        bytes: [0; Self::LIMIT],
        length: 0,
    };

    /// Takes another in this one's place: it is the last of one command and then of the next.
    fn set(&mut self, text: &[u8]) {
        let length = text.len().min(Self::LIMIT);
        self.bytes[..length].copy_from_slice(&text[..length]);
        self.length = length as u8;
    }

    /// The tag as text; empty if it is not UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl std::fmt::Debug for CommandTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for CommandTag {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// What the server has said so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    /// Status of the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    /// Tag of the last completed command.
    pub(crate) tag: Option<CommandTag>,
    /// The last error.
    pub(crate) error: Option<Report>,
    /// The last notice.
    pub(crate) notice: Option<Report>,
    /// Whether a COPY is under way.
    pub(crate) copy: CopyState,
    /// The last authentication request's number; 0 once the login was accepted.
    pub(crate) authentication: Option<u32>,
    /// `in_hot_standby`, where the server reports it (PostgreSQL 14 and later).
    pub(crate) in_hot_standby: Option<bool>,
    /// `default_transaction_read_only`, where the server reports it.
    pub(crate) default_transaction_read_only: Option<bool>,
    /// A ReadyForQuery came that nothing had asked for.
    pub(crate) answered_unasked: bool,
    /// A write has been refused because the session takes none.
    pub(crate) role_doubted: bool,
    /// Grows whenever an open transaction ends, either way.
    pub(crate) ended: u64,
    /// A savepoint has been set in the open transaction.
    pub(crate) has_savepoint: bool,
    /// Grows with each command that may have made a transaction another one than it was begun as, writable say.
    pub(crate) remade: u64,
    /// Commits that the server warned it has not waited for a standby with: they may be lost.
    pub(crate) unconfirmed: u64,
    /// What the open transaction, or the last one, failed with, if it did: statements refused because of that do not
    /// count. Kept when a savepoint is rolled back to.
    pub(crate) failure: Option<Report>,
}

impl Said {
    /// A command was completed.
    fn completed(&mut self, tag: &[u8]) {
        // Behind the tag of a command that has to do with rows stands their number, and it does none of this.
        if !tag.last().is_some_and(u8::is_ascii_digit) {
            self.controlled(tag);
        }
        self.tag.get_or_insert(CommandTag::EMPTY).set(tag);
    }

    /// A command was completed that may have to do with the transaction.
    #[cold]
    fn controlled(&mut self, tag: &[u8]) {
        match tag {
            // Another may be open when all is answered, by then.
            b"COMMIT" | b"PREPARE TRANSACTION" => self.ended += 1,
            // Back to a savepoint has the same tag.
            b"ROLLBACK" if !self.has_savepoint && self.status != TransactionStatus::Idle => self.ended += 1,
            b"SAVEPOINT" => self.has_savepoint = true,
            b"SET" | b"RESET" | b"BEGIN" | b"START TRANSACTION" => self.remade += 1,
            _ => {}
        }
    }

    /// ReadyForQuery came.
    fn ready(&mut self, status: TransactionStatus) {
        use TransactionStatus::{Failed, Idle, InTransaction};
        match (self.status, status) {
            (InTransaction | Failed, Idle) => {
                self.ended += 1;
                self.has_savepoint = false;
            }
            (Idle, InTransaction) => self.failure = None,
            (Idle | InTransaction, Failed) => self.failure = self.error,
            _ => {}
        }
        self.status = status;
    }
}

/// The server's side of the wire, in the order of [`Wire`](super::Wire).
#[derive(Debug)]
#[repr(C)]
pub(super) struct Backend {
    /// The next byte is the bare answer to a request for encryption.
    bare_answer: bool,
    frames: Frames,
    said: Said,
    routine: Routine,
    prefix_length: usize,
    prefix: [u8; Backend::PREFIX],
}

/// What follows the bytes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More messages.
    Messages,
    /// Encryption: nothing behind this can be read here.
    Encrypted,
}

impl Default for Backend {
    fn default() -> Self {
        Backend {
            frames: Frames::default(),
            said: Said::default(),
            prefix: [0; Backend::PREFIX],
            prefix_length: 0,
            routine: Routine::default(),
            bare_answer: false,
        }
    }
}

impl Backend {
    const PREFIX: usize = 256;

    /// What the server has said so far.
    pub(super) fn said(&self) -> &Said {
        &self.said
    }

    /// Whether the bytes so far end within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.frames.is_within_message()
    }

    /// The client asked for encryption: one bare byte comes next.
    pub(super) fn expect_bare_answer(&mut self) {
        self.bare_answer = true;
    }

    /// Reads on, settling in the books what has been answered.
    pub(super) fn feed(&mut self, mut bytes: &[u8], ledger: &mut Ledger) -> Result<Next, BadLength> {
        if let (true, Some((&answer, rest))) = (self.bare_answer, bytes.split_first()) {
            self.bare_answer = false;
            match answer {
                b'S' | b'G' => return Ok(Next::Encrypted),
                b'N' => bytes = rest,
                // A server that knows no such request answers with an error message.
                _ => {}
            }
        }
        let mut reading = Reading {
            said: &mut self.said,
            prefix: &mut self.prefix,
            prefix_length: &mut self.prefix_length,
            routine: &mut self.routine,
            ledger,
        };
        self.frames.feed(bytes, &mut reading)?;
        Ok(Next::Messages)
    }
}

struct Reading<'a> {
    said: &'a mut Said,
    prefix: &'a mut [u8; Backend::PREFIX],
    prefix_length: &'a mut usize,
    routine: &'a mut Routine,
    ledger: &'a mut Ledger,
}

impl Visitor for Reading<'_> {
    #[inline]
    fn heeds(&self, kind: u8) -> bool {
        matches!(kind, b'C' | b'E' | b'G' | b'H' | b'N' | b'R' | b'S' | b'W' | b'Z')
    }

    #[inline]
    fn whole(&mut self, kind: u8, body: &[u8]) {
        match kind {
            // A round trip brings these two.
            b'C' | b'Z' => self.everyday(kind, body),
            _ => self.rare(kind, body),
        }
    }

    fn begin(&mut self, kind: u8) -> usize {
        *self.prefix_length = 0;
        match kind {
            b'Z' => 1,
            b'R' => 4,
            b'C' => LONGEST_TAG,
            b'E' | b'S' => Backend::PREFIX,
            b'N' => {
                self.routine.begin();
                usize::MAX
            }
            _ => 0,
        }
    }

    fn body(&mut self, kind: u8, bytes: &[u8]) {
        if kind == b'N' {
            self.routine.feed(bytes);
        }
        let start = *self.prefix_length;
        let end = (start + bytes.len()).min(self.prefix.len());
        self.prefix[start..end].copy_from_slice(&bytes[..end - start]);
        *self.prefix_length = end;
    }

    fn end(&mut self, kind: u8) {
        let prefix = *self.prefix;
        self.told(kind, &prefix[..*self.prefix_length]);
    }
}

impl Reading<'_> {
    /// A message that no everyday answer holds has passed in one piece.
    #[cold]
    fn rare(&mut self, kind: u8, body: &[u8]) {
        let shown = self.begin(kind).min(body.len());
        self.body(kind, &body[..shown]);
        self.end(kind);
    }

    /// A command has been completed, or all is answered.
    fn everyday(&mut self, kind: u8, body: &[u8]) {
        self.said.copy = CopyState::None;
        if kind == b'C' {
            self.said
                .completed(until_nul(&body[..body.len().min(LONGEST_TAG)]));
            return;
        }
        self.said.ready(match body.first() {
            Some(b'I') => TransactionStatus::Idle,
            Some(b'T') => TransactionStatus::InTransaction,
            Some(b'E') => TransactionStatus::Failed,
            _ => TransactionStatus::Unknown,
        });
        self.said.answered_unasked |= !self.ledger.ready_for_query();
    }

    /// A message has passed, whose body begins so.
    fn told(&mut self, kind: u8, body: &[u8]) {
        match kind {
            b'C' | b'Z' => self.everyday(kind, body),
            b'E' => {
                let report = report(body);
                self.said.role_doubted |= report.is_some_and(|error| doubts_role(error.sqlstate.as_str()));
                self.said.error = report.or(self.said.error);
                self.said.copy = CopyState::None;
            }
            b'N' => {
                self.said.notice = report(body).or(self.said.notice);
                self.said.unconfirmed += u64::from(self.routine.is_of_unconfirmed_commit());
            }
            b'G' => {
                self.said.copy = CopyState::In;
                self.ledger.copy_in_response();
            }
            b'H' => self.said.copy = CopyState::Out,
            b'W' => self.said.copy = CopyState::Both,
            b'R' => self.said.authentication = body.try_into().ok().map(u32::from_be_bytes),
            b'S' => self.parameter(body),
            _ => {}
        }
    }

    fn parameter(&mut self, body: &[u8]) {
        let mut parts = body.split(|byte| *byte == 0);
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return;
        };
        let place = match name {
            b"in_hot_standby" => &mut self.said.in_hot_standby,
            b"default_transaction_read_only" => &mut self.said.default_transaction_read_only,
            _ => return,
        };
        *place = match value {
            b"on" => Some(true),
            b"off" => Some(false),
            _ => None,
        };
    }
}

/// Reads the fields of an error or notice. Severity by `V` (never translated), else by `S`; without a code it is
/// none of ours.
fn report(mut body: &[u8]) -> Option<Report> {
    let (mut plain, mut translated, mut code) = (None, None, None);
    while let Some((&field, rest)) = body.split_first() {
        if field == 0 || !rest.contains(&0) {
            break;
        }
        let value = until_nul(rest);
        match field {
            b'V' => plain = severity(value),
            b'S' => translated = severity(value),
            b'C' => code = Sqlstate::from_bytes(value),
            _ => {}
        }
        body = &rest[value.len() + 1..];
    }
    Some(Report {
        severity: plain.or(translated).unwrap_or(Severity::Notice),
        sqlstate: code?,
    })
}

fn severity(word: &[u8]) -> Option<Severity> {
    Some(match word {
        b"PANIC" => Severity::Panic,
        b"FATAL" => Severity::Fatal,
        b"ERROR" => Severity::Error,
        b"WARNING" => Severity::Warning,
        b"NOTICE" | b"DEBUG" | b"INFO" | b"LOG" => Severity::Notice,
        _ => return None,
    })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
