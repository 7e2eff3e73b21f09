//! What one history consists of, drawn from its seed: servers, configuration, how much work, which faults.

use std::time::Duration;

use pgsteer::Config;
use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer_sim::{Breakage, Schedule, ScheduleOptions, ServerSpec, Sim};

use crate::rig::*;

const ZONES: [&str; 3] = ["us-east1-b", "us-east1-c", "us-west1-a"];

/// A drawn server.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub name: String,
    pub zone: &'static str,
    pub replica: bool,
}

/// One history.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub servers: Vec<Drawn>,
    /// A load balancer in front is the only seed.
    pub balancer: bool,
    pub mode: LoadBalance,
    /// Zones in order of preference; empty for none.
    pub preferred: Vec<&'static str>,
    pub size: u32,
    /// Below `size` for an elastic pool.
    pub min_idle: u32,
    pub idle_timeout: Option<Duration>,
    pub lifetime: Duration,
    pub rebalance: Duration,
    pub batch: u32,
    pub refresh: Duration,
    pub delay: u64,
    pub cap: Option<u64>,
    pub max_dials: u32,
    /// Whether new connections run statements of their own.
    pub sets_sessions_up: bool,
    pub workers: u64,
    pub bursts: u64,
    pub burst: Duration,
    pub quiet: Duration,
    pub breakages: usize,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let random = &mut fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let count = random.usize(1..=5);
        let servers: Vec<Drawn> = (0..count)
            .map(|number| Drawn {
                name: format!("s{number}"),
                zone: ZONES[random.usize(..ZONES.len())],
                // The first is a primary in any case.
                replica: number > 0 && random.u32(0..3) == 0,
            })
            .collect();
        let replicas = servers.iter().any(|server| server.replica);
        let mode = match random.u32(0..8) {
            0 => LoadBalance::Off,
            1 => LoadBalance::OnlyPrimary,
            2 if replicas => LoadBalance::OnlyReplica,
            3 => LoadBalance::PreferPrimary,
            4 => LoadBalance::PreferReplica,
            _ => LoadBalance::Any,
        };
        let mut preferred = Vec::new();
        if random.bool() {
            preferred = ZONES.to_vec();
            random.shuffle(&mut preferred);
            preferred.truncate(random.usize(1..=ZONES.len()));
        }
        let size = random.u32(1..=12);
        let elastic = random.u32(0..4) == 0;
        let refresh = seconds([600, 600, 600, 300, 60, 0][random.usize(..6)]);
        let lifetime = seconds([120, 1800, 3600, 14_400][random.usize(..4)]);
        let rebalance = seconds([1, 30, 30, 60, 60][random.usize(..5)]);
        Plan {
            seed,
            servers,
            balancer: random.u32(0..4) == 0 && mode != LoadBalance::Off,
            mode,
            preferred,
            size,
            min_idle: if elastic { random.u32(0..=size / 2) } else { size },
            idle_timeout: elastic.then(|| seconds(random.u64(1..60))),
            lifetime,
            rebalance,
            batch: random.u32(1..=4),
            refresh,
            delay: [0, 1, 5][random.usize(..3)],
            cap: random.bool().then_some(20),
            max_dials: [1, 4, 32][random.usize(..3)],
            sets_sessions_up: random.u32(0..4) == 0,
            workers: random.u64(8..=32),
            bursts: random.u64(1..=3),
            burst: seconds(random.u64(20..=60)),
            quiet: Duration::ZERO,
            breakages: random.usize(0..=6),
        }
        .consistent()
    }

    fn consistent(mut self) -> Self {
        if self.delay == 0 {
            self.cap = None;
        }
        self.quiet = self.affordable_quiet();
        self
    }

    /// As long as costs about the same real time in every history: so many looks at the spread, discoveries and
    /// replaced connections.
    fn affordable_quiet(&self) -> Duration {
        let looks = if self.idle_timeout.is_some() {
            seconds(1)
        } else {
            self.rebalance
        };
        let discoveries = if self.mode == LoadBalance::Off || self.refresh.is_zero() {
            Duration::MAX
        } else {
            self.refresh * 250
        };
        let lives = self.lifetime * 400 / self.size;
        (looks * 4000).min(discoveries).min(lives).min(seconds(48 * 3600))
    }

    pub fn sim(&self) -> Sim {
        let mut builder = Sim::builder(self.seed).log_limit(2000);
        for server in &self.servers {
            let spec = ServerSpec::new(&server.name).placement("gcp", "region", server.zone);
            builder = builder.server(if server.replica { spec.read_replica() } else { spec });
        }
        if self.balancer {
            builder = builder.server(ServerSpec::new("lb").unlisted());
        }
        builder.build()
    }

    fn seeds(&self) -> Vec<&str> {
        if self.balancer {
            vec!["lb"]
        } else {
            self.servers.iter().map(|server| server.name.as_str()).collect()
        }
    }

    pub fn config(&self) -> Config {
        let keys: Vec<String> = (1..)
            .zip(&self.preferred)
            .map(|(level, zone)| format!("gcp.region.{zone}:{level}"))
            .collect();
        let config = config(&self.seeds())
            .load_balance(self.mode)
            .topology_keys(keys.join(","))
            .application_name("history")
            .pool_size(self.size)
            .min_idle(self.min_idle)
            .idle_timeout(self.idle_timeout)
            .max_lifetime(self.lifetime)
            .lifetime_jitter(self.lifetime / 10)
            .rebalance_interval(self.rebalance)
            .rebalance_batch(self.batch)
            .yb_servers_refresh_interval(self.refresh)
            .failed_host_reconnect_delay_secs(self.delay)
            .failed_host_max_delay_secs(self.cap)
            .max_dials(self.max_dials)
            .connect_timeout(seconds(3));
        if self.sets_sessions_up {
            config
                .statement_timeout(seconds(20))
                .target_session_attrs(TargetSessionAttrs::ReadWrite)
        } else {
            config
        }
    }

    /// The faults of one burst. All are over when it ends.
    pub fn faults(&self, burst: u64) -> Schedule {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let options = ScheduleOptions {
            breakages: self.breakages,
            length: self.burst,
            outage: (millis(100), self.burst / 2),
            spare: usize::from(self.seed % 3 == 0),
            kinds: Breakage::ALL.to_vec(),
            ..ScheduleOptions::new(&servers)
        };
        Schedule::random(self.seed ^ (burst << 32), &options)
    }

    /// Connections the pool has at least when it is at rest.
    pub fn floor(&self) -> u32 {
        self.min_idle
    }

    /// Where connections belong when every server works: by node type, then by zone.
    pub fn home(&self) -> Vec<&str> {
        if self.mode == LoadBalance::Off {
            return vec![self.servers[0].name.as_str()];
        }
        let of_type = |replica: bool| {
            self.servers
                .iter()
                .filter(|server| server.replica == replica)
                .collect::<Vec<_>>()
        };
        let all: Vec<&Drawn> = self.servers.iter().collect();
        let (candidates, preferred_type) = match self.mode {
            LoadBalance::OnlyPrimary | LoadBalance::PreferPrimary => (of_type(false), true),
            LoadBalance::OnlyReplica => (of_type(true), true),
            LoadBalance::PreferReplica if of_type(true).is_empty() => (of_type(false), false),
            LoadBalance::PreferReplica => (of_type(true), true),
            _ => (all, true),
        };
        let level = self.preferred.iter().filter(|_| preferred_type).find_map(|zone| {
            let near: Vec<&Drawn> = candidates
                .iter()
                .copied()
                .filter(|server| server.zone == *zone)
                .collect();
            (!near.is_empty()).then_some(near)
        });
        level
            .unwrap_or(candidates)
            .into_iter()
            .map(|server| server.name.as_str())
            .collect()
    }

    /// Hosts are found back by a refresh after their delay; then connections move, a batch at a look.
    pub fn time_to_recover(&self) -> Duration {
        let delay = seconds(self.cap.unwrap_or(self.delay));
        let found_back = delay + self.refresh.max(seconds(10)) * 2;
        let moved = self.rebalance * (self.size + 4);
        found_back + moved + seconds(120)
    }
}
