//! A circuit breaker: while a database is down, asking costs nothing and one probe per window looks whether it is back.
//!
//! ```text
//! closed    -> open       `threshold` failures in a row
//! open      -> half-open  somebody asks when the window is over: that one is the probe
//! half-open -> closed     the probe was answered, or there was another sign of life
//! half-open -> open       the probe failed (the next window is longer) or was given up (the same window again)
//! half-open -> half-open  the probe's lease is over: whoever asks next is the probe instead
//! ```
//!
//! Each of these changes begins a new *generation*. A [`Permit`] belongs to the generation in which it was given, and
//! its outcome counts in that one only. So what began before an outage says nothing about its end, a probe that was
//! taken for lost cannot disturb the one that followed it, and a late failure of an earlier outage does not count
//! towards the next. Within one closed generation outcomes may come in any order: "in a row" is the order in which they
//! are reported, over all callers together. Five attempts in flight that meet one hiccup open it, for one window.
//!
//! A permit that is dropped without an outcome counts as given up, so a cancelled future, a panic or an early return
//! cannot leave the breaker waiting for a probe that is gone; one that is never dropped is covered by the lease, which a
//! probe that goes in steps may renew.
//!
//! The decisions are in `machine`, which is plain code with time and random draws as arguments. [`Breaker`] shares it
//! among threads: one atomic word answers while all is well, and everything else goes through a lock that is never
//! held over anything but those decisions. The clock, the random draws and whoever wants to hear of changes are
//! behind [`Surroundings`].

mod events;
mod machine;
mod options;
mod pass;
mod permit;
mod shared;
mod sync;

pub use events::{Cause, Closed, ClosedBy, Event, HalfOpened, Opened};
pub use machine::{Rejected, State, Status};
pub use options::{BadOption, BreakerOptions};
pub use pass::HostsMet;
pub use permit::Permit;
pub use shared::{Breaker, Surroundings};
