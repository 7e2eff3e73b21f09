//! The configuration as the rest of the crate uses it: every value checked, every default filled in.
//!
//! [`Config`](super::Config) is what people write; it becomes [`Settings`] once, and nothing further down looks at raw
//! options again.

use std::time::Duration;

use pgsteer_core::breaker::BreakerOptions;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{HostOrder, LoadBalance, TargetSessionAttrs};
use pgsteer_core::topology::TopologyKeys;

use super::hooks::{Check, Hook};
use super::password::Password;
use super::recycle::Recycle;
use super::tls::Tls;

/// TCP keepalive settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalives {
    /// Quiet time before the first probe. Default 30 s.
    pub idle: Duration,
    /// Time between probes. Default 10 s.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up. Default 3.
    pub count: u32,
}

/// A whole configuration, checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    // whom to connect to, and as whom
    pub(crate) hosts: Vec<HostKey>,
    pub(crate) user: String,
    pub(crate) password: Password,
    pub(crate) database: String,
    pub(crate) application_name: String,
    /// `options` of the startup message (`-c name=value …`).
    pub(crate) options: Option<String>,
    pub(crate) target_session_attrs: TargetSessionAttrs,
    /// How long a host's role, once asked, orders it among others. Default 10 s.
    pub(crate) role_ttl: Duration,
    /// The order of the configured hosts where nothing else decides.
    pub(crate) load_balance_hosts: HostOrder,
    pub(crate) statement_timeout: Option<Duration>,

    // one connection attempt, and the socket under it
    /// One deadline over resolving, TCP, startup, authentication and session setup of one host.
    pub(crate) connect_timeout: Duration,
    /// After this without an answer the next host is dialled beside the first. `None`: never. Default never.
    pub(crate) connect_race_delay: Option<Duration>,
    pub(crate) tls: Tls,
    pub(crate) keepalives: Option<Keepalives>,
    pub(crate) tcp_user_timeout: Option<Duration>,

    // the cluster
    pub(crate) load_balance: LoadBalance,
    pub(crate) topology_keys: TopologyKeys,
    pub(crate) fallback_to_topology_keys_only: bool,
    /// Zero means: refresh on every pick.
    pub(crate) refresh_interval: Duration,
    pub(crate) failed_host_delay: Duration,
    pub(crate) failed_host_max_delay: Option<Duration>,
    /// Whether connections to an address that a configured name no longer has are moved away. Default on.
    pub(crate) drain_stale_addresses: bool,
    /// When dialling is given up for a while. A threshold of 0 is never.
    pub(crate) breaker: BreakerOptions,

    // the pool
    pub(crate) pool_size: u32,
    /// Idle connections the pool keeps at least, as far as `pool_size` allows. Default: `pool_size` (a fixed pool).
    pub(crate) min_idle: u32,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_lifetime: Duration,
    pub(crate) lifetime_jitter: Duration,
    pub(crate) rebalance_interval: Duration,
    pub(crate) rebalance_batch: u32,
    /// How long `get` waits. `None`: for ever. Default 5 s.
    pub(crate) checkout_timeout: Option<Duration>,
    /// How long a call on a connection may take. `None`: as long as it does. Default that.
    pub(crate) socket_timeout: Option<Duration>,
    /// How long the server may take to heed a cancel request of a call that ran into `socket_timeout`. `None`: no
    /// request is sent. Default that.
    pub(crate) cancel_on_timeout: Option<Duration>,
    /// How long the server may owe an answer in silence. `None`: for ever. Default that.
    pub(crate) stall_timeout: Option<Duration>,
    /// Whether it is found out what became of a COMMIT whose answer was lost. Default off.
    pub(crate) resolve_commit: bool,
    /// How long that may take. Default 30 s.
    pub(crate) resolve_commit_timeout: Duration,
    /// Statements that each connection keeps prepared at most. Default 256.
    pub(crate) statement_cache_size: u32,
    /// Connects in flight at most. Default 32.
    pub(crate) max_dials: u32,
    /// Prepares each connection of the pool before anybody gets it.
    pub(crate) after_connect: Option<Hook>,
    /// How long that may take. `None`: for ever. Default 1 min.
    pub(crate) after_connect_timeout: Option<Duration>,
    /// Decides at each checkout whether a connection may be handed out.
    pub(crate) before_checkout: Option<Check>,
    /// Runs on each connection that comes back.
    pub(crate) on_return: Option<Hook>,
    /// How much is undone on a connection that comes back. Default: what no session may keep.
    pub(crate) recycle: Recycle,
    /// A returned connection still busy after this is asked to cancel. Default 500 ms.
    pub(crate) return_cancel_after: Duration,
    /// A returned connection not clean after this is closed. Default 5 s.
    pub(crate) return_timeout: Duration,
    /// A connection held longer than this is reported once. `None`: never. Default never.
    pub(crate) leak_threshold: Option<Duration>,
    /// Whether the place of each checkout is recorded (for errors, `status` and leak reports). Default off.
    pub(crate) record_holders: bool,
}

/// The shortest time for which a host is kept off after a hook has failed there. A little more than filling rests after a
/// failed open, so that the next try of a pool with a single host still belongs to the same run of failures.
const KEEP_OFF: Duration = Duration::from_millis(1100);

impl Settings {
    /// How long other hosts are preferred to one on which `after_connect` has failed.
    pub(crate) fn hook_keep_off(&self) -> Duration {
        self.failed_host_delay.max(KEEP_OFF)
    }
}
