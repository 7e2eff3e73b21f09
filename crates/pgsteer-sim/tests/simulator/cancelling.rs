//! What ends a running statement: cancel requests, `statement_timeout`, and nothing else.

use std::time::Duration;

use crate::common::{Raw, client, field, sqlstate};
use pgsteer_sim::{Effect, Event, Script, Sim};
use postgres_protocol::message::frontend;
use tokio::time::Instant;
use tokio_postgres::NoTls;

#[tokio::test(start_paused = true)]
async fn a_cancel_request_ends_a_sleep_with_57014() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let token = client.cancel_token();
    let start = Instant::now();
    let cancelling = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let stream = sim.connect("a", 5433).await.unwrap();
        token.cancel_query_raw(stream, NoTls).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(client.query("SELECT pg_sleep(3600)", &[]), cancelling);
    assert_eq!(sqlstate(&outcome.unwrap_err()), "57014");
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    client.simple_query("SELECT 1").await.unwrap();
    assert_eq!(sim.server("a").counts().cancel_requests, 1);
    assert!(
        sim.log()
            .iter()
            .any(|entry| matches!(entry.event, Event::CancelRequest { .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_with_a_wrong_key_or_for_an_idle_session_does_nothing() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    let pid = sim.sessions()[0].pid;
    let mut wrong = Raw::connect(&sim, "a").await;
    wrong.send(|out| frontend::cancel_request(pid, 0, out)).await;
    assert_eq!(wrong.next().await, None);
    assert!(sim.cancel(sim.sessions()[0].id));
    tokio::time::sleep(Duration::from_secs(1)).await;
    raw.send(|out| frontend::query("SELECT pg_sleep(1)", out).unwrap())
        .await;
    assert_eq!(raw.until('Z').await.len(), 4, "columns, a row, a tag, ready");
}

#[tokio::test(start_paused = true)]
async fn statement_timeout_ends_a_sleep_with_57014() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    client
        .batch_execute("SET statement_timeout = '1500ms'")
        .await
        .unwrap();
    let start = Instant::now();
    assert_eq!(
        sqlstate(&client.batch_execute("SELECT pg_sleep(2)").await.unwrap_err()),
        "57014"
    );
    assert_eq!(start.elapsed(), Duration::from_millis(1500));
    client.batch_execute("SELECT pg_sleep(1)").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_hangs_is_ended_by_a_cancel_only_if_it_may_be() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    for (cancellable, ended) in [(true, true), (false, false)] {
        sim.server("a")
            .script(Script::on("SELECT 1", Effect::Hang { cancellable }).once());
        let query = client.simple_query("SELECT 1");
        let cancelling = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sim.cancel(sim.sessions()[0].id);
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let mut query = std::pin::pin!(query);
        tokio::select! {
            biased;
            outcome = &mut query => assert!(ended && sqlstate(&outcome.unwrap_err()) == "57014"),
            () = cancelling => assert!(!ended, "it should have been cancelled"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_does_not_end_what_it_asked_for() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(|out| frontend::query("SELECT pg_sleep(5); INSERT INTO ledger VALUES (1)", out).unwrap())
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(raw);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.live(), 1, "the server has not looked yet");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((sim.live(), sim.ledger().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_copy_that_waits_for_data() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(|out| frontend::query("COPY ledger FROM STDIN", out).unwrap())
        .await;
    raw.until('G').await;
    sim.cancel(sim.sessions()[0].id);
    let messages = raw.until('Z').await;
    assert_eq!(field(&messages[0], b'C'), "57014");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_stay_idle_longer_than_they_may_are_ended() {
    let sim = Sim::new(1);
    for (setup, code) in [
        ("SET idle_session_timeout = '10s'", "57P05"),
        ("SET idle_in_transaction_session_timeout = '10s'; BEGIN", "25P03"),
    ] {
        let mut raw = Raw::log_in(&sim, "a").await;
        raw.send(|out| frontend::query(setup, out).unwrap()).await;
        raw.until('Z').await;
        let start = Instant::now();
        let message = raw.next().await.unwrap();
        assert_eq!(
            (field(&message, b'S').as_str(), field(&message, b'C').as_str()),
            ("FATAL", code)
        );
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert_eq!(raw.next().await, None);
    }
}
