//! Backends: a pool of warm connections to each, and the set of them that requests are spread over.
//!
//! [`BackendPool`] is one backend's. [`BackendSet`] holds several, sends each request to the one that carries least for its
//! weight, and leaves out those that fail until a probe has found them well.
//!
//! Both run on the engine of the PostgreSQL pool: slots and one word of idle bits, waiters in a strict queue, a planner that
//! says what is opened and closed, a circuit breaker in front of the dials. A checkout and return of an idle connection takes
//! no lock of ours, allocates nothing, and sends nothing.

mod address;
mod blame;
mod borrowed;
mod checkout;
mod connection;
mod counters;
mod dial;
mod error;
mod farewell;
mod inner;
mod io;
mod keeper;
mod opener;
mod options;
mod outside;
mod ping;
mod pool;
mod set;
mod status;

pub use address::{AddressError, BackendAddress};
pub use borrowed::Borrowed;
pub use dial::{BoxFuture, Dial, TcpDialer};
pub use error::{BorrowError, SetError, Unavailable};
pub use io::{BackendIo, Stream};
pub use options::{BackendOptions, BreakerOptions, OptionError};
pub use pool::BackendPool;
pub use set::{BackendSet, Routed};
pub use status::{BackendStatus, BreakerState, Closed, LastError, Totals};
