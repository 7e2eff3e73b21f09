//! Promotion, following, rejoining, cold standbys, split brain, synchronous commit.

use std::time::Duration;

use pgsteer_testkit::{HaSet, Rejoined, Server};
use tokio::time::timeout;

use crate::{log_in, sqlstate, value};

fn count_of(node: &Server) -> Option<String> {
    value(node, "SELECT count(*) FROM t")
}

/// A set with a table of one column, which every standby has.
fn set_with_table(standbys: usize) -> HaSet {
    let set = HaSet::builder().standbys(standbys).start();
    set.node(0)
        .sql("CREATE TABLE t (n int); GRANT ALL ON t TO PUBLIC");
    (1..=standbys).for_each(|standby| set.wait_caught_up(standby, 0));
    set
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_the_promoted_node_takes_writes_and_the_others_follow_it() {
    let set = set_with_table(2);
    let session = log_in(set.node(1), "kept").await.unwrap();

    set.node(0).kill();
    set.promote(1);
    set.follow(2, 1);

    session.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
    set.wait_caught_up(2, 1);
    assert_eq!(count_of(set.node(2)).as_deref(), Some("1"));
    assert_eq!([0, 1, 2].map(|node| set.is_primary(node)), [false, true, false]);
    assert_eq!((set.timeline(1), set.timeline(2)), (2, 2));
    assert_eq!(set.spread("kept"), [0, 1, 0]);
}

#[test]
fn a_primary_that_wrote_alone_rejoins_by_rewinding() {
    let set = set_with_table(1);
    set.promote(1);
    set.node(0).sql("INSERT INTO t VALUES (1), (2)");
    set.node(0).kill();
    set.node(1).sql("INSERT INTO t VALUES (3)");

    assert_eq!(set.rejoin(0, 1), Rejoined::Rewound);

    set.wait_caught_up(0, 1);
    assert_eq!(count_of(set.node(0)).as_deref(), Some("1"));
    assert!(!set.is_primary(0));
    assert_eq!(set.timeline(0), 2);
}

#[test]
fn roles_can_go_back_and_forth() {
    let set = set_with_table(1);
    for (new, old) in [(1, 0), (0, 1)] {
        set.promote(new);
        assert_eq!(set.rejoin(old, new), Rejoined::Rewound);
        set.node(new).sql("INSERT INTO t VALUES (1)");
        set.wait_caught_up(old, new);
    }
    assert_eq!((set.timeline(0), set.timeline(1)), (3, 3));
    assert_eq!(count_of(set.node(1)).as_deref(), Some("2"));
}

#[test]
fn a_standby_that_crashed_rejoins_by_a_base_backup_with_its_own_login_rules() {
    let set = set_with_table(2);
    set.node(2).set_hba(&["host all all 127.0.0.0/8 reject"]);
    set.node(2).kill();
    set.promote(1);
    set.node(1).sql("INSERT INTO t VALUES (1)");

    assert_eq!(set.rejoin(2, 1), Rejoined::BaseBackup);

    set.wait_caught_up(2, 1);
    assert_eq!(count_of(set.node(2)).as_deref(), Some("1"));
    let rules = "SELECT string_agg(auth_method, ',') FROM pg_hba_file_rules WHERE user_name = '{all}'";
    assert_eq!(value(set.node(2), rules).as_deref(), Some("reject"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_standby_answers_57p03_and_replays_until_it_is_promoted() {
    let set = set_with_table(1);

    set.set_hot_standby(1, false);

    let refused = log_in(set.node(1), "refused").await.err().unwrap();
    assert_eq!(sqlstate(&refused), Some("57P03"));
    assert_eq!(set.spread("refused"), [0, 0]);
    assert!(!set.is_primary(1));
    set.node(1).restart();
    set.follow(1, 0);
    set.node(0).sql("INSERT INTO t VALUES (1)");
    set.node(0).stop_fast();
    set.promote(1);
    log_in(set.node(1), "welcome").await.unwrap();
    assert_eq!(count_of(set.node(1)).as_deref(), Some("1"));
}

#[test]
fn a_cold_standby_can_be_made_hot_again() {
    let set = set_with_table(1);
    set.set_hot_standby(1, false);
    set.set_hot_standby(1, true);
    assert_eq!(count_of(set.node(1)).as_deref(), Some("0"));
}

#[test]
fn promotion_beside_a_living_primary_is_a_split_brain() {
    let set = set_with_table(1);

    set.promote(1);

    set.node(0).sql("INSERT INTO t VALUES (1), (2)");
    set.node(1).sql("INSERT INTO t VALUES (3)");
    let seen = [0, 1].map(|node| (set.is_primary(node), set.timeline(node), count_of(set.node(node))));
    let count = |text: &str| Some(text.to_owned());
    assert_eq!(seen, [(true, 1, count("2")), (true, 2, count("1"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_commit_waits_for_a_standby() {
    let set = set_with_table(1);
    let client = log_in(set.node(0), "writer").await.unwrap();
    set.set_synchronous(0, true);
    let insert = "INSERT INTO t VALUES (1)";
    client.batch_execute(insert).await.unwrap();
    set.node(1).freeze();

    let mut waiting = Box::pin(client.batch_execute(insert));
    assert!(
        timeout(Duration::from_millis(200), &mut waiting).await.is_err(),
        "nobody confirmed this commit"
    );
    set.node(1).thaw();
    timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();

    set.node(1).stop_fast();
    set.set_synchronous(0, false);
    client.batch_execute(insert).await.unwrap();
}

#[test]
#[should_panic(expected = "node 0 is no standby")]
fn promoting_a_primary_fails_the_test() {
    HaSet::builder().standbys(0).start().promote(0);
}

#[test]
#[should_panic(expected = "is frozen; thaw it first")]
fn promoting_a_frozen_standby_fails_the_test() {
    let set = HaSet::builder().standbys(1).start();
    set.node(1).freeze();
    set.promote(1);
}

#[test]
#[should_panic(expected = "node 1 is no primary to rejoin")]
fn rejoining_a_standby_fails_the_test() {
    HaSet::builder().standbys(2).start().rejoin(2, 1);
}
