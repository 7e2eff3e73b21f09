//! Scripted effects on statements: errors, delays, deaths before and after a commit, cut and odd answers.

use std::time::Duration;

use crate::common::{Raw, client, field, kinds, never, sqlstate};
use bytes::Bytes;
use pgsteer_sim::{Death, Effect, Scope, Script, Sim};
use postgres_protocol::message::frontend;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_script_acts_on_statements_that_match_as_often_as_it_is_told() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a")
        .script(Script::on("insert", Effect::error("40001")).after(1).times(2));
    let mut outcomes = Vec::new();
    for id in 0..5i64 {
        let outcome = client.execute("INSERT INTO ledger VALUES ($1)", &[&id]).await;
        outcomes.push(outcome.map_err(|error| sqlstate(&error).to_owned()));
        client
            .simple_query("SELECT 1")
            .await
            .expect("other statements are not touched");
    }
    assert_eq!(
        outcomes,
        [Ok(1), Err("40001".into()), Err("40001".into()), Ok(1), Ok(1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_commit_rolls_back() {
    let sim = Sim::new(1);
    let mut client = client(&sim, "a").await;
    sim.server("a")
        .script(Script::on("COMMIT", Effect::error("40001")).once());
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute("INSERT INTO ledger VALUES (1)", &[])
        .await
        .unwrap();
    assert_eq!(sqlstate(&transaction.commit().await.unwrap_err()), "40001");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_before_a_commit_has_not_committed_and_one_that_dies_after_it_has() {
    for (effect, committed) in [
        (Effect::DieBefore(Death::Rst, Scope::Server), false),
        (Effect::DieAfter(Death::Rst, Scope::Server), true),
        (Effect::DieBefore(Death::Fin, Scope::Session), false),
        (Effect::DieAfter(Death::Fin, Scope::Session), true),
    ] {
        let sim = Sim::new(1);
        let mut client = client(&sim, "a").await;
        sim.server("a").script(Script::on("COMMIT", effect.clone()));
        let transaction = client.transaction().await.unwrap();
        transaction
            .execute("INSERT INTO ledger VALUES (7)", &[])
            .await
            .unwrap();
        let error = transaction.commit().await.unwrap_err();
        assert!(error.code().is_none(), "no answer came: {error:?}");
        assert_eq!(sim.ledger().contains_key(&7), committed, "{effect:?}");
        let server_died = matches!(
            effect,
            Effect::DieBefore(_, Scope::Server) | Effect::DieAfter(_, Scope::Server)
        );
        assert_eq!(sim.server("a").is_up(), !server_died);
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_without_a_transaction_is_committed_before_a_death_after_it() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a").script(Script::on(
        "insert",
        Effect::DieAfter(Death::Silence, Scope::Session),
    ));
    never(client.execute("INSERT INTO ledger VALUES (1)", &[])).await;
    assert_eq!((sim.ledger().len(), sim.live()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_statement_can_run_and_its_answer_never_come() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a").script(Script::on("insert", Effect::RunThenHang));
    never(client.execute("INSERT INTO ledger VALUES (1)", &[])).await;
    assert_eq!((sim.ledger().len(), sim.live()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_its_time_and_then_the_statement_runs() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a")
        .script(Script::on("", Effect::Delay(Duration::from_secs(3))));
    let start = Instant::now();
    client.simple_query("SELECT 1").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    sim.server("a").clear_scripts();
    client.simple_query("SELECT 1").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_cut_after_every_byte() {
    for bytes in 0..40 {
        let sim = Sim::new(1);
        let mut raw = Raw::log_in(&sim, "a").await;
        sim.server("a").script(Script::on(
            "",
            Effect::CutAnswer {
                bytes,
                death: Death::Fin,
            },
        ));
        raw.send(|out| frontend::query("SELECT 1", out).unwrap()).await;
        let mut answer = Vec::new();
        raw.stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer.len(), bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_meets_a_cut_answer_as_a_lost_connection() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a").script(Script::on(
        "SELECT 1",
        Effect::CutAnswer {
            bytes: 9,
            death: Death::Rst,
        },
    ));
    let error = client.simple_query("SELECT 1").await.unwrap_err();
    assert!(error.code().is_none(), "{error:?}");
    assert_eq!(sim.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_script_can_be_for_a_whole_text_and_not_for_what_contains_it() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    sim.server("a")
        .script(Script::at("SELECT 1", Effect::error("XX000")));
    client.simple_query("SELECT 1 + 1").await.unwrap();
    for sql in ["SELECT 1", " select 1 "] {
        let error = client.simple_query(sql).await.unwrap_err();
        assert_eq!(sqlstate(&error), "XX000", "{sql}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_bytes_other_tags_and_warnings_can_be_sent() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    let server = sim.server("a");
    server.script(Script::on(
        "one",
        Effect::Raw(Bytes::from_static(b"Z\0\0\0\x05?")),
    ));
    raw.send(|out| frontend::query("SELECT 'one'", out).unwrap())
        .await;
    assert_eq!(raw.next().await.unwrap(), ('Z', b"?".to_vec()));
    server.script(Script::on("commit", Effect::Tag("ROLLBACK".into())));
    raw.send(|out| frontend::query("BEGIN; COMMIT", out).unwrap())
        .await;
    let messages = raw.until('Z').await;
    assert_eq!(messages[1].1, b"ROLLBACK\0");
    let warning = Effect::Warn {
        sqlstate: "57P01".into(),
        message: "soon".into(),
    };
    server.script(Script::on("two", warning));
    raw.send(|out| frontend::query("SELECT 'two'", out).unwrap())
        .await;
    let messages = raw.until('Z').await;
    assert_eq!(kinds(&messages), "NTDCZ");
    assert_eq!(field(&messages[0], b'C'), "57P01");
}
