//! Why a connection ended: told in the error of the query it cut short, by its guard, and in the pool's status.

use pgsteer::{Conn, Error, LastEnd, Pool};
use pgsteer_sim::{Death, Effect, Scope, Script, Server, Shutdown};

use crate::rig::*;

/// How a server goes, the code it says, and a part of the reason that is told.
type Ending = (&'static str, fn(&Server), Option<&'static str>, &'static str);

const ENDINGS: [Ending; 6] = [
    (
        "fast shutdown",
        |server| server.shut_down(Shutdown::Fast),
        Some("57P01"),
        "administrator command",
    ),
    (
        "immediate shutdown",
        |server| server.shut_down(Shutdown::Immediate),
        Some("57P01"),
        "immediate shutdown",
    ),
    (
        "crash of another session",
        |server| server.restart(Shutdown::Crash),
        Some("57P02"),
        "crash of another",
    ),
    (
        "session terminated",
        Server::terminate_all,
        Some("57P01"),
        "administrator command",
    ),
    (
        "killed",
        |server| server.kill(Death::Fin),
        None,
        "closed the connection",
    ),
    (
        "reset",
        |server| server.kill(Death::Rst),
        None,
        "connection reset",
    ),
];

fn last_end(pool: &Pool) -> Option<LastEnd> {
    pool.status().last_ends.get(&key("a")).cloned()
}

/// Covers: V-06
#[tokio::test(start_paused = true)]
async fn the_end_of_an_idle_connection_is_in_the_status_with_its_age() {
    for (name, end, code, words) in ENDINGS {
        let sim = three().build();
        let pool = full(
            &sim,
            config(&["a"])
                .load_balance(pgsteer::LoadBalance::Off)
                .pool_size(1),
        )
        .await;
        assert_eq!(last_end(&pool), None, "{name}");
        end(&sim.server("a"));
        until(name, || last_end(&pool).is_some()).await;
        pass(seconds(3)).await;
        let last = last_end(&pool).unwrap();
        assert_eq!(last.end.code.as_deref(), code, "{name}");
        assert!(last.end.reason.contains(words), "{name}: {}", last.end);
        assert!(
            last.age >= seconds(3) && last.age < seconds(4),
            "{name}: {:?}",
            last.age
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_connection_that_ended_is_told_why_though_the_driver_says_only_that_it_is_closed() {
    for (name, end, code, words) in ENDINGS {
        let sim = three().build();
        let pool = full(
            &sim,
            config(&["a"])
                .load_balance(pgsteer::LoadBalance::Off)
                .pool_size(1),
        )
        .await;
        let conn = pool.get().await.unwrap();
        assert_eq!(Conn::end(&conn), None, "{name}");
        end(&sim.server("a"));
        conn.batch_execute("SELECT 1").await.unwrap_err();
        let end = Conn::end(&conn).expect(name);
        assert_eq!(end.code.as_deref(), code, "{name}");
        assert!(end.reason.contains(words), "{name}: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_cut_short_fails_with_the_reason_for_the_end_and_the_drivers_error_behind_it() {
    let sim = three().build();
    let pool = full(
        &sim,
        config(&["a"])
            .load_balance(pgsteer::LoadBalance::Off)
            .pool_size(1),
    )
    .await;
    sim.server("a")
        .script(Script::on("SELECT 1", Effect::Hang { cancellable: false }).once());
    let query = tokio::spawn({
        let pool = pool.clone();
        async move { pool.batch_execute("SELECT 1").await }
    });
    pass(millis(10)).await;
    sim.server("a").restart(Shutdown::Crash);
    let error = query.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some("57P02"));
    assert!(
        error
            .to_string()
            .starts_with("the connection to a:5433 was lost: "),
        "{error}"
    );
    let source = std::error::Error::source(&error).expect("the driver's error");
    assert!(
        source
            .downcast_ref::<tokio_postgres::Error>()
            .is_some_and(tokio_postgres::Error::is_closed)
    );
    let Error::ConnectionLost(lost) = error else {
        panic!("{error:?}")
    };
    assert_eq!(lost.host, key("a"));
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_reaches_the_query_it_ended_as_the_server_said_it() {
    let sim = three().build();
    let pool = full(
        &sim,
        config(&["a"])
            .load_balance(pgsteer::LoadBalance::Off)
            .pool_size(1),
    )
    .await;
    sim.server("a")
        .script(Script::on("SELECT 1", Effect::fatal("08P01")).once());
    let error = pool.batch_execute("SELECT 1").await.unwrap_err();
    assert!(
        matches!(&error, Error::Postgres(_)) && error.code() == Some("08P01"),
        "{error:?}"
    );
    until("the status has it too", || last_end(&pool).is_some()).await;
    assert_eq!(last_end(&pool).unwrap().end.code.as_deref(), Some("08P01"));
}

#[tokio::test(start_paused = true)]
async fn ends_that_the_pool_brings_about_are_no_losses() {
    let sim = three().build();
    let pool = full(
        &sim,
        config(&["a"])
            .load_balance(pgsteer::LoadBalance::Off)
            .pool_size(2),
    )
    .await;
    Conn::discard(pool.get().await.unwrap());
    pool.retire_all();
    pass(seconds(5)).await;
    assert_eq!(pool.status().last_ends.len(), 0);
    assert_eq!(pool.status().totals.lost, 0);
    // A connection that its own session ends is one.
    sim.server("a")
        .script(Script::on("SELECT 1", Effect::DieBefore(Death::Fin, Scope::Session)).once());
    pool.batch_execute("SELECT 1").await.unwrap_err();
    until("it is told", || last_end(&pool).is_some()).await;
}

/// The driver's own text of an error that is not the server's names no cause.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_driver_is_told_with_its_cause() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let conn = pool.get().await.unwrap();
    let wrong_type = conn.query("SELECT $1::int + 1", &[&"1"]).await.unwrap_err();
    let told = wrong_type.to_string();
    assert!(
        told.contains("parameter 0") && told.contains("&str") && told.contains("int4"),
        "{told}"
    );
    let nul = conn.query("SELECT '\0'", &[]).await.unwrap_err().to_string();
    assert!(nul.contains("null"), "{nul}");
}
