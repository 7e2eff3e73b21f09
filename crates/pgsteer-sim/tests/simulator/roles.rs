//! What a server is: primary, standby, read-only by default; its timeline; and how it says that it goes.

use crate::common::{client, sqlstate, try_client};
use pgsteer_sim::{Effect, Login, Script, ServerSpec, Shutdown, Sim};
use tokio_postgres::Client;

/// The two answers that make a role.
async fn role(client: &Client) -> (bool, String) {
    let row = client
        .query_one(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')",
            &[],
        )
        .await
        .unwrap();
    (row.get(0), row.get(1))
}

async fn timeline(client: &Client) -> Result<String, tokio_postgres::Error> {
    let row = client
        .query_one("SELECT pg_walfile_name(pg_current_wal_lsn())", &[])
        .await?;
    Ok(row.get::<_, String>(0)[..8].to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_server_answers_with_its_role() {
    let sim = Sim::builder(1)
        .server(ServerSpec::new("primary"))
        .server(ServerSpec::new("read-only").read_only())
        .server(ServerSpec::new("standby").standby())
        .build();
    for (name, recovery, read_only) in [
        ("primary", false, "off"),
        ("read-only", false, "on"),
        ("standby", true, "on"),
    ] {
        let client = client(&sim, name).await;
        assert_eq!(role(&client).await, (recovery, read_only.to_owned()), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_read_only_primary_may_say_otherwise() {
    let sim = Sim::new(1);
    sim.server("a").set_read_only(true);
    let client = client(&sim, "a").await;
    let insert = "INSERT INTO ledger VALUES (1)";
    assert_eq!(
        sqlstate(&client.batch_execute(insert).await.unwrap_err()),
        "25006"
    );
    client
        .batch_execute("SET default_transaction_read_only = off")
        .await
        .unwrap();
    client.batch_execute(insert).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn promotion_begins_a_timeline_that_is_higher_than_all() {
    let sim = Sim::builder(1)
        .server(ServerSpec::new("old"))
        .server(ServerSpec::new("new").standby())
        .build();
    let on_old = client(&sim, "old").await;
    let on_new = client(&sim, "new").await;
    assert_eq!(timeline(&on_old).await.unwrap(), "00000001");
    assert_eq!(sqlstate(&timeline(&on_new).await.unwrap_err()), "55000");

    sim.server("new").promote();
    assert_eq!(timeline(&on_new).await.unwrap(), "00000002");
    assert_eq!(timeline(&on_old).await.unwrap(), "00000001");
    sim.server("new").promote();
    assert_eq!(sim.server("new").timeline(), 2, "a primary is not promoted again");
    on_new
        .batch_execute("INSERT INTO ledger VALUES (1)")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_takes_no_sessions_refuses_with_a_code_of_its_own() {
    let sim = Sim::new(1);
    sim.server("a").set_login(Login::fatal("57M02"));
    let refused = try_client(&sim, "a").await.err().unwrap();
    assert_eq!(sqlstate(&refused), "57M02");
}

#[tokio::test(start_paused = true)]
async fn the_crash_of_a_backend_is_announced_by_a_warning_before_all_sessions_end() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a").restart(Shutdown::Crash);
    let error = client.batch_execute("SELECT 1").await.unwrap_err();
    assert!(error.is_closed() || error.code().is_none(), "{error}");
    assert!(sim.log_text().contains("57P02"), "{}", sim.log_text());
}

#[tokio::test(start_paused = true)]
async fn a_scripted_fatal_error_ends_the_session() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a")
        .script(Script::on("SELECT 1", Effect::fatal("08P01")).once());
    let error = client.batch_execute("SELECT 1").await.unwrap_err();
    assert_eq!(sqlstate(&error), "08P01");
    assert_eq!(error.as_db_error().unwrap().severity(), "FATAL");
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert_eq!(sim.server("a").counts().live, 0);
}
