//! Transactions as the wire shows them: status bytes, command tags, savepoints, conflicts.

use crate::common::{Raw, client, field, kinds, sqlstate};
use pgsteer_sim::{Shutdown, Sim, TransactionStatus};
use postgres_protocol::message::frontend;

/// Runs a simple query by hand; the tag or SQLSTATE of its last answer, and the status byte.
async fn run(raw: &mut Raw, sql: &str) -> (String, char) {
    raw.send(|out| frontend::query(sql, out).unwrap()).await;
    let messages = raw.until('Z').await;
    let status = char::from(messages[messages.len() - 1].1[0]);
    let answer = messages
        .iter()
        .rev()
        .find(|(kind, _)| matches!(kind, 'C' | 'E'))
        .expect("an answer");
    let text = match answer.0 {
        'C' => String::from_utf8_lossy(&answer.1)
            .trim_end_matches('\0')
            .to_owned(),
        _ => field(answer, b'C'),
    };
    (text, status)
}

#[tokio::test(start_paused = true)]
async fn every_step_answers_with_its_tag_and_status_byte() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    for (sql, answer, status) in [
        ("SELECT 1", "SELECT 1", 'I'),
        ("BEGIN", "BEGIN", 'T'),
        ("SELECT 1", "SELECT 1", 'T'),
        ("SELECT 1/0", "22012", 'E'),
        ("SELECT 1", "25P02", 'E'),
        ("BEGIN", "25P02", 'E'),
        ("nonsense", "42601", 'E'),
        ("COMMIT", "ROLLBACK", 'I'),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY", "BEGIN", 'T'),
        ("INSERT INTO ledger VALUES (1)", "25006", 'E'),
        ("ROLLBACK", "ROLLBACK", 'I'),
        ("START TRANSACTION", "BEGIN", 'T'),
        ("INSERT INTO ledger VALUES (1)", "INSERT 0 1", 'T'),
        ("SAVEPOINT one", "SAVEPOINT", 'T'),
        ("INSERT INTO ledger VALUES (2)", "INSERT 0 1", 'T'),
        ("INSERT INTO ledger VALUES (1)", "23505", 'E'),
        ("ROLLBACK TO SAVEPOINT one", "ROLLBACK", 'T'),
        ("RELEASE one", "RELEASE", 'T'),
        ("ROLLBACK TO one", "3B001", 'E'),
        ("END", "ROLLBACK", 'I'),
        ("BEGIN; INSERT INTO ledger VALUES (3); COMMIT", "COMMIT", 'I'),
        ("COMMIT", "COMMIT", 'I'),
        ("ABORT", "ROLLBACK", 'I'),
        ("DISCARD ALL", "DISCARD ALL", 'I'),
        ("DEALLOCATE ALL", "DEALLOCATE ALL", 'I'),
        ("UNLISTEN *", "UNLISTEN", 'I'),
        ("CLOSE ALL", "CLOSE CURSOR ALL", 'I'),
        ("SHOW statement_timeout", "SHOW", 'I'),
    ] {
        assert_eq!(run(&mut raw, sql).await, (answer.to_owned(), status), "{sql}");
    }
    assert_eq!(sim.ledger().into_keys().collect::<Vec<_>>(), [3]);
}

#[tokio::test(start_paused = true)]
async fn begin_and_commit_out_of_place_are_warned_about() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    for (sql, sqlstate) in [
        ("COMMIT", "25P01"),
        ("ROLLBACK", "25P01"),
        ("BEGIN; BEGIN", "25001"),
    ] {
        raw.send(|out| frontend::query(sql, out).unwrap()).await;
        let messages = raw.until('Z').await;
        let notice = messages.iter().find(|(kind, _)| *kind == 'N').expect(sql);
        assert_eq!(field(notice, b'C'), sqlstate, "{sql}");
        assert_eq!(field(notice, b'S'), "WARNING", "{sql}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transactions_changes_are_seen_by_others_only_after_its_commit() {
    let sim = Sim::new(1);
    let (mut one, other) = (client(&sim, "a").await, client(&sim, "b").await);
    let transaction = one.transaction().await.unwrap();
    transaction
        .execute("INSERT INTO ledger VALUES (1)", &[])
        .await
        .unwrap();
    let seen = async || other.query("SELECT * FROM ledger", &[]).await.unwrap().len();
    assert_eq!(seen().await, 0);
    transaction.commit().await.unwrap();
    assert_eq!(seen().await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_conflicting_commits_fails_and_is_rolled_back() {
    let sim = Sim::new(1);
    let (mut one, mut two) = (client(&sim, "a").await, client(&sim, "b").await);
    let (first, second) = (one.transaction().await.unwrap(), two.transaction().await.unwrap());
    first
        .execute("INSERT INTO ledger VALUES (1, 'first')", &[])
        .await
        .unwrap();
    second
        .execute("INSERT INTO ledger VALUES (1, 'second'), (2)", &[])
        .await
        .unwrap();
    first.commit().await.unwrap();
    assert_eq!(sqlstate(&second.commit().await.unwrap_err()), "40001");
    assert_eq!(
        sim.ledger().into_iter().collect::<Vec<_>>(),
        [(1, Some("first".to_owned()))]
    );
    assert!(
        sim.sessions()
            .iter()
            .all(|session| session.transaction_status == TransactionStatus::Idle)
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_transaction_is_rolled_back() {
    let sim = Sim::new(1);
    let mut client = client(&sim, "a").await;
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute("INSERT INTO ledger VALUES (1)", &[])
        .await
        .unwrap();
    assert_eq!(
        sim.sessions()[0].transaction_status,
        TransactionStatus::InTransaction
    );
    drop(transaction);
    client.simple_query("SELECT 1").await.unwrap();
    assert_eq!(sim.sessions()[0].transaction_status, TransactionStatus::Idle);
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn settings_follow_the_transaction_and_reported_ones_are_reported() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(|out| {
        frontend::query("BEGIN; SET TimeZone = 'CET'; SET LOCAL DateStyle = 'German'", out).unwrap()
    })
    .await;
    assert_eq!(kinds(&raw.until('Z').await), "CSCSCZ");
    raw.send(|out| frontend::query("ROLLBACK", out).unwrap()).await;
    assert_eq!(
        kinds(&raw.until('Z').await),
        "SSCZ",
        "both go back and are reported"
    );
    raw.send(|out| frontend::query("BEGIN; SET LOCAL TimeZone = 'CET'; COMMIT", out).unwrap())
        .await;
    assert_eq!(
        kinds(&raw.until('Z').await),
        "CSCSCZ",
        "LOCAL ends with the commit too"
    );
    assert_eq!(run(&mut raw, "SELECT 1").await.1, 'I');
}

/// The first cell of a query's answer.
async fn cell(client: &tokio_postgres::Client, sql: &str) -> String {
    let messages = client
        .simple_query(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.expect("a value").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_transactions_id_tells_what_became_of_it_and_is_given_again_after_a_crash_that_lost_it() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let since = "SELECT pg_stat_get_bgwriter_stat_reset_time()";
    for crash in [Shutdown::Immediate, Shutdown::Crash] {
        let (writer, observer) = (client(&sim, "a").await, client(&sim, "a").await);
        writer.batch_execute("BEGIN").await.unwrap();
        let kept = cell(&writer, "SELECT txid_current()").await;
        let fate_of_kept = format!("SELECT txid_status({kept})");
        assert_eq!(cell(&observer, &fate_of_kept).await, "in progress");
        writer.batch_execute("COMMIT").await.unwrap();
        assert_eq!(cell(&observer, &fate_of_kept).await, "committed");
        let insert = "BEGIN; INSERT INTO ledger VALUES (1)";
        writer.batch_execute(insert).await.unwrap();
        let lost = cell(&writer, "SELECT txid_current()").await;
        let before = cell(&observer, since).await;

        server.restart(crash);

        let observer = client(&sim, "a").await;
        assert_ne!(cell(&observer, since).await, before);
        assert_eq!(cell(&observer, &fate_of_kept).await, "committed");
        let fate_of_lost = format!("SELECT txid_status({lost})");
        let error = observer.simple_query(&fate_of_lost).await.unwrap_err();
        assert_eq!(sqlstate(&error), "22023", "it was never given");
        assert_eq!(cell(&observer, "SELECT txid_current()").await, lost);
        assert_eq!(cell(&observer, &fate_of_lost).await, "committed");
    }
    assert!(sim.ledger().is_empty());
}
