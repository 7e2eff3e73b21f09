//! What a request carries, and what an answer is found to be. Every payload follows from its request's stamp, so any answer
//! can be checked to its last byte without having been kept.

use std::sync::Arc;

use fastrand::Rng;

/// Bytes of a stamp, at the front of every payload that has room for it.
pub(super) const STAMP: usize = 16;
/// After this many bytes the filler begins again.
const PERIOD: usize = 64 * 1024;

/// Which request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which run of the program.
    pub(super) run: u32,
    pub(super) client: u32,
    /// Of the client, from 0.
    pub(super) number: u64,
}

impl Stamp {
    fn bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        bytes[..4].copy_from_slice(&self.run.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.client.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; STAMP]) -> Self {
        let (run, rest) = bytes.split_at(4);
        let (client, number) = rest.split_at(4);
        let small = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u32::from(*byte))
        };
        Stamp {
            run: small(run),
            client: small(client),
            number: number
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        }
    }

    /// The same for the same stamp, and nothing like it for the next.
    fn hash(self) -> u128 {
        let first = mixed(self.number ^ mixed(u64::from(self.run) << 32 | u64::from(self.client)));
        u128::from(first) | u128::from(mixed(first)) << 64
    }
}

/// One step of SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Makes and checks the payloads of one run.
#[derive(Clone, Debug)]
pub(super) struct Payloads {
    run: u32,
    size: usize,
    filler: Arc<[u8]>,
}

impl Payloads {
    /// Payloads of this many bytes.
    pub(super) fn new(run: u32, size: usize) -> Self {
        let mut filler = vec![0; PERIOD];
        Rng::with_seed(0).fill(&mut filler);
        Payloads {
            run,
            size,
            filler: filler.into(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn stamp(&self, client: u32, number: u64) -> Stamp {
        Stamp {
            run: self.run,
            client,
            number,
        }
    }

    /// Calls with the parts of a payload from a byte on, until told that it is enough.
    fn parts(&self, stamp: Stamp, from: usize, mut use_part: impl FnMut(&[u8]) -> usize) {
        let head = self.head(stamp);
        let head = &head[..self.size.min(STAMP)];
        let mut at = from;
        while at < self.size {
            let part = if at < head.len() {
                &head[at..]
            } else {
                let place = (self.offset(stamp) + at) % PERIOD;
                let most = self.size - at;
                &self.filler[place..PERIOD.min(place + most)]
            };
            let used = use_part(part);
            at += used;
            if used < part.len() {
                return;
            }
        }
    }

    /// Adds bytes of a payload, from a byte on, and no more than given. Says how many.
    pub(super) fn append(&self, stamp: Stamp, from: usize, most: usize, bytes: &mut Vec<u8>) -> usize {
        let mut left = most;
        self.parts(stamp, from, |part| {
            let part = &part[..part.len().min(left)];
            bytes.extend_from_slice(part);
            left -= part.len();
            part.len()
        });
        most - left
    }

    /// Whether these are a payload's bytes from a byte on.
    fn matches(&self, stamp: Stamp, from: usize, mut bytes: &[u8]) -> bool {
        let mut same = bytes.len() <= self.size.saturating_sub(from);
        self.parts(stamp, from, |part| {
            let length = part.len().min(bytes.len());
            let (front, rest) = bytes.split_at(length);
            same &= front == &part[..length];
            bytes = rest;
            length
        });
        same
    }

    fn head(&self, stamp: Stamp) -> [u8; STAMP] {
        if self.size < STAMP {
            stamp.hash().to_le_bytes()
        } else {
            stamp.bytes()
        }
    }

    fn offset(&self, stamp: Stamp) -> usize {
        stamp.hash() as usize % PERIOD
    }
}

/// What the bytes of an answer say it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A request's payload, whole.
    Of(Stamp),
    /// A payload too short to name its request.
    Hash(Vec<u8>),
    /// The router's own words.
    Error(String),
    /// None of these.
    Other,
}

/// Bytes that are kept of an answer: enough for a stamp, and for the text of an error.
const KEPT: usize = 128;

/// Reads one answer as it arrives.
#[derive(Debug, Default)]
pub(super) struct Answer {
    announced: usize,
    read: usize,
    kept: Vec<u8>,
    /// Whose payload it is so far.
    stamp: Option<Stamp>,
}

impl Answer {
    /// The next one, of this length.
    pub(super) fn begin(&mut self, announced: u32) {
        self.announced = announced as usize;
        self.read = 0;
        self.kept.clear();
        self.stamp = None;
    }

    pub(super) fn take(&mut self, payloads: &Payloads, part: &[u8]) {
        let room = KEPT - self.kept.len().min(KEPT);
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
        let before = self.read;
        self.read += part.len();
        let unchecked = match self.stamp {
            Some(_) => (before, part),
            // The stamp has come just now: all up to here is in `kept`, or in this part.
            None if before < STAMP && self.read >= STAMP && self.announced == payloads.size => {
                let Some(head) = self.kept.first_chunk::<STAMP>() else {
                    return;
                };
                self.stamp = Some(Stamp::read(head));
                (STAMP, &part[STAMP - before..])
            }
            None => return,
        };
        let (from, bytes) = unchecked;
        self.stamp = self.stamp.filter(|stamp| payloads.matches(*stamp, from, bytes));
    }

    /// What it was, now that it is complete.
    pub(super) fn end(&self, payloads: &Payloads) -> Content {
        if let Some(stamp) = self.stamp
            && stamp.run == payloads.run
        {
            return Content::Of(stamp);
        }
        if self.announced == payloads.size && payloads.size < STAMP {
            return Content::Hash(self.kept.clone());
        }
        if self.kept.starts_with(b"ERR ") {
            return Content::Error(String::from_utf8_lossy(&self.kept).into_owned());
        }
        Content::Other
    }
}

impl Payloads {
    /// Whether a payload too short for a stamp is this request's.
    pub(super) fn is_hash_of(&self, bytes: &[u8], stamp: Stamp) -> bool {
        bytes == &self.head(stamp)[..self.size.min(STAMP)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 9] = [0, 1, 15, 16, 17, 64, 4096, PERIOD + 1, 3 * PERIOD];

    fn whole(payloads: &Payloads, stamp: Stamp) -> Vec<u8> {
        let mut bytes = Vec::new();
        payloads.append(stamp, 0, usize::MAX, &mut bytes);
        bytes
    }

    fn judged(payloads: &Payloads, bytes: &[u8], portion: usize) -> Content {
        let mut answer = Answer::default();
        answer.begin(bytes.len() as u32);
        for part in bytes.chunks(portion) {
            answer.take(payloads, part);
        }
        answer.end(payloads)
    }

    #[test]
    fn a_payload_has_its_size_and_is_known_again_however_it_arrives() {
        for size in SIZES {
            let payloads = Payloads::new(7, size);
            let stamp = payloads.stamp(3, 1 << 40);
            let bytes = whole(&payloads, stamp);

            assert_eq!(bytes.len(), size);
            for portion in [1, 5, 16, 1000, usize::MAX] {
                let known = match judged(&payloads, &bytes, portion) {
                    Content::Of(found) => found == stamp,
                    Content::Hash(found) => payloads.is_hash_of(&found, stamp),
                    _ => false,
                };

                assert!(known, "{size} bytes in portions of {portion}");
            }
        }
    }

    #[test]
    fn a_payload_is_the_same_in_whatever_portions_it_is_made() {
        for size in SIZES {
            let payloads = Payloads::new(7, size);
            let stamp = payloads.stamp(3, 9);
            let mut bytes = Vec::new();

            while bytes.len() < size {
                let from = bytes.len();
                payloads.append(stamp, from, 777, &mut bytes);
            }

            assert_eq!(bytes, whole(&payloads, stamp), "{size}");
        }
    }

    #[test]
    fn one_changed_byte_anywhere_is_no_payload() {
        let payloads = Payloads::new(7, 300);
        let bytes = whole(&payloads, payloads.stamp(3, 9));

        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;

            assert_eq!(judged(&payloads, &changed, 64), Content::Other, "byte {at}");
        }
    }

    #[test]
    fn a_longer_shorter_or_foreign_one_is_no_payload_of_this_run() {
        let payloads = Payloads::new(7, 100);
        let bytes = whole(&payloads, payloads.stamp(3, 9));
        let foreign = Payloads::new(8, 100);

        assert_eq!(judged(&payloads, &bytes[..99], 64), Content::Other);
        assert_eq!(
            judged(&payloads, &[bytes.as_slice(), b"x"].concat(), 64),
            Content::Other
        );
        assert_eq!(
            judged(&payloads, &whole(&foreign, foreign.stamp(3, 9)), 64),
            Content::Other
        );
    }

    #[test]
    fn an_error_is_told_by_its_text_whatever_the_size_of_requests() {
        for size in SIZES {
            let payloads = Payloads::new(7, size);

            assert_eq!(
                judged(&payloads, b"ERR backend unavailable", 5),
                Content::Error("ERR backend unavailable".to_owned()),
                "{size}"
            );
        }
    }
}
