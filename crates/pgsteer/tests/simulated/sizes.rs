//! How large the futures are that callers keep while they wait: every task has one of them, and the stack that it is polled on
//! grows with it.

use crate::rig::*;

/// What ours may need beside the driver's own.
const OURS: usize = 512;

#[tokio::test(start_paused = true)]
async fn a_call_on_a_guard_is_hardly_larger_than_the_drivers_own() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let conn = pool.get().await.unwrap();
    let statement = conn.prepare("SELECT 1").await.unwrap();
    let client: &pgsteer::tokio_postgres::Client = &conn;

    // what is called, ours, the driver's
    let rows = [
        (
            "prepare",
            size_of_val(&conn.prepare("")),
            size_of_val(&client.prepare("")),
        ),
        (
            "query",
            size_of_val(&conn.query(&statement, &[])),
            size_of_val(&client.query(&statement, &[])),
        ),
        (
            "query_one",
            size_of_val(&conn.query_one(&statement, &[])),
            size_of_val(&client.query_one(&statement, &[])),
        ),
        (
            "execute",
            size_of_val(&conn.execute(&statement, &[])),
            size_of_val(&client.execute(&statement, &[])),
        ),
        (
            "batch_execute",
            size_of_val(&conn.batch_execute("")),
            size_of_val(&client.batch_execute("")),
        ),
        (
            "query_one_cached",
            size_of_val(&conn.query_one_cached("", &[])),
            size_of_val(&client.query_one(&statement, &[])),
        ),
        (
            "query_cached on the pool",
            size_of_val(&pool.query_cached("", &[])),
            size_of_val(&client.query(&statement, &[])),
        ),
    ];
    for (what, ours, drivers) in rows {
        assert!(
            ours <= drivers + OURS,
            "{what}: {ours} bytes, the driver's {drivers}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_keeps_its_closures_future_once() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let small = pool.transaction(|_| async { Ok(()) });
    let large = pool.transaction(|_| async {
        let kept = [0_u8; 10_000];
        tokio::task::yield_now().await;
        std::hint::black_box(&kept);
        Ok(())
    });
    let (small, large) = (size_of_val(&small), size_of_val(&large));
    assert!(small <= 2_500, "{small} bytes");
    assert!((10_000..=15_000).contains(&large), "{large} bytes");
}
