//! One look after the other at a pool: what there is goes to gauges, what has happened since the last look to counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{Key, with_recorder};
use pgsteer_core::breaker::State;
use pgsteer_core::host::HostKey;

use super::labels::{Labels, METADATA};
use super::table;
use crate::pool::inner::Inner;
use crate::pool::status::Totals;

/// What was seen at the last look.
pub(super) struct Look {
    keys: Keys,
    totals: Totals,
    uses: Vec<u32>,
    /// How often the breaker has opened, if there is one.
    outages: Option<u64>,
    /// Every host that has had a connection: those that have none any more are told of too.
    hosts: BTreeMap<HostKey, Host>,
}

/// How many connections a host has, and under which key that is told.
struct Host {
    key: Key,
    connections: usize,
}

/// A label beyond the pool's own, and its value.
type More = Option<(&'static str, &'static str)>;

/// The keys under which something has been told. Each is made once: a key is a handful of strings, and a look is taken
/// every second for as long as the pool lives.
struct Keys {
    labels: Arc<Labels>,
    made: BTreeMap<(&'static str, More), Key>,
}

impl Keys {
    fn get(&mut self, name: &'static str, more: More) -> &Key {
        let Keys { labels, made } = self;
        made.entry((name, more))
            .or_insert_with(|| labels.key(name, more.map(|(label, value)| (label, value.to_owned()))))
    }
}

impl Look {
    pub(super) fn new(pool: &Inner) -> Self {
        Look {
            keys: Keys {
                labels: pool.labels.clone(),
                made: BTreeMap::new(),
            },
            totals: Totals::default(),
            uses: vec![0; pool.sheets.len()],
            // Outages of before are not the pool's.
            outages: pool.cluster.breaker().map(|breaker| breaker.outages),
            hosts: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, pool: &Inner) {
        self.what_there_is(pool);
        self.what_has_happened(pool);
        self.breaker(pool);
    }

    fn what_there_is(&mut self, pool: &Inner) {
        let stats = pool.planner().stats(pool);
        self.gauge(table::SIZE, None, stats.size);
        self.gauge(table::WAITING, None, stats.waiting);
        let states = [
            ("idle", stats.idle),
            ("leased", stats.leased),
            ("opening", stats.opening),
            ("settling", stats.settling),
            ("closing", stats.closing),
        ];
        for (state, count) in states {
            self.connections(state, count);
        }
        self.forget_connections();
        for (host, connections) in stats.by_host {
            match self.hosts.get_mut(&host) {
                Some(known) => known.connections = connections,
                None => {
                    let more = Some(("host", host.to_string()));
                    let key = self.keys.labels.key(table::HOST_CONNECTIONS, more);
                    self.hosts.insert(host, Host { key, connections });
                }
            }
        }
        self.tell_hosts();
    }

    fn what_has_happened(&mut self, pool: &Inner) {
        let (before, now) = (self.totals, pool.counters.totals());
        self.totals = now;
        let counts = [
            (table::TIMED_OUT, before.timeouts, now.timeouts),
            (table::TURNED_AWAY, before.circuit_open, now.circuit_open),
            (table::OPENED, before.opened, now.opened),
            (table::OPENS_FAILED, before.open_failures, now.open_failures),
            (table::HOOKS_FAILED, before.hook_failures, now.hook_failures),
            (
                table::RETRIED,
                before.transactions_retried,
                now.transactions_retried,
            ),
            (table::UNKNOWN, before.commits_unknown, now.commits_unknown),
        ];
        for (name, before, now) in counts {
            self.counter(name, None, now - before);
        }
        let cleaned = [
            ("by_itself", before.came_clean, now.came_clean),
            ("rolled_back", before.rolled_back, now.rolled_back),
            ("cancelled", before.cancelled, now.cancelled),
            ("cut", before.cut, now.cut),
        ];
        for (done, before, now) in cleaned {
            self.counter(table::CLEANED, Some(("done", done)), now - before);
        }
        let found = [
            (
                "committed",
                before.commits_found_committed,
                now.commits_found_committed,
            ),
            ("aborted", before.commits_found_aborted, now.commits_found_aborted),
        ];
        for (outcome, before, now) in found {
            self.counter(table::FOUND, Some(("outcome", outcome)), now - before);
        }
        for ((reason, before), (_, now)) in before.closes.by_reason().zip(now.closes.by_reason()) {
            self.counter(table::CLOSED, Some(("reason", reason)), now - before);
        }
        let mut checkouts = 0;
        for (slot, before) in (0..).zip(&mut self.uses) {
            let now = pool.slots.uses(slot);
            checkouts += u64::from(now.wrapping_sub(*before));
            *before = now;
        }
        self.counter(table::CHECKOUTS, None, checkouts);
    }

    fn breaker(&mut self, pool: &Inner) {
        let (Some(breaker), Some(before)) = (pool.cluster.breaker(), self.outages) else {
            return;
        };
        self.counter(table::TRIPS, None, breaker.outages - before);
        self.outages = Some(breaker.outages);
        let state = match breaker.state {
            State::Closed => 0,
            State::HalfOpen => 1,
            State::Open => 2,
        };
        self.gauge(table::BREAKER_STATE, None, state);
    }

    fn connections(&mut self, state: &'static str, count: usize) {
        self.gauge(table::CONNECTIONS, Some(("state", state)), count);
    }

    fn forget_connections(&mut self) {
        self.hosts.values_mut().for_each(|host| host.connections = 0);
    }

    fn tell_hosts(&self) {
        self.hosts
            .values()
            .for_each(|host| set(&host.key, host.connections));
    }

    fn gauge(&mut self, name: &'static str, more: More, value: usize) {
        set(self.keys.get(name, more), value);
    }

    fn counter(&mut self, name: &'static str, more: More, more_of_it: u64) {
        let key = self.keys.get(name, more);
        with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(more_of_it);
    }
}

fn set(gauge: &Key, value: usize) {
    // A pool has 65,535 connections at most, and of callers nobody counts more than 2^52.
    with_recorder(|recorder| recorder.register_gauge(gauge, &METADATA)).set(value as f64);
}

impl Drop for Look {
    /// The pool is gone: whoever draws its gauges is not to see its last moment for ever.
    fn drop(&mut self) {
        let breaker = self.outages.map(|_| table::BREAKER_STATE);
        for name in [table::SIZE, table::WAITING].into_iter().chain(breaker) {
            self.gauge(name, None, 0);
        }
        for state in ["idle", "leased", "opening", "settling", "closing"] {
            self.connections(state, 0);
        }
        self.forget_connections();
        self.tell_hosts();
    }
}
