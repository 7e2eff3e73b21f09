//! Everything the demo shows at one moment, as plain data: the view and the plain lines are made from this alone.

use std::time::Duration;

use super::board::{Condition, Event};

/// One moment.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Since the demo started.
    pub elapsed: Duration,
    /// What is going on.
    pub stage: String,
    /// The servers, those of a zone together.
    pub servers: Vec<ServerScene>,
    /// `pool_size`.
    pub pool_size: u32,
    /// Connections ready to be handed out.
    pub idle: u32,
    /// Connections handed out.
    pub leased: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Callers waiting.
    pub waiting: u32,
    /// Queries answered since the start.
    pub answered: u64,
    /// Operations failed since the start.
    pub failed: u64,
    /// Queries per second and their 99th percentile, twice a second, oldest first.
    pub samples: Vec<(f64, Duration)>,
    /// What happened, oldest first.
    pub events: Vec<Event>,
}

/// One server.
#[derive(Clone, Debug, Default)]
pub struct ServerScene {
    /// Its name in the demo.
    pub name: String,
    /// Its zone.
    pub zone: String,
    /// Preference of the topology key that matches it; `None` until it has been discovered.
    pub level: Option<u8>,
    /// The truth about it.
    pub condition: Condition,
    /// What the pool knows: that it failed, and how long it is left alone still.
    pub left_out_for: Option<Duration>,
    /// Connections open to it.
    pub connections: u32,
    /// Connections being opened to it.
    pub opening: u32,
    /// Queries it answers per second.
    pub per_second: f64,
}

impl Scene {
    /// Queries per second, and their 99th percentile, in the newest sample.
    pub fn newest(&self) -> (f64, Duration) {
        self.samples.last().copied().unwrap_or_default()
    }
}
