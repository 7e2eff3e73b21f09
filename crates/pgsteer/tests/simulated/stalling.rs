//! `stall_timeout`: a server that owes an answer and says nothing ends its connection, whatever is being done on it. An
//! application that is slow is no stall, and neither is a connection on which nothing is owed.

use std::pin::pin;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use pgsteer::config::LoadBalance;
use pgsteer::{Cluster, Config, Conn, EndCause, Pool};
use pgsteer_sim::{Effect, Script, Sim};

use crate::rig::*;

const SILENCE: Duration = Duration::from_secs(2);

fn watched() -> Config {
    config(&["a"])
        .load_balance(LoadBalance::Off)
        .pool_size(1)
        .connect_timeout(seconds(1))
        .stall_timeout(SILENCE)
}

async fn pool_of_one() -> (Sim, Pool) {
    let sim = three().build();
    let pool = full(&sim, watched()).await;
    (sim, pool)
}

/// Rows that no buffer on the way has room for.
const MANY: usize = 5_000;

async fn fill(conn: &Conn) {
    let sink = conn.copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN").await;
    let mut sink = pin!(sink.unwrap());
    let text = "x".repeat(1000);
    for id in 0..MANY {
        sink.send(format!("{id}\t{text}\n").into()).await.unwrap();
    }
    sink.finish().await.unwrap();
}

/// Uses the driver in one way, on a connection whose server freezes in the middle.
async fn freeze_within(way: &str, sim: &Sim, conn: &Conn) {
    let freeze = || sim.server("a").freeze();
    match way {
        "simple" => {
            freeze();
            (**conn).batch_execute("SELECT 1").await.unwrap_err();
        }
        "extended" => {
            freeze();
            (**conn).query("SELECT 1", &[]).await.unwrap_err();
        }
        "row stream" => {
            fill(conn).await;
            let parameters: [&str; 0] = [];
            let rows = conn.query_raw("SELECT * FROM ledger", parameters).await;
            let mut stream = pin!(rows.unwrap());
            stream.next().await.unwrap().unwrap();
            freeze();
            while let Some(Ok(_)) = stream.next().await {}
        }
        "copy in" => {
            let sink = conn.copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN").await;
            let mut sink = pin!(sink.unwrap());
            sink.send("1\tone\n".into()).await.unwrap();
            freeze();
            sink.finish().await.unwrap_err();
        }
        other => panic!("no way {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_freezes_ends_whatever_is_being_done_within_the_limit() {
    for way in ["simple", "extended", "row stream", "copy in"] {
        let (sim, pool) = pool_of_one().await;
        let conn = pool.get().await.unwrap();
        let ((), took) = timed(freeze_within(way, &sim, &conn)).await;
        assert!((SILENCE..SILENCE + millis(50)).contains(&took), "{way}: {took:?}");
        let cause = Conn::end(&conn).map(|end| end.cause);
        assert_eq!(cause, Some(EndCause::StallTimeout), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_stalled_connection_is_asked_and_found_dead() {
    let (sim, pool) = pool_of_one().await;
    let conn = pool.get().await.unwrap();
    sim.server("a").freeze();
    conn.batch_execute("SELECT 1").await.unwrap_err();
    until("the host is marked", || {
        pool.cluster().snapshot().failed() == [key("a")]
    })
    .await;
}

/// A statement that hangs on a server that works: the connection goes, and its host stays.
#[tokio::test(start_paused = true)]
async fn a_stalled_connection_on_a_server_that_answers_marks_no_host() {
    let (sim, pool) = pool_of_one().await;
    sim.server("a")
        .script(Script::on("'hangs'", Effect::Hang { cancellable: false }).once());
    pool.batch_execute("SELECT 'hangs'").await.unwrap_err();
    pass(seconds(10)).await;
    assert_eq!(pool.cluster().snapshot().failed().len(), 0);
    pool.batch_execute("SELECT 1").await.unwrap();
}

/// The application's own pace, and a server that is slow but not silent for that long.
#[tokio::test(start_paused = true)]
async fn a_slow_application_and_an_idle_connection_are_no_stall() {
    let (sim, pool) = pool_of_one().await;
    let pid = sim.sessions()[0].pid;
    pass(seconds(300)).await;
    {
        let conn = pool.get().await.unwrap();
        let sink = conn.copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN").await;
        let mut sink = pin!(sink.unwrap());
        for id in [-1, -2, -3] {
            pass(SILENCE * 5).await;
            sink.send(format!("{id}\tslow\n").into()).await.unwrap();
        }
        pass(SILENCE * 5).await;
        assert_eq!(sink.finish().await.unwrap(), 3);

        fill(&conn).await;
        let parameters: [&str; 0] = [];
        let stream = conn.query_raw("SELECT * FROM ledger", parameters).await;
        let mut stream = pin!(stream.unwrap());
        let mut rows = 0;
        while let Some(row) = stream.next().await {
            row.unwrap();
            rows += 1;
            if rows % 1_000 == 1 {
                pass(SILENCE * 5).await;
            }
        }
        assert_eq!(rows, MANY + 3);

        conn.batch_execute("BEGIN").await.unwrap();
        pass(SILENCE * 5).await;
        conn.batch_execute("COMMIT").await.unwrap();
        for _ in 0..10 {
            conn.batch_execute("SELECT pg_sleep(1.9)").await.unwrap();
        }
    }
    assert_eq!(whoami(&pool.get().await.unwrap()).await.1, pid);
    assert_eq!(pool.status().totals.lost, 0);
}

/// The application's own connections, outside any pool.
#[tokio::test(start_paused = true)]
async fn connections_of_a_cluster_are_watched_too() {
    let sim = three().build();
    let cluster: Cluster = cluster(&sim, watched()).await;
    let connection = cluster.connect().await.unwrap();
    connection.batch_execute("SELECT pg_sleep(1.9)").await.unwrap();
    sim.server("a").freeze();
    let (result, took) = timed(connection.batch_execute("SELECT 1")).await;
    assert!(result.unwrap_err().is_closed());
    assert!((SILENCE..SILENCE + millis(50)).contains(&took), "{took:?}");
    until("the host is marked", || cluster.snapshot().failed() == [key("a")]).await;
    assert_eq!(counted(&cluster.snapshot()), "");
}

/// The hook has no limit of its own here.
#[tokio::test(start_paused = true)]
async fn a_server_that_freezes_within_the_hook_ends_it() {
    let sim = three().build();
    let server = sim.server("a");
    let config = watched()
        .after_connect_timeout(None)
        .after_connect(move |client| {
            server.freeze();
            Box::pin(async move { Ok(client.batch_execute("SELECT 1").await?) })
        });
    let pool = start(&sim, config);
    within("the hook has failed", SILENCE + millis(50), || {
        pool.status().totals.hook_failures == 1
    })
    .await;
    until("the host is marked", || {
        pool.cluster().snapshot().failed() == [key("a")]
    })
    .await;
}
