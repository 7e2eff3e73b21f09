//! What is undone on a connection that comes back.

use std::fmt;

/// How much of what a holder has changed in its session is undone before the next one gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recycle {
    /// Open transactions and running statements, and nothing else: the session stays as it is, and nothing is sent for a
    /// connection that comes back idle.
    #[default]
    Fast,
    /// The state of the session as well, with statements that take one round trip, in the background, on every return.
    ///
    /// Undone are settings (`SET`, back to what the session began with, and to `statement_timeout` if the configuration
    /// has one), role and session authorization, cursors, `LISTEN`, advisory locks, temporary tables and what sequences
    /// remember. Statements prepared through the client are its own and not touched; those prepared with SQL's `PREPARE`
    /// stay, since to forget all of them would take the client's away too. So does what
    /// [`after_connect`](super::Config::after_connect) has set go: set it with `options` or for the role instead.
    Clean,
}

impl Recycle {
    /// Reads `fast` or `clean`, lower case; `None` for any other text.
    pub fn parse_text(text: &str) -> Option<Self> {
        match text {
            "fast" => Some(Recycle::Fast),
            "clean" => Some(Recycle::Clean),
            _ => None,
        }
    }
}

impl fmt::Display for Recycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Recycle::Fast => "fast",
            Recycle::Clean => "clean",
        })
    }
}
