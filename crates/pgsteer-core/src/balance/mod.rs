//! Spreading requests over backends that all do the same: which one gets the next, and which are left out.
//!
//! The choice is the least requests in flight for its weight. It needs no lock: whoever chooses looks at each backend's
//! numbers, which others change meanwhile, and counts itself in afterwards, choosing again if somebody was faster with the
//! chosen one. By how much a choice can be wrong is bounded by how many choose at once, and the next one puts it right.
//!
//! A backend that fails would look least loaded for ever and swallow what comes. So it is left out once it is known to
//! fail, and only a probe brings it back ([`Standing`]); the end of a delay by itself does not. When all are left out each
//! is tried all the same, the one whose failure is the longest ago first.

mod pick;
mod standing;
mod streak;
mod turns;

pub use pick::{Candidate, Load, Picked, pick};
pub use standing::{Service, Standing, StandingOptions};
pub use streak::Streak;
pub use turns::Turns;
