//! What can be wrong with a server, one after the other: the next host is used, the right mark is made, callers see no
//! more than they must, and the host comes back.

use std::io::ErrorKind;

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::{Config, Error, FailureKind, Pool, Role};
use pgsteer_sim::{Accept, Death, Login, LoginStage, Resolution, Server, ServerSpec, Sim};

use crate::rig::*;

/// What a trouble makes of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Failed(FailureKind),
    /// It has not failed, and is of no use.
    Unfit(Role),
}

impl Mark {
    /// Whether it may be over in a moment, so that callers wait for that.
    fn is_passing(self) -> bool {
        matches!(
            self,
            Mark::Unfit(_) | Mark::Failed(FailureKind::NotReady | FailureKind::Full)
        )
    }
}

/// A way in which new connections fail, and what it makes of the host.
type Trouble = (&'static str, fn(&Sim, &Server), Mark);

const TROUBLES: [Trouble; 21] = {
    const DOWN: Mark = Mark::Failed(FailureKind::Down);
    const REJECTED: Mark = Mark::Failed(FailureKind::Rejected);
    [
        ("refused", |_, a| a.set_accept(Accept::Refuse), DOWN),
        (
            "unreachable",
            |_, a| a.set_accept(Accept::Fail(ErrorKind::HostUnreachable)),
            DOWN,
        ),
        (
            "no network",
            |_, a| a.set_accept(Accept::Fail(ErrorKind::NetworkUnreachable)),
            DOWN,
        ),
        ("not answered", |_, a| a.set_accept(Accept::Blackhole), DOWN),
        ("accepted and silent", |_, a| a.set_accept(Accept::Hang), DOWN),
        ("accepted and closed", |_, a| a.set_accept(Accept::Close), DOWN),
        (
            "closed in the login",
            |_, a| a.set_login(Login::CloseAt(LoginStage::StartupRead)),
            DOWN,
        ),
        (
            "closed after the login",
            |_, a| a.set_login(Login::CloseAt(LoginStage::Authenticated)),
            DOWN,
        ),
        (
            "no such name",
            |sim, a| sim.set_name(a.name(), Resolution::Unknown),
            DOWN,
        ),
        (
            "no resolver",
            |sim, a| sim.set_name(a.name(), Resolution::Fail(ErrorKind::TimedOut)),
            DOWN,
        ),
        // R, length 8, a kind of authentication nobody has heard of
        (
            "unknown authentication",
            |_, a| a.set_accept(Accept::Babble("R\0\0\0\x08\0\0\0\x63".into())),
            REJECTED,
        ),
        (
            "starting up",
            |_, a| a.set_login(Login::fatal("57P03")),
            Mark::Failed(FailureKind::NotReady),
        ),
        (
            "full",
            |_, a| a.set_login(Login::fatal("53300")),
            Mark::Failed(FailureKind::Full),
        ),
        (
            "wrong password here",
            |_, a| a.set_login(Login::fatal("28P01")),
            REJECTED,
        ),
        ("not let in", |_, a| a.set_login(Login::fatal("28000")), REJECTED),
        (
            "no such database here",
            |_, a| a.set_login(Login::fatal("3D000")),
            REJECTED,
        ),
        ("not allowed", |_, a| a.set_login(Login::fatal("42501")), REJECTED),
        (
            "broken inside",
            |_, a| a.set_login(Login::fatal("XX000")),
            REJECTED,
        ),
        (
            "protocol violated",
            |_, a| a.set_login(Login::fatal("08P01")),
            REJECTED,
        ),
        ("in recovery", |_, a| a.demote(), Mark::Unfit(Role::Standby)),
        (
            "in recovery without sessions",
            |_, a| a.set_login(Login::fatal("57M02")),
            Mark::Unfit(Role::ColdStandby),
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

/// The hosts that a pool cannot use, and why.
fn marks(pool: &Pool) -> Vec<(String, Mark)> {
    let snapshot = pool.snapshot();
    let failed = snapshot
        .failures
        .iter()
        .map(|(host, failure)| (host.name().to_owned(), Mark::Failed(failure.kind)));
    let unfit = snapshot
        .unfit
        .iter()
        .map(|host| (host.name().to_owned(), Mark::Unfit(snapshot.roles[host].role)));
    failed.chain(unfit).collect()
}

#[tokio::test(start_paused = true)]
async fn with_every_trouble_the_next_host_is_used_and_the_first_comes_back_when_it_is_over() {
    for (trouble, make, mark) in TROUBLES {
        let sim = three().build();
        let a = sim.server("a");
        make(&sim, &a);
        let pool = start(&sim, two_hosts());
        let (conn, took) = timed(pool.get_timeout(seconds(30))).await;
        let conn = conn.unwrap_or_else(|error| panic!("{trouble}: {error}"));
        assert_eq!(whoami(&conn).await.0, "b", "{trouble}");
        assert!(took <= millis(2005), "{trouble}: {took:?}");
        assert_eq!(marks(&pool), [("a".to_owned(), mark)], "{trouble}");
        pass(millis(1)).await;
        drop(conn);

        a.mend();
        a.promote();
        sim.set_name("a", Resolution::Addresses(vec!["10.0.0.1".parse().unwrap()]));
        // What a host is, is asked again when that is ten seconds old.
        within(trouble, seconds(12), || placed(&pool.status()) == "a:2").await;
        assert!(pool.cluster().snapshot().failures.is_empty(), "{trouble}");
        pool.close(seconds(5)).await;
        assert_eq!(sim.live(), 0, "{trouble}");
    }
}

/// Covers: E-326
#[tokio::test(start_paused = true)]
async fn with_every_trouble_on_the_only_host_callers_are_told_at_once_what_it_is() {
    for (trouble, make, _) in TROUBLES.iter().filter(|(_, _, mark)| !mark.is_passing()) {
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
async fn with_a_trouble_that_may_pass_callers_wait_and_are_told_at_their_deadline_what_it_is() {
    for (trouble, make, mark) in TROUBLES.iter().filter(|(_, _, mark)| mark.is_passing()) {
        let sim = three().build();
        let a = sim.server("a");
        make(&sim, &a);
        let pool = start(&sim, two_hosts().hosts(["a"]));
        let (result, took) = timed(pool.get_timeout(seconds(7))).await;
        let error = result.unwrap_err();
        assert!(matches!(error, Error::CheckoutTimeout(_)), "{trouble}: {error}");
        assert_eq!(took, seconds(7), "{trouble}");
        assert_eq!(error.hosts_tried().len(), 1, "{trouble}");
        assert_eq!(marks(&pool), [("a".to_owned(), *mark)], "{trouble}");

        // Over in a moment, it is found out within a polling step, whatever the delay of failed hosts.
        a.mend();
        a.promote();
        let (result, took) = timed(pool.get_timeout(seconds(7))).await;
        drop(result.unwrap_or_else(|error| panic!("{trouble}: {error}")));
        assert!(took <= millis(2005), "{trouble}: {took:?}");
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
    let error = result.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no host fits target_session_attrs=read-write")
            && error.to_string().contains("pg2:5433 is a standby"),
        "{error}"
    );
    assert_eq!(took, seconds(5), "there may be a primary any moment");
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
