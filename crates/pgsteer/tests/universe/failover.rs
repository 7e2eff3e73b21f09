//! Servers that die while work goes on, and that come back.

use pgsteer::{Conn, Error};
use pgsteer_testkit::Server;

use crate::load::Load;
use crate::log::logged;
use crate::rig::{
    LIMIT, QUICK, backend, backends, becomes, full_pool, get_in_the_end, is_lost, key, pool, soon, spread,
    spread_becomes, three,
};

/// Covers: E-348
#[tokio::test(flavor = "multi_thread")]
async fn killing_a_server_under_load_costs_only_the_statements_in_flight_on_it() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=12&{QUICK}")).await;
    let load = Load::start(&pool, 32);
    load.goes_on(100).await;
    universe.server(1).kill();
    spread_becomes(&pool, &universe, &[6, 0, 6]).await;
    load.goes_on(100).await;
    universe.server(1).start();
    spread_becomes(&pool, &universe, &[4, 4, 4]).await;
    load.goes_on(100).await;
    let lost = load.end().await;
    assert!(
        lost.keys().all(|host| *host == key(universe.server(1))),
        "{lost:?}"
    );
    assert!(
        lost.values().all(|&count| count <= 4),
        "at most one per connection there: {lost:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_fails_no_checkout() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    let load = Load::start(&pool, 16);
    for server in universe.servers() {
        server.stop_fast();
        becomes(6, || spread(&pool, &universe).iter().sum()).await;
        load.goes_on(50).await;
        server.start();
        spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    }
    let lost = load.end().await;
    assert!(
        lost.values().sum::<u64>() <= 9,
        "at most one per connection that was there: {lost:?}"
    );
}

/// Covers: E-260, Q-04
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_back_gets_its_share_a_batch_at_a_time_and_nobody_is_disturbed() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=12&rebalance_batch=1&{QUICK}")).await;
    universe.server(1).stop_fast();
    spread_becomes(&pool, &universe, &[6, 0, 6]).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let conn = pool.get().await.unwrap();
        let process = backend(&conn).await;
        held.push((conn, process));
    }
    let before = pool.status().totals;

    universe.server(1).start();
    let mut most = 0;
    becomes(vec![4, 4, 4], || {
        let status = pool.status();
        most = most.max(status.opening + status.closing);
        spread(&pool, &universe)
    })
    .await;

    assert!(most <= 2, "one at a time closes and opens anew, not {most}");
    assert_eq!(
        pool.status().totals.moved - before.moved,
        4,
        "no more than it takes"
    );
    assert_eq!(pool.status().totals.lost, before.lost);
    for (conn, process) in &held {
        assert_eq!(backend(conn).await, *process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_in_full_use_evens_out_as_connections_come_back() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    universe.server(2).kill();
    spread_becomes(&pool, &universe, &[3, 3, 0]).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(pool.get().await.unwrap());
    }
    universe.server(2).start();
    // Half the difference between three and none.
    becomes(1, || pool.status().draining).await;
    for conn in &held {
        conn.batch_execute("SELECT 1").await.unwrap();
    }
    drop(held);
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
}

/// Covers: E-252, Q-07
#[tokio::test(flavor = "multi_thread")]
async fn with_every_server_down_the_error_names_each_and_with_them_up_it_works_again() {
    let universe = three().await;
    let pool = full_pool(&universe, &format!("pool_size=6&{QUICK}")).await;
    universe.servers().iter().for_each(Server::kill);
    becomes(0, || pool.status().idle).await;
    // An open that was under way when its server died tells another story, so the first errors may differ.
    soon(async {
        loop {
            let error = pool.get_timeout(LIMIT).await.unwrap_err();
            assert!(matches!(error, Error::Connect(_)), "{error}");
            let said = error.to_string();
            for server in universe.servers() {
                assert!(
                    said.contains(&server.address()),
                    "{} is not in: {said}",
                    server.address()
                );
            }
            assert!(
                error.hosts_tried().iter().all(|tried| tried.state == "down"),
                "{said}"
            );
            if error
                .hosts_tried()
                .iter()
                .all(|tried| tried.reason.contains("refused"))
            {
                break;
            }
        }
    })
    .await;
    assert!(!logged(&["WARN", "could not connect to", &universe.server(0).address()]).is_empty());
    universe.servers().iter().for_each(Server::start);
    get_in_the_end(&pool)
        .await
        .batch_execute("SELECT 1")
        .await
        .unwrap();
    spread_becomes(&pool, &universe, &[2, 2, 2]).await;
    becomes(true, || pool.cluster().snapshot().failures.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_started_while_every_server_is_down_fills_when_they_come_up() {
    let universe = three().await;
    universe.servers().iter().for_each(Server::kill);
    let pool = pool(&universe, &format!("pool_size=3&{QUICK}"));
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
    universe.servers().iter().for_each(Server::start);
    spread_becomes(&pool, &universe, &[1, 1, 1]).await;
}

/// Covers: E-249, E-256
#[tokio::test(flavor = "multi_thread")]
async fn connections_terminated_in_bulk_are_replaced_where_they_were_and_no_host_is_marked() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=12&application_name=terminated").await;
    let before = backends(&universe, "terminated");
    assert_eq!(before.len(), 12);
    for server in universe.servers() {
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terminated'",
        );
    }
    becomes(true, || {
        let now = backends(&universe, "terminated");
        now.len() == 12 && now.iter().all(|process| !before.contains(process))
    })
    .await;
    spread_becomes(&pool, &universe, &[4, 4, 4]).await;
    let status = pool.status();
    assert_eq!(
        (
            status.totals.lost,
            status.totals.opened,
            status.totals.open_failures
        ),
        (12, 24, 0)
    );
    assert!(pool.cluster().snapshot().failures.is_empty());
    pool.query_one("SELECT 1", &[]).await.unwrap();
}

/// Covers: E-259
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_terminated_under_a_statement_fails_that_statement_only() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let conn = pool.get().await.unwrap();
    let process = backend(&conn).await;
    let sleep = tokio::spawn(async move { conn.batch_execute("SELECT pg_sleep(1000)").await });
    becomes(true, || {
        let sql = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND query LIKE '%pg_sleep%'");
        !universe.server(0).sql(&sql).is_empty()
    })
    .await;
    universe.server(0).terminate(process);
    let error = soon(sleep).await.unwrap().unwrap_err();
    assert!(is_lost(&error), "{error}");
    let conn = pool.get_timeout(LIMIT).await.unwrap();
    assert_eq!(*Conn::host(&conn), key(universe.server(0)));
    assert_ne!(backend(&conn).await, process);
    assert!(pool.cluster().snapshot().failures.is_empty());
}
