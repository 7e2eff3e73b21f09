//! Setters for finding servers and choosing among them.

use std::time::Duration;

use crate::config::{Config, HostOrder, LoadBalance, TopologySpec};

impl Config {
    /// Which servers new connections go to. Default [`LoadBalance::Off`]: the configured hosts in their order, and no
    /// discovery.
    #[must_use]
    pub fn load_balance(mut self, mode: LoadBalance) -> Self {
        self.load_balance = mode;
        self
    }

    /// The placements to prefer: text such as `gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2` (cloud.region.zone, the zone
    /// possibly `*`, then `:preference` from 1 to 10, default 1), or [`TopologyKeys`](crate::config::TopologyKeys).
    /// Names match in any case. Default none. No effect under [`LoadBalance::Off`].
    #[must_use]
    pub fn topology_keys(mut self, keys: impl Into<TopologySpec>) -> Self {
        self.topology_keys = keys.into();
        self
    }

    /// Whether to fail rather than use a server outside every listed placement. Default off. No effect without
    /// [`topology_keys`](Config::topology_keys), under [`LoadBalance::Off`] and under the two modes that prefer a node
    /// type.
    #[must_use]
    pub fn fallback_to_topology_keys_only(mut self, only: bool) -> Self {
        self.fallback_to_topology_keys_only = only;
        self
    }

    /// The time between refreshes, which probe failed hosts and ask for the servers again: whole seconds, 0 to 600.
    /// Default 300 s. Zero means no timer: each connection that is opened starts one in the background.
    #[must_use]
    pub fn yb_servers_refresh_interval(mut self, interval: Duration) -> Self {
        self.yb_servers_refresh_interval = interval;
        self
    }

    /// How long a host that failed is left out at least: seconds, 0 to 60. Default 5. With 0 it is due at the next
    /// refresh.
    #[must_use]
    pub fn failed_host_reconnect_delay_secs(mut self, seconds: u64) -> Self {
        self.failed_host_reconnect_delay_secs = seconds;
        self
    }

    /// Doubles the delay of a host with each failure in a row, up to this many seconds. Must be at least
    /// [`failed_host_reconnect_delay_secs`](Config::failed_host_reconnect_delay_secs), which then must not be 0.
    /// Default `None`: the delay is the same each time, as it is with a limit equal to the delay.
    #[must_use]
    pub fn failed_host_max_delay_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.failed_host_max_delay_secs = seconds.into();
        self
    }

    /// In which order the configured hosts are tried where nothing else decides. Default [`HostOrder::Listed`].
    #[must_use]
    pub fn load_balance_hosts(mut self, order: HostOrder) -> Self {
        self.load_balance_hosts = Some(order);
        self
    }

    /// How long what a server said it is, primary or standby, orders it among the others; it is asked again on each new
    /// connection all the same. From 0 to 100 years. Default 10 s. No effect without
    /// [`target_session_attrs`](Config::target_session_attrs).
    #[must_use]
    pub fn role_ttl(mut self, ttl: Duration) -> Self {
        self.role_ttl = ttl;
        self
    }

    /// How many passes over the hosts must fail in a row, each having met no host that answered, before nothing is
    /// dialled any more but one pass a window. Default 5; 0 is never.
    ///
    /// While it is so, checkouts that no open connection can serve fail at once with
    /// [`Error::CircuitOpen`](crate::Error::CircuitOpen). A pass in which any host answers, if only to refuse the login,
    /// counts neither way, nor does one in which the load-balance mode left hosts out. A refresh that finds a server, and any
    /// answer to the one pass or to a refresh, ends it early. All pools on a cluster share its breaker. Its changes are
    /// logged with the target `pgsteer::breaker`: the windows whose number is a power of two as warnings, the end as
    /// information, the rest for debugging.
    #[must_use]
    pub fn breaker_threshold(mut self, passes: u32) -> Self {
        self.breaker_threshold = passes;
        self
    }

    /// How long nothing is dialled when the breaker opens; each window after a pass that failed is twice as long as the
    /// one before. From 1 ms to [`breaker_cap`](Config::breaker_cap). Default 1 s.
    #[must_use]
    pub fn breaker_base(mut self, window: Duration) -> Self {
        self.breaker_base = window;
        self
    }

    /// What the breaker's windows grow to, before [`breaker_jitter`](Config::breaker_jitter). From
    /// [`breaker_base`](Config::breaker_base) to 24 h. Default 60 s.
    #[must_use]
    pub fn breaker_cap(mut self, window: Duration) -> Self {
        self.breaker_cap = window;
        self
    }

    /// The most by which each window is longer, at random, as a share of itself; none is ever shorter. So that many
    /// processes do not dial in step. From 0 to 1. Default 0.2.
    #[must_use]
    pub fn breaker_jitter(mut self, share: f64) -> Self {
        self.breaker_jitter = share;
        self
    }

    /// Whether connections to an address that a configured name no longer resolves to are moved away, as those to a host
    /// that is no longer wanted. Default on. Looked at on each refresh.
    #[must_use]
    pub fn drain_stale_addresses(mut self, drain: bool) -> Self {
        self.drain_stale_addresses = drain;
        self
    }
}
