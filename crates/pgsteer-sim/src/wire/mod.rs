//! The messages of PostgreSQL's protocol as a server sees them: reading the client's, writing its own.
//!
//! The codec is written here because the published ones read client frames with unchecked getters, so that a cut
//! frame ends in a panic, and none can write the odd frames a fault needs. Nothing in here knows a session.

pub(crate) mod backend;
pub(crate) mod frontend;
