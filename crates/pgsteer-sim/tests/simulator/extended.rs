//! The extended protocol: prepared statements, portals with row limits, errors up to the Sync, and bytes that make no
//! sense.

use crate::common::{Raw, client, field, kinds, sqlstate};
use pgsteer_sim::{End, Event, Sim};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

type Out = bytes::BytesMut;
type Write = Box<dyn FnOnce(&mut Out)>;

fn parse(name: &str, sql: &str) -> impl FnOnce(&mut Out) {
    move |out| frontend::parse(name, sql, [], out).unwrap()
}

fn bind(portal: &str, statement: &str, out: &mut Out) {
    let no_parameters: [&str; 0] = [];
    let bound = frontend::bind(
        portal,
        statement,
        [],
        no_parameters,
        |_, _| Ok(IsNull::Yes),
        [1],
        out,
    );
    assert!(bound.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_portal_gives_its_rows_in_the_portions_asked_for() {
    let sim = Sim::new(1);
    let mut client = client(&sim, "a").await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT * FROM generate_series(1, 5)", &[])
        .await
        .unwrap();
    let mut portions = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 2).await.unwrap();
        portions.push(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>());
        if rows.is_empty() || rows.len() < 2 {
            break;
        }
    }
    assert_eq!(portions, [vec![1, 2], vec![3, 4], vec![5]]);
    transaction.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_portal_that_gave_exactly_its_limit_is_suspended_and_then_done() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(parse("s", "SELECT * FROM generate_series(1, 4)")).await;
    raw.send(|out| {
        bind("p", "s", out);
        frontend::describe(b'P', "p", out).unwrap();
        for _ in 0..3 {
            frontend::execute("p", 2, out).unwrap();
        }
        frontend::sync(out);
        // The Sync ended the transaction and with it the portal.
        frontend::execute("p", 2, out).unwrap();
        frontend::sync(out);
    })
    .await;
    let messages = raw.until('Z').await;
    assert_eq!(kinds(&messages), "12TDDsDDsCZ");
    assert_eq!(messages[9].1, b"SELECT 0\0");
    let messages = raw.until('Z').await;
    assert_eq!(kinds(&messages), "EZ");
    assert_eq!(field(&messages[0], b'C'), "34000");
}

#[tokio::test(start_paused = true)]
async fn after_an_error_everything_is_skipped_up_to_the_sync() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(parse("s", "INSERT INTO ledger VALUES (1)")).await;
    raw.send(parse("bad", "SELECT 1/0")).await;
    raw.send(|out| {
        bind("", "s", out);
        frontend::execute("", 0, out).unwrap();
        bind("", "bad", out);
        frontend::execute("", 0, out).unwrap();
        bind("", "s", out);
        frontend::execute("", 0, out).unwrap();
        frontend::sync(out);
    })
    .await;
    let messages = raw.until('Z').await;
    assert_eq!(kinds(&messages), "112C2EZ");
    assert_eq!(messages[6].1, b"I");
    assert!(
        sim.ledger().is_empty(),
        "what came before the error in one Sync is rolled back with it"
    );
}

#[tokio::test(start_paused = true)]
async fn flush_sends_what_there_is_without_ending_the_transaction() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(parse("", "INSERT INTO ledger VALUES (1)")).await;
    raw.send(|out| {
        bind("", "", out);
        frontend::execute("", 0, out).unwrap();
        frontend::flush(out);
    })
    .await;
    assert_eq!(kinds(&raw.until('C').await), "12C");
    assert!(sim.ledger().is_empty());
    raw.send(frontend::sync).await;
    raw.until('Z').await;
    assert_eq!(sim.ledger().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn statements_and_portals_that_do_not_fit_are_refused() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(parse("s", "SELECT 1")).await;
    raw.send(frontend::sync).await;
    raw.until('Z').await;
    let rows: [(&str, Write); 6] = [
        ("42P05", Box::new(parse("s", "SELECT 2"))),
        ("42601", Box::new(parse("", "SELECT 1; SELECT 2"))),
        ("26000", Box::new(|out| bind("", "unknown", out))),
        (
            "26000",
            Box::new(|out| frontend::describe(b'S', "unknown", out).unwrap()),
        ),
        (
            "34000",
            Box::new(|out| frontend::execute("unknown", 0, out).unwrap()),
        ),
        (
            "08P01",
            Box::new(|out| {
                let text = |value: &str, out: &mut Out| {
                    out.extend_from_slice(value.as_bytes());
                    Ok(IsNull::No)
                };
                assert!(frontend::bind("", "s", [], ["one too many"], text, [], out).is_ok());
            }),
        ),
    ];
    for (sqlstate, write) in rows {
        raw.send(write).await;
        raw.send(frontend::sync).await;
        let messages = raw.until('Z').await;
        assert_eq!(kinds(&messages), "EZ", "{sqlstate}");
        assert_eq!(field(&messages[0], b'C'), sqlstate);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_frees_a_name_and_closing_nothing_is_no_error() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(parse("s", "SELECT 1")).await;
    raw.send(|out| {
        frontend::close(b'S', "s", out).unwrap();
        frontend::close(b'S', "unknown", out).unwrap();
        frontend::close(b'P', "unknown", out).unwrap();
    })
    .await;
    raw.send(parse("s", "")).await;
    raw.send(|out| {
        bind("", "s", out);
        frontend::describe(b'S', "s", out).unwrap();
        frontend::execute("", 0, out).unwrap();
        frontend::sync(out);
    })
    .await;
    assert_eq!(kinds(&raw.until('Z').await), "133312tnIZ");
}

#[tokio::test(start_paused = true)]
async fn a_failed_transaction_takes_only_its_end_in_the_extended_protocol_too() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let statement = client.prepare("SELECT 1").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client.query("SELECT 1/0", &[]).await.unwrap_err();
    assert_eq!(
        sqlstate(&client.query(&statement, &[]).await.unwrap_err()),
        "25P02"
    );
    assert_eq!(sqlstate(&client.prepare("SELECT 2").await.unwrap_err()), "25P02");
    client.execute("ROLLBACK", &[]).await.unwrap();
    client.query(&statement, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bytes_that_make_no_sense_end_the_session_with_08p01() {
    let sim = Sim::new(1);
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"Q\0\0\0\x08abc",
        b"Q\0\0\0\x05\xff",
        b"B\0\0\0\x06\0\0",
    ] {
        let mut raw = Raw::log_in(&sim, "a").await;
        raw.send(|out| out.extend_from_slice(bytes)).await;
        // One of them is a message that is still too short by a byte.
        raw.send(|out| out.extend_from_slice(b"x")).await;
        let message = raw.next().await.expect("an error");
        assert_eq!(
            (message.0, field(&message, b'C').as_str()),
            ('E', "08P01"),
            "{bytes:?}"
        );
        assert_eq!(raw.next().await, None, "{bytes:?}");
    }
    assert_eq!(sim.live(), 0);
    let nonsense = sim
        .log()
        .into_iter()
        .filter(|entry| entry.event == Event::Ended(End::Nonsense));
    assert_eq!(nonsense.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn random_bytes_after_a_login_never_bring_the_server_down() {
    let seed = 20_240_517;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let sim = Sim::new(seed);
    for _ in 0..300 {
        let mut raw = Raw::log_in(&sim, "a").await;
        let mut bytes = vec![0; random.usize(1..60)];
        random.fill(&mut bytes);
        if bytes.len() > 5 {
            bytes[0] = *random.choice(b"QPBDECSHdcfp").unwrap();
            let length = bytes.len() as u32 - 1;
            bytes[1..5].copy_from_slice(&length.to_be_bytes());
        }
        raw.send(|out| out.extend_from_slice(&bytes)).await;
        drop(raw);
        tokio::task::yield_now().await;
    }
    client(&sim, "a")
        .await
        .simple_query("SELECT 1")
        .await
        .expect("it still serves");
    tokio::task::yield_now().await;
    assert!(sim.live() <= 1, "sessions of those clients are gone");
}
