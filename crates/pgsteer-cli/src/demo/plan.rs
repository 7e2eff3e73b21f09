//! What the demo is going to do and what it expects to see: numbers and placements, as plain values.

use std::time::Duration;

use super::spread::Expected;

/// Servers as they are laid out: name and zone.
pub const SERVERS: [(&str, &str); 4] = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")];
/// Cloud and region of all of them.
pub const CLOUD: &str = "sim";
/// See [`CLOUD`].
pub const REGION: &str = "north";
/// The zone the pool prefers, which is the one that is lost.
pub const HOME: &str = "a";
/// The server that is frozen.
pub const FREEZES: &str = "a2";

/// Everything that can differ between two runs of the demo.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the simulated servers.
    pub seed: u64,
    /// `pool_size`.
    pub pool_size: u32,
    /// Tasks that run queries all the time.
    pub tasks: usize,
    /// How long a query takes on the server.
    pub query_time: Duration,
    /// How long a task waits between two queries.
    pub pause: Duration,
    /// `rebalance_interval`.
    pub rebalance_interval: Duration,
    /// `rebalance_batch`.
    pub rebalance_batch: u32,
    /// How long each state is shown.
    pub calm: Duration,
    /// How long a server is frozen.
    pub frozen: Duration,
    /// How long the pool may take to get where it belongs after each event.
    pub limit: Duration,
    /// Where connections belong while all is well.
    pub at_home: Expected,
    /// Where they belong while the home zone is down.
    pub away: Expected,
    /// Where they belong at the end.
    pub at_the_end: Expected,
}

/// About what the pool itself needs: to fill, to fall, to come home.
const WORK: Duration = Duration::from_secs(5);
/// Calm stretches in the story, the freeze included.
const STRETCHES: u32 = 5;
const SHORTEST_CALM: Duration = Duration::from_millis(300);
const SHORTEST_FREEZE: Duration = Duration::from_millis(1500);

impl Plan {
    /// The story as `pgsteer demo` tells it, in about this time.
    pub fn lasting(total: Duration, seed: u64) -> Self {
        let calm = (total.saturating_sub(WORK) / STRETCHES).max(SHORTEST_CALM);
        Plan {
            seed,
            pool_size: 12,
            tasks: 32,
            query_time: Duration::from_millis(4),
            pause: Duration::from_millis(2),
            rebalance_interval: Duration::from_millis(500),
            rebalance_batch: 2,
            calm,
            frozen: calm.max(SHORTEST_FREEZE),
            limit: Duration::from_secs(12),
            at_home: Expected::in_zones(&[HOME]),
            away: Expected::in_zones(&["b", "c"]),
            at_the_end: Expected::in_zones(&[HOME]),
        }
    }
}
