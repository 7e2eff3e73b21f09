//! Hosts that are there and take no sessions: a Greenplum standby coordinator, a server that is starting up, one that is
//! full. They are asked again on schedules of their own.

use pgsteer::config::TargetSessionAttrs;
use pgsteer::{Config, Error, HostKey, Pool};
use pgsteer_sim::{Login, ServerSpec, Shutdown, Sim};

use crate::rig::*;
use crate::roles::ordered;

/// How a Greenplum client lists coordinator and standby.
const GREENPLUM: &str = "hostaddr=127.0.0.1,127.0.0.1 port=15432,16432 user=gpadmin dbname=postgres \
                         connect_timeout=2 target_session_attrs=any";

/// A coordinator and its standby, which refuses sessions with 57M02.
fn greenplum() -> Sim {
    let at = |name, port| {
        ServerSpec::new(name)
            .address("127.0.0.1".parse().unwrap())
            .port(port)
    };
    let sim = plain([at("mdw", 15432), at("smdw", 16432)]);
    sim.server("smdw").set_login(Login::fatal("57M02"));
    sim
}

async fn greenplum_pool(sim: &Sim) -> Pool {
    let config: Config = GREENPLUM.parse().expect("the string is good");
    // Far longer than anybody wants to wait here.
    full(sim, config.failed_host_reconnect_delay_secs(60).pool_size(2)).await
}

fn ports(keys: &[HostKey]) -> Vec<u16> {
    keys.iter().map(HostKey::port).collect()
}

/// The first scenario: the coordinator is gone for a moment, and no failover follows.
///
/// Covers: R-09, F-07
#[tokio::test(start_paused = true)]
async fn while_the_coordinator_is_away_both_are_told_and_it_is_used_as_soon_as_it_is_back() {
    let sim = greenplum();
    let pool = greenplum_pool(&sim).await;
    sim.server("mdw").shut_down(Shutdown::Fast);
    pass(seconds(5)).await;
    let error = pool.get_timeout(seconds(3)).await.unwrap_err();
    let states: Vec<(u16, &str)> = error
        .hosts_tried()
        .iter()
        .map(|tried| (tried.host.port(), tried.state))
        .collect();
    assert!(states.contains(&(15432, "down")), "{error}");
    assert!(
        states.contains(&(16432, "is a standby that takes no sessions")),
        "{error}"
    );
    assert!(matches!(error, Error::CheckoutTimeout(_)), "{error:?}");
    assert_eq!(
        ports(&pool.snapshot().failed()),
        [15432],
        "the standby has not failed"
    );

    sim.server("mdw").start();
    let (conn, took) = timed(pool.get()).await;
    drop(conn.unwrap());
    assert!(
        took <= millis(2010),
        "no delay of failed hosts is waited out: {took:?}"
    );
}

/// The second scenario: the standby is activated.
///
/// Covers: R-10, F-07
#[tokio::test(start_paused = true)]
async fn an_activated_standby_is_found_within_a_step() {
    let sim = greenplum();
    let pool = greenplum_pool(&sim).await;
    sim.server("mdw").kill(pgsteer_sim::Death::Rst);
    pass(millis(5)).await;
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move {
            pool.get_timeout(seconds(60))
                .await
                .map(|conn| pgsteer::Conn::host(&conn).port())
        }
    });
    pass(seconds(13)).await;
    sim.server("smdw").set_login(Login::Work);
    let (port, took) = timed(waiting).await;
    assert_eq!(port.unwrap().unwrap(), 16432);
    assert!(took <= millis(2010), "{took:?}");
    assert!(!pool.snapshot().unfit.iter().any(|host| host.port() == 16432));
}

/// Covers: F-07
#[tokio::test(start_paused = true)]
async fn a_cold_standby_is_asked_last_and_costs_nothing_while_the_coordinator_works() {
    let sim = greenplum();
    let reversed = GREENPLUM.replace("15432,16432", "16432,15432");
    let reversed: Config = reversed.parse().expect("the string is good");
    let pool = full(&sim, reversed.pool_size(5)).await;
    assert_eq!(
        sim.server("smdw").counts().attempts,
        1,
        "once, to know what it is"
    );
    pool.retire_all();
    until("all are new", || {
        pool.status().totals.opened == 10 && pool.status().idle == 5
    })
    .await;
    assert_eq!(sim.server("smdw").counts().attempts, 1);
    assert!(pool.snapshot().failures.is_empty());
}

/// A crashed backend takes the whole server away for a moment, and with it the only host there is.
///
/// Covers: R-06, F-06
#[tokio::test(start_paused = true)]
async fn a_lone_host_in_crash_recovery_is_used_as_soon_as_it_is_ready() {
    for gap in [40, 90, 350, 1500] {
        let sim = plain([ServerSpec::new("pg1")]);
        let config = ordered(&["pg1"], TargetSessionAttrs::ReadWrite).failed_host_reconnect_delay_secs(5);
        let pool = full(&sim, config.pool_size(3)).await;
        sim.server("pg1").set_login(Login::fatal("57P03"));
        sim.server("pg1").restart(Shutdown::Crash);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.get().await.map(drop) }
        });
        pass(millis(gap)).await;
        sim.server("pg1").set_login(Login::Work);
        let (result, took) = timed(waiting).await;
        result.unwrap().unwrap();
        assert!(
            took <= millis(gap + 110),
            "as long again at most: {took:?} after {gap} ms"
        );
        within("the pool is full again", seconds(2), || pool.status().idle == 3).await;
    }
}

/// Covers: F-06
#[tokio::test(start_paused = true)]
async fn a_server_that_stays_in_recovery_is_asked_ever_more_rarely() {
    let sim = plain([ServerSpec::new("pg1")]);
    sim.server("pg1").set_login(Login::fatal("57P03"));
    let config = ordered(&["pg1"], TargetSessionAttrs::Any).failed_host_reconnect_delay_secs(5);
    let pool = start(&sim, config.pool_size(3));
    pass(seconds(20)).await;
    let early = attempts(&sim, "pg1");
    assert!(
        (7..=30).contains(&early),
        "{early} attempts in the first twenty seconds"
    );
    pass(seconds(100)).await;
    let later = attempts(&sim, "pg1") - early;
    assert!(later <= 45, "{later} attempts in the next hundred");
    drop(pool);
}

/// Covers: F-08, Q-09
#[tokio::test(start_paused = true)]
async fn callers_of_a_full_server_wait_until_it_has_room() {
    let sim = plain([ServerSpec::new("pg1")]);
    sim.server("pg1").set_max_connections(Some(1));
    let somebody = cluster(&sim, ordered(&["pg1"], TargetSessionAttrs::Any)).await;
    let elsewhere = open(&somebody, 1).await;
    let pool = start(&sim, ordered(&["pg1"], TargetSessionAttrs::Any).pool_size(1));
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get_timeout(seconds(30)).await.map(drop) }
    });
    pass(seconds(3)).await;
    assert!(!waiting.is_finished(), "a full server is no reason to give up");
    assert_eq!(
        pool.snapshot().failures[&key("pg1")].kind,
        pgsteer::FailureKind::Full
    );
    drop(elsewhere);
    let (result, took) = timed(waiting).await;
    result.unwrap().unwrap();
    assert!(
        took <= millis(1100),
        "asked at least once a failed host's delay: {took:?}"
    );
}
