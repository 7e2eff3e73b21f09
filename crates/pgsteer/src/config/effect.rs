//! Options that are set but change nothing, because of how other options are set.
//!
//! Such a configuration is valid, so this is no part of the check: it is told once, where the configuration is put to
//! use, and the person who wrote it decides. No sentence repeats a text of the configuration.

use std::time::Duration;

use pgsteer_core::breaker::BreakerOptions;

use super::check::CONNECT_TIMEOUT;
use super::{Config, HostOrder, HostSpec, LoadBalance, SslMode};

/// Of the parameters of other drivers that are accepted.
const NOTHING_TO_TUNE: &str = "it tunes a part of another driver that this one does not have; leave it out";

impl Config {
    /// One sentence for each option that is not at its default and yet changes nothing, because of how other options
    /// are set: `topology_keys` without load balancing, an `idle_timeout` for a pool of fixed size, and so on.
    ///
    /// [`Pool::start`](crate::Pool::start) and [`Cluster::start`](crate::Cluster::start) log each as a warning with the
    /// target `pgsteer::config`. Empty if there is nothing to tell, and if the configuration is not valid, which
    /// [`check`](Config::check) tells.
    ///
    /// ```
    /// use pgsteer::config::Config;
    ///
    /// let told = Config::yugabyte().topology_keys("gcp.us-east1.*").without_effect();
    /// assert!(told[0].starts_with("topology_keys has no effect"));
    /// ```
    pub fn without_effect(&self) -> Vec<String> {
        let Ok(()) = self.judge() else {
            return Vec::new();
        };
        let reasons = [
            ("role_ttl", self.why_no_roles()),
            ("load_balance_hosts", self.why_no_order()),
            ("sslrootcert", self.why_no_tls(self.tls.roots.is_some())),
            ("sslcert", self.why_no_tls(self.tls.client_cert.is_some())),
            ("sslkey", self.why_no_tls(self.tls.client_key.is_some())),
            ("ssl_server_name", self.why_no_tls(self.tls.server_name.is_some())),
            ("connect_race_delay", self.why_no_race()),
            (
                "keepalives_idle",
                self.why_no_keepalives(|config| config.keepalives_idle.as_secs()),
            ),
            (
                "keepalives_interval",
                self.why_no_keepalives(|config| config.keepalives_interval.as_secs()),
            ),
            (
                "keepalives_count",
                self.why_no_keepalives(|config| u64::from(config.keepalives_count)),
            ),
            ("topology_keys", self.why_no_keys()),
            ("fallback_to_topology_keys_only", self.why_no_fallback()),
            ("failed_host_max_delay_secs", self.why_no_doubling()),
            (
                "breaker_base",
                self.why_no_breaker(self.breaker_base != BreakerOptions::DEFAULT.base),
            ),
            (
                "breaker_cap",
                self.why_no_breaker(self.breaker_cap != BreakerOptions::DEFAULT.cap),
            ),
            (
                "breaker_jitter",
                self.why_no_breaker(self.breaker_jitter != BreakerOptions::DEFAULT.jitter),
            ),
            ("idle_timeout", self.why_none_idle()),
            ("after_connect_timeout", self.why_no_hook()),
            ("cancel_on_timeout", self.why_no_timeout()),
            ("resolve_commit_timeout", self.why_nothing_resolved()),
            ("return_cancel_after", self.why_no_cancel()),
        ];
        let foreign = self.without_use.iter().map(|name| (*name, Some(NOTHING_TO_TUNE)));
        reasons
            .into_iter()
            .chain(foreign)
            .filter_map(|(name, reason)| reason.map(|reason| format!("{name} has no effect: {reason}")))
            .collect()
    }

    /// Logs what has no effect.
    pub(crate) fn warn_without_effect(&self) {
        for told in self.without_effect() {
            tracing::warn!(target: "pgsteer::config", "{told}");
        }
    }

    fn why_no_roles(&self) -> Option<&'static str> {
        let changed = self.role_ttl != Config::of(self.family).role_ttl;
        let asks = self.target_session_attrs.unwrap_or_default().asks();
        (changed && !asks).then_some(
            "with target_session_attrs=any no server is asked what it is; set target_session_attrs to another target",
        )
    }

    /// Whether connections can only ever go to one configured host.
    fn has_one_host(&self) -> bool {
        !self.load_balance.discovers() && self.hosts.as_ref().is_none_or(|hosts| hosts.len() == 1)
    }

    fn why_no_order(&self) -> Option<&'static str> {
        let random = self.load_balance_hosts == Some(HostOrder::Random);
        (random && self.has_one_host()).then_some("there is only one host")
    }

    fn why_no_race(&self) -> Option<&'static str> {
        let delay = self.connect_race_delay?;
        if self.has_one_host() {
            Some("there is only one host")
        } else if self.load_balance.discovers() || self.load_balance_hosts == Some(HostOrder::Random) {
            Some(
                "hosts are dialled side by side only in their listed order: without load_balance, and with load_balance_hosts=disable",
            )
        } else if delay >= self.connect_timeout.unwrap_or(CONNECT_TIMEOUT) {
            Some(
                "it is not less than connect_timeout, so each host has been given up before the next is dialled",
            )
        } else {
            None
        }
    }

    fn why_no_tls(&self, given: bool) -> Option<&'static str> {
        if !given {
            None
        } else if self.tls.mode() == SslMode::Disable {
            Some("with sslmode=disable no connection is encrypted; set sslmode to another mode")
        } else if self.has_sockets_only() {
            Some("all hosts are socket directories, and over a Unix socket there is no TLS")
        } else {
            None
        }
    }

    /// Whether connections can only ever go through Unix sockets.
    fn has_sockets_only(&self) -> bool {
        let hosts = self.hosts.as_deref().unwrap_or_default();
        !self.load_balance.discovers() && !hosts.is_empty() && hosts.iter().all(HostSpec::is_socket)
    }

    fn why_no_keepalives(&self, number: impl Fn(&Config) -> u64) -> Option<&'static str> {
        if number(self) == number(&Config::of(self.family)) {
            None
        } else if !self.keepalives {
            Some("keepalives is off, so a quiet connection is not probed")
        } else if self.has_sockets_only() {
            Some("all hosts are socket directories, and a Unix socket needs no keepalive")
        } else {
            None
        }
    }

    fn has_keys(&self) -> bool {
        self.topology_keys.keys().is_ok_and(|keys| !keys.is_empty())
    }

    fn why_no_keys(&self) -> Option<&'static str> {
        (self.has_keys() && !self.load_balance.discovers()).then_some(
            "with load_balance=false the configured hosts are used in their order; set load_balance to another mode",
        )
    }

    fn why_no_fallback(&self) -> Option<&'static str> {
        let mode = self.load_balance;
        if !self.fallback_to_topology_keys_only {
            None
        } else if !mode.discovers() {
            Some("with load_balance=false the configured hosts are used in their order")
        } else if matches!(mode, LoadBalance::PreferPrimary | LoadBalance::PreferReplica) {
            Some(
                "load_balance=prefer-primary and prefer-rr always fall back to the other servers; any, only-primary and \
                 only-rr heed it",
            )
        } else if !self.has_keys() {
            Some("there are no topology_keys to keep to")
        } else {
            None
        }
    }

    fn why_no_doubling(&self) -> Option<&'static str> {
        (self.failed_host_max_delay_secs == Some(self.failed_host_reconnect_delay_secs)).then_some(
            "it is equal to failed_host_reconnect_delay_secs, so the delay never doubles; make it greater, or leave it out",
        )
    }

    fn why_no_breaker(&self, changed: bool) -> Option<&'static str> {
        (changed && self.breaker_threshold == 0).then_some("breaker_threshold is 0, so there is no breaker")
    }

    fn why_none_idle(&self) -> Option<&'static str> {
        let limit = self.idle_timeout?;
        let floor = self.min_idle.unwrap_or(self.pool_size);
        if floor == self.pool_size {
            Some(
                "min_idle is pool_size, which is its default, so no connection is closed for being idle; set min_idle to \
                 less",
            )
        } else if limit >= self.max_lifetime.saturating_add(self.lifetime_jitter) {
            Some("no connection gets so old: it is not less than max_lifetime and lifetime_jitter together")
        } else {
            None
        }
    }

    fn why_no_hook(&self) -> Option<&'static str> {
        let changed = self.after_connect_timeout != Config::of(self.family).after_connect_timeout;
        (changed && self.after_connect.is_none())
            .then_some("there is no after_connect to limit; it is set in code, by Config::after_connect")
    }

    fn why_no_timeout(&self) -> Option<&'static str> {
        (self.cancel_on_timeout.is_some() && self.socket_timeout.is_none())
            .then_some("without socket_timeout no call runs out of time")
    }

    fn why_nothing_resolved(&self) -> Option<&'static str> {
        let changed = self.resolve_commit_timeout != Config::of(self.family).resolve_commit_timeout;
        (changed && !self.resolve_commit).then_some(
            "without resolve_commit nobody finds out what became of a COMMIT whose answer was lost",
        )
    }

    fn why_no_cancel(&self) -> Option<&'static str> {
        // Whoever wants busy connections closed at once says so with `return_timeout` alone.
        let at_once = self.return_timeout == Duration::ZERO
            && self.return_cancel_after == Config::of(self.family).return_cancel_after;
        (self.return_cancel_after >= self.return_timeout && !at_once).then_some(
            "it is not less than return_timeout, so a busy connection is closed before its query would be cancelled",
        )
    }
}
