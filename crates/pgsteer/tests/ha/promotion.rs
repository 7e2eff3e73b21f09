//! The primary dies and a standby is promoted, under writers.

use std::time::{Duration, Instant};

use pgsteer::{Conn, HostKey};
use pgsteer_testkit::{HaSet, Rejoined, Server, Tls};

use crate::rig::{
    LONGEST_STEP, QUICK, SLACK, backend, becomes, full_pool, get, get_in_the_end, key, primary_with, soon,
    spread, spread_becomes, with_table, write,
};
use crate::writers::{Failed, Writers};

/// Kills the primary under 32 writers, promotes a standby, and checks what the writers saw.
async fn kill_and_promote(set: &HaSet, parameters: &str) {
    let parameters = format!("target_session_attrs=read-write&pool_size=8&{parameters}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let writers = Writers::start(&pool, 32);
    writers.go_on(200).await;

    let killed = Instant::now();
    set.node(0).kill();
    set.promote(1);
    let promoted = Instant::now();
    let first = writers.reach(&key(set.node(1))).await;
    writers.go_on(200).await;

    // The rests between rounds double from a quarter of a second, so that none is longer than all before it together,
    // and a quarter.
    let step = (promoted - killed + Duration::from_millis(250)).min(LONGEST_STEP);
    let took = first.saturating_duration_since(promoted);
    println!("the first write came {took:?} after the promotion, with steps of {step:?} at most");
    assert!(
        took <= step + SLACK,
        "the first write came {took:?} after the promotion, with steps of {step:?} at most"
    );
    let failed = writers.end().await;
    only_lost_with(&failed, &key(set.node(0)), promoted);
    assert!(failed.len() <= 8, "at most one for each connection: {failed:?}");
    spread_becomes(&pool, set, &[0, 8, 0]).await;
}

/// Every failed write was one whose connection to the old primary was lost, and none of a connection that was opened after
/// the promotion.
fn only_lost_with(failed: &[Failed], old: &HostKey, promoted: Instant) {
    for failed in failed {
        assert!(
            failed.lost && failed.host == *old && failed.opened < promoted,
            "{failed:?}"
        );
        assert_ne!(failed.sqlstate.as_deref(), Some("25006"), "{failed:?}");
    }
}

/// Covers: R-01, F-01, Q-02, Q-05, Q-27, Q-34
#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_within_one_polling_step_of_a_promotion() {
    let set = primary_with(2).await;
    kill_and_promote(&set, "").await;
}

///
#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_within_one_polling_step_of_a_promotion_over_verified_tls() {
    let builder = HaSet::builder().configure_all(|spec| spec.tls(Tls::new().required()));
    let set = with_table(builder).await;
    let ca = set.tls_files().ca.display().to_string();
    kill_and_promote(&set, &format!("sslmode=verify-full&sslrootcert={ca}")).await;
}

/// The old primary is the first host in the list and answers again, as a standby.
///
/// Covers: F-15, F-16, Q-01, Q-12
#[tokio::test(flavor = "multi_thread")]
async fn an_old_primary_that_is_back_as_a_standby_gets_no_writer() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    set.node(0).kill();
    set.promote(1);
    spread_becomes(&pool, &set, &[0, 4]).await;
    assert_eq!(set.rejoin(0, 1), Rejoined::Rewound);
    becomes(true, || pool.cluster().snapshot().failures.is_empty()).await;

    for _ in 0..20 {
        let conn = get(&pool).await;
        write(&conn).await.unwrap();
        assert_eq!(*Conn::host(&conn), key(set.node(1)));
        // Its replacement is asked like every new connection.
        Conn::discard(conn);
    }

    assert_eq!(spread(&pool, &set)[0], 0);
}

/// Covers: F-15
#[tokio::test(flavor = "multi_thread")]
async fn sessions_on_a_standby_live_through_its_promotion_and_write() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=prefer-standby&pool_size=3&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    assert_eq!(spread(&pool, &set), [0, 3]);
    let conn = get(&pool).await;
    let before = backend(&conn).await;

    set.node(0).kill();
    set.promote(1);

    write(&conn).await.unwrap();
    assert_eq!(backend(&conn).await, before);
    let role = || {
        let roles = pool.cluster().snapshot().roles;
        roles.get(&key(set.node(1))).map(|seen| seen.role)
    };
    becomes(Some(pgsteer::Role::Primary), role).await;
    assert_eq!(spread(&pool, &set), [0, 3]);
    assert_eq!(pool.status().totals.lost, 0);
}

/// Covers: F-17
#[tokio::test(flavor = "multi_thread")]
async fn of_two_primaries_the_one_on_the_later_timeline_gets_the_writers_and_one_warning_is_logged() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    assert_eq!(spread(&pool, &set), [4, 0]);

    set.promote(1);

    spread_becomes(&pool, &set, &[0, 4]).await;
    let asked = Instant::now();
    // As many refreshes as would tell it again.
    becomes(true, || asked.elapsed() > 3 * Duration::from_secs(1)).await;
    assert_eq!(spread(&pool, &set), [0, 4]);
    let warnings = crate::log::logged(&["WARN", &set.node(0).address(), &set.node(1).address()]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

/// The primary hangs, is given up for a standby, and comes to life again: its sessions come back with it.
///
/// Covers: F-17, Q-20, Q-27
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_thaws_after_its_standby_was_promoted_loses_the_writers() {
    let set = primary_with(1).await;
    let parameters =
        format!("target_session_attrs=read-write&pool_size=4&connect_timeout=1s&max_dials=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let held = get(&pool).await;
    set.node(0).freeze();
    set.promote(1);

    // Idle connections look healthy; what is handed out of them hangs, and is not given back for another try.
    soon(async {
        loop {
            let conn = get_in_the_end(&pool).await;
            let written = tokio::time::timeout(Duration::from_millis(200), write(&conn)).await;
            if written.is_ok_and(|written| written.is_ok()) {
                assert_eq!(*Conn::host(&conn), key(set.node(1)));
                break;
            }
            Conn::discard(conn);
        }
    })
    .await;
    set.node(0).thaw();

    // The one that is held stays with its holder and goes when it comes back.
    spread_becomes(&pool, &set, &[1, 3]).await;
    drop(held);
    spread_becomes(&pool, &set, &[0, 4]).await;
}

///
#[tokio::test(flavor = "multi_thread")]
async fn writers_follow_one_failover_after_another() {
    let set = primary_with(2).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let writers = Writers::start(&pool, 16);
    let mut lost = Vec::new();
    for (old, new) in [(0, 1), (1, 2)] {
        writers.go_on(100).await;
        set.node(old).kill();
        set.promote(new);
        writers.reach(&key(set.node(new))).await;
        lost.push(key(set.node(old)));
        if new == 1 {
            set.follow(2, 1);
        }
    }
    writers.go_on(100).await;

    let failed = writers.end().await;
    assert!(
        failed
            .iter()
            .all(|failed| failed.lost && lost.contains(&failed.host)),
        "{failed:?}"
    );
    spread_becomes(&pool, &set, &[0, 0, 4]).await;
}

/// The standbys answer all the while, so that callers wait instead of failing.
///
/// Covers: F-13, Q-02, Q-34
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_restarted_serves_those_who_waited() {
    let set = primary_with(1).await;
    let parameters = format!("target_session_attrs=read-write&pool_size=4&{QUICK}");
    let pool = full_pool(&set.addresses(), &parameters).await;
    let writers = Writers::start(&pool, 16);
    for down in [
        Server::stop_fast as fn(&Server),
        Server::stop_immediate,
        Server::kill,
    ] {
        writers.go_on(100).await;
        down(set.node(0));
        set.node(0).start();
    }
    writers.go_on(100).await;

    let failed = writers.end().await;
    assert!(failed.iter().all(|failed| failed.lost), "{failed:?}");
    assert!(
        failed.len() <= 3 * 4,
        "at most one for each connection: {failed:?}"
    );
    spread_becomes(&pool, &set, &[4, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_for_a_lost_standby_is_cancelled_once_nobody_waits_for_it() {
    let set = primary_with(1).await;
    let parameters =
        "target_session_attrs=read-write&pool_size=1&return_cancel_after=100ms&return_timeout=30s";
    let pool = full_pool(&set.addresses(), parameters).await;
    set.set_synchronous(0, true);
    set.node(1).freeze();
    let conn = get(&pool).await;
    let before = backend(&conn).await;
    let written = tokio::time::timeout(Duration::from_millis(200), write(&conn)).await;
    assert!(written.is_err(), "nobody confirmed this commit");
    drop(conn);

    // It is in the primary's log all the same, and the connection is used again.
    let conn = get(&pool).await;
    assert_eq!(backend(&conn).await, before);
    let rows: i64 = conn
        .query_one("SELECT count(*) FROM written", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(rows, 1);
}
