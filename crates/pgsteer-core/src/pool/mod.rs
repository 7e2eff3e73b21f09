//! One pool: its slots and who waits for them, and the planner that says what to open, close and move.

mod handover;
pub mod planner;
mod session;
mod slots;
mod sync;
mod waiters;
mod words;

pub use handover::{Checkout, GivenBack};
pub use session::{GiveBack, PassEnd, Session};
pub use slots::{HasSession, Keeper, Lease, Slots, Take, Tenant};
pub use waiters::{Rejected, Wait};
