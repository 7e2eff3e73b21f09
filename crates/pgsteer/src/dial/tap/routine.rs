//! The routine of the server that a notice comes from, read as it passes: it is the last of the fields, behind texts of
//! any length, and the one that no language changes.

use pgsteer_core::verdict::UNCONFIRMED_COMMIT_ROUTINE;

/// Reads one notice after the other, in pieces of any size. Keeps nothing but how far it has come.
#[derive(Debug, Default)]
pub(super) struct Routine(At);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// The type of the next field.
    #[default]
    Kind,
    /// A value that is none of ours.
    Within,
    /// The routine, which so far is the one looked for.
    Matching(usize),
    /// It was the one looked for.
    Found,
}

/// The type of the field that holds it.
const FIELD: u8 = b'R';

impl Routine {
    /// A notice begins.
    pub(super) fn begin(&mut self) {
        self.0 = At::Kind;
    }

    /// The next bytes of its body.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let wanted = UNCONFIRMED_COMMIT_ROUTINE.as_bytes();
        for byte in bytes {
            self.0 = match (self.0, *byte) {
                (At::Found, _) => return,
                (At::Kind, FIELD) => At::Matching(0),
                // The end of the message, behind which nothing comes, or the type of another field.
                (At::Kind, 0) => At::Kind,
                (At::Kind, _) => At::Within,
                (At::Within, 0) => At::Kind,
                (At::Matching(length), 0) if length == wanted.len() => At::Found,
                (At::Matching(_), 0) => At::Kind,
                (At::Matching(length), byte) if wanted.get(length) == Some(&byte) => At::Matching(length + 1),
                (At::Within | At::Matching(_), _) => At::Within,
            };
        }
    }

    /// Whether the notice says that a commit was not waited for.
    pub(super) fn is_of_unconfirmed_commit(&self) -> bool {
        self.0 == At::Found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &[u8], piece: usize) -> bool {
        let mut routine = Routine::default();
        routine.begin();
        body.chunks(piece).for_each(|bytes| routine.feed(bytes));
        routine.is_of_unconfirmed_commit()
    }

    #[test]
    fn the_routine_is_found_whatever_stands_before_it_and_however_it_is_cut() {
        let long = "x".repeat(5000);
        // the body, whether it is of a commit that was not waited for
        let rows = [
            ("SWARNING\0C01000\0Mtext\0RSyncRepWaitForLSN\0\0".to_owned(), true),
            (
                format!("SWARNUNG\0C01000\0M{long}\0D{long}\0Fsyncrep.c\0L297\0RSyncRepWaitForLSN\0\0"),
                true,
            ),
            ("RSyncRepWaitForLSN\0Mtext\0\0".to_owned(), true),
            ("SWARNING\0MRSyncRepWaitForLSN\0Rother\0\0".to_owned(), false),
            ("RSyncRepWaitForLSNs\0\0".to_owned(), false),
            ("RSyncRepWaitForLS\0\0".to_owned(), false),
            ("RSyncRepWaitForLSN".to_owned(), false),
            ("R\0\0".to_owned(), false),
            ("\0\0\0".to_owned(), false),
            (String::new(), false),
        ];
        for (body, wanted) in rows {
            for piece in [1, 2, 3, 7, 10_000] {
                assert_eq!(found(body.as_bytes(), piece), wanted, "{body} by {piece}");
            }
        }
    }

    #[test]
    fn each_notice_is_read_for_itself() {
        let mut routine = Routine::default();
        routine.begin();
        routine.feed(b"RSyncRepWaitForLSN\0\0");
        routine.begin();
        routine.feed(b"Rother\0\0");
        assert!(!routine.is_of_unconfirmed_commit());
    }
}
