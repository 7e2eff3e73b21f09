//! One function for whatever it is given: a guard, a borrowed guard, a transaction or a savepoint.

use pgsteer::tokio_postgres::types::Type;
use pgsteer::{Error, GenericClient};

use crate::rig::bank;

const BALANCES: &str = "SELECT balance FROM accounts WHERE id < $1 ORDER BY id";

/// Every kind of call but the cached ones, on accounts 1 and 2; leaves the account `id` behind with a balance of 7.
async fn work(client: &impl GenericClient, id: i32) -> Result<(), Error> {
    let many = client.prepare(BALANCES).await?;
    assert_eq!(client.query(&many, &[&3]).await?.len(), 2);
    let typed = client.prepare_typed("SELECT $1 + 1", &[Type::INT8]).await?;
    assert_eq!(client.query_one(&typed, &[&41_i64]).await?.get::<_, i64>(0), 42);

    assert_eq!(client.query_typed(BALANCES, &[(&3, Type::INT4)]).await?.len(), 2);
    let row = client.query_typed_one(BALANCES, &[(&2, Type::INT4)]).await?;
    assert_eq!(row.get::<_, i32>(0), 100);
    assert!(
        client
            .query_typed_opt(BALANCES, &[(&1, Type::INT4)])
            .await?
            .is_none()
    );
    let insert = "INSERT INTO accounts VALUES ($1, 7)";
    assert_eq!(client.execute_typed(insert, &[(&id, Type::INT4)]).await?, 1);

    assert_eq!(client.query_scalar::<i32, _>(BALANCES, &[&3]).await?, [100, 100]);
    assert_eq!(client.query_one_scalar::<i32, _>(BALANCES, &[&2]).await?, 100);
    assert_eq!(client.query_opt_scalar::<i32, _>(BALANCES, &[&1]).await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_function_runs_every_kind_of_call_on_whatever_it_is_given() {
    let bank = bank(1).await;
    work(&bank.pool.get().await.unwrap(), 11).await.unwrap();
    work(&bank.pool.get_ref().await.unwrap(), 12).await.unwrap();
    let inside = |tx: pgsteer::Tx| async move {
        work(&tx, 13).await?;
        tx.savepoint(|tx| async move { work(&tx, 14).await }).await
    };
    bank.pool.transaction(inside).await.unwrap();
    let left = bank.accounts().await;
    assert_eq!(left[2..], [(11, 7), (12, 7), (13, 7), (14, 7)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_wants_one_row_of_one_type_says_so_and_fails_the_transaction_by_it() {
    let bank = bank(1).await;
    let ended = bank.pool.transaction(|tx| async move {
        tx.execute("INSERT INTO accounts VALUES (9, 9)", &[]).await?;
        tx.query_one_scalar::<i64, _>("SELECT 1::int4", &[]).await
    });
    assert!(matches!(ended.await, Err(Error::Postgres(_))));
    let ended = bank.pool.transaction(|tx| async move {
        tx.execute("INSERT INTO accounts VALUES (9, 9)", &[]).await?;
        tx.query_typed_one(BALANCES, &[(&3, Type::INT4)]).await
    });
    assert!(matches!(ended.await, Err(Error::Postgres(_))));
    assert_eq!(bank.accounts().await, [(1, 100), (2, 100)]);
}
