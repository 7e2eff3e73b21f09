//! One caller's round: it gets a connection, looks whether it is clean, uses it in one way, and gives that up.

use std::time::Duration;

use pgsteer::{Conn, Error, TransactionStatus};

use crate::giving_up::Patience;
use crate::next::is_clean;
use crate::site::Site;
use crate::uses::{Use, of_the_client};

/// The longest that anybody waits for a use.
const LONGEST: Duration = Duration::from_millis(4);

pub(crate) async fn round(site: &Site, uses: &[Use], random: &mut fastrand::Rng) {
    let number = random.i32(0..1_000_000);
    let patience = Patience::random(random, LONGEST);
    if random.u32(0..8) == 0 {
        return through_the_pool(site, patience, number).await;
    }
    let mut conn = site.pool.get().await.unwrap();
    is_clean(site, &conn, number).await;
    let way = uses[random.usize(0..uses.len())];
    let result = way.run(site, &mut conn, number, patience).await;
    match result {
        Some(Err(error)) => panic!("{way:?}: {error}"),
        Some(Ok(())) => {}
        // Now and then the holder goes on with it, and is answered what it asks.
        None if random.u32(0..4) == 0 => goes_on(&conn, number, way).await,
        None => {}
    }
    match random.u32(0..40) {
        0 => Conn::discard(conn),
        1 => drop(Conn::detach(conn)),
        _ => drop(conn),
    }
}

/// A query of the holder of a connection on which something was given up. Within a transaction that has failed it fails.
async fn goes_on(conn: &Conn, number: i32, way: Use) {
    match of_the_client(conn, number).await {
        Ok(()) => {}
        Err(error) if error.code() == Some("25P02") => {
            assert_eq!(Conn::transaction_status(conn), Some(TransactionStatus::Failed));
        }
        Err(error) => panic!("after {way:?}: {error}"),
    }
}

/// The calls that have a connection of their own.
async fn through_the_pool(site: &Site, patience: Patience, number: i32) {
    let pool = &site.pool;
    let id = site.next_id();
    let result = match number % 4 {
        0 => {
            patience
                .with(async { pool.query("SELECT 1", &[]).await.map(drop) })
                .await
        }
        1 => {
            let sql = format!("SELECT $1::int + {}", number % 16);
            patience
                .with(async {
                    let row = pool.query_one_cached(&sql, &[&number]).await?;
                    assert_eq!(row.get::<_, i32>(0), number + number % 16);
                    Ok(())
                })
                .await
        }
        2 => patience.with(pool.batch_execute("BEGIN; SELECT 1; COMMIT")).await,
        _ => {
            let transaction = pool.transaction(|tx| async move {
                tx.execute_cached("INSERT INTO ledger VALUES ($1, 'no')", &[&id])
                    .await?;
                tx.savepoint(|tx| async move { tx.query("SELECT 1", &[]).await })
                    .await?;
                Err::<(), _>(Error::rollback("as planned"))
            });
            let result = patience.with(transaction).await;
            result.map(|result| {
                assert!(matches!(result, Err(Error::Rollback(_))), "{result:?}");
                Ok(())
            })
        }
    };
    if let Some(Err(error)) = result {
        panic!("{error}");
    }
}

/// The seeds of a run: one that the environment names, or all of these.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    let seeds = match std::env::var("PGSTEER_SEED") {
        Ok(seed) => vec![seed.parse().expect("PGSTEER_SEED is a number")],
        Err(_) => (0..count).map(|_| fastrand::u64(..)).collect(),
    };
    eprintln!(
        "seeds {seeds:?}: PGSTEER_SEED=… cargo test -p pgsteer --test dropped draws the rounds of one again"
    );
    seeds
}
