//! What the names of configured hosts resolve to now, so that connections to an address a name no longer has can be
//! moved away.

use std::net::IpAddr;

use super::{Action, ClusterState};
use crate::host::HostKey;

impl ClusterState {
    /// A name was looked up: its addresses, in any order. None at all changes nothing, since a look-up that failed says
    /// nothing of the servers.
    pub fn names_resolved(&mut self, key: &HostKey, addresses: Vec<IpAddr>) {
        let mut addresses: Vec<IpAddr> = addresses.iter().map(IpAddr::to_canonical).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let Some(place) = self.table.place(key).filter(|_| !addresses.is_empty()) else {
            return;
        };
        let host = self.table.host_mut(place);
        host.forget_addresses_but(&addresses);
        if host.is_seed && host.addresses != addresses {
            host.addresses = addresses;
            self.changed();
        }
    }

    /// Has the names of the configured hosts looked up.
    pub(super) fn resolve_names(&mut self) {
        if !self.options.drain_stale_addresses {
            return;
        }
        let seeds = self.seeds.iter().map(|place| &self.table.host(*place).key);
        let keys: Vec<HostKey> = seeds.filter(|key| is_a_name(key)).cloned().collect();
        if !keys.is_empty() {
            let limit = self.options.connect_timeout;
            self.actions.push(Action::ResolveNames { keys, limit });
        }
    }
}

/// Whether somebody has to be asked where the host is.
fn is_a_name(key: &HostKey) -> bool {
    !key.is_unix_socket() && key.address().is_none() && key.name().parse::<IpAddr>().is_err()
}
