//! Every host that anything is known of, by key and by place in a table, with the connections each carries.
//!
//! Loads lie side by side, so that the least loaded of a thousand hosts is found in a moment. Hosts keep their place until
//! [`HostTable::keep_only_used`] closes the gaps.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use super::HostFailure;
use super::mixed::Heard;
use super::probes::Probe;
use super::roles::Known;
use crate::host::HostKey;

/// What is known of one host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) key: HostKey,
    /// Whether it is configured.
    pub(super) is_seed: bool,
    /// Whether the last discovery listed it.
    pub(super) is_server: bool,
    pub(super) failure: Option<HostFailure>,
    /// The probe that is running.
    pub(super) probe: Option<Probe>,
    /// What it last said it is.
    pub(super) role: Option<Known>,
    /// What its addresses have said lately, and whether they disagree: then it has no role of its own.
    pub(super) heard: Vec<Heard>,
    pub(super) is_mixed: bool,
    /// When it is to be asked what it is, since that was doubted, and when it last was for this reason.
    pub(super) ask_at: Option<Instant>,
    pub(super) asked_at: Option<Instant>,
    /// It did not react to what working hosts react to, and has given no connection since.
    pub(super) is_unresponsive: bool,
    /// When it was found to be frozen, if it has given no connection since.
    pub(super) frozen_at: Option<Instant>,
    /// What its name resolves to, sorted, if it has one that was looked up.
    pub(super) addresses: Vec<IpAddr>,
    open: u32,
    pending: u32,
}

impl Host {
    /// Whether it is configured or discovered; others are only remembered for their connections.
    pub(super) fn is_listed(&self) -> bool {
        self.is_seed || self.is_server
    }

    /// Whether nothing has failed since it was last connected to.
    pub(super) fn works(&self) -> bool {
        self.failure.is_none()
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// Connections being opened.
    pub(super) fn pending(&self) -> u32 {
        self.pending
    }
}

/// The hosts, each at a place of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct HostTable {
    places: HashMap<HostKey, usize>,
    hosts: Vec<Host>,
    /// Open and pending connections together, by place.
    loads: Vec<u32>,
}

impl HostTable {
    /// Where the host is, if it is known.
    pub(super) fn place(&self, key: &HostKey) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// Where the host is; it is added if it is not known.
    pub(super) fn place_or_add(&mut self, key: &HostKey) -> usize {
        if let Some(place) = self.place(key) {
            return place;
        }
        let place = self.hosts.len();
        self.places.insert(key.clone(), place);
        self.hosts.push(Host {
            key: key.clone(),
            is_seed: false,
            is_server: false,
            failure: None,
            probe: None,
            role: None,
            heard: Vec::new(),
            is_mixed: false,
            ask_at: None,
            asked_at: None,
            is_unresponsive: false,
            frozen_at: None,
            addresses: Vec::new(),
            open: 0,
            pending: 0,
        });
        self.loads.push(0);
        place
    }

    pub(super) fn host(&self, place: usize) -> &Host {
        &self.hosts[place]
    }

    pub(super) fn host_mut(&mut self, place: usize) -> &mut Host {
        &mut self.hosts[place]
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Host> {
        self.hosts.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Host> {
        self.hosts.iter_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Open and pending connections together, by place.
    pub(super) fn loads(&self) -> &[u32] {
        &self.loads
    }

    /// A connection is being opened.
    pub(super) fn reserve(&mut self, place: usize) {
        self.change(place, |host| host.pending = host.pending.saturating_add(1));
    }

    /// A reservation is over, whatever came of it.
    pub(super) fn settle(&mut self, place: usize) {
        self.change(place, |host| host.pending = host.pending.saturating_sub(1));
    }

    /// A connection is open.
    pub(super) fn count(&mut self, place: usize) {
        self.change(place, |host| host.open = host.open.saturating_add(1));
    }

    /// A connection is gone.
    pub(super) fn uncount(&mut self, place: usize) {
        self.change(place, |host| host.open = host.open.saturating_sub(1));
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut Host)) {
        let host = &mut self.hosts[place];
        change(host);
        self.loads[place] = host.open.saturating_add(host.pending);
    }

    /// Drops the hosts that are neither listed nor carry a connection. Places change.
    pub(super) fn keep_only_used(&mut self) {
        self.hosts
            .retain(|host| host.is_listed() || host.open > 0 || host.pending > 0);
        self.places = self
            .hosts
            .iter()
            .enumerate()
            .map(|(place, host)| (host.key.clone(), place))
            .collect();
        self.loads = self
            .hosts
            .iter()
            .map(|host| host.open.saturating_add(host.pending))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey::new(name, 5433)
    }

    #[test]
    fn the_load_is_what_is_open_and_what_is_being_opened() {
        let mut table = HostTable::default();
        let place = table.place_or_add(&key("a"));
        table.reserve(place);
        table.reserve(place);
        table.settle(place);
        table.count(place);
        assert_eq!(
            (
                table.host(place).open(),
                table.host(place).pending(),
                table.loads()[place]
            ),
            (1, 1, 2)
        );
    }

    #[test]
    fn lowering_a_count_of_nothing_leaves_nothing() {
        let mut table = HostTable::default();
        let place = table.place_or_add(&key("a"));
        table.settle(place);
        table.uncount(place);
        assert_eq!(table.loads(), [0]);
    }

    #[test]
    fn only_hosts_that_are_listed_or_carry_connections_are_kept() {
        let mut table = HostTable::default();
        for name in ["seed", "server", "gone", "busy", "opening"] {
            table.place_or_add(&key(name));
        }
        table.host_mut(0).is_seed = true;
        table.host_mut(1).is_server = true;
        table.count(3);
        table.reserve(4);

        table.keep_only_used();

        assert_eq!(table.place(&key("gone")), None);
        for name in ["seed", "server", "busy", "opening"] {
            let place = table.place(&key(name)).expect("it is kept");
            assert_eq!(table.host(place).key, key(name));
        }
        assert_eq!(table.loads(), [0, 0, 1, 1]);
    }
}
