//! What a pool tells people: why there is no connection, and who has held one too long.

use std::time::Duration;

use pgsteer::{Conn, Error};
use pgsteer_testkit::Universe;

use crate::log::logged;
use crate::rig::{LIMIT, Rig, becomes, full_pool, key, pool, rig, stays, three};

async fn single() -> Rig {
    rig(Universe::builder().servers(1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_returns_at_the_number_asked_for_and_tells_at_its_deadline_why_not() {
    let universe = rig(Universe::builder()
        .servers(1)
        .configure(0, |spec| spec.max_connections(4)))
    .await;
    let pool = pool(&universe, "pool_size=6&load_balance=false");
    pool.ready(3, LIMIT).await.unwrap();
    let error = pool.ready(100, Duration::from_millis(1500)).await.unwrap_err();
    let Error::CheckoutTimeout(exhausted) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (exhausted.size, exhausted.idle + exhausted.leased),
        (6, 4),
        "{error}"
    );
    assert!(exhausted.waited >= Duration::from_millis(1500), "{error}");
    assert!(error.to_string().contains("53300"), "{error}");
    pool.query_one("SELECT 1", &[]).await.unwrap();
    universe.server(0).set_max_connections(20);
    pool.ready(100, LIMIT).await.unwrap();
    assert_eq!(pool.status().idle, 6, "more than pool_size counts as pool_size");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_held_too_long_is_reported_once_with_the_place_it_was_taken() {
    let universe = single().await;
    let pool = full_pool(
        &universe,
        "pool_size=1&leak_threshold=100ms&record_holders=true&load_balance=false",
    )
    .await;
    let address = universe.server(0).address();
    let reports = || logged(&["WARN", "leak_threshold", &address]);
    let line = line!() + 1;
    let held = pool.get().await.unwrap();
    becomes(1, || reports().len()).await;
    assert!(
        reports()[0].contains(&format!("telling.rs:{line}:")),
        "{:?}",
        reports()
    );
    stays(1, Duration::from_millis(500), || reports().len()).await;
    drop(held);
    let _again = pool.get().await.unwrap();
    becomes(2, || reports().len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_that_runs_out_of_time_tells_who_holds_what_since_when_and_where() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=2&record_holders=true&load_balance=false").await;
    let line = line!() + 1;
    let _oldest = pool.get().await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let _other = pool.get().await.unwrap();
    let error = pool.get_timeout(Duration::from_millis(50)).await.unwrap_err();
    let Error::CheckoutTimeout(exhausted) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (
            exhausted.size,
            exhausted.idle,
            exhausted.leased,
            exhausted.opening
        ),
        (2, 0, 2, 0)
    );
    assert_eq!(exhausted.waiting, 1, "this one");
    assert!(exhausted.waited >= Duration::from_millis(50));
    assert!(
        exhausted.oldest_holder.unwrap() >= Duration::from_millis(70),
        "{error}"
    );
    let place = exhausted.oldest_holder_at.as_deref().unwrap();
    assert!(place.contains(&format!("telling.rs:{line}:")), "{place}");
    assert!(
        error.to_string().contains(place) && error.to_string().contains("2 leased"),
        "{error}"
    );
    assert!(exhausted.failures.is_empty());
    assert_eq!(pool.status().totals.timeouts, 1);
    assert_eq!(pool.status().holders.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_that_runs_out_of_time_tells_what_the_last_connects_failed_with() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=3&failed_host_reconnect_delay_secs=60").await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.get().await.unwrap());
    }
    let lost = key(universe.server(2));
    universe.server(0).set_hba(&["host all all all reject"]);
    universe.server(1).set_hba(&["host all all all reject"]);
    universe.server(2).kill();
    let at = held.iter().position(|conn| *Conn::host(conn) == lost).unwrap();
    drop(held.remove(at));
    becomes(true, || pool.status().totals.open_failures > 0).await;
    let error = pool.get_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(
        matches!(error, Error::CheckoutTimeout(_)),
        "leased connections may come back: {error}"
    );
    let said = error.to_string();
    for server in universe.servers() {
        assert!(said.contains(&server.address()), "{said}");
    }
    assert!(said.contains("refused") && said.contains("28000"), "{said}");
}
