//! Which servers each target takes, and what is said when none fits.

use std::time::Duration;

use pgsteer::config::TargetSessionAttrs;
use pgsteer::{Conn, Error, Role};
use pgsteer_testkit::{HaSet, USER};

use crate::rig::{
    LIMIT, SLACK, becomes, full_pool, get, key, pool, primary_with, refused, rig, spread, states, write,
};

/// A primary, a standby, and a primary that is read-only by default.
async fn three_roles() -> crate::rig::Rig {
    let set = rig(HaSet::builder()).await;
    set.promote(2);
    set.node(2)
        .reload_settings(&[("default_transaction_read_only", "on")]);
    set
}

/// Covers: F-12, Q-12, Q-23
#[tokio::test(flavor = "multi_thread")]
async fn each_target_takes_the_servers_it_is_for_and_says_what_the_others_are() {
    let set = three_roles().await;
    let roles = [Role::Primary, Role::Standby, Role::ReadOnlyPrimary];
    for (target, takes) in [
        ("any", [true, true, true]),
        ("read-write", [true, false, false]),
        ("read-only", [false, true, true]),
        ("primary", [true, false, true]),
        ("standby", [false, true, false]),
        ("prefer-primary", [true, true, true]),
        ("prefer-standby", [true, true, true]),
        ("prefer-read-only", [true, true, true]),
    ] {
        for (node, (takes, role)) in set.nodes().iter().zip(takes.into_iter().zip(roles)) {
            let pool = pool(
                &node.address(),
                &format!("pool_size=1&target_session_attrs={target}"),
            );
            if takes {
                let conn = get(&pool).await;
                conn.batch_execute("SELECT 1").await.unwrap();
                continue;
            }
            becomes(true, || pool.cluster().snapshot().roles.contains_key(&key(node))).await;
            let error = refused(&pool, Duration::from_millis(20)).await;
            let [tried] = error.hosts_tried() else {
                panic!("{target} on {role}: {error}")
            };
            assert_eq!((&tried.host, tried.role), (&key(node), Some(role)), "{error}");
            assert!(
                error
                    .to_string()
                    .contains(&format!("target_session_attrs={target}")),
                "{error}"
            );
            assert!(
                pool.cluster().snapshot().failures.is_empty(),
                "{target} on {role}"
            );
        }
    }
}

/// Covers: F-12, F-14, Q-23
#[tokio::test(flavor = "multi_thread")]
async fn of_all_servers_each_target_gets_the_one_that_suits_best() {
    let set = three_roles().await;
    // In this order the wanted one never comes first.
    let addresses = |order: [usize; 3]| order.map(|node| set.node(node).address()).join(",");
    for (target, order, wanted) in [
        ("read-write", [1, 2, 0], 0),
        ("read-only", [0, 1, 2], 1),
        ("primary", [1, 2, 0], 2),
        ("standby", [0, 2, 1], 1),
        ("prefer-primary", [1, 0, 2], 0),
        ("prefer-standby", [0, 2, 1], 1),
        ("prefer-read-only", [0, 2, 1], 2),
    ] {
        let parameters = format!("pool_size=1&target_session_attrs={target}");
        let pool = pool(&addresses(order), &parameters);
        let conn = get(&pool).await;
        assert_eq!(*Conn::host(&conn), key(set.node(wanted)), "{target}");
    }
}

/// Covers: F-12, F-13, Q-07, Q-19
#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_that_no_host_fits_waits_to_its_limit_and_names_each_host_with_its_role() {
    let set = primary_with(2).await;
    set.node(0).kill();
    let pool = pool(&set.addresses(), "target_session_attrs=read-write&pool_size=2");
    let asked = std::time::Instant::now();
    let limit = Duration::from_millis(1200);
    let error = refused(&pool, limit).await;
    let took = asked.elapsed();
    assert!(
        took >= limit && took < limit + SLACK,
        "it ended after {took:?}: {error}"
    );
    let Error::CheckoutTimeout(exhausted) = &error else {
        panic!("{error}")
    };
    assert_eq!(exhausted.nothing_fits, Some(TargetSessionAttrs::ReadWrite));
    let mut seen = states(&error);
    seen.sort();
    assert_eq!(
        seen,
        [
            (key(set.node(0)), "down"),
            (key(set.node(1)), "is a standby"),
            (key(set.node(2)), "is a standby")
        ],
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(
        pool.cluster().snapshot().failed(),
        [key(set.node(0))],
        "a role is no failure"
    );
}

/// Covers: F-12, F-13
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_pool_is_told_at_once_that_no_host_fits() {
    let set = rig(HaSet::builder().standbys(1)).await;
    let config = crate::rig::config(&set.node(1).address(), "target_session_attrs=primary");
    let cluster = pgsteer::Cluster::start(config).unwrap();
    let error = tokio::time::timeout(LIMIT, cluster.connect())
        .await
        .unwrap()
        .err()
        .unwrap();
    assert!(matches!(error, Error::NoFit(_)), "{error}");
    assert_eq!(states(&error), [(key(set.node(1)), "is a standby")]);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn two_pools_on_one_cluster_keep_apart_what_each_wants() {
    let set = primary_with(1).await;
    let writes = full_pool(&set.addresses(), "target_session_attrs=read-write&pool_size=2").await;
    let reads = crate::rig::full(crate::rig::beside(&writes, TargetSessionAttrs::Standby)).await;
    assert_eq!(
        (spread(&writes, &set), spread(&reads, &set)),
        (vec![2, 0], vec![0, 2])
    );
    write(&get(&writes).await).await.unwrap();
    assert_eq!(write(&get(&reads).await).await.unwrap_err().code(), Some("25006"));
    // A refused write where none was promised is the statement's, and costs nothing.
    assert_eq!(spread(&reads, &set), [0, 2]);
    assert_eq!(reads.status().totals.opened, 2);
    writes.close(LIMIT).await;
    get(&reads).await.batch_execute("SELECT 1").await.unwrap();
}

/// Covers: F-12
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_known_not_to_fit_is_not_dialled_for_nothing() {
    let set = primary_with(1).await;
    let addresses = format!("{},{}", set.node(1).address(), set.node(0).address());
    let parameters = "target_session_attrs=read-write&pool_size=1&role_ttl=1min";
    let pool = full_pool(&addresses, parameters).await;
    let asked = || set.node(1).log().login_attempts(USER);
    assert_eq!(asked(), 1);
    for _ in 0..5 {
        Conn::discard(get(&pool).await);
    }
    assert_eq!(*Conn::host(&get(&pool).await), key(set.node(0)));
    assert_eq!(asked(), 1);
}
