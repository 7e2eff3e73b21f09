//! What a client waits for on one connection, and what it makes of what comes. Nothing here reads or writes.

use std::collections::VecDeque;
use std::time::Instant;

use super::payload::{Answer, Content, Payloads, Stamp};
use crate::pieces::{Piece, Pieces};

/// How many of a client's latest requests a hash is looked for among.
const REMEMBERED: u64 = 256;
/// An announced length up to this is read whatever the size of requests: it may be an error's text.
const ALWAYS_READ: usize = 64 * 1024;

/// What one answer was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The right one; its request's time counts from here.
    Answered(Instant),
    /// The router's own words, in place of an answer.
    Error(String),
    /// One that had come before, or that nobody waited for. No request is done by it.
    Duplicated,
    /// The answer to another request, in place of one.
    Crossed,
    /// Nothing that was ever sent, in place of one.
    Corrupted,
}

/// An answer that announces more than any answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oversize;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    stamp: Stamp,
    /// From when its time counts.
    from: Instant,
    sent: Instant,
}

/// The requests under way on one connection, in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    payloads: &'a Payloads,
    client: u32,
    waiting: VecDeque<Request>,
    pieces: Pieces,
    answer: Answer,
    /// The number of the client's next request.
    next: u64,
    /// Whether any answer has come on this connection.
    any: bool,
}

impl<'a> Answers<'a> {
    /// For a new connection of a client whose next request has this number.
    pub(super) fn new(payloads: &'a Payloads, client: u32, next: u64) -> Self {
        Answers {
            payloads,
            client,
            waiting: VecDeque::new(),
            pieces: Pieces::new(),
            answer: Answer::default(),
            next,
            any: false,
        }
    }

    /// Another request is sent now; its time counts from `from`. Gives its stamp.
    pub(super) fn expect(&mut self, from: Instant, now: Instant) -> Stamp {
        let stamp = self.payloads.stamp(self.client, self.next);
        self.next += 1;
        self.waiting.push_back(Request {
            stamp,
            from,
            sent: now,
        });
        stamp
    }

    /// The number of the client's next request.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Requests under way.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the oldest of them was sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|request| request.sent)
    }

    /// Whether what has come so far ends between two answers, of which there was at least one: the place where a target that
    /// drains ends a connection.
    pub(super) fn ends_well(&self) -> bool {
        self.any && self.pieces.between_frames()
    }

    /// Whether an answer has begun and is not complete.
    pub(super) fn inside_one(&self) -> bool {
        !self.pieces.between_frames()
    }

    /// Takes in what was read, and tells of each answer that it completes.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Outcome)) -> Result<(), Oversize> {
        while let Some(piece) = self.pieces.next(&mut bytes) {
            match piece {
                Piece::Begin(length) if length as usize > self.payloads.size().max(ALWAYS_READ) => {
                    return Err(Oversize);
                }
                Piece::Begin(length) => self.answer.begin(length),
                Piece::Payload(part) => self.answer.take(self.payloads, part),
                Piece::End => {
                    self.any = true;
                    let content = self.answer.end(self.payloads);
                    tell(self.judge(content));
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, content: Content) -> Outcome {
        let Some(first) = self.waiting.front().copied() else {
            return Outcome::Duplicated;
        };
        match content {
            Content::Error(text) => {
                self.waiting.pop_front();
                Outcome::Error(text)
            }
            Content::Of(stamp) => self.judge_stamp(first, stamp),
            Content::Hash(hash) if self.payloads.is_hash_of(&hash, first.stamp) => self.answered(first),
            Content::Hash(hash) => match self.stamp_of(&hash) {
                Some(stamp) => self.judge_stamp(first, stamp),
                None => self.instead(Outcome::Corrupted),
            },
            Content::Other => self.instead(Outcome::Corrupted),
        }
    }

    fn judge_stamp(&mut self, first: Request, stamp: Stamp) -> Outcome {
        if stamp == first.stamp {
            return self.answered(first);
        }
        if stamp.client != self.client {
            return self.instead(Outcome::Crossed);
        }
        if let Some(place) = self.waiting.iter().position(|request| request.stamp == stamp) {
            self.waiting.remove(place);
            return Outcome::Crossed;
        }
        if stamp.number < self.next {
            Outcome::Duplicated
        } else {
            self.instead(Outcome::Corrupted)
        }
    }

    fn answered(&mut self, first: Request) -> Outcome {
        self.waiting.pop_front();
        Outcome::Answered(first.from)
    }

    /// It came in place of the first answer.
    fn instead(&mut self, outcome: Outcome) -> Outcome {
        self.waiting.pop_front();
        outcome
    }

    /// Which of the client's latest requests a hash is of.
    fn stamp_of(&self, hash: &[u8]) -> Option<Stamp> {
        let latest = (self.next.saturating_sub(REMEMBERED)..self.next).rev();
        latest
            .map(|number| self.payloads.stamp(self.client, number))
            .find(|stamp| self.payloads.is_hash_of(hash, *stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: u32 = 5;

    fn frame(payload: &[u8]) -> Vec<u8> {
        [&(payload.len() as u32).to_be_bytes(), payload].concat()
    }

    fn answer(payloads: &Payloads, client: u32, number: u64) -> Vec<u8> {
        let mut payload = Vec::new();
        payloads.append(payloads.stamp(client, number), 0, usize::MAX, &mut payload);
        frame(&payload)
    }

    /// What a client that waits for requests 0 to 2 makes of these bytes.
    fn judged(payloads: &Payloads, stream: &[u8]) -> (Vec<&'static str>, usize) {
        let mut answers = Answers::new(payloads, CLIENT, 0);
        for _ in 0..3 {
            answers.expect(Instant::now(), Instant::now());
        }
        let mut outcomes = Vec::new();
        let read = answers.take(stream, |outcome| {
            outcomes.push(match outcome {
                Outcome::Answered(_) => "answered",
                Outcome::Error(_) => "error",
                Outcome::Duplicated => "duplicated",
                Outcome::Crossed => "crossed",
                Outcome::Corrupted => "corrupted",
            });
        });
        if read.is_err() {
            outcomes.push("oversize");
        }
        (outcomes, answers.waiting())
    }

    /// Covers: S-76
    #[test]
    fn each_answer_is_known_for_what_it_is() {
        for size in [8, 64, 5000] {
            let payloads = Payloads::new(1, size);
            let own = |number| answer(&payloads, CLIENT, number);
            let error = frame(b"ERR backend unavailable");
            let cases: [(&str, Vec<u8>, &[&str], usize); 8] = [
                ("in order", [own(0), own(1), own(2)].concat(), &["answered"; 3], 0),
                (
                    "again",
                    [own(0), own(0), own(1)].concat(),
                    &["answered", "duplicated", "answered"],
                    1,
                ),
                (
                    "out of order",
                    [own(1), own(0)].concat(),
                    &["crossed", "answered"],
                    1,
                ),
                (
                    "an error",
                    [own(0), error, own(2)].concat(),
                    &["answered", "error", "answered"],
                    0,
                ),
                ("not sent yet", own(9), &["corrupted"], 2),
                ("nothing known", frame(&vec![b'x'; size]), &["corrupted"], 2),
                ("of another length", frame(b"?"), &["corrupted"], 2),
                ("too long", u32::MAX.to_be_bytes().to_vec(), &["oversize"], 3),
            ];

            for (name, stream, outcomes, waiting) in cases {
                assert_eq!(
                    judged(&payloads, &stream),
                    (outcomes.to_vec(), waiting),
                    "{name}, {size} bytes"
                );
            }
        }
    }

    #[test]
    fn the_answer_to_another_client_is_crossed_or_if_too_short_to_tell_corrupted() {
        for (size, outcome) in [(64, "crossed"), (8, "corrupted")] {
            let payloads = Payloads::new(1, size);

            let (outcomes, waiting) = judged(&payloads, &answer(&payloads, CLIENT + 1, 0));

            assert_eq!((outcomes, waiting), (vec![outcome], 2), "{size} bytes");
        }
    }

    #[test]
    fn of_an_empty_payload_the_length_is_checked() {
        let payloads = Payloads::new(1, 0);

        let (outcomes, waiting) = judged(&payloads, &[frame(b""), frame(b"x")].concat());

        assert_eq!((outcomes, waiting), (vec!["answered", "corrupted"], 1));
    }

    #[test]
    fn an_answer_nobody_waits_for_is_a_duplicated_one() {
        let payloads = Payloads::new(1, 64);

        let stream = [0, 1, 2, 2]
            .map(|number| answer(&payloads, CLIENT, number))
            .concat();

        assert_eq!(
            judged(&payloads, &stream).0,
            ["answered", "answered", "answered", "duplicated"]
        );
    }
}
