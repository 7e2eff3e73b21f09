//! Commits that no standby has confirmed though they were to wait for one. The server says that they are done; a failover
//! would lose them, so nobody is told that they are.

use std::time::Duration;

use pgsteer::{Error, Pool};

use crate::rig::*;

async fn write_row(pool: &Pool) -> Result<(), Error> {
    let write =
        pool.transaction(|tx| async move { tx.batch_execute("INSERT INTO written VALUES (1)").await });
    soon(write).await
}

/// Cancels the commit that waits for a standby, once there is one.
async fn cancel_the_wait(set: &Rig) {
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let cancelled = || tokio::task::block_in_place(|| set.node(0).sql(cancel));
    soon(async {
        while cancelled().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_kept_from_waiting_for_its_standby_is_not_told_to_be_done() {
    let set = primary_with(1).await;
    set.set_synchronous(0, true);
    set.node(1).freeze();
    let writes = "target_session_attrs=read-write&pool_size=1";
    let pool = full_pool(&set.addresses(), writes).await;
    let before = backend(&*get(&pool).await).await;

    let (result, ()) = tokio::join!(write_row(&pool), cancel_the_wait(&set));
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::CommitOutcomeUnknown(_)), "{error:?}");
    assert!(error.to_string().contains("standby"), "{error}");

    assert_eq!(
        backend(&*get(&pool).await).await,
        before,
        "nothing is wrong with the connection"
    );

    // Its own cancel request takes the wait away as well.
    let parameters = format!("{writes}&socket_timeout=300ms&cancel_on_timeout=20s");
    let impatient = full_pool(&set.addresses(), &parameters).await;
    let result = write_row(&impatient).await;
    assert!(
        matches!(result, Err(Error::CommitOutcomeUnknown(_))),
        "{result:?}"
    );

    // Here they all are, and on no standby.
    assert_eq!(
        set.node(0).sql("SELECT count(*) FROM written")[0][0].as_deref(),
        Some("2")
    );
    set.node(1).thaw();
    write_row(&pool).await.unwrap();
}
