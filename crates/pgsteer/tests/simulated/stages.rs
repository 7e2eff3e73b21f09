//! Everything an open consists of is bounded by one `connect_timeout`, wherever it is held up.

use std::time::Duration;

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::{Config, Error};
use pgsteer_sim::{Accept, Auth, Effect, Login, LoginStage, Resolution, Script, Server, Sim};

use crate::rig::*;

const LIMIT: Duration = Duration::from_secs(3);

/// A stage of an open, and what holds it up there for ever.
type Stage = (&'static str, fn(&Sim, &Server));

const STAGES: [Stage; 8] = [
    ("resolving", |sim, server| {
        sim.set_name(server.name(), Resolution::Hang)
    }),
    ("connecting", |_, server| server.set_accept(Accept::Blackhole)),
    ("accepted, then silence", |_, server| {
        server.set_accept(Accept::Hang)
    }),
    ("startup read, then silence", |_, server| {
        server.set_login(Login::HangAt(LoginStage::StartupRead))
    }),
    ("authenticated, then silence", |_, server| {
        server.set_login(Login::HangAt(LoginStage::Authenticated))
    }),
    ("a process that is stopped", |_, server| server.freeze()),
    ("SET statement_timeout", |_, server| {
        server.script(Script::on(
            "statement_timeout",
            Effect::Hang { cancellable: false },
        ));
    }),
    ("the check for recovery", |_, server| {
        server.script(Script::on(
            "pg_is_in_recovery",
            Effect::Hang { cancellable: false },
        ));
    }),
];

fn careful(seeds: &[&str]) -> Config {
    config(seeds)
        .load_balance(LoadBalance::Off)
        .connect_timeout(LIMIT)
        .statement_timeout(seconds(30))
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .pool_size(1)
}

#[tokio::test(start_paused = true)]
async fn wherever_a_lone_host_is_silent_the_open_ends_at_the_connect_timeout() {
    for (stage, hold_up) in STAGES {
        let sim = three().build();
        hold_up(&sim, &sim.server("a"));
        let pool = start(&sim, careful(&["a"]));
        let (result, took) = timed(pool.get_timeout(seconds(60))).await;
        let Err(Error::Connect(failed)) = &result else {
            panic!("{stage}: {result:?}")
        };
        assert!((LIMIT..=LIMIT + millis(2)).contains(&took), "{stage}: {took:?}");
        assert_eq!(failed.tried[0].state, "down", "{stage}");
        assert!(failed.tried[0].reason.contains("within"), "{stage}: {result:?}");
        pool.close(seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_a_host_is_silent_the_next_one_is_used_after_one_connect_timeout() {
    for (stage, hold_up) in STAGES {
        let sim = three().build();
        hold_up(&sim, &sim.server("a"));
        let pool = start(&sim, careful(&["a", "b"]));
        let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
        assert_eq!(whoami(&conn.unwrap()).await.0, "b", "{stage}");
        assert!((LIMIT..=LIMIT + millis(2)).contains(&took), "{stage}: {took:?}");
        assert_eq!(names(&pool.cluster().snapshot().failed()), ["a"], "{stage}");
        pool.close(seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_every_step_slowly_is_bounded_as_a_whole() {
    for auth in [Auth::Trust, Auth::Scram] {
        let sim = three().login(auth, "app", "secret").build();
        // No single step takes as long as the limit.
        sim.server("a").set_answer_latency(LIMIT * 3 / 4);
        let pool = start(&sim, careful(&["a", "b"]).password("secret"));
        let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
        assert_eq!(whoami(&conn.unwrap()).await.0, "b");
        assert!((LIMIT..=LIMIT + millis(2)).contains(&took), "{auth:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_password_source_that_never_answers_marks_no_host() {
    async fn never() -> Result<String, std::io::Error> {
        std::future::pending().await
    }
    let sim = three().build();
    let pool = start(&sim, careful(&["a", "b"]).password_source(never));
    let (result, took) = timed(pool.get_timeout(seconds(60))).await;
    assert!(result.is_err());
    assert!(took <= 2 * LIMIT + millis(5), "{took:?}");
    assert!(pool.cluster().snapshot().failures.is_empty());
    assert_eq!(
        attempts(&sim, "a") + attempts(&sim, "b"),
        0,
        "nothing was asked of any host"
    );
}

/// All addresses of a name share its one deadline.
#[tokio::test(start_paused = true)]
async fn a_name_with_several_addresses_has_one_connect_timeout_for_all_of_them() {
    let sim = three().build();
    blackhole(&sim.server("a"));
    blackhole(&sim.server("b"));
    let addresses = |names: &[&str]| {
        let of = |name: &&str| {
            format!(
                "10.0.0.{}",
                1 + ["a", "b", "c"].iter().position(|it| it == name).unwrap()
            )
        };
        Resolution::Addresses(names.iter().map(|name| of(name).parse().unwrap()).collect())
    };
    sim.set_name("many", addresses(&["a", "b", "c"]));
    let pool = start(&sim, careful(&["many"]));
    let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
    assert_eq!(
        whoami(&conn.unwrap()).await.0,
        "c",
        "the last one works, and is reached in time"
    );
    assert!(took < LIMIT, "{took:?}");
    pool.close(seconds(1)).await;

    sim.set_name("many", addresses(&["a", "b"]));
    let pool = start(&sim, careful(&["many"]));
    let (result, took) = timed(pool.get_timeout(seconds(60))).await;
    assert!(result.is_err());
    assert!((LIMIT..=LIMIT + millis(2)).contains(&took), "{took:?}");
}

/// Looking for servers is bounded too: by a connect timeout for each target and one for the names, and 5 s.
#[tokio::test(start_paused = true)]
async fn silent_servers_hold_the_first_open_up_for_a_bounded_time() {
    let sim = three().build();
    sim.servers()
        .iter()
        .for_each(|server| server.set_accept(Accept::Hang));
    let pool = start(&sim, abc().connect_timeout(LIMIT).pool_size(1));
    let (result, took) = timed(pool.get_timeout(seconds(3600))).await;
    assert!(matches!(result, Err(Error::Connect(_))), "{result:?}");
    // Discovery asks all three, then the open tries all three.
    assert!(took <= 3 * LIMIT + seconds(5) + LIMIT + 3 * LIMIT, "{took:?}");
}
