//! Roles that change while every server works: planned switchovers, a primary that turns read-only.

use pgsteer::Conn;

use crate::rig::{
    QUICK, SLACK, becomes, full_pool, get, key, primary_with, refused, spread, spread_becomes, states, write,
};
use crate::writers::Writers;

/// The primary is stopped in order, a standby takes over, and the old one comes back; then the other way round.
///
/// Covers: F-16, Q-02, Q-12, Q-29
#[tokio::test(flavor = "multi_thread")]
async fn a_planned_switchover_and_back_costs_the_statements_in_flight_and_no_writer_meets_a_standby() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=8&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let writers = Writers::start(&pool, 32);
    for (old, new, wanted) in [(0, 1, [0, 8]), (1, 0, [8, 0])] {
        writers.go_on(200).await;
        set.node(old).stop_fast();
        set.promote(new);
        spread_becomes(&pool, &set, &wanted).await;
        set.rejoin(old, new);
        writers.go_on(200).await;
    }

    let failed = writers.end().await;
    assert!(failed.len() <= 16, "{} writes failed", failed.len());
    for failed in failed {
        let by_shutdown = failed.sqlstate.as_deref().is_none_or(|code| code == "57P01");
        assert!(failed.lost && by_shutdown, "{failed:?}");
    }
}

/// Covers: F-13, F-18, Q-28
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_turns_read_only_and_back_gets_its_writers_back() {
    let set = primary_with(0).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let read_only = |on: &str| {
        set.node(0)
            .reload_settings(&[("default_transaction_read_only", on)]);
    };
    read_only("on");
    let conn = get(&pool).await;
    assert_eq!(write(&conn).await.unwrap_err().code(), Some("25006"));
    drop(conn);

    becomes(vec![0], || spread(&pool, &set)).await;
    let error = refused(&pool, SLACK).await;
    assert_eq!(
        states(&error),
        [(key(set.node(0)), "is a read-only primary")],
        "{error}"
    );
    assert!(pool.cluster().snapshot().failures.is_empty());

    read_only("off");
    let conn = get(&pool).await;
    write(&conn).await.unwrap();
    assert_eq!(*Conn::host(&conn), key(set.node(0)));
    becomes(vec![4], || spread(&pool, &set)).await;
}

/// A transaction that was begun read-only fails like this too: the connection is given up for it, and nothing else.
///
/// Covers: V-08, V-10
#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_a_read_only_transaction_costs_its_connection_and_the_host_nothing() {
    let set = primary_with(0).await;
    let pool = full_pool(&set.addresses(), "target_session_attrs=read-write&pool_size=2").await;
    let conn = get(&pool).await;
    conn.batch_execute("BEGIN READ ONLY").await.unwrap();
    assert_eq!(write(&conn).await.unwrap_err().code(), Some("25006"));
    drop(conn);
    becomes(vec![2], || spread(&pool, &set)).await;
    for _ in 0..4 {
        write(&get(&pool).await).await.unwrap();
    }
    assert!(pool.cluster().snapshot().failures.is_empty());
}

/// Covers: F-15, Q-06, Q-13
#[tokio::test(flavor = "multi_thread")]
async fn of_a_read_pool_beside_a_write_pool_only_the_connections_that_no_longer_fit_move() {
    use pgsteer::config::TargetSessionAttrs::{ReadWrite, Standby};

    use crate::rig::{backend, beside, config, full};

    let set = primary_with(2).await;
    let parameters = format!("load_balance_hosts=random&pool_size=4&{QUICK}");
    let cluster = pgsteer::Cluster::start(config(&set.addresses(), &parameters)).unwrap();
    let any = pgsteer::Pool::start_on(&cluster, config(&set.addresses(), &parameters)).unwrap();
    let (writes, reads) = (
        full(beside(&any, ReadWrite)).await,
        full(beside(&any, Standby)).await,
    );
    any.close(crate::rig::LIMIT).await;
    spread_becomes(&writes, &set, &[4, 0, 0]).await;
    spread_becomes(&reads, &set, &[0, 2, 2]).await;

    let staying: Vec<Conn> = {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(get(&reads).await);
        }
        all.into_iter()
            .filter(|conn| *Conn::host(conn) == key(set.node(2)))
            .collect()
    };
    let mut before = Vec::new();
    for conn in &staying {
        before.push(backend(conn).await);
    }

    set.node(0).kill();
    set.promote(1);
    set.follow(2, 1);
    spread_becomes(&writes, &set, &[0, 4, 0]).await;
    spread_becomes(&reads, &set, &[0, 0, 4]).await;
    for (conn, before) in staying.iter().zip(before) {
        assert_eq!(backend(conn).await, before, "a connection that fits was moved");
    }
    drop(staying);

    let opened = writes.status().totals.opened;
    set.rejoin(0, 1);
    spread_becomes(&reads, &set, &[2, 0, 2]).await;
    spread_becomes(&writes, &set, &[0, 4, 0]).await;
    assert_eq!(
        writes.status().totals.opened,
        opened,
        "the writers were disturbed"
    );
}

/// A primary that is to go down in order takes no writes any more, lets its sessions go on, and stops a while later.
///
/// Covers: F-18, V-08, Q-28, Q-29
#[tokio::test(flavor = "multi_thread")]
async fn in_a_planned_switchover_each_connection_tells_at_most_once_that_it_takes_no_writes() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=8&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let writers = Writers::start(&pool, 32);
    writers.go_on(200).await;

    set.node(0)
        .reload_settings(&[("default_transaction_read_only", "on")]);
    spread_becomes(&pool, &set, &[0, 0]).await;
    set.node(0).stop_fast();
    set.promote(1);
    writers.reach(&key(set.node(1))).await;
    set.rejoin(0, 1);
    writers.go_on(500).await;

    let failed = writers.end().await;
    let read_only: Vec<_> = failed
        .iter()
        .filter(|failed| failed.sqlstate.as_deref() == Some("25006"))
        .collect();
    // Connections that open afterwards are told so when their server is asked what it is.
    assert!(
        !read_only.is_empty() && read_only.len() <= 8,
        "{} were refused",
        read_only.len()
    );
    let others = failed
        .iter()
        .filter(|failed| failed.sqlstate.as_deref() != Some("25006"));
    for failed in others {
        assert!(failed.lost, "{failed:?}");
    }
    assert!(
        failed.iter().all(|failed| failed.host == key(set.node(0))),
        "{failed:?}"
    );
    assert_eq!(spread(&pool, &set), [0, 8]);
}
