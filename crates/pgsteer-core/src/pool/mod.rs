//! One pool: its slots and who waits for them, and the planner that says what to open, close and move.

mod cells;
mod checks;
mod handover;
pub mod planner;
mod session;
mod slots;
mod sync;
mod waiters;
mod watch;
mod words;

pub use checks::HealthChecks;
pub use handover::{Checkout, GivenBack};
pub use session::{GiveBack, PassEnd, Session};
pub use slots::{HasSession, Keeper, Lease, Slots, Take, Tenant};
pub use waiters::{Rejected, Wait};
pub use watch::IdleWatch;
pub use words::Lane;
