//! Three real servers, load on the pool, and a server that dies, freezes or comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pgsteer::{Config, Error, Pool};
use pgsteer_testkit::Universe;
use tokio::task::JoinSet;

fn config(universe: &Universe, parameters: &str) -> Config {
    format!("{}?load_balance=any&{parameters}", universe.url()).parse().unwrap()
}

/// Waits, in small steps, until the pool's spread over the universe's servers is `wanted`.
async fn spread_becomes(pool: &Pool, universe: &Universe, wanted: &[u32], limit: Duration) {
    let spread = || -> Vec<u32> {
        let by_host = pool.status().by_host;
        let key = |server: &pgsteer_testkit::Server| pgsteer::HostKey::new(server.host(), server.port());
        universe.servers().iter().map(|server| by_host.get(&key(server)).copied().unwrap_or(0)).collect()
    };
    let reached = tokio::time::timeout(limit, async {
        while spread() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(reached.await.is_ok(), "wanted {wanted:?}, have {:?}: {:?}", spread(), pool.status());
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_a_server_under_load_costs_only_the_queries_in_flight_on_it() {
    let universe = Universe::builder().servers(3).start();
    let pool = Pool::start(config(
        &universe,
        "pool_size=12&application_name=load&failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1\
         &rebalance_interval=200ms",
    ))
    .unwrap();
    pool.ready(12, Duration::from_secs(20)).await.unwrap();
    spread_becomes(&pool, &universe, &[4, 4, 4], Duration::from_secs(1)).await;

    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (pool, stop, done) = (pool.clone(), stop.clone(), done.clone());
        tasks.spawn(async move {
            let mut lost = 0;
            while !stop.load(Ordering::Relaxed) {
                match pool.batch_execute("SELECT pg_sleep(0.002)").await {
                    Ok(()) => {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::Postgres(error)) if error.is_closed() || error.as_db_error().is_none() => lost += 1,
                    Err(other) => panic!("an error other than a query lost in flight: {other}"),
                }
            }
            lost
        });
    }
    tokio::task::block_in_place(|| universe.server(1).kill());
    spread_becomes(&pool, &universe, &[6, 0, 6], Duration::from_secs(10)).await;
    let before = done.load(Ordering::Relaxed);
    tokio::task::block_in_place(|| universe.server(1).start());
    spread_becomes(&pool, &universe, &[4, 4, 4], Duration::from_secs(20)).await;
    stop.store(true, Ordering::Relaxed);
    let lost: u64 = tasks.join_all().await.into_iter().sum();
    assert!(lost <= 4, "at most one query per connection on the killed server is lost, {lost} were");
    assert!(done.load(Ordering::Relaxed) > before, "work went on");
}
