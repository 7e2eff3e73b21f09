//! Setters for one connection attempt and the socket under a connection.

use std::time::Duration;

use crate::config::Config;

impl Config {
    /// The deadline of one attempt to connect to one host, over everything it takes: resolving, TCP, startup,
    /// authentication and session setup. Greater than 0. Default 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = Some(limit);
        self
    }

    /// After this time without an answer from a host, the next is dialled beside it, and the first in order that works is
    /// used. A dial that was overtaken goes on to its end beside that, one for each host, so that a host that never answers is
    /// known as failed and left out. Greater than 0. Default `None`: one host after the other.
    #[must_use]
    pub fn connect_race_delay(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.connect_race_delay = delay.into();
        self
    }

    /// Whether TCP keepalive probes are sent on quiet connections. Default on. No effect on Unix sockets.
    #[must_use]
    pub fn keepalives(mut self, on: bool) -> Self {
        self.keepalives = on;
        self
    }

    /// The quiet time before the first keepalive probe: whole seconds, 1 to 32767. Default 30 s.
    #[must_use]
    pub fn keepalives_idle(mut self, quiet: Duration) -> Self {
        self.keepalives_idle = quiet;
        self
    }

    /// The time between keepalive probes: whole seconds, 1 to 32767. Default 10 s.
    #[must_use]
    pub fn keepalives_interval(mut self, interval: Duration) -> Self {
        self.keepalives_interval = interval;
        self
    }

    /// Unanswered keepalive probes after which the connection is given up, 1 to 127. Default 3.
    #[must_use]
    pub fn keepalives_count(mut self, probes: u32) -> Self {
        self.keepalives_count = probes;
        self
    }

    /// The same as [`keepalives_count`](Config::keepalives_count), by tokio-postgres' name.
    #[must_use]
    pub fn keepalives_retries(self, probes: u32) -> Self {
        self.keepalives_count(probes)
    }

    /// How long sent data may stay unacknowledged before the connection is given up: whole milliseconds up to
    /// 2147483647. Default 30 s; `None` or zero leaves it to the operating system. Linux only, no effect on Unix sockets.
    #[must_use]
    pub fn tcp_user_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.tcp_user_timeout = limit.into();
        self
    }
}
