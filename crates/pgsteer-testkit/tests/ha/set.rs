//! The set as it starts, and what breaks and mends one of its nodes.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pgsteer_testkit::{DATABASE, HaSet, PASSWORD, Server, USER};
use tokio::time::timeout;

use crate::{log_in, sqlstate, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_set_starts_as_a_primary_with_two_streaming_standbys_that_take_logins() {
    let set = HaSet::start();

    let primaries: Vec<bool> = (0..3).map(|node| set.is_primary(node)).collect();
    assert_eq!(primaries, [true, false, false]);
    let streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    assert_eq!(value(set.node(0), streaming).as_deref(), Some("2"));
    let mut sessions = Vec::new();
    for node in set.nodes() {
        sessions.push(log_in(node, "counted").await.unwrap());
    }
    assert_eq!(set.spread("counted"), [1, 1, 1]);
    let hosts: Vec<&str> = set.nodes().iter().map(Server::host).collect();
    assert_eq!(hosts, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let addresses = set.nodes().iter().map(Server::address).collect::<Vec<_>>();
    assert_eq!(
        set.url(),
        format!(
            "postgresql://{USER}:{PASSWORD}@{}/{DATABASE}",
            addresses.join(",")
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_primary_commits_is_on_a_standby_once_it_has_caught_up() {
    let set = HaSet::builder().standbys(1).start();
    let client = log_in(set.node(0), "writer").await.unwrap();
    client
        .batch_execute("CREATE TABLE kept AS SELECT 7 AS n")
        .await
        .unwrap();

    set.wait_caught_up(1, 0);

    let standby = log_in(set.node(1), "reader").await.unwrap();
    let n: i32 = standby.query_one("SELECT n FROM kept", &[]).await.unwrap().get(0);
    assert_eq!(n, 7);
    let refused = standby.batch_execute("DELETE FROM kept").await.unwrap_err();
    assert_eq!(sqlstate(&refused), Some("25006"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_down_come_back_in_their_roles() {
    let set = HaSet::builder().standbys(1).start();
    set.node(0).sql("CREATE TABLE kept AS SELECT 7 AS n");
    for down in [
        Server::kill as fn(&Server),
        Server::stop_fast,
        Server::stop_immediate,
    ] {
        set.nodes().iter().for_each(down);
        let refused = TcpStream::connect(set.node(0).address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(set.spread("nobody"), [0, 0]);
        set.nodes().iter().rev().for_each(Server::start);
        set.wait_caught_up(1, 0);
        assert_eq!(
            [0, 1].map(|node| (set.is_primary(node), set.timeline(node))),
            [(true, 1), (false, 1)]
        );
        assert_eq!(value(set.node(1), "SELECT n FROM kept").as_deref(), Some("7"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_accepts_connections_but_answers_only_when_it_thaws() {
    let set = HaSet::builder().standbys(1).start();
    for node in set.nodes() {
        let client = log_in(node, "patient").await.unwrap();
        node.freeze();
        TcpStream::connect(node.address()).unwrap();
        let mut query = Box::pin(client.query_one("SELECT 1", &[]));
        assert!(
            timeout(Duration::from_millis(100), &mut query).await.is_err(),
            "a frozen node answered"
        );
        node.thaw();
        timeout(Duration::from_secs(10), query).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_can_be_full_while_its_standbys_go_on_replaying() {
    let set = HaSet::builder()
        .standbys(1)
        .configure(0, |spec| spec.max_connections(2))
        .start();
    set.node(1).set_max_connections(1);
    for (node, limit) in set.nodes().iter().zip([2, 1]) {
        let mut held = Vec::new();
        for _ in 0..limit {
            held.push(log_in(node, "holder").await.unwrap());
        }
        let refused = log_in(node, "late").await.err().unwrap();
        assert_eq!(sqlstate(&refused), Some("53300"));
        assert_eq!(node.log().failed_logins(USER), 1);
    }
    set.wait_caught_up(1, 0);
}

#[test]
#[should_panic(expected = "takes 1 to 100 sessions, not 101")]
fn a_node_with_more_slots_than_its_primary_is_refused() {
    let _ = HaSet::builder()
        .standbys(1)
        .configure(1, |spec| spec.max_connections(101))
        .start();
}

#[tokio::test(flavor = "multi_thread")]
async fn login_rules_are_of_one_node_and_leave_replication_alone() {
    let set = HaSet::builder().standbys(1).start();
    set.node(0).set_hba(&["host all all 127.0.0.0/8 reject"]);
    assert_eq!(
        sqlstate(&log_in(set.node(0), "rejected").await.err().unwrap()),
        Some("28000")
    );
    log_in(set.node(1), "welcome").await.unwrap();
    set.node(1).restart();
    set.node(0).sql("CREATE TABLE later (n int)");
    set.wait_caught_up(1, 0);
    set.node(0).reset_hba();
    log_in(set.node(0), "welcome").await.unwrap();
}

#[test]
fn nodes_may_have_different_ports() {
    let set = HaSet::builder().standbys(1).different_ports().start();
    assert_ne!(set.node(0).port(), set.node(1).port());
}

#[test]
fn a_panicking_test_leaves_nothing_behind() {
    let mut seen = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let set = HaSet::builder().standbys(1).start();
        set.node(1).freeze();
        seen = Some((set.node(0).data_folder(), set.node(0).address()));
        panic!("on purpose");
    }));

    assert!(panicked.is_err());
    let (folder, address) = seen.unwrap();
    assert!(!folder.exists() && TcpStream::connect(address).is_err());
}
