//! What applications do with a pool, good and bad, at random. Everything a checkout promises is checked at each.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt;
use pgsteer::tokio_postgres::{self, Client};
use pgsteer::{Conn, Error, Pool, TransactionStatus};
use tokio::time::{Instant, timeout};

use super::watch::Ledger;
use crate::cancellation::Patience;
use crate::rig::*;

/// Times are in whole milliseconds, and a timer fires in the one after.
const EPSILON: Duration = Duration::from_millis(3);

/// Works until `end`.
pub async fn work(pool: Pool, ledger: Arc<Ledger>, seed: u64, end: Instant) {
    let mut random = fastrand::Rng::with_seed(seed);
    while Instant::now() < end {
        let pause = millis(random.u64(0..4000));
        tokio::time::sleep(pause.min(end.saturating_duration_since(Instant::now()))).await;
        match random.u32(0..60) {
            0 => pool.retire_all(),
            1 => pool.rebalance(),
            2 => pool.cluster().refresh(),
            3 => drop(pool.ready(random.u32(0..20), millis(200)).await),
            4..8 => drop(Patience::random(&mut random).with(pool.get()).await),
            _ => one(&pool, &ledger, &mut random).await,
        }
    }
}

/// Checks out, does something, and lets go in one way or another.
async fn one(pool: &Pool, ledger: &Arc<Ledger>, random: &mut fastrand::Rng) {
    let limit = millis([5, 200, 1000, 5000][random.usize(..4)]);
    let (result, took) = timed(pool.get_timeout(limit)).await;
    assert!(
        took <= limit + EPSILON,
        "a caller with {limit:?} waited for {took:?}"
    );
    let conn = match result {
        Ok(conn) => conn,
        Err(
            Error::CheckoutTimeout(_)
            | Error::Connect(_)
            | Error::CircuitOpen { .. }
            | Error::NoNode(_)
            | Error::NoServer,
        ) => return,
        Err(other) => panic!("a checkout failed with {other:?}"),
    };
    is_as_new(&conn, random).await;
    let hold = millis(random.u64(0..300));
    match random.u32(0..16) {
        // The usual: a statement or a transaction, and back it goes.
        0..4 => tokio::time::sleep(hold).await,
        4 => {
            let number = random.i64(..);
            let insert = format!("BEGIN; INSERT INTO ledger VALUES ({number}, 'kept'); COMMIT");
            expected(timeout(seconds(2), conn.batch_execute(&insert)).await);
        }
        // What should not be done, and is.
        5 => expected(timeout(seconds(2), conn.batch_execute("BEGIN; SELECT 1")).await),
        6 => expected(timeout(seconds(2), conn.batch_execute("BEGIN; SELECT 1/0")).await),
        7 => drop(timeout(hold, conn.batch_execute("SELECT pg_sleep(2)")).await),
        8 => drop(
            Patience::random(random)
                .with(conn.query("SELECT generate_series(1, 500)", &[]))
                .await,
        ),
        9 => drop(timeout(seconds(2), copy_left_open(&conn)).await),
        10 => {
            let holder = tokio::spawn(async move {
                let _conn = conn;
                tokio::time::sleep(hold).await;
                std::panic::resume_unwind(Box::new("a holder's own trouble"));
            });
            assert!(holder.await.is_err_and(|error| error.is_panic()));
        }
        11 => Conn::discard(conn),
        12 => {
            ledger.detached();
            let own = Own {
                client: Some(Conn::detach(conn)),
                ledger: ledger.clone(),
            };
            tokio::time::sleep(hold * 10).await;
            drop(own);
        }
        13 => tokio::time::sleep(hold * 50).await,
        14 => {
            // Moved to a task that is aborted.
            let holder = tokio::spawn(async move { conn.batch_execute("SELECT pg_sleep(1)").await });
            tokio::time::sleep(hold).await;
            holder.abort();
        }
        _ => {
            // Many at once on one connection.
            let queries =
                futures_util::future::join_all((0..5).map(|_| conn.query_one("SELECT 1::int", &[])));
            drop(timeout(seconds(2), queries).await);
        }
    }
}

/// Whoever gets a connection finds it outside of any transaction, owing nothing, and answering its own questions.
async fn is_as_new(conn: &Conn, random: &mut fastrand::Rng) {
    match Conn::transaction_status(conn) {
        Some(status) => assert_eq!(status, TransactionStatus::Idle),
        None => assert!(conn.is_closed(), "a connection that owes answers was handed out"),
    }
    let number = random.i32(0..1_000_000);
    let asking = async {
        let row = conn
            .query_one("SELECT $1::int + 1, rig_whoami()", &[&number])
            .await?;
        assert_eq!(row.get::<_, i32>(0), number + 1, "somebody else's answer");
        let server: String = row.get(1);
        let host = Conn::host(conn).name();
        assert!(host == server || host == "lb", "{host} is {server}");
        Ok::<_, Error>(())
    };
    expected(timeout(seconds(2), asking).await);
}

/// Under faults a statement may find its connection lost, its server in recovery, or no answer. Anything else would
/// be somebody else's trouble.
fn expected<T>(result: Result<Result<T, Error>, tokio::time::error::Elapsed>) {
    if let Ok(Err(Error::Postgres(error))) = result {
        if let Some(said) = error.as_db_error() {
            let known = ["22012", "25006", "57P01"];
            assert!(known.contains(&said.code().code()), "{said:?}");
        }
    }
}

async fn copy_left_open(conn: &Conn) -> Result<(), tokio_postgres::Error> {
    let sink = conn.copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN").await?;
    let mut sink = pin!(sink);
    sink.send("1\tnever\n".into()).await?;
    tokio::time::sleep(millis(50)).await;
    Ok(())
}

/// A connection taken out of the pool.
struct Own {
    client: Option<Client>,
    ledger: Arc<Ledger>,
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.client.take());
        self.ledger.dropped();
    }
}

/// Takes every idle connection at once, and at least `least`, and uses each. Whether all worked.
pub async fn use_all(pool: &Pool, least: u32) -> bool {
    let mut held = Vec::new();
    while let Some(conn) = pool.try_get() {
        held.push(conn);
    }
    let mut good = held.len() >= least as usize;
    for conn in &held {
        let answer = timeout(seconds(5), conn.batch_execute("SELECT 1")).await;
        good &= matches!(answer, Ok(Ok(())));
    }
    good
}
