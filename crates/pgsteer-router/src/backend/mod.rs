//! Backends: a pool of warm connections to each, and the set of them that requests are spread over.
//!
//! [`BackendPool`] is one backend's. [`BackendSet`] holds several, sends each request to the one that carries least for its
//! weight, and leaves out those that fail until a probe has found them well.

mod address;
mod dial;
mod error;
mod io;
mod options;
mod pool;
mod set;
mod status;

pub use address::{AddressError, BackendAddress};
pub use dial::{BoxFuture, Dial, TcpDialer};
pub use error::{BorrowError, SetError, Unavailable};
pub use io::{BackendIo, Stream};
pub use options::{BackendOptions, OptionError};
pub use pool::{BackendPool, Borrowed};
pub use set::{BackendSet, Routed};
pub use status::{BackendStatus, BreakerState, Closed, LastError, Totals};
