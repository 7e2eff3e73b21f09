//! What is told, by name. `docs/metrics.md` says it for people.

use metrics::{KeyName, Unit, with_recorder};

pub(super) const SIZE: &str = "pgsteer_pool_size";
pub(super) const CONNECTIONS: &str = "pgsteer_connections";
pub(super) const HOST_CONNECTIONS: &str = "pgsteer_host_connections";
pub(super) const WAITING: &str = "pgsteer_waiting";
pub(super) const BREAKER_STATE: &str = "pgsteer_breaker_state";
pub(super) const CHECKOUTS: &str = "pgsteer_checkouts_total";
pub(super) const TIMED_OUT: &str = "pgsteer_checkouts_timed_out_total";
pub(super) const TURNED_AWAY: &str = "pgsteer_checkouts_turned_away_total";
pub(super) const OPENED: &str = "pgsteer_connections_opened_total";
pub(super) const OPENS_FAILED: &str = "pgsteer_opens_failed_total";
pub(super) const CLOSED: &str = "pgsteer_connections_closed_total";
pub(super) const HOOKS_FAILED: &str = "pgsteer_hooks_failed_total";
pub(super) const CLEANED: &str = "pgsteer_returns_cleaned_total";
pub(super) const RETRIED: &str = "pgsteer_transactions_retried_total";
pub(super) const UNKNOWN: &str = "pgsteer_commits_unknown_total";
pub(super) const FOUND: &str = "pgsteer_commits_found_total";
pub(super) const TRIPS: &str = "pgsteer_breaker_trips_total";
pub(super) const CHECKOUT_WAIT: &str = "pgsteer_checkout_wait_seconds";
pub(super) const CONNECT: &str = "pgsteer_connect_seconds";

enum Kind {
    Gauge,
    Counter,
    Seconds,
}

use Kind::{Counter, Gauge, Seconds};

const TABLE: &[(&str, Kind, &str)] = &[
    (SIZE, Gauge, "how many connections there may be"),
    (CONNECTIONS, Gauge, "connections, by state"),
    (HOST_CONNECTIONS, Gauge, "idle and leased connections, by host"),
    (WAITING, Gauge, "callers waiting for a connection"),
    (
        BREAKER_STATE,
        Gauge,
        "the circuit breaker of the pool's cluster: 0 closed, 1 half-open, 2 open",
    ),
    (CHECKOUTS, Counter, "connections handed out"),
    (TIMED_OUT, Counter, "checkouts that ran out of time"),
    (
        TURNED_AWAY,
        Counter,
        "checkouts turned away at once because nothing was to be dialled",
    ),
    (OPENED, Counter, "connections opened"),
    (
        OPENS_FAILED,
        Counter,
        "passes over the hosts that ended without a connection",
    ),
    (CLOSED, Counter, "connections that are no more, by reason"),
    (
        HOOKS_FAILED,
        Counter,
        "connections closed because after_connect or on_return failed on them",
    ),
    (
        CLEANED,
        Counter,
        "returned connections that were not clean, by what was done",
    ),
    (
        RETRIED,
        Counter,
        "attempts at a transaction that were followed by another one",
    ),
    (
        UNKNOWN,
        Counter,
        "transactions of which it is not known whether they are committed",
    ),
    (
        FOUND,
        Counter,
        "transactions whose COMMIT was not answered, by what was found to have become of them",
    ),
    (
        TRIPS,
        Counter,
        "outages: how often the circuit breaker of the pool's cluster has opened",
    ),
    (
        CHECKOUT_WAIT,
        Seconds,
        "how long callers that had to wait waited for their connection",
    ),
    (
        CONNECT,
        Seconds,
        "how long it took to open a connection, with all hosts that were tried for it",
    ),
];

/// Tells the recorder what the numbers mean.
pub(super) fn describe() {
    with_recorder(|recorder| {
        for (name, kind, text) in TABLE {
            let name = KeyName::from_const_str(name);
            let text = (*text).into();
            match kind {
                Gauge => recorder.describe_gauge(name, Some(Unit::Count), text),
                Counter => recorder.describe_counter(name, Some(Unit::Count), text),
                Seconds => recorder.describe_histogram(name, Some(Unit::Seconds), text),
            }
        }
    });
}
