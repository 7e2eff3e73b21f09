//! Picking a host for a new connection in a large cluster. The pure cluster machine; no network.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{
    Addresses, ClusterOptions, ClusterState, DiscoveredRow, DiscoveryOutcome, HostOrder, LoadBalance, Search,
};
use pgsteer_core::topology::{Placement, TopologyKeys};

use crate::options::Options;
use crate::report::{Bound, Report};
use crate::table::{Column, Table};

const HOSTS: usize = 1_000;
const CONNECTIONS: usize = 10_000;
/// Picks between two looks at the clock; each adds a connection that is being opened.
const PICKS: usize = 1_000;

const MICROSECONDS: &str = "CPU µs a pick";
const COLUMNS: &[Column] = &[Column::lower(MICROSECONDS)];

const ANYWHERE: &str = "any host";
const KEYED: &str = "topology keys: a zone of 100 hosts first";
const SECOND_TRY: &str = "any host, one tried already";

fn host(number: usize) -> String {
    format!("10.1.{}.{}", number / 250, number % 250)
}

fn cluster(topology_keys: &str, now: Instant) -> ClusterState {
    let options = ClusterOptions {
        load_balance: LoadBalance::Any,
        topology_keys: TopologyKeys::parse(topology_keys).expect("the keys are good"),
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
    let mut cluster = ClusterState::new(options, vec![HostKey::new(host(0), 5433)], now);
    let row = |number| DiscoveredRow {
        host: host(number),
        port: 5433,
        node_type: NodeType::Primary,
        placement: Placement::new("cloud", "region", &format!("zone-{}", number % 10)),
        public_ip: None,
    };
    let rows = (0..HOSTS).map(row).collect();
    let unresolved = vec![None; HOSTS];
    let addresses = Addresses {
        answered: None,
        host: unresolved.clone(),
        public_ip: unresolved,
    };
    cluster.discovery_finished(DiscoveryOutcome::Rows { rows, addresses }, now);
    for _ in 0..CONNECTIONS {
        let key = cluster
            .pick(&Search::default(), fastrand::u64(..), now)
            .expect("there are hosts");
        cluster.opened(&key, None, now);
    }
    cluster.take_actions();
    cluster
}

fn time(cluster: &mut ClusterState, tried: &[HostKey], now: Instant) -> f64 {
    let mut picked = Vec::with_capacity(PICKS);
    let search = Search {
        tried,
        ..Search::default()
    };
    let started = ThreadTime::now();
    for draw in 0..PICKS as u64 {
        picked.push(
            cluster
                .pick(&search, draw.wrapping_mul(0x9E37_79B9_7F4A_7C15), now)
                .expect("there are hosts"),
        );
    }
    let took = started.elapsed();
    for key in picked {
        cluster.cancelled(&key);
    }
    took.as_nanos() as f64 / 1e3 / PICKS as f64
}

pub fn measure(options: &Options, report: &mut Report) {
    let mut table = Table::new("5. Picking among 1 000 hosts with 10 000 connections", COLUMNS);
    let now = Instant::now();
    let mut anywhere = cluster("", now);
    let mut keyed = cluster("cloud.region.zone-3:1,cloud.region.*:2", now);
    let tried = [HostKey::new(host(7), 5433)];
    for _ in 0..options.rounds(31) {
        table.add(ANYWHERE, [time(&mut anywhere, &[], now)]);
        table.add(KEYED, [time(&mut keyed, &[], now)]);
        table.add(SECOND_TRY, [time(&mut anywhere, &tried, now)]);
    }

    let slower = table
        .median(ANYWHERE, MICROSECONDS)
        .max(table.median(KEYED, MICROSECONDS));
    report.demand(
        "a pick among 1 000 hosts with 10 000 connections",
        Bound::Below(5.0),
        slower,
        " µs",
    );
    report.table(
        table,
        "The pure cluster machine. The last row is what a search does after a connect has just failed for another \
         reason than the host's.",
    );
}
