//! What callers were told, against what is there, while the server is killed under them again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use pgsteer::{Error, TransactionOptions};

use crate::rig::{LIMIT, bank};

/// What the caller of one transaction was told.
#[derive(Debug, PartialEq)]
enum Told {
    Done,
    NotDone,
    Unknown,
}

/// Eight tasks insert ids of their own while the server is killed and started five times: what was told to be done is there,
/// once; what was told to have failed is not; only what was told to be unknown may be either.
#[tokio::test(flavor = "multi_thread")]
async fn what_callers_are_told_is_true_while_the_server_is_killed_under_them() {
    let bank = bank(8).await;
    bank.pool
        .batch_execute("CREATE TABLE told (id int)")
        .await
        .unwrap();
    let (ids, over) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let options = TransactionOptions::new()
        .checkout_timeout(Duration::from_millis(200))
        .attempt_timeout(Duration::from_secs(20));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (pool, options, ids, over) = (bank.pool.clone(), options.clone(), ids.clone(), over.clone());
            tokio::spawn(async move {
                let mut told = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    let id = ids.fetch_add(1, Ordering::SeqCst);
                    let result = pool
                        .transaction_with(options.clone(), |tx| async move {
                            tx.execute("INSERT INTO told VALUES ($1)", &[&id]).await?;
                            tx.execute(
                                "UPDATE accounts SET balance = balance WHERE id = $1",
                                &[&(1 + id % 2)],
                            )
                            .await
                        })
                        .await;
                    let what = match result {
                        Ok(_) => Told::Done,
                        Err(Error::CommitOutcomeUnknown(_)) => Told::Unknown,
                        Err(_) => Told::NotDone,
                    };
                    if what == Told::NotDone {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    told.push((id, what));
                }
                told
            })
        })
        .collect();
    for round in 0..5 {
        tokio::time::sleep(Duration::from_millis(150 + 37 * round)).await;
        tokio::task::block_in_place(|| {
            bank.server.server(0).kill();
            bank.server.server(0).start();
        });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    over.store(true, Ordering::SeqCst);
    let mut told = Vec::new();
    for task in tasks {
        told.extend(tokio::time::timeout(LIMIT, task).await.unwrap().unwrap());
    }
    let conn = tokio::time::timeout(LIMIT, async {
        loop {
            if let Ok(conn) = bank.pool.get().await {
                break conn;
            }
        }
    })
    .await
    .unwrap();
    let rows = conn
        .query("SELECT id, count(*) FROM told GROUP BY id", &[])
        .await
        .unwrap();
    let there: std::collections::BTreeMap<i32, i64> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (id, what) in &told {
        let times = there.get(id).copied().unwrap_or(0);
        let right = match what {
            Told::Done => times == 1,
            Told::NotDone => times == 0,
            Told::Unknown => times <= 1,
        };
        assert!(right, "{id} was told to be {what:?} and is there {times} times");
    }
    let count = |what: Told| told.iter().filter(|(_, told)| *told == what).count();
    assert!(count(Told::Done) > 0, "nothing was put to the test");
}
