//! Names behind which there are several servers that are not the same: a name with an address for every node.
//!
//! Such a name has no role. Were it taken for what the last connection met, each connect to a standby would have the
//! connections to the primary closed, and the other way round. So while its addresses disagree, nothing is known of it:
//! it is connected to address by address, each connection is asked, and those that are open stay.

use std::net::IpAddr;

use super::load::Host;
use super::{ClusterState, LogEvent, Role};
use crate::host::HostKey;

/// The most addresses that are remembered of one name.
const MOST: usize = 16;

/// What one of a name's addresses said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    address: IpAddr,
    role: Role,
}

impl ClusterState {
    /// Which of a host's addresses a connection to it reached, and what was said there. To be told before the connection is
    /// reported in any other way. An answer counts until the address gives another or the name no longer has it: however
    /// old it is, there may be connections from that time.
    pub fn heard_at(&mut self, key: &HostKey, address: IpAddr, role: Role) {
        let Some(place) = self.table.place(key) else {
            return;
        };
        let host = self.table.host_mut(place);
        let address = address.to_canonical();
        host.heard.retain(|heard| heard.address != address);
        if host.heard.len() == MOST {
            host.heard.remove(0);
        }
        host.heard.push(Heard { address, role });
        let was_mixed = host.is_mixed;
        host.compare_addresses();
        if host.is_mixed && !was_mixed {
            let key = host.key.clone();
            self.log([LogEvent::MixedRoles { host: key }]);
        }
    }
}

impl Host {
    /// What was heard at addresses that the name no longer has is forgotten.
    pub(super) fn forget_addresses_but(&mut self, addresses: &[IpAddr]) {
        self.heard.retain(|heard| addresses.contains(&heard.address));
        self.compare_addresses();
    }

    fn compare_addresses(&mut self) {
        let mut roles = self.heard.iter().map(|heard| heard.role);
        let first = roles.next();
        self.is_mixed = roles.any(|role| Some(role) != first);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::hosts::{
        Action, ClusterOptions, HostOrder, LoadBalance, Search, Snapshot, TargetSessionAttrs,
    };
    use crate::topology::TopologyKeys;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn cluster(now: Instant) -> (ClusterState, HostKey) {
        let options = ClusterOptions {
            load_balance: LoadBalance::Off,
            topology_keys: TopologyKeys::default(),
            fallback_only: false,
            host_order: HostOrder::Listed,
            role_ttl: Duration::from_secs(10),
            drain_stale_addresses: false,
            refresh_interval: Duration::from_secs(300),
            failed_host_delay: Duration::from_secs(5),
            failed_host_max_delay: None,
            connect_timeout: Duration::from_secs(10),
            log_window: Duration::from_secs(60),
        };
        let key = HostKey::new("db", 5432);
        (ClusterState::new(options, vec![key.clone()], now), key)
    }

    /// A connection to one of the name's addresses, which is kept.
    fn connect(cluster: &mut ClusterState, key: &HostKey, address: IpAddr, role: Role, now: Instant) {
        let search = Search {
            target: TargetSessionAttrs::ReadWrite,
            ..Search::default()
        };
        assert_eq!(cluster.pick(&search, 0, now), Ok(key.clone()));
        cluster.heard_at(key, address, role);
        cluster.opened(key, Some(role), now);
    }

    fn for_writes(cluster: &ClusterState, now: Instant) -> Snapshot {
        cluster.snapshot(TargetSessionAttrs::ReadWrite, now)
    }

    #[test]
    fn a_name_whose_addresses_disagree_has_no_role_and_its_connections_stay() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        connect(&mut cluster, &key, ONE, Role::Primary, now);
        connect(&mut cluster, &key, OTHER, Role::Standby, now);
        let snapshot = for_writes(&cluster, now);
        assert!(snapshot.unfit.is_empty(), "{:?}", snapshot.unfit);
        assert!(snapshot.roles.is_empty(), "{:?}", snapshot.roles);
        assert_eq!(snapshot.allowed, [key]);
    }

    #[test]
    fn people_are_told_once_that_a_names_addresses_disagree() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        for (address, role) in [(ONE, Role::Primary), (OTHER, Role::Standby), (ONE, Role::Primary)] {
            connect(&mut cluster, &key, address, role, now);
        }
        let told = cluster
            .take_actions()
            .into_iter()
            .filter(|action| matches!(action, Action::Log(LogEvent::MixedRoles { .. })))
            .count();
        assert_eq!(told, 1);
    }

    #[test]
    fn one_address_that_changes_its_role_is_one_server() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        connect(&mut cluster, &key, ONE, Role::Primary, now);
        connect(&mut cluster, &key, ONE, Role::Standby, now);
        assert_eq!(for_writes(&cluster, now).unfit, [key]);
    }

    #[test]
    fn a_name_that_has_moved_has_a_role_again_once_it_has_lost_the_old_address() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        connect(&mut cluster, &key, ONE, Role::Standby, now);
        connect(&mut cluster, &key, OTHER, Role::Primary, now);
        assert!(for_writes(&cluster, now).roles.is_empty());

        cluster.names_resolved(&key, vec![OTHER]);
        connect(&mut cluster, &key, OTHER, Role::Primary, now);
        assert_eq!(for_writes(&cluster, now).roles[&key].role, Role::Primary);
    }

    #[test]
    fn addresses_that_have_come_to_agree_are_one_role_again() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        connect(&mut cluster, &key, ONE, Role::Standby, now);
        connect(&mut cluster, &key, OTHER, Role::Primary, now);
        connect(&mut cluster, &key, OTHER, Role::Standby, now);
        assert_eq!(for_writes(&cluster, now).unfit, [key]);
    }

    #[test]
    fn no_more_addresses_are_remembered_than_a_bound() {
        let now = Instant::now();
        let (mut cluster, key) = cluster(now);
        for last in 0..=255 {
            let address = IpAddr::from([10, 0, 1, last]);
            cluster.heard_at(&key, address, Role::Standby);
        }
        let place = cluster.table.place(&key).expect("it is configured");
        assert_eq!(cluster.table.host(place).heard.len(), MOST);
    }
}
