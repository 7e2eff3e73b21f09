//! What real errors say of the database: made by the driver and by pgsteer against simulated servers.

use std::time::Duration;

use pgsteer::health::{Finding, judge};
use pgsteer::{Config, ConnectionHealth, Error, Guarded, Pool};
use pgsteer_sim::{Accept, Auth, Death, Effect, Login, LoginStage, Scope, Script, ServerSpec, Sim};

use crate::rig::{SECOND, connect, pass};

fn sim() -> Sim {
    Sim::builder(1).server(ServerSpec::new("a")).build()
}

/// The driver's error for a statement that the server treats like this.
async fn query_error(effect: Effect) -> tokio_postgres::Error {
    let sim = sim();
    let client = connect(&sim, "a").await.unwrap();
    sim.server("a").script(Script::on("select 1", effect));
    client.simple_query("SELECT 1").await.unwrap_err()
}

/// The driver's error for a login that the server treats like this.
async fn login_error(login: Login) -> tokio_postgres::Error {
    let sim = sim();
    sim.server("a").set_login(login);
    connect(&sim, "a").await.expect_err("refused")
}

#[test]
fn a_pool_that_takes_the_database_to_be_down_is_believed() {
    crate::log_lines::install();
    let error = Error::CircuitOpen {
        retry_after: SECOND,
        last_error: std::sync::Arc::new(Error::NoServer),
    };
    assert_eq!(judge(&error), Finding::Down);
}

/// As a pool's word is: the guard within has asked so lately that its word stands.
#[tokio::test(start_paused = true)]
async fn a_guard_within_a_guard_that_takes_the_database_to_be_down_is_believed() {
    crate::log_lines::install();
    let (outer, inner) = (ConnectionHealth::new(), crate::rig::tripped().await);
    for _ in 0..5 {
        let work = outer.run_guarded(crate::rig::run(&inner, Ok(1)));
        let Err(Guarded::Failed(within)) = work.await else {
            panic!("the outer one is closed")
        };
        assert!(matches!(within, Guarded::CircuitOpen(_)), "unchanged: {within}");
    }
    assert!(outer.is_open());
    inner.reset();
    pass(outer.retry_after().unwrap()).await;
    let value = outer.run_guarded(crate::rig::run(&inner, Ok(1))).await;
    assert_eq!(value, Ok(1));
    assert!(outer.is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_sql_error_is_an_answer() {
    crate::log_lines::install();
    for sqlstate in [
        "42601", "42P01", "23505", "40001", "40P01", "57014", "22P02", "XX000",
    ] {
        let error = query_error(Effect::error(sqlstate)).await;
        assert_eq!(error.code().unwrap().code(), sqlstate);
        assert_eq!(judge(&error), Finding::Answered, "{sqlstate}");
    }
}

/// A transaction that loses its commit, is aborted at it, has no time left, or is rolled back by its closure.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_transaction_says_what_the_server_did() {
    crate::log_lines::install();
    let sim = sim();
    let pool = Pool::start_in(config().pool_size(1), sim.world()).unwrap();
    let tx = |effect: Option<Effect>, fails: bool| {
        sim.server("a").clear_scripts();
        if let Some(effect) = effect {
            sim.server("a").script(Script::on("commit", effect));
        }
        let options = pgsteer::TransactionOptions::new()
            .attempt_timeout(SECOND)
            .attempts(1);
        pool.transaction_with(options, move |tx| async move {
            tx.batch_execute("SELECT 1").await?;
            if fails { Err(Error::rollback("no")) } else { Ok(()) }
        })
    };
    let lost = Effect::DieAfter(Death::Fin, Scope::Session);
    let rows = [
        (Some(lost), false, Finding::Down),
        (Some(Effect::fatal("57P01")), false, Finding::Down),
        (Some(Effect::Tag("ROLLBACK".into())), false, Finding::Answered),
        (Some(Effect::error("40001")), false, Finding::Answered),
        (None, true, Finding::Nothing),
    ];
    for (effect, fails, finding) in rows {
        let error = tx(effect.clone(), fails).await.unwrap_err();
        assert_eq!(judge(&error), finding, "{effect:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_or_never_begins_says_that_the_database_is_down() {
    crate::log_lines::install();
    // 08P01 is what a pooler says whose server is down
    for sqlstate in ["57P01", "57P02", "08P01", "XX000"] {
        let error = query_error(Effect::fatal(sqlstate)).await;
        assert_eq!(error.code().unwrap().code(), sqlstate);
        assert_eq!(judge(&error), Finding::Down, "query, {sqlstate}");
    }
    for sqlstate in ["57P03", "57P01", "08P01", "XX000"] {
        let error = login_error(Login::fatal(sqlstate)).await;
        assert_eq!(judge(&error), Finding::Down, "login, {sqlstate}");
    }
    for death in [Death::Fin, Death::Rst] {
        let error = query_error(Effect::DieBefore(death, Scope::Session)).await;
        assert_eq!(judge(&error), Finding::Down, "query, {death:?}");
    }
    for stage in [LoginStage::StartupRead, LoginStage::Authenticated] {
        let error = login_error(Login::CloseAt(stage)).await;
        assert_eq!(judge(&error), Finding::Down, "login, {stage:?}");
    }
}

#[tokio::test]
async fn a_connect_of_the_drivers_own_that_fails_says_so_too() {
    crate::log_lines::install();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let text = format!("host=127.0.0.1 port={port} user=app");
    let error = tokio_postgres::connect(&text, tokio_postgres::NoTls)
        .await
        .map(drop)
        .expect_err("refused");
    assert_eq!(judge(&error), Finding::Down);
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_a_full_server_and_a_cold_standby_are_refusals() {
    crate::log_lines::install();
    for sqlstate in ["28P01", "28000", "3D000", "42501", "53300", "53400", "57M02"] {
        let error = login_error(Login::fatal(sqlstate)).await;
        assert_eq!(judge(&error), Finding::Refused, "{sqlstate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_on_a_standby_is_a_refusal() {
    crate::log_lines::install();
    let error = query_error(Effect::error("25006")).await;
    assert_eq!(judge(&error), Finding::Refused);
}

#[tokio::test(start_paused = true)]
async fn what_the_driver_finds_wrong_with_values_and_rows_is_a_refusal() {
    crate::log_lines::install();
    let sim = sim();
    let client = connect(&sim, "a").await.unwrap();
    let too_many = client.query("SELECT 1", &[&1_i32]).await.unwrap_err();
    assert_eq!(judge(&too_many), Finding::Refused, "{too_many}");
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_cannot_even_be_sent_says_nothing() {
    crate::log_lines::install();
    let sim = sim();
    let client = connect(&sim, "a").await.unwrap();
    let error = client.simple_query("SELECT \0").await.unwrap_err();
    assert_eq!(judge(&error), Finding::Nothing, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_that_ran_out_says_that_the_database_is_down() {
    crate::log_lines::install();
    let limit = tokio::time::timeout(SECOND, std::future::pending::<()>()).await;
    assert_eq!(judge(&limit.unwrap_err()), Finding::Down);
}

#[derive(Debug)]
struct Job(Box<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the job failed")
    }
}

impl std::error::Error for Job {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_databases_error_is_found_behind_the_applications_own() {
    crate::log_lines::install();
    let fatal = Job(query_error(Effect::fatal("57P01")).await.into());
    assert_eq!(judge(&Job(fatal.into())), Finding::Down);
    let sql = Job(query_error(Effect::error("42601")).await.into());
    assert_eq!(judge(&sql), Finding::Answered);
}

#[test]
fn an_error_that_is_not_the_databases_says_nothing() {
    crate::log_lines::install();
    let file = std::fs::File::open("/nowhere/at/all").unwrap_err();
    assert_eq!(judge(&file), Finding::Nothing);
    assert_eq!(judge(&Job("no such customer".into())), Finding::Nothing);
    assert_eq!(judge(&Job(Box::new(file))), Finding::Nothing);
}

fn config() -> Config {
    Config::yugabyte()
        .hosts(["a"])
        .user("app")
        .pool_size(1)
        .connect_timeout(SECOND)
        .checkout_timeout(Duration::from_secs(3))
}

async fn pool_error(sim: &Sim, config: Config) -> Error {
    let pool = Pool::start_in(config, sim.world()).unwrap();
    let error = match pool.get().await {
        Err(error) => error,
        Ok(conn) => conn.query("SELECT 1", &[]).await.map(drop).unwrap_err(),
    };
    pool.close(SECOND).await;
    error
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_connect_says_that_the_database_is_down() {
    crate::log_lines::install();
    for accept in [Accept::Refuse, Accept::Close, Accept::Hang] {
        let sim = sim();
        sim.server("a").set_accept(accept.clone());
        let error = pool_error(&sim, config()).await;
        assert_eq!(judge(&error), Finding::Down, "{accept:?}: {error}");
    }
    let sim = sim();
    sim.server("a").set_login(Login::fatal("57P03"));
    let error = pool_error(&sim, config()).await;
    assert_eq!(judge(&error), Finding::Down, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_login_is_refused_says_that_it_was_refused() {
    crate::log_lines::install();
    let sim = Sim::builder(1)
        .server(ServerSpec::new("a"))
        .login(Auth::Cleartext, "app", "right")
        .build();
    let error = pool_error(&sim, config().password("wrong")).await;
    assert!(matches!(error, Error::Login(_)), "{error}");
    assert_eq!(judge(&error), Finding::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_servers_are_full_or_cold_never_says_that_they_are_down() {
    crate::log_lines::install();
    for sqlstate in ["53300", "57M02"] {
        let sim = sim();
        sim.server("a").set_login(Login::fatal(sqlstate));
        let error = pool_error(&sim, config()).await;
        assert_ne!(judge(&error), Finding::Down, "{sqlstate}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pools_query_is_judged_as_the_drivers() {
    crate::log_lines::install();
    let table = [
        (Effect::error("42P01"), Finding::Answered),
        (Effect::fatal("57P01"), Finding::Down),
        (Effect::DieBefore(Death::Fin, Scope::Session), Finding::Down),
    ];
    for (effect, expected) in table {
        let sim = sim();
        sim.server("a").script(Script::on("select 1", effect));
        let error = pool_error(&sim, config()).await;
        assert_eq!(judge(&error), expected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_others_have_used_up_says_nothing() {
    crate::log_lines::install();
    let pool = Pool::start_in(config(), sim().world()).unwrap();
    let held = pool.get().await.unwrap();
    let error = pool.get().await.expect_err("it is used up");
    assert!(matches!(error, Error::CheckoutTimeout(_)), "{error}");
    assert_eq!(judge(&error), Finding::Nothing);
    drop(held);
    pool.close(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_and_a_bad_configuration_say_nothing() {
    crate::log_lines::install();
    let pool = Pool::start_in(config(), sim().world()).unwrap();
    pool.close(SECOND).await;
    let closed = pool.get().await.expect_err("it is closed");
    assert_eq!(judge(&closed), Finding::Nothing);
    let bad = Pool::start_in(config().pool_size(0), sim().world()).expect_err("a bad size");
    assert_eq!(judge(&bad), Finding::Nothing);
}

#[tokio::test(start_paused = true)]
async fn without_a_judge_given_this_is_the_judge() {
    crate::log_lines::install();
    let sim = sim();
    sim.server("a").set_accept(Accept::Refuse);
    // The pool's own breaker would open with the guard's and close at another time.
    let pool = Pool::start_in(config().breaker_threshold(0), sim.world()).unwrap();
    let health = ConnectionHealth::new();
    for _ in 0..5 {
        let result = health.run_guarded(pool.get()).await;
        assert!(matches!(result, Err(Guarded::Failed(_))), "{result:?}");
    }
    let Err(Guarded::CircuitOpen(open)) = health.run_guarded(pool.get()).await else {
        panic!("five failures in a row")
    };
    assert!(open.last_error.contains("refused"), "{open}");

    sim.server("a").set_accept(Accept::Serve);
    pass(open.retry_after).await;
    assert!(health.run_guarded(pool.get()).await.is_ok());
    assert!(health.is_closed());
    pool.close(SECOND).await;
}
