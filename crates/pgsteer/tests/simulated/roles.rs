//! Which servers connections are opened on by what the servers are, and what is told when none is what is wanted.

use pgsteer::config::{HostOrder, LoadBalance, TargetSessionAttrs};
use pgsteer::{Config, Error, Role};
use pgsteer_sim::{ServerSpec, Sim};

use crate::rig::*;

/// Hosts in this order, nothing discovered, sessions wanted by this target.
pub fn ordered(hosts: &[&str], target: TargetSessionAttrs) -> Config {
    config(hosts)
        .load_balance(LoadBalance::Off)
        .target_session_attrs(target)
}

/// Plain PostgreSQL: `pg1` is the primary, `pg2` and `pg3` its standbys.
pub fn primary_and_standbys() -> Sim {
    plain([
        ServerSpec::new("pg1"),
        ServerSpec::new("pg2").standby(),
        ServerSpec::new("pg3").standby(),
    ])
}

pub const ALL: [&str; 3] = ["pg1", "pg2", "pg3"];

fn one_of_each() -> Sim {
    plain([
        ServerSpec::new("primary"),
        ServerSpec::new("read-only").read_only(),
        ServerSpec::new("standby").standby(),
    ])
}

/// Every order of the hosts: the target decides, and the order only among hosts that suit it equally.
///
/// Covers: F-12
#[tokio::test(start_paused = true)]
async fn each_target_lands_on_the_first_host_that_is_what_it_wants() {
    let orders = [
        ["primary", "read-only", "standby"],
        ["standby", "read-only", "primary"],
        ["read-only", "standby", "primary"],
    ];
    let table = [
        (TargetSessionAttrs::Any, ["primary", "standby", "read-only"]),
        (TargetSessionAttrs::ReadWrite, ["primary", "primary", "primary"]),
        (
            TargetSessionAttrs::ReadOnly,
            ["read-only", "standby", "read-only"],
        ),
        (TargetSessionAttrs::Primary, ["primary", "read-only", "read-only"]),
        (TargetSessionAttrs::Standby, ["standby", "standby", "standby"]),
        (
            TargetSessionAttrs::PreferPrimary,
            ["primary", "read-only", "read-only"],
        ),
        (
            TargetSessionAttrs::PreferStandby,
            ["standby", "standby", "standby"],
        ),
        (
            TargetSessionAttrs::PreferReadOnly,
            ["read-only", "standby", "read-only"],
        ),
    ];
    for (target, expected) in table {
        for (order, expected) in orders.iter().zip(expected) {
            let sim = one_of_each();
            let cluster = cluster(&sim, ordered(order, target)).await;
            for _ in 0..2 {
                assert_eq!(landing(&cluster).await, expected, "{target} of {order:?}");
            }
            assert!(
                cluster.snapshot().failures.is_empty(),
                "a wrong role is no failure"
            );
            let sessions = || sim.live();
            within("every session is closed again", seconds(1), || sessions() == 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_asks_for_nothing_sends_no_question() {
    let sim = primary_and_standbys();
    let cluster = cluster(&sim, ordered(&ALL, TargetSessionAttrs::Any)).await;
    landing(&cluster).await;
    pass(seconds(700)).await;
    assert_eq!(sim.server("pg1").counts().statements, 0);
    assert_eq!(attempts(&sim, "pg2"), 0, "nobody needs to know what it is");
}

/// Covers: F-16, Q-05, Q-12
#[tokio::test(start_paused = true)]
async fn a_role_is_asked_on_every_connection_whatever_is_remembered() {
    let sim = primary_and_standbys();
    let cluster = cluster(&sim, ordered(&ALL, TargetSessionAttrs::ReadWrite)).await;
    let _open = open(&cluster, 3).await;
    assert_eq!(sim.server("pg1").counts().statements, 3);
    // It turns into a standby behind our back, and what is remembered is still fresh.
    sim.server("pg1").demote();
    sim.server("pg2").promote();
    assert_eq!(landing(&cluster).await, "pg2");
}

#[tokio::test(start_paused = true)]
async fn with_random_order_connections_are_shared_among_the_hosts_that_are_wanted() {
    let sim = primary_and_standbys();
    let config = ordered(&ALL, TargetSessionAttrs::Standby)
        .load_balance_hosts(HostOrder::Random)
        .pool_size(40);
    let pool = full(&sim, config).await;
    let by_host = pool.status().by_host;
    assert_eq!(by_host.len(), 2, "{by_host:?}");
    assert!(by_host.values().all(|count| *count >= 10), "{by_host:?}");
    assert!(!by_host.contains_key(&key("pg1")));
}

#[tokio::test(start_paused = true)]
async fn with_load_balance_connections_are_spread_over_the_servers_that_are_wanted() {
    let sim = three().server(ServerSpec::new("d").standby()).build();
    sim.server("c").demote();
    let config = config(&["a"])
        .target_session_attrs(TargetSessionAttrs::Primary)
        .pool_size(6);
    let pool = full(&sim, config).await;
    assert_eq!(placed(&pool.status()), "a:3 b:3");
}

/// Covers: F-14, Q-17
#[tokio::test(start_paused = true)]
async fn the_connection_that_will_do_is_kept_and_nobody_is_dialled_twice() {
    let sim = primary_and_standbys();
    ["pg2", "pg3"].iter().for_each(|name| refuse(&sim.server(name)));
    let cluster = cluster(&sim, ordered(&ALL, TargetSessionAttrs::PreferStandby)).await;
    let opened = open(&cluster, 1).await;
    assert_eq!(hosts_of(&opened), ["pg1"]);
    assert_eq!(ALL.map(|name| attempts(&sim, name)), [1, 1, 1]);
    assert_eq!(sim.server("pg1").counts().logins, 1);
    assert_eq!(counted(&cluster.snapshot()), "pg1:1");
    assert!(cluster.snapshot().pending.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_was_kept_is_closed_and_no_longer_counted_when_a_better_one_comes() {
    let sim = primary_and_standbys();
    let cluster = cluster(&sim, ordered(&ALL, TargetSessionAttrs::PreferStandby)).await;
    let opened = open(&cluster, 1).await;
    assert_eq!(hosts_of(&opened), ["pg2"]);
    assert_eq!(sim.server("pg1").counts().logins, 1, "it was tried first");
    within("the spare is gone", seconds(1), || {
        counted(&cluster.snapshot()) == "pg2:1" && sim.server("pg1").counts().live == 0
    })
    .await;
    assert!(
        sim.log_text()
            .lines()
            .any(|line| line.contains("pg1") && line.to_lowercase().contains("terminated")),
        "it was closed in an orderly way: {}",
        sim.log_text()
    );
}

#[tokio::test(start_paused = true)]
async fn hosts_that_are_known_not_to_be_better_are_not_asked_for_nothing() {
    let sim = plain([ServerSpec::new("pg1"), ServerSpec::new("pg2")]);
    let cluster = cluster(&sim, ordered(&["pg1", "pg2"], TargetSessionAttrs::PreferStandby)).await;
    let _opened = open(&cluster, 4).await;
    assert_eq!(counted(&cluster.snapshot()), "pg1:4");
    assert_eq!(
        attempts(&sim, "pg2"),
        2,
        "once by the first search, and once for its timeline, since both are primaries"
    );
}

/// Covers: F-12, Q-07, Q-10, Q-19
#[tokio::test(start_paused = true)]
async fn the_error_names_each_host_with_its_state_its_role_and_the_reason() {
    let sim = plain([
        ServerSpec::new("down"),
        ServerSpec::new("standby").standby(),
        ServerSpec::new("cold"),
        ServerSpec::new("starting"),
    ]);
    refuse(&sim.server("down"));
    sim.server("cold").set_login(pgsteer_sim::Login::fatal("57M02"));
    sim.server("starting")
        .set_login(pgsteer_sim::Login::fatal("57P03"));
    let hosts = ["down", "standby", "cold", "starting"];
    let cluster = cluster(&sim, ordered(&hosts, TargetSessionAttrs::ReadWrite)).await;
    let error = cluster.connect().await.unwrap_err();
    let Error::NoFit(failed) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(failed.target, TargetSessionAttrs::ReadWrite);
    assert_eq!(
        tried(&error),
        "down down, standby is a standby, cold is a standby that takes no sessions, starting is not ready"
    );
    let roles: Vec<Option<Role>> = failed.tried.iter().map(|tried| tried.role).collect();
    assert_eq!(roles, [None, Some(Role::Standby), Some(Role::ColdStandby), None]);
    let codes: Vec<Option<&str>> = failed.tried.iter().map(|tried| tried.code.as_deref()).collect();
    assert_eq!(codes, [None, None, Some("57M02"), Some("57P03")]);
    let text = error.to_string();
    assert!(
        text.starts_with("no host fits target_session_attrs=read-write: down:5433 down: "),
        "{text}"
    );
    assert_eq!(
        names(&cluster.snapshot().failures.keys().cloned().collect::<Vec<_>>()),
        ["down", "starting"]
    );

    // Asked again at once, a host that failed a moment ago is left out of the round, and told of all the same.
    let error = cluster.connect().await.unwrap_err();
    assert!(tried(&error).contains("down down"), "{}", tried(&error));
}

/// Covers: F-09, V-05
#[tokio::test(start_paused = true)]
async fn a_host_that_refuses_the_login_is_at_fault_where_another_takes_it_though_that_does_not_fit() {
    let sim = plain([ServerSpec::new("pg1"), ServerSpec::new("pg2").standby()]);
    sim.server("pg1").set_login(pgsteer_sim::Login::fatal("28P01"));
    let cluster = cluster(&sim, ordered(&["pg1", "pg2"], TargetSessionAttrs::ReadWrite)).await;
    let error = cluster.connect().await.unwrap_err();
    assert!(matches!(error, Error::NoFit(_)), "{error:?}");
    assert_eq!(names(&cluster.snapshot().rejected()), ["pg1"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_pool_beside_a_write_pool_has_its_own_hosts_and_its_own_view() {
    let sim = primary_and_standbys();
    let writes = full(&sim, ordered(&ALL, TargetSessionAttrs::ReadWrite).pool_size(2)).await;
    let reads = writes.with_target(TargetSessionAttrs::Standby).unwrap();
    reads.ready(2, seconds(5)).await.unwrap();
    assert_eq!(
        (placed(&writes.status()), placed(&reads.status())),
        ("pg1:2".into(), "pg2:2".into())
    );
    assert_eq!(counted(&writes.cluster().snapshot()), "pg1:2 pg2:2");
    assert_eq!(names(&writes.snapshot().unfit), ["pg2"]);
    assert_eq!(names(&reads.snapshot().unfit), ["pg1"]);
}

#[tokio::test(start_paused = true)]
async fn a_search_given_up_at_any_moment_leaves_no_reservation_no_count_and_no_session() {
    let targets = [
        TargetSessionAttrs::ReadWrite,
        TargetSessionAttrs::PreferStandby,
        TargetSessionAttrs::Standby,
    ];
    for target in targets {
        for given_up in (0..260).step_by(3) {
            let sim = primary_and_standbys();
            for server in sim.servers() {
                server.set_connect_latency(millis(11));
                server.set_answer_latency(millis(13));
            }
            let cluster = cluster(&sim, ordered(&["pg2", "pg1", "pg3"], target)).await;
            drop(tokio::time::timeout(millis(given_up), cluster.connect()).await);
            assert!(cluster.snapshot().pending.is_empty(), "{target} {given_up} ms");
            assert!(cluster.snapshot().failures.is_empty(), "{target} {given_up} ms");
            within("all sessions are gone", seconds(3), || {
                sim.live() == 0 && cluster.snapshot().counts.is_empty()
            })
            .await;
        }
    }
}
