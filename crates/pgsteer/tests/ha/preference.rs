//! Targets that prefer a role and take another: what is kept meanwhile, and the way back. And servers that come back
//! without any role being wanted.

use std::time::{Duration, Instant};

use pgsteer::Conn;
use pgsteer::config::TargetSessionAttrs;
use pgsteer_testkit::{Fake, FakePg, HaSet, USER};

use crate::rig::{
    QUICK, SLACK, backend, becomes, beside, full_pool, get, key, pool, primary_with, refused, rig, spread,
    spread_becomes, states, stays, write,
};

/// Covers: R-04, F-15, Q-11
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_promoted_standby_stay_and_drain_off_it_once_there_is_a_standby_again() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=prefer-standby&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    assert_eq!(spread(&pool, &set), [0, 4]);
    let held = get(&pool).await;
    let before = backend(&held).await;

    set.node(0).kill();
    set.promote(1);
    // As long as a few rounds of moving connections take.
    stays(vec![0, 4], Duration::from_secs(1), || spread(&pool, &set)).await;
    assert_eq!(pool.status().totals.opened, 4);

    set.rejoin(0, 1);
    spread_becomes(&pool, &set, &[3, 1]).await;
    assert_eq!(backend(&held).await, before);
    drop(held);
    spread_becomes(&pool, &set, &[4, 0]).await;
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_prefers_the_primary_goes_back_to_it() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=prefer-primary&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    assert_eq!(spread(&pool, &set), [4, 0]);
    set.node(0).stop_fast();
    spread_becomes(&pool, &set, &[0, 4]).await;
    set.node(0).start();
    spread_becomes(&pool, &set, &[4, 0]).await;
    write(&get(&pool).await).await.unwrap();
}

/// Covers: F-14, Q-17
#[tokio::test(flavor = "multi_thread")]
async fn without_a_standby_the_connection_of_the_first_pass_is_kept_and_nobody_dialled_twice() {
    let set = rig(HaSet::builder().standbys(1)).await;
    set.node(1).stop_fast();
    let pool = full_pool(
        &set.addresses(),
        "target_session_attrs=prefer-standby&pool_size=1",
    )
    .await;
    assert_eq!(spread(&pool, &set), [1, 0]);
    assert_eq!(set.node(0).log().login_attempts(USER), 1);
}

/// The primary's connection waits while a silent standby eats its own time limit.
///
/// Covers: F-14, Q-16, Q-17
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_outlives_the_time_limit_of_the_host_after_it() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let silent = FakePg::start(Fake::Silent);
    let addresses = format!("{},{}", set.addresses(), silent.address());
    let asked = Instant::now();
    let pool = pool(
        &addresses,
        "target_session_attrs=prefer-standby&pool_size=1&connect_timeout=1s",
    );
    let conn = get(&pool).await;
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(900) && took < Duration::from_secs(1) + SLACK,
        "{took:?}"
    );
    assert_eq!(*Conn::host(&conn), key(set.node(0)));
    conn.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(set.node(0).log().login_attempts(USER), 1);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_spread_again_once_hosts_are_back_after_an_outage() {
    let set = rig(HaSet::builder()).await;
    let parameters = format!("load_balance_hosts=random&pool_size=6&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    for down in [[1, 2], [0, 1]] {
        let [first, second] = down;
        set.node(first).kill();
        set.node(second).kill();
        let alone: Vec<u32> = (0..3)
            .map(|node| if down.contains(&node) { 0 } else { 6 })
            .collect();
        spread_becomes(&pool, &set, &alone).await;
        set.node(first).start();
        set.node(second).start();
        spread_becomes(&pool, &set, &[2, 2, 2]).await;
    }
}

/// Covers: F-12, F-14
#[tokio::test(flavor = "multi_thread")]
async fn readers_move_to_the_standby_that_is_left_and_to_the_primary_only_if_that_is_allowed() {
    let set = primary_with(2).await;
    let strict = full_pool(
        &set.addresses(),
        &format!("target_session_attrs=standby&pool_size=2&{QUICK}"),
    )
    .await;
    let lenient = beside(&strict, TargetSessionAttrs::PreferStandby);
    let both = |nodes: [u32; 3]| (nodes.to_vec(), nodes.to_vec());
    let seen = || (spread(&strict, &set), spread(&lenient, &set));
    becomes(both([0, 2, 0]), seen).await;
    set.node(1).kill();
    becomes(both([0, 0, 2]), seen).await;
    set.node(2).kill();
    becomes((vec![0, 0, 0], vec![2, 0, 0]), seen).await;
    let error = refused(&strict, SLACK).await;
    assert!(
        states(&error).contains(&(key(set.node(0)), "is a primary")),
        "{error}"
    );
    set.node(1).start();
    becomes(both([0, 2, 0]), seen).await;
}
