//! What can be wrong with a server, one after the other: the next host is used, the right mark is made, callers see no
//! more than they must, and the host comes back.

use std::io::ErrorKind;

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::{Config, Error, FailureKind};
use pgsteer_sim::{Accept, Death, Login, LoginStage, Resolution, Server, ServerSpec, Sim};

use crate::rig::*;

/// A way in which new connections fail, and what it makes of the host.
type Trouble = (&'static str, fn(&Sim, &Server), FailureKind);

const TROUBLES: [Trouble; 19] = {
    use FailureKind::{Down, Full, NotReady, Rejected};
    [
        ("refused", |_, a| a.set_accept(Accept::Refuse), Down),
        (
            "unreachable",
            |_, a| a.set_accept(Accept::Fail(ErrorKind::HostUnreachable)),
            Down,
        ),
        (
            "no network",
            |_, a| a.set_accept(Accept::Fail(ErrorKind::NetworkUnreachable)),
            Down,
        ),
        ("not answered", |_, a| a.set_accept(Accept::Blackhole), Down),
        ("accepted and silent", |_, a| a.set_accept(Accept::Hang), Down),
        ("accepted and closed", |_, a| a.set_accept(Accept::Close), Down),
        (
            "closed in the login",
            |_, a| a.set_login(Login::CloseAt(LoginStage::StartupRead)),
            Down,
        ),
        (
            "closed after the login",
            |_, a| a.set_login(Login::CloseAt(LoginStage::Authenticated)),
            Down,
        ),
        (
            "no such name",
            |sim, a| sim.set_name(a.name(), Resolution::Unknown),
            Down,
        ),
        (
            "no resolver",
            |sim, a| sim.set_name(a.name(), Resolution::Fail(ErrorKind::TimedOut)),
            Down,
        ),
        // R, length 8, a kind of authentication nobody has heard of
        (
            "unknown authentication",
            |_, a| a.set_accept(Accept::Babble("R\0\0\0\x08\0\0\0\x63".into())),
            Rejected,
        ),
        ("starting up", |_, a| a.set_login(Login::fatal("57P03")), NotReady),
        ("full", |_, a| a.set_login(Login::fatal("53300")), Full),
        (
            "wrong password here",
            |_, a| a.set_login(Login::fatal("28P01")),
            Rejected,
        ),
        ("not let in", |_, a| a.set_login(Login::fatal("28000")), Rejected),
        (
            "no such database here",
            |_, a| a.set_login(Login::fatal("3D000")),
            Rejected,
        ),
        ("not allowed", |_, a| a.set_login(Login::fatal("42501")), Rejected),
        (
            "broken inside",
            |_, a| a.set_login(Login::fatal("XX000")),
            Rejected,
        ),
        (
            "protocol violated",
            |_, a| a.set_login(Login::fatal("08P01")),
            Rejected,
        ),
    ]
};

pub fn two_hosts() -> Config {
    config(&["a", "b"])
        .load_balance(LoadBalance::Off)
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .connect_timeout(seconds(2))
        .yb_servers_refresh_interval(seconds(1))
        .pool_size(2)
}

#[tokio::test(start_paused = true)]
async fn with_every_trouble_the_next_host_is_used_and_the_first_comes_back_when_it_is_over() {
    for (trouble, make, kind) in TROUBLES {
        let sim = three().build();
        let a = sim.server("a");
        make(&sim, &a);
        let pool = start(&sim, two_hosts());
        let (conn, took) = timed(pool.get_timeout(seconds(30))).await;
        let conn = conn.unwrap_or_else(|error| panic!("{trouble}: {error}"));
        assert_eq!(whoami(&conn).await.0, "b", "{trouble}");
        assert!(took <= millis(2005), "{trouble}: {took:?}");
        let failures = pool.cluster().snapshot().failures;
        assert_eq!(
            failures.keys().map(|host| host.name()).collect::<Vec<_>>(),
            ["a"],
            "{trouble}"
        );
        assert_eq!(failures[&key("a")].kind, kind, "{trouble}: {failures:?}");
        pass(millis(1)).await;
        drop(conn);

        a.mend();
        sim.set_name("a", Resolution::Addresses(vec!["10.0.0.1".parse().unwrap()]));
        within(trouble, seconds(6), || placed(&pool.status()) == "a:2").await;
        assert!(pool.cluster().snapshot().failures.is_empty(), "{trouble}");
        pool.close(seconds(5)).await;
        assert_eq!(sim.live(), 0, "{trouble}");
    }
}

/// Covers: E-326
#[tokio::test(start_paused = true)]
async fn with_every_trouble_on_the_only_host_callers_are_told_at_once_what_it_is() {
    for (trouble, make, _) in TROUBLES {
        let sim = three().build();
        make(&sim, &sim.server("a"));
        let pool = start(&sim, two_hosts().hosts(["a"]));
        let (result, took) = timed(pool.get_timeout(seconds(30))).await;
        let error = result.unwrap_err();
        // The last dials begin half a second after the first and take two seconds at most.
        assert!(took <= millis(2505), "{trouble}: {took:?}");
        let refused_login = ["28P01", "28000", "3D000", "42501"]
            .iter()
            .find(|code| error.code() == Some(code));
        match (&error, refused_login) {
            // Nobody took the login, so it is the login and no host is to blame.
            (Error::Login(_), Some(_)) => assert!(pool.cluster().snapshot().failures.is_empty(), "{trouble}"),
            (Error::Connect(_), None) => assert_eq!(pool.cluster().snapshot().failures.len(), 1, "{trouble}"),
            other => panic!("{trouble}: {other:?}"),
        }
        assert_eq!(error.hosts_tried().len(), 1, "{trouble}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failover_connections_are_on_the_promoted_standby() {
    let sim = plain([ServerSpec::new("pg1"), ServerSpec::new("pg2").standby()]);
    let pool = full(&sim, two_hosts().hosts(["pg1", "pg2"]).pool_size(4)).await;
    assert_eq!(placed(&pool.status()), "pg1:4");
    sim.server("pg1").kill(Death::Rst);
    pass(seconds(5)).await;
    let (result, took) = timed(pool.get_timeout(seconds(5))).await;
    assert!(
        result.is_err() && took < seconds(5),
        "nobody takes writes: {took:?}"
    );
    assert_eq!(names(&pool.cluster().snapshot().read_only()), ["pg2"]);
    sim.server("pg2").promote();
    within("all are on pg2", seconds(5), || placed(&pool.status()) == "pg2:4").await;
    pool.batch_execute("INSERT INTO ledger VALUES (1, 'after')")
        .await
        .unwrap();
    // The old primary comes back as a standby.
    sim.server("pg1").demote();
    sim.server("pg1").start();
    pass(seconds(10)).await;
    assert_eq!(placed(&pool.status()), "pg2:4");
    assert_eq!(names(&pool.cluster().snapshot().read_only()), ["pg1"]);
}

/// A switch-over: the old primary goes on as a standby, with its sessions.
#[tokio::test(start_paused = true)]
async fn after_a_switch_over_a_writing_application_can_get_to_the_new_primary() {
    let sim = plain([ServerSpec::new("pg1"), ServerSpec::new("pg2").standby()]);
    let pool = full(&sim, two_hosts().hosts(["pg1", "pg2"]).pool_size(4)).await;
    sim.server("pg1").demote();
    sim.server("pg2").promote();
    let error = pool
        .batch_execute("INSERT INTO ledger VALUES (1, 'refused')")
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("25006"));
    // What one does then: have all connections replaced.
    pool.retire_all();
    within("all are on pg2", seconds(5), || placed(&pool.status()) == "pg2:4").await;
    pool.batch_execute("INSERT INTO ledger VALUES (2, 'taken')")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_full_gets_what_it_takes_and_the_others_the_rest() {
    let sim = three().build();
    sim.server("a").set_max_connections(Some(1));
    let pool = full(
        &sim,
        config(&["b"])
            .pool_size(9)
            .yb_servers_refresh_interval(seconds(60)),
    )
    .await;
    assert_eq!(placed(&pool.status()), "a:1 b:4 c:4");
    assert_eq!(names(&pool.cluster().snapshot().rejected()), ["a"]);
    sim.server("a").set_max_connections(None);
    within("they are even", seconds(70), || {
        placed(&pool.status()) == "a:3 b:3 c:3"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_is_used_all_the_same() {
    let sim = three().build();
    sim.server("b").set_answer_latency(millis(700));
    let pool = full(&sim, config(&["a"]).pool_size(6)).await;
    assert_eq!(placed(&pool.status()), "a:2 b:2 c:2");
    assert!(pool.cluster().snapshot().failures.is_empty());
}
