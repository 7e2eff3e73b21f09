//! Placement on three real servers: how a pool's connections spread.

use std::time::Duration;

use pgsteer::{Config, Pool};
use pgsteer_testkit::Universe;

#[tokio::test(flavor = "multi_thread")]
async fn thirty_connections_opened_at_once_spread_evenly() {
    let universe = Universe::builder().servers(3).start();
    let url = format!("{}?load_balance=any&pool_size=30&application_name=spread", universe.url());
    let pool = Pool::start(url.parse::<Config>().unwrap()).unwrap();
    pool.ready(30, Duration::from_secs(20)).await.unwrap();
    assert_eq!(universe.spread("spread"), [10, 10, 10]);
    let row = pool.query_one("SELECT 1", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
    let closed = pool.close(Duration::from_secs(5)).await;
    assert_eq!(closed.still_out, 0);
    assert_eq!(universe.spread("spread"), [0, 0, 0]);
}
