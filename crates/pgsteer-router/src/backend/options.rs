//! What a backend's pool goes by: the knobs, their defaults and ranges.

use std::fmt;
use std::time::Duration;

use pgsteer_core::breaker::BadOption;
pub use pgsteer_core::breaker::BreakerOptions;

const SHORTEST: Duration = Duration::from_millis(1);
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The knobs of one backend's pool.
///
/// ```
/// use pgsteer_router::backend::BackendOptions;
///
/// let options = BackendOptions { max_size: 32, ..BackendOptions::default() };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BackendOptions {
    /// The most connections to the backend at any moment: idle, in use, being opened and being closed together. Default 16;
    /// from 1 to 65535.
    pub max_size: u32,
    /// How many idle connections are kept ready: opened at the start, and again when they are taken. Default 2. A pool that
    /// is no larger than this is always full.
    pub min_idle: u32,
    /// A connection that no request has used for so long is closed, as long as more than `min_idle` are idle. A health check
    /// is no use. Default 60 s; from 1 ms to 24 h; `None` is never.
    pub idle_timeout: Option<Duration>,
    /// How long a connection may serve, counted from its opening. One in use is closed when it comes back. Default 5 min;
    /// from 1 s to 24 h; `None` is for ever.
    pub max_lifetime: Option<Duration>,
    /// Each life is shorter than `max_lifetime` by a random share of it between 0 and this, drawn once when the connection
    /// is opened, so that those opened together do not end together. Default 0.1; from 0 to 0.9.
    pub lifetime_jitter: f64,
    /// Whether idle connections are pinged: an empty frame is sent and one is expected back. Default on. A backend that does
    /// not answer empty frames needs it off. While it is on, a backend that has failed must also answer a ping before it gets
    /// requests again; else it is enough that it can be dialled.
    pub enable_health_check: bool,
    /// A connection that was neither used nor pinged for so long is pinged, a few at a time. Default 10 s; from 1 ms to 24 h.
    pub health_check_interval: Duration,
    /// How long the answer to a ping may take. Default 1 s; from 1 ms to 24 h.
    pub health_check_timeout: Duration,
    /// How long opening a connection may take: looking up the name, connecting to its addresses one after the other, and TLS.
    /// Default 2 s; from 1 ms to 24 h.
    pub connect_timeout: Duration,
    /// How long a request waits for a connection. Default 2 s; from 1 ms to 24 h.
    pub borrow_timeout: Duration,
    /// How many connections are opened at once at most. Default 4; from 1 to 65535. While opening fails it is one.
    pub max_dials: u32,
    /// How long a failed backend is left alone before it is tried again. Default 1 s; from 1 ms to 24 h. Once its breaker is
    /// open, the breaker's window counts where that is longer.
    pub failed_backend_delay: Duration,
    /// A backend that fails so many requests in a row, by ending connections inside answers, by answering garbage or by not
    /// answering, counts as failed although it lets itself be dialled. Default 5; 0 is never.
    pub failure_threshold: u32,
    /// The circuit breaker in front of the backend's dials. Default: open after 5 failed dials in a row, for 1 s, then twice
    /// as long at each failed probe up to 10 s, each window longer by up to a fifth.
    pub breaker: BreakerOptions,
    /// How long a connection that is closed may take to say goodbye before it is cut. It counts until then. Default 1 s; from
    /// 1 ms to 24 h.
    pub close_timeout: Duration,
}

impl Default for BackendOptions {
    fn default() -> Self {
        BackendOptions {
            max_size: 16,
            min_idle: 2,
            idle_timeout: Some(Duration::from_secs(60)),
            max_lifetime: Some(Duration::from_secs(5 * 60)),
            lifetime_jitter: 0.1,
            enable_health_check: true,
            health_check_interval: Duration::from_secs(10),
            health_check_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            borrow_timeout: Duration::from_secs(2),
            max_dials: 4,
            failed_backend_delay: Duration::from_secs(1),
            failure_threshold: 5,
            // A backend that is left out is missed by the others, and a probe costs one connection: no window of a minute.
            breaker: BreakerOptions {
                cap: Duration::from_secs(10),
                ..BreakerOptions::DEFAULT
            },
            close_timeout: Duration::from_secs(1),
        }
    }
}

/// A knob whose value cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The knob's name.
    pub name: &'static str,
    /// The value as given.
    pub value: String,
    /// What is allowed, in words.
    pub allowed: &'static str,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionError { name, value, allowed } = self;
        write!(f, "option {name} cannot be `{value}`: it takes {allowed}")
    }
}

impl std::error::Error for OptionError {}

impl BackendOptions {
    /// Whether every knob is in its range.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self) -> Result<(), OptionError> {
        let refuse = |name, value: &dyn fmt::Debug, allowed| {
            Err(OptionError {
                name,
                value: format!("{value:?}"),
                allowed,
            })
        };
        for (name, value) in [("max_size", self.max_size), ("max_dials", self.max_dials)] {
            if !(1..=65_535).contains(&value) {
                return refuse(name, &value, "a number from 1 to 65535");
            }
        }
        for (name, value) in [
            ("idle_timeout", self.idle_timeout.unwrap_or(SHORTEST)),
            ("health_check_interval", self.health_check_interval),
            ("health_check_timeout", self.health_check_timeout),
            ("connect_timeout", self.connect_timeout),
            ("borrow_timeout", self.borrow_timeout),
            ("failed_backend_delay", self.failed_backend_delay),
            ("close_timeout", self.close_timeout),
        ] {
            if !(SHORTEST..=LONGEST).contains(&value) {
                return refuse(name, &value, "a duration from 1 ms to 24 h");
            }
        }
        if let Some(life) = self.max_lifetime {
            if !(Duration::from_secs(1)..=LONGEST).contains(&life) {
                return refuse("max_lifetime", &life, "a duration from 1 s to 24 h");
            }
        }
        if !(0.0..=0.9).contains(&self.lifetime_jitter) {
            return refuse("lifetime_jitter", &self.lifetime_jitter, "a number from 0 to 0.9");
        }
        Ok(self.breaker.check()?)
    }
}

impl From<BadOption> for OptionError {
    fn from(BadOption { name, value, allowed }: BadOption) -> Self {
        OptionError { name, value, allowed }
    }
}
