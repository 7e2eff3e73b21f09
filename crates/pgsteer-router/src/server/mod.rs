//! The router: clients on one side, a set of backends on the other.
//!
//! Each client connection is one task that reads a request, borrows a connection to a backend, writes, reads the answer and
//! writes it back, with no other task in between. A client that says nothing holds no buffer. What is longer than
//! 16 KiB is passed on while it comes, through two buffers of 64 KiB.
//!
//! ```no_run
//! use std::time::Duration;
//! use pgsteer_router::server::{Router, RouterConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let router = Router::start(RouterConfig {
//!     listen: "127.0.0.1:8080".to_owned(),
//!     backends: vec!["10.0.0.1:9090".parse()?, "10.0.0.2:9090:2".parse()?],
//!     ..RouterConfig::default()
//! })
//! .await?;
//! println!("listening on {}", router.local_addr());
//! let drained = router.shutdown(Duration::from_secs(30)).await;
//! assert_eq!(drained.dropped, 0);
//! # Ok(())
//! # }
//! ```

mod arrived;
mod buffer;
mod client;
mod connection;
mod deadline;
mod error;
mod exchange;
mod incoming;
mod listener;
mod options;
mod pass_on;
mod phase;
mod pipelined;
mod relay;
mod retry;
mod router;
mod settings;
mod shared;
mod spare;

pub use error::{ReloadError, StartError};
pub use options::ServerOptions;
pub use router::{Drained, Router};
pub use settings::RouterConfig;

pub use crate::metrics::{Errors, Totals};
pub use crate::threads::Threads;
pub(crate) use shared::Shared;
