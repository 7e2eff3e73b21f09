//! Attempts whose time runs out in the very moment in which COMMIT is sent.

use std::time::Duration;

use pgsteer::{Error, TransactionOptions};

use crate::rig::bank;

/// The closure takes longer than the attempt may without ever letting anybody look at the clock, so that the time is found to
/// be over when COMMIT is on its way to the socket, which another thread writes to: whatever became of it, it is done once at
/// most, and not at all when that is what its caller is told.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_out_of_time_just_as_its_commit_is_sent_is_not_told_to_have_failed() {
    let bank = bank(2).await;
    bank.pool
        .batch_execute("CREATE TABLE told (id int)")
        .await
        .unwrap();
    let options = TransactionOptions::new()
        .attempts(1)
        .checkout_timeout(Duration::from_secs(60))
        .attempt_timeout(Duration::from_millis(15));
    for id in 0..40 {
        let result = bank
            .pool
            .transaction_with(options.clone(), |tx| async move {
                tx.execute("INSERT INTO told VALUES ($1)", &[&id]).await?;
                std::thread::sleep(Duration::from_millis(15));
                Ok::<_, Error>(())
            })
            .await;
        let row = bank
            .pool
            .query_one("SELECT count(*) FROM told WHERE id = $1", &[&id])
            .await
            .unwrap();
        let times: i64 = row.get(0);
        let most = match &result {
            Ok(()) | Err(Error::CommitOutcomeUnknown(_)) => 1,
            Err(_) => 0,
        };
        assert!(
            times <= most,
            "{id} is there {times} times, and its caller was told {result:?}"
        );
    }
}
