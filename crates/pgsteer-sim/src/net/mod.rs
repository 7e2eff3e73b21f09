//! How bytes get from a client to a simulated server and back: an in-memory network with TCP's manners, and real
//! loopback TCP. Nothing here knows the protocol that is spoken.

pub(crate) mod gate;
pub(crate) mod link;
pub(crate) mod network;
pub(crate) mod pipe;
pub(crate) mod tcp;
