//! Whether a request that failed on one connection may be sent once more on another.

/// What happened to the connection that the request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The backend closed or reset it.
    Closed,
    /// The backend was silent for too long. It may be at work on the request.
    TimedOut,
    /// What the backend sent is no frame.
    Garbage,
}

/// How far a request had come when its connection failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) ending: Ending,
    /// The connection had served another request before.
    pub(crate) reused: bool,
    /// Some byte of the answer had come.
    pub(crate) answer_begun: bool,
    /// The whole request is still at hand.
    pub(crate) held: bool,
    /// It has been sent again before.
    pub(crate) again: bool,
}

impl Failed {
    /// A backend may close a connection that has been idle, and the request crosses with that. Then it was not read.
    /// Anything else may mean that the backend has acted on it.
    pub(crate) fn may_be_sent_again(self) -> bool {
        self.ending == Ending::Closed && self.reused && !self.answer_begun && self.held && !self.again
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, Failed};

    /// Covers: S-27
    #[test]
    fn only_what_a_stale_connection_swallowed_unread_is_sent_again_and_only_once() {
        for ending in [Ending::Closed, Ending::TimedOut, Ending::Garbage] {
            for bits in 0..16 {
                let failed = Failed {
                    ending,
                    reused: bits & 1 != 0,
                    answer_begun: bits & 2 != 0,
                    held: bits & 4 != 0,
                    again: bits & 8 != 0,
                };

                let expected = matches!(
                    failed,
                    Failed {
                        ending: Ending::Closed,
                        reused: true,
                        answer_begun: false,
                        held: true,
                        again: false,
                    }
                );
                assert_eq!(failed.may_be_sent_again(), expected, "{failed:?}");
            }
        }
    }
}
