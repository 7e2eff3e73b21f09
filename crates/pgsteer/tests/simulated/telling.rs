//! What people are told, and never told: one line a turn, reasons in words, and no secret anywhere.

use std::time::Duration;

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::{Cluster, Conn, Pool};
use pgsteer_sim::{Auth, Death, Discovery, Login, ServerSpec};

use crate::log_lines::Lines;
use crate::rig::*;

/// Longer than the quiet time after which a run of failures is over.
const QUIET: Duration = Duration::from_secs(61);

fn off(seeds: &[&str]) -> pgsteer::Config {
    config(seeds)
        .load_balance(LoadBalance::Off)
        .yb_servers_refresh_interval(seconds(1))
}

/// Covers: E-200
#[tokio::test(start_paused = true)]
async fn a_host_that_goes_down_and_comes_back_is_told_in_two_lines() {
    let lines = Lines::listen();
    let sim = three().build();
    let cluster = cluster(&sim, off(&["a", "b"])).await;
    refuse(&sim.server("a"));
    landing(&cluster).await;
    pass(seconds(30)).await;
    let told = lines.seen();
    assert_eq!(told.len(), 1, "thirty failed probes more are no news: {told:?}");
    assert!(
        told[0].starts_with("WARN could not connect to a:5433"),
        "{told:?}"
    );
    assert!(told[0].contains("connection refused"), "{told:?}");

    serve(&sim.server("a"));
    pass(seconds(30)).await;
    assert_eq!(lines.seen(), [""; 0], "it might fail again");
    pass(QUIET).await;
    let told = lines.seen();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("INFO a:5433 can be connected to again"),
        "{told:?}"
    );
}

/// Covers: E-230
#[tokio::test(start_paused = true)]
async fn a_host_that_refuses_is_not_said_to_be_out_of_reach() {
    for (code, text) in [
        ("28P01", "password authentication failed"),
        ("57P03", "starting up"),
        ("53300", "too many"),
    ] {
        let lines = Lines::listen();
        let sim = three().build();
        let cluster = cluster(&sim, off(&["a", "b"])).await;
        sim.server("a").set_login(Login::fatal(code));
        for _ in 0..3 {
            landing(&cluster).await;
        }
        let told = lines.seen();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("WARN a:5433"), "{told:?}");
        assert!(told[0].contains(text) && told[0].contains(code), "{told:?}");
        assert!(!told[0].contains("could not connect"), "{told:?}");
    }
}

/// Covers: E-202
#[tokio::test(start_paused = true)]
async fn a_standby_that_goes_down_comes_back_and_is_promoted_is_told_step_by_step() {
    let lines = Lines::listen();
    let sim = plain([ServerSpec::new("pg1").standby(), ServerSpec::new("pg2")]);
    let config = off(&["pg1", "pg2"]).target_session_attrs(TargetSessionAttrs::ReadWrite);
    let cluster = cluster(&sim, config).await;
    let lists = |cluster: &Cluster| {
        let snapshot = cluster.snapshot();
        (
            names(&snapshot.failed()).join(" "),
            names(&snapshot.read_only()).join(" "),
        )
    };
    landing(&cluster).await;
    assert_eq!(lists(&cluster), (String::new(), "pg1".into()));
    let told = lines.seen();
    assert!(
        told.len() == 1 && told[0].starts_with("INFO") && told[0].contains("standby"),
        "{told:?}"
    );

    refuse(&sim.server("pg1"));
    pass(seconds(12)).await;
    assert_eq!(lists(&cluster), ("pg1".into(), String::new()));
    let told = lines.seen();
    assert!(
        told.len() == 1 && told[0].starts_with("WARN") && told[0].contains("refused"),
        "{told:?}"
    );

    serve(&sim.server("pg1"));
    pass(seconds(3)).await;
    assert_eq!(lists(&cluster), (String::new(), "pg1".into()));
    pass(QUIET).await;
    let told = lines.seen();
    assert!(
        told.len() == 1 && told[0].starts_with("INFO") && told[0].contains("standby"),
        "{told:?}"
    );

    sim.server("pg1").promote();
    pass(seconds(12)).await;
    assert_eq!(lists(&cluster), (String::new(), String::new()));
    assert_eq!(names(&cluster.snapshot().placement), ["pg1"]);
    let told = lines.seen();
    assert_eq!(told[0], "INFO pg1:5433 is a primary now; it was a standby");
    // Nobody stopped the other one.
    assert!(
        told.len() == 2 && told[1].starts_with("WARN several primaries take writes"),
        "{told:?}"
    );
}

/// Covers: E-203
#[tokio::test(start_paused = true)]
async fn failing_discoveries_are_told_once_and_their_end_after_the_quiet_time() {
    let lines = Lines::listen();
    let sim = three().build();
    let cluster = cluster(&sim, abc().yb_servers_refresh_interval(seconds(1))).await;
    lines.all();
    sim.servers()
        .iter()
        .for_each(|server| server.set_discovery(Discovery::Fail("58000".into())));
    pass(millis(3500)).await;
    let told = lines.seen();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("WARN discovery of servers failed: no server reachable"),
        "{told:?}"
    );
    assert!(
        ["a:5433", "b:5433", "c:5433"]
            .iter()
            .all(|target| told[0].contains(target)),
        "{told:?}"
    );
    sim.servers()
        .iter()
        .for_each(|server| server.set_discovery(Discovery::Shared));
    pass(seconds(30)).await;
    assert_eq!(lines.seen(), [""; 0]);
    pass(QUIET).await;
    let told = lines.seen();
    assert!(
        told.len() == 1 && told[0].starts_with("INFO discovery of servers works again (3 failures"),
        "{told:?}"
    );
    drop(cluster);
}

/// Covers: E-201
#[tokio::test(start_paused = true)]
async fn the_password_is_in_no_line_no_error_and_no_printing() {
    const SECRET: &str = "s3cr3t-k3y";
    let lines = Lines::listen();
    let mut shown = String::new();
    for auth in [Auth::Cleartext, Auth::Md5, Auth::Scram] {
        let sim = three().login(auth, "app", "another").build();
        let pool = start(&sim, abc().password(SECRET).pool_size(2));
        let error = pool.get().await.unwrap_err();
        assert_eq!(error.code(), Some("28P01"));
        shown += &format!(
            "{error} {error:?} {pool:?} {:?} {:?}",
            pool.status(),
            pool.cluster().snapshot()
        );
        pass(seconds(5)).await;
        shown += &format!("{:?}", pool.get_timeout(millis(1)).await.map(drop));
        pool.close(seconds(1)).await;
    }
    // What a source panics with may hold anything.
    async fn bad() -> Result<String, std::io::Error> {
        panic!("could not parse {SECRET}")
    }
    let sim = three().build();
    let pool = start(&sim, abc().password_source(bad).pool_size(1));
    let error = pool.get().await.unwrap_err();
    shown += &format!("{error} {error:?} {pool:?}");
    assert!(error.to_string().contains("password source"), "{error}");
    shown += &lines.all().concat();
    assert!(shown.contains("password authentication failed"));
    assert!(!shown.contains(SECRET), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_life_is_told_in_no_line() {
    let lines = Lines::listen();
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(6)).await;
    lines.all();
    for _ in 0..20 {
        pool.batch_execute("SELECT 1").await.unwrap();
        drop(pool.get().await.unwrap().batch_execute("BEGIN").await);
        Conn::discard(pool.get().await.unwrap());
        pass(seconds(1)).await;
    }
    pass(seconds(1000)).await;
    pool.close(seconds(5)).await;
    assert_eq!(lines.seen(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_held_for_too_long_is_reported_once_with_its_place() {
    let lines = Lines::listen();
    let sim = three().build();
    let pool = full(
        &sim,
        abc()
            .pool_size(2)
            .leak_threshold(seconds(10))
            .record_holders(true),
    )
    .await;
    lines.all();
    let held = pool.get().await.unwrap();
    pass(seconds(60)).await;
    let told = lines.seen();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("longer than leak_threshold") && told[0].contains("telling.rs"),
        "{told:?}"
    );
    drop(held);
}

/// A checkout that runs out of time says who has what, and why nothing more comes.
#[tokio::test(start_paused = true)]
async fn a_checkout_that_runs_out_of_time_says_who_holds_what_and_what_failed() {
    let sim = three().build();
    let pool: Pool = full(&sim, abc().pool_size(3).record_holders(true)).await;
    let held = (pool.get().await.unwrap(), pool.get().await.unwrap());
    sim.servers().iter().for_each(refuse);
    let free = pool.get().await.unwrap();
    Conn::discard(free);
    pass(seconds(5)).await;
    let error = pool.get_timeout(seconds(2)).await.unwrap_err().to_string();
    assert!(
        error.contains("2 leased") && error.contains("telling.rs"),
        "{error}"
    );
    assert!(
        error.contains("a:5433 down") && error.contains("connection refused"),
        "{error}"
    );
    drop(held);
    sim.server("a").kill(Death::Fin);
}
