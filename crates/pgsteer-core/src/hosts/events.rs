//! What the cluster machine asks to be done, and what it answers: actions, log events, outcomes.
//!
//! Nothing here does anything; whoever drives the machine carries the actions out and reports back.

use std::fmt;
use std::time::Duration;

use super::address::{AddressChoice, Addresses, Column, DiscoveredRow, Reason};
use super::{FailureKind, Refused, Role};
use crate::host::HostKey;

/// Why a pick found no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoHost {
    /// Every host that may be used has been tried.
    NoServer,
    /// The mode refuses to use what is left.
    NoNode(Refused),
    /// The mode refuses to use what is left, but a server that it takes is starting up or full, and is asked again soon
    /// without anybody's doing.
    NotReady(Refused),
}

/// Something to be done by whoever drives the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the targets in order for the list of servers, and report with `discovery_finished`, also when it dies.
    StartDiscovery {
        /// Whom to ask, in order, each once.
        targets: Vec<HostKey>,
        /// How long the whole discovery may take; past it, it has failed.
        limit: Duration,
    },
    /// Connect to the host, ask it what is to be asked, close the connection, and report with `probe_finished`.
    StartProbe {
        /// Whom to connect to.
        key: HostKey,
        /// Which probe this is; reports carry it, so that a late one is known.
        id: u64,
        /// How long the probe may take; past it, the host counts as down.
        limit: Duration,
        /// Whether to ask what the host is.
        ask_role: bool,
        /// Whether to ask on which timeline it writes.
        ask_timeline: bool,
    },
    /// The probe is no longer wanted: end it and close what it opened. A report of it is ignored.
    StopProbe {
        /// Whose probe.
        key: HostKey,
        /// Which probe.
        id: u64,
    },
    /// Look these names up and report each with `names_resolved`.
    ResolveNames {
        /// Configured hosts that are names.
        keys: Vec<HostKey>,
        /// How long all of it may take.
        limit: Duration,
    },
    /// Something that pools look at in a snapshot has changed: a role, an address, the servers, or a failed host is back.
    Changed,
    /// The first discovery has ended, or there is none: connections may be opened. Comes once.
    Ready,
    /// Tell people.
    Log(LogEvent),
}

/// How a discovery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryOutcome {
    /// A server answered with these rows (perhaps none).
    Rows {
        /// The rows in the order the server sent them, without those that have no host or no port.
        rows: Vec<DiscoveredRow>,
        /// What their names, and the name that was dialled, resolved to.
        addresses: Addresses,
    },
    /// A server answered that it cannot list servers: it is not YugabyteDB.
    NoFunction,
    /// No server could be asked in time; why, in words without secrets.
    Failed(String),
}

/// How loud a log event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogLevel {
    /// News.
    Info,
    /// Something a person should look at.
    Warning,
}

/// Something people should be told. Its `Display` is the whole line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEvent {
    /// A run of failures began with a host that could not be connected to.
    Down {
        /// Which host.
        host: HostKey,
        /// Why, in words.
        reason: String,
        /// How long it is left alone at least.
        delay: Duration,
    },
    /// A run began with a host that answered and refused.
    Rejected {
        /// Which host.
        host: HostKey,
        /// Why, in words.
        reason: String,
        /// How long it is left alone at least.
        delay: Duration,
    },
    /// A run began with a host that takes no connections yet, or no longer.
    NotReady {
        /// Which host.
        host: HostKey,
        /// Why, in words.
        reason: String,
        /// How long it is left alone at first.
        delay: Duration,
    },
    /// A run began with a host that takes no more connections.
    Full {
        /// Which host.
        host: HostKey,
        /// Why, in words.
        reason: String,
        /// How long it is left alone at first.
        delay: Duration,
    },
    /// A host is something else than it was, or was found to be something that is of no use.
    RoleChanged {
        /// Which host.
        host: HostKey,
        /// What it was, if that was known.
        from: Option<Role>,
        /// What it is.
        to: Role,
    },
    /// Several primaries take writes, on different timelines.
    SplitBrain {
        /// Which hosts, and the timeline of each.
        primaries: Vec<(HostKey, u32)>,
    },
    /// The addresses of one name are servers that are not the same.
    MixedRoles {
        /// Which name.
        host: HostKey,
    },
    /// A run of failures is over: a connection opened and none has failed since for the quiet time.
    RunEnded {
        /// Which host.
        host: HostKey,
        /// What the failures of the run were.
        kind: FailureKind,
        /// How many failures the run had.
        failures: u32,
        /// What the host is now, if that is known.
        role: Option<Role>,
    },
    /// A run of failed discoveries began.
    DiscoveryFailed {
        /// Why, in words.
        reason: String,
    },
    /// Discovery works again and has for the quiet time.
    DiscoveryRecovered {
        /// How many discoveries had failed.
        failures: u32,
    },
    /// The server asked cannot list servers; the configured hosts are used.
    NotYugabyte,
    /// Which column servers are connected to by has changed.
    AddressChosen(AddressChoice),
    /// A run began of `after_connect` failing on a host.
    HookFailed {
        /// Which host.
        host: HostKey,
        /// Why, in words.
        reason: String,
        /// How long the host is kept off.
        keep_off: Duration,
    },
    /// `after_connect` works again on a host and has for the quiet time.
    HookRecovered {
        /// Which host.
        host: HostKey,
        /// How many times it had failed.
        failures: u32,
    },
}

impl LogEvent {
    /// How loud the line is.
    pub fn level(&self) -> LogLevel {
        match self {
            LogEvent::Down { .. }
            | LogEvent::Rejected { .. }
            | LogEvent::NotReady { .. }
            | LogEvent::Full { .. }
            | LogEvent::SplitBrain { .. }
            | LogEvent::MixedRoles { .. }
            | LogEvent::DiscoveryFailed { .. }
            | LogEvent::HookFailed { .. } => LogLevel::Warning,
            LogEvent::AddressChosen(choice) if choice.reason == Reason::UnresolvedPublicIp => {
                LogLevel::Warning
            }
            LogEvent::AddressChosen(_)
            | LogEvent::RoleChanged { .. }
            | LogEvent::RunEnded { .. }
            | LogEvent::DiscoveryRecovered { .. }
            | LogEvent::NotYugabyte
            | LogEvent::HookRecovered { .. } => LogLevel::Info,
        }
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogEvent::Down { host, reason, delay } => {
                write!(
                    f,
                    "could not connect to {host}: {reason}; not tried again for at least {delay:?}"
                )
            }
            LogEvent::Rejected { host, reason, delay } => {
                write!(
                    f,
                    "{host} answered but gave no connection: {reason}; not tried again for at least {delay:?}"
                )
            }
            LogEvent::NotReady { host, reason, delay } => {
                write!(
                    f,
                    "{host} is not ready for connections: {reason}; asked again after {delay:?}, then less often"
                )
            }
            LogEvent::Full { host, reason, delay } => {
                write!(
                    f,
                    "{host} takes no more connections: {reason}; asked again after {delay:?}, then less often"
                )
            }
            LogEvent::RoleChanged { host, from: None, to } => write!(f, "{host} is a {to}"),
            LogEvent::RoleChanged {
                host,
                from: Some(from),
                to,
            } => write!(f, "{host} is a {to} now; it was a {from}"),
            LogEvent::SplitBrain { primaries } => {
                f.write_str("several primaries take writes, on different timelines:")?;
                for (place, (host, timeline)) in primaries.iter().enumerate() {
                    let separator = if place == 0 { "" } else { "," };
                    write!(f, "{separator} {host} on {timeline}")?;
                }
                f.write_str("; only the highest is written to")
            }
            LogEvent::MixedRoles { host } => write!(
                f,
                "the addresses of {host} are servers of different roles; each connection is asked, and nothing is known of \
                 the name itself; to have them ordered by their roles, list them as hosts of their own"
            ),
            LogEvent::RunEnded {
                host,
                kind,
                failures,
                role,
            } => {
                let state = match kind {
                    FailureKind::Down => "can be connected to again",
                    FailureKind::Rejected => "gives connections again",
                    FailureKind::NotReady => "is ready for connections again",
                    FailureKind::Full => "takes more connections again",
                };
                write!(f, "{host} {state} ({} in the run)", Failures(*failures))?;
                match role {
                    Some(role) if *role != Role::Primary => write!(f, "; it is a {role}"),
                    _ => Ok(()),
                }
            }
            LogEvent::DiscoveryFailed { reason } => {
                write!(
                    f,
                    "discovery of servers failed: {reason}; going on with what is known"
                )
            }
            LogEvent::DiscoveryRecovered { failures } => {
                write!(
                    f,
                    "discovery of servers works again ({} in the run)",
                    Failures(*failures)
                )
            }
            LogEvent::NotYugabyte => f.write_str(
                "the server cannot list servers, so it is not YugabyteDB; using the configured hosts",
            ),
            LogEvent::AddressChosen(choice) => f.write_str(match (choice.column, choice.reason) {
                (Column::Host, Reason::Decided) => "servers are connected to by host",
                (Column::PublicIp, Reason::Decided) => "servers are connected to by public IP",
                (Column::PublicIp, _) => "servers are connected to by public IP for now: every one resolves",
                (Column::Host, Reason::UnresolvedPublicIp) => {
                    "servers are connected to by host for now: some public IP does not resolve"
                }
                (Column::Host, _) => "servers are connected to by host for now: some server has no public IP",
            }),
            LogEvent::HookFailed {
                host,
                reason,
                keep_off,
            } => {
                write!(
                    f,
                    "after_connect failed on {host}: {reason}; keeping off it for {keep_off:?}"
                )
            }
            LogEvent::HookRecovered { host, failures } => {
                write!(
                    f,
                    "after_connect works again on {host} ({} in the run)",
                    Failures(*failures)
                )
            }
        }
    }
}

/// A number of failures in words.
struct Failures(u32);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 failure"),
            many => write!(f, "{many} failures"),
        }
    }
}
