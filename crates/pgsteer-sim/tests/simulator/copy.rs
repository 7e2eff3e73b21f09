//! COPY into the ledger and out of it, by tokio-postgres and by hand.

use crate::common::{Raw, client, field, kinds, sqlstate};
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt, pin_mut};
use pgsteer_sim::Sim;
use postgres_protocol::message::frontend;

#[tokio::test(start_paused = true)]
async fn rows_go_in_and_come_out() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let sink = client.copy_in("COPY ledger (id, note) FROM STDIN").await.unwrap();
    pin_mut!(sink);
    for part in ["1\ton", "e\n2\t\\N\n3\ttab\\tand \\\\\n", "4\tlast"] {
        sink.send(Bytes::from(part)).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 4);
    let expected = [
        (1, Some("one")),
        (2, None),
        (3, Some("tab\tand \\")),
        (4, Some("last")),
    ];
    assert_eq!(
        sim.ledger(),
        expected.map(|(id, note)| (id, note.map(str::to_owned))).into()
    );

    let out: Vec<Bytes> = client
        .copy_out("COPY ledger TO STDOUT")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(out.concat(), b"1\tone\n2\t\\N\n3\ttab\\tand \\\\\n4\tlast\n");
    let query = "COPY (SELECT id FROM ledger WHERE id > 2) TO STDOUT";
    let out: Vec<Bytes> = client.copy_out(query).await.unwrap().try_collect().await.unwrap();
    assert_eq!(out.concat(), b"3\n4\n");
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_fails_the_copy_and_nothing_of_it_stays() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    for (line, code) in [
        ("x\tnote\n", "22P02"),
        ("1\n", "22P04"),
        ("1\ta\tb\n", "22P04"),
        ("1\ta\n1\tb\n", "23505"),
    ] {
        let sink = client.copy_in("COPY ledger FROM STDIN").await.unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from(line)).await.unwrap();
        assert_eq!(sqlstate(&sink.finish().await.unwrap_err()), code, "{line:?}");
    }
    assert!(sim.ledger().is_empty());
    client
        .simple_query("SELECT 1")
        .await
        .expect("the session goes on");
}

#[tokio::test(start_paused = true)]
async fn a_copy_given_up_by_the_client_is_rolled_back() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    {
        let sink = client.copy_in("COPY ledger FROM STDIN").await.unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from(format!("1\t{}\n", "long ".repeat(2000))))
            .await
            .unwrap();
    }
    client
        .simple_query("SELECT 1")
        .await
        .expect("the session goes on");
    assert!(sim.ledger().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_a_simple_query_answers_in_order() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(|out| frontend::query("COPY ledger FROM STDIN; SELECT count(*) FROM ledger", out).unwrap())
        .await;
    assert_eq!(kinds(&raw.until('G').await), "G");
    raw.send(|out| {
        frontend::CopyData::new(&b"1\ta\n"[..]).unwrap().write(out);
        frontend::copy_done(out);
    })
    .await;
    assert_eq!(kinds(&raw.until('Z').await), "CTDCZ");
    raw.send(|out| frontend::query("COPY ledger FROM STDIN", out).unwrap())
        .await;
    raw.until('G').await;
    raw.send(|out| frontend::copy_fail("changed my mind", out).unwrap())
        .await;
    let messages = raw.until('Z').await;
    assert_eq!(
        (kinds(&messages).as_str(), field(&messages[0], b'C').as_str()),
        ("EZ", "57014")
    );
}
