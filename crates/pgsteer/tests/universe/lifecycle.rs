//! A connection's life in a pool: opened, handed out, aged, retired, let go when there are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgsteer::{Conn, ConnRef, Error, Pool};
use pgsteer_testkit::{USER, Universe};

use crate::rig::{
    LIMIT, Rig, backend, backends, becomes, full_pool, key, pool, rig, soon, spread, stays, three,
};

async fn single() -> Rig {
    rig(Universe::builder().servers(1)).await
}

/// Waits until none of these processes is left and as many new ones are there.
async fn all_replaced(universe: &Universe, application: &str, before: &[(usize, i32)]) {
    becomes(true, || {
        let now = backends(universe, application);
        now.len() == before.len() && now.iter().all(|process| !before.contains(process))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_by_url_returns_when_the_first_connection_is_open() {
    let universe = three().await;
    let pool = Pool::connect(&format!("{}?load_balance=any&pool_size=3", universe.url()))
        .await
        .unwrap();
    assert!(pool.try_get().is_some());
    let wrong = format!("postgresql://nobody:wrong@{}/nowhere", universe.addresses());
    let Err(error) = Pool::connect(&wrong).await else {
        panic!("a stranger was let in")
    };
    assert!(matches!(error, Error::Login(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_borrowed_guard_is_as_good_as_an_owned_one() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let (process, uses) = {
        let conn = pool.get_ref().await.unwrap();
        assert_eq!(*ConnRef::host(&conn), key(universe.server(0)));
        (backend(&conn).await, ConnRef::uses(&conn))
    };
    {
        let conn = pool.get().await.unwrap();
        assert_eq!((backend(&conn).await, Conn::uses(&conn)), (process, uses + 1));
    }
    ConnRef::discard(pool.get_ref().await.unwrap());
    let detached = ConnRef::detach(pool.get_ref().await.unwrap());
    assert_ne!(backend(&detached).await, process);
    assert_ne!(
        backend(&pool.get_ref().await.unwrap()).await,
        backend(&detached).await
    );
}

/// Covers: E-244, E-245, E-246
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_counted_where_it_is_and_a_waiter_gets_the_very_one_that_comes_back() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=3&load_balance=false").await;
    let numbers = || (pool.status().leased, pool.status().idle, pool.status().waiting);
    let mut held = vec![pool.get().await.unwrap()];
    assert_eq!(numbers(), (1, 2, 0));
    held.push(pool.get().await.unwrap());
    held.push(pool.get().await.unwrap());
    assert!(matches!(
        pool.get_timeout(Duration::from_millis(50)).await,
        Err(Error::CheckoutTimeout(_))
    ));
    assert_eq!(numbers(), (3, 0, 0));
    let waiter = tokio::spawn({
        let pool = pool.clone();
        async move { backend(&pool.get_timeout(LIMIT).await.unwrap()).await }
    });
    becomes(1, || pool.status().waiting).await;
    let process = backend(&held[1]).await;
    drop(held.remove(1));
    assert_eq!(soon(waiter).await.unwrap(), process);
    drop(held);
    becomes((0, 3, 0), numbers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_served_in_the_order_they_came() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let held = pool.get().await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (waiting, tell) = (pool.clone(), tell.clone());
        tokio::spawn(async move {
            let conn = waiting.get_timeout(LIMIT).await.unwrap();
            tell.send(number).unwrap();
            conn.batch_execute("SELECT 1").await.unwrap();
        });
        becomes(number + 1, || pool.status().waiting).await;
    }
    drop(held);
    for number in 0..20 {
        assert_eq!(soon(told.recv()).await, Some(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_in_the_queue_costs_nobody_a_connection() {
    let universe = single().await;
    let pool = full_pool(&universe, "pool_size=2&load_balance=false").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for patience in 0..12_u64 {
        let (pool, stop): (Pool, _) = (pool.clone(), stop.clone());
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let asked = tokio::time::timeout(Duration::from_micros(patience * 150), async {
                    let conn = pool.get().await.unwrap();
                    conn.batch_execute("SELECT 1").await.unwrap();
                });
                let _ = asked.await;
                tokio::task::yield_now().await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    becomes((2, 0, 0), || {
        (pool.status().idle, pool.status().leased, pool.status().waiting)
    })
    .await;
    pool.query_one("SELECT 1", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn retire_all_replaces_idle_connections_now_and_leased_ones_when_they_come_back() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=6&application_name=retired").await;
    let before = backends(&universe, "retired");
    let held = pool.get().await.unwrap();
    let process = backend(&held).await;
    pool.retire_all();
    becomes(1, || {
        let now = backends(&universe, "retired");
        now.iter().filter(|process| before.contains(process)).count()
    })
    .await;
    becomes(5, || pool.status().idle).await;
    assert_eq!(backend(&held).await, process);
    assert_eq!(pool.status().draining, 1);
    drop(held);
    all_replaced(&universe, "retired", &before).await;
    becomes(6, || pool.status().idle).await;
    let totals = pool.status().totals;
    assert_eq!((totals.opened, totals.lost, totals.open_failures), (12, 0, 0));
    assert_eq!(spread(&pool, &universe), [2, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elastic_pool_grows_with_demand_and_shrinks_to_its_floor() {
    let universe = single().await;
    let pool = pool(
        &universe,
        "pool_size=8&min_idle=2&idle_timeout=300ms&load_balance=false&application_name=elastic",
    );
    pool.ready(2, LIMIT).await.unwrap();
    stays(2, Duration::from_millis(300), || {
        universe.server(0).sessions("elastic")
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(pool.get_timeout(LIMIT).await.unwrap());
    }
    assert_eq!(universe.server(0).sessions("elastic"), 8);
    assert!(
        pool.get_timeout(Duration::from_millis(100)).await.is_err(),
        "pool_size is the limit"
    );
    stays(8, Duration::from_millis(500), || pool.status().leased).await;
    drop(held);
    becomes(2, || universe.server(0).sessions("elastic")).await;
    stays(2, Duration::from_millis(700), || pool.status().idle).await;
    assert_eq!(pool.status().totals.opened, 8);
}

/// Covers: E-250
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_replaced_at_the_end_of_their_lives_which_do_not_end_together() {
    let universe = three().await;
    let options = "pool_size=6&max_lifetime=500ms&lifetime_jitter=2s&application_name=aged";
    let pool = full_pool(&universe, options).await;
    let before = backends(&universe, "aged");
    let old = || {
        let now = backends(&universe, "aged");
        now.iter().filter(|process| before.contains(process)).count()
    };
    becomes(true, || old() < 6).await;
    let first = Instant::now();
    becomes(0, old).await;
    assert!(
        first.elapsed() > Duration::from_millis(100),
        "all gone within {:?}",
        first.elapsed()
    );
    let totals = pool.status().totals;
    assert!(totals.expired >= 6, "{totals:?}");
    assert_eq!((totals.lost, totals.open_failures), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_connection_that_has_aged_is_replaced_when_it_comes_back() {
    let universe = single().await;
    let pool = full_pool(
        &universe,
        "pool_size=1&max_lifetime=200ms&lifetime_jitter=0s&load_balance=false",
    )
    .await;
    let conn = pool.get_timeout(LIMIT).await.unwrap();
    let process = backend(&conn).await;
    becomes(1, || pool.status().draining).await;
    assert_eq!(backend(&conn).await, process);
    drop(conn);
    assert_ne!(backend(&pool.get_timeout(LIMIT).await.unwrap()).await, process);
}

/// Tells apart what a pool sends by itself from what a test does: it does nothing.
///
/// Covers: E-257
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_pool_sends_nothing_through_sixty_looks_at_its_spread() {
    let universe = rig(Universe::builder()
        .servers(3)
        .configure_all(|spec| spec.log_statements()))
    .await;
    let pool = full_pool(
        &universe,
        "pool_size=6&rebalance_interval=50ms&application_name=quiet",
    )
    .await;
    let heard = || -> Vec<(usize, usize)> {
        let logs = universe.servers().iter().map(|server| server.log());
        logs.map(|log| (log.activity("quiet"), log.login_attempts(USER)))
            .collect()
    };
    // Discovery's own session ends in the background.
    becomes(6, || universe.spread("quiet").iter().sum()).await;
    let before = heard();
    stays(before, Duration::from_millis(3500), heard).await;
    assert_eq!(pool.status().totals.opened, 6);
    // The log would have shown it.
    let before = heard();
    pool.query_one("SELECT 1", &[]).await.unwrap();
    becomes(true, || heard() != before).await;
}
