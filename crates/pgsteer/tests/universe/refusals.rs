//! Servers that answer and let nobody in, and what is left when the mode or the list leaves nothing.

use std::collections::BTreeMap;

use pgsteer::{Cluster, ClusterConnection, Error, Refused};
use pgsteer_testkit::Universe;

use crate::load::Load;
use crate::log::logged;
use crate::rig::{QUICK, becomes, config_for, full_pool, key, keys, rig, spread, spread_becomes, three};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_no_room_for_more_is_left_out_and_the_pool_is_full_elsewhere() {
    let universe = rig(Universe::builder()
        .servers(3)
        .configure(1, |spec| spec.max_connections(2)))
    .await;
    let pool = full_pool(&universe, &format!("pool_size=12&{QUICK}")).await;
    let full = key(universe.server(1));
    let load = Load::start(&pool, 12);
    becomes(vec![full.clone()], || pool.cluster().snapshot().rejected()).await;
    let failure = pool.cluster().snapshot().failures[&full].clone();
    assert!(failure.reason.contains("53300"), "{}", failure.reason);
    becomes(12, || spread(&pool, &universe).iter().sum()).await;
    assert!(spread(&pool, &universe)[1] <= 2, "{:?}", spread(&pool, &universe));
    load.goes_on(100).await;
    assert_eq!(load.end().await, BTreeMap::new());
    assert!(!logged(&["WARN", &full.to_string(), "53300"]).is_empty());
}

/// Covers: E-230
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_login_others_take_is_rejected_and_found_back() {
    let universe = three().await;
    universe.server(1).set_hba(&["host all all all reject"]);
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    spread_becomes(&pool, &universe, &[3, 0, 3]).await;
    let refusing = key(universe.server(1));
    let snapshot = pool.cluster().snapshot();
    assert_eq!(
        (snapshot.rejected(), snapshot.failed()),
        (vec![refusing.clone()], vec![])
    );
    assert!(
        snapshot.failures[&refusing].reason.contains("28000"),
        "{:?}",
        snapshot.failures
    );
    assert!(!snapshot.placement.contains(&refusing) && snapshot.allowed.contains(&refusing));
    let warnings = logged(&["WARN", &refusing.to_string(), "28000"]);
    assert_eq!(
        warnings.len(),
        1,
        "one for the whole run of failures: {warnings:?}"
    );
    assert!(!warnings[0].contains("could not connect to"), "{warnings:?}");

    universe.server(1).reset_hba();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
}

/// The fourth server is in no list and serves as a load balancer that leads to the cluster would.
///
/// Covers: E-212, E-213
#[tokio::test(flavor = "multi_thread")]
async fn when_every_listed_server_is_down_the_seed_serves_unless_the_mode_refuses() {
    let universe = rig(Universe::builder().servers(4)).await;
    universe.forget(3);
    for server in 0..3 {
        universe.server(server).kill();
    }
    let only_keys = "topology_keys=gcp.us-east1.*&fallback_to_topology_keys_only=true";
    let rows = [
        ("load_balance=any".to_owned(), None),
        ("load_balance=prefer-primary".to_owned(), None),
        ("load_balance=prefer-rr".to_owned(), None),
        (
            "load_balance=any&fallback_to_topology_keys_only=true".to_owned(),
            None,
        ),
        (format!("load_balance=prefer-primary&{only_keys}"), None),
        ("load_balance=only-primary".to_owned(), Some(Refused::Primary)),
        ("load_balance=only-rr".to_owned(), Some(Refused::ReadReplica)),
        (format!("load_balance=any&{only_keys}"), Some(Refused::Cluster)),
        (format!("load_balance=true&{only_keys}"), Some(Refused::Cluster)),
    ];
    let seed = key(universe.server(3));
    for (options, refused) in rows {
        let config = config_for(&universe.server(3).address(), &options);
        let cluster = Cluster::start(config).unwrap();
        for _ in 0..2 {
            match (refused, cluster.connect().await) {
                (None, connected) => {
                    assert_eq!(*ClusterConnection::host(&connected.unwrap()), seed, "{options}");
                    assert_eq!(cluster.snapshot().placement, keys(&universe, &[3]), "{options}");
                }
                (Some(refused), Err(Error::NoNode(seen))) => {
                    assert_eq!(seen, refused, "{options}");
                    let snapshot = cluster.snapshot();
                    assert!(
                        snapshot.placement.is_empty() && !snapshot.allowed.contains(&seed),
                        "{options}"
                    );
                }
                (Some(_), other) => panic!("{options}: {other:?}"),
            }
        }
    }
}
