//! What all clients of a router have in common.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::ServerConfig;
use tokio::time::Instant;

use super::options::ServerOptions;
use super::phase::Clients;
use crate::backend::BackendSet;
use crate::metrics::{Backends, Metrics};
use crate::threads::Crew;

pub(crate) struct Shared {
    pub(crate) clients: Arc<Clients>,
    pub(crate) set: BackendSet,
    pub(crate) metrics: Metrics,
    pub(crate) backends: Backends,
    pub(crate) options: ArcSwap<ServerOptions>,
    /// What clients are shown; `None` is clear text.
    pub(crate) tls: ArcSwapOption<ServerConfig>,
    pub(crate) unavailable: Told,
    pub(crate) crew: Crew,
    ready: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        set: BackendSet,
        options: ServerOptions,
        tls: Option<Arc<ServerConfig>>,
        crew: Crew,
    ) -> Self {
        Shared {
            clients: Clients::new(),
            set,
            metrics: Metrics::default(),
            backends: Backends::default(),
            options: ArcSwap::from_pointee(options),
            tls: ArcSwapOption::new(tls),
            unavailable: Told::default(),
            crew,
            ready: AtomicBool::new(true),
        }
    }

    /// Whether new clients are welcome.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn take_back_readiness(&self) {
        self.ready.store(false, Ordering::Release);
    }
}

/// How often the same thing is told of, at most.
const BETWEEN: Duration = Duration::from_secs(10);

/// Requests that no backend could be found for. They may be many, and one line tells of all of them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    last: Mutex<Option<(Instant, u64)>>,
}

impl Told {
    pub(crate) fn tell(&self, why: &dyn Display) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = match &mut *last {
            Some((told, silent)) if now.duration_since(*told) < BETWEEN => {
                *silent += 1;
                return;
            }
            last => last.map_or(0, |(_, silent)| silent),
        };
        *last = Some((now, 0));
        drop(last);
        tracing::warn!(target: "pgsteer::router", "a request got no backend ({silent} more since this was last told): {why}");
    }
}
