//! A pool's life: filling, checkouts and returns, deaths and lifetimes.

use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::{Conn, Error, Pool};
use pgsteer_sim::{Death, Effect, Script, ServerSpec};

use crate::rig::*;

/// Covers: E-241
#[tokio::test(start_paused = true)]
async fn six_connections_are_two_on_each_of_three_servers() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(6)).await;
    assert_eq!(placed(&pool.status()), "a:2 b:2 c:2");
}

/// Covers: E-242
#[tokio::test(start_paused = true)]
async fn opening_waits_for_the_first_discovery_and_uses_no_seed() {
    let sim = behind_lb();
    sim.server("lb")
        .script(Script::on("yb_servers", Effect::Delay(millis(600))));
    let pool = start(&sim, config(&["lb"]).pool_size(3));
    let opening = || (pool.status().opening, pool.status().idle);
    pass(millis(1)).await;
    assert_eq!(opening(), (1, 0), "the first is alone");
    pass(millis(501)).await;
    assert_eq!(opening(), (3, 0), "but not for long");
    pool.ready(3, seconds(2)).await.unwrap();
    assert_eq!(placed(&pool.status()), "a:1 b:1 c:1");
    assert_eq!(attempts(&sim, "lb"), 1, "discovery's own");
}

/// A host that answers nothing would hold the first connection up for as long as a connection may take to open.
#[tokio::test(start_paused = true)]
async fn a_first_host_that_is_frozen_delays_the_start_by_half_a_second_at_most() {
    let sim = three().build();
    for frozen in ["a", "c"] {
        sim.server(frozen).freeze();
    }
    let pool = start(&sim, config(&["b"]).pool_size(3));
    let (conn, took) = timed(pool.get()).await;
    assert_eq!(whoami(&conn.unwrap()).await.0, "b");
    assert!((millis(500)..=millis(510)).contains(&took), "{took:?}");
}

/// Covers: E-243
#[tokio::test(start_paused = true)]
async fn without_load_balancing_all_are_on_the_first_host_and_nobody_is_asked_for_servers() {
    let sim = three().server(ServerSpec::new("d")).build();
    let pool = full(&sim, abc().load_balance(LoadBalance::Off).pool_size(6)).await;
    assert_eq!(placed(&pool.status()), "a:6");
    pass(millis(300)).await;
    assert_eq!(placed(&pool.status()), "a:6");
    let snapshot = pool.cluster().snapshot();
    assert!(!snapshot.discovering && !snapshot.discovered);
    assert_eq!(discoveries(&sim), 0);
}

/// Covers: E-244
#[tokio::test(start_paused = true)]
async fn a_checkout_and_a_return_show_in_the_numbers() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(3)).await;
    let conn = pool.get().await.unwrap();
    let status = pool.status();
    assert_eq!((status.leased, status.idle), (1, 2));
    drop(conn);
    let status = pool.status();
    assert_eq!((status.leased, status.idle), (0, 3));
}

/// Covers: E-245
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_very_connection_that_comes_back() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let first = pool.get().await.unwrap();
    let whose = whoami(&first).await;
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { whoami(&pool.get().await.unwrap()).await }
    });
    until("somebody waits", || pool.status().waiting == 1).await;
    // Its last answer has been read before it comes back.
    pass(millis(1)).await;
    drop(first);
    assert_eq!(waiting.await.unwrap(), whose);
    assert_eq!(pool.status().totals.opened, 1);
}

/// Covers: E-246
#[tokio::test(start_paused = true)]
async fn a_checkout_that_runs_out_of_time_leaves_no_trace() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let held = pool.get().await.unwrap();
    let (result, took) = timed(pool.get_timeout(millis(100))).await;
    assert!(matches!(result, Err(Error::CheckoutTimeout(_))));
    assert!((millis(100)..=millis(102)).contains(&took), "{took:?}");
    drop(held);
    let status = pool.status();
    assert_eq!((status.idle, status.waiting, status.leased), (1, 0, 0));
}

/// Covers: E-248, E-316
#[tokio::test(start_paused = true)]
async fn a_holder_that_panics_loses_the_connection_and_not_the_slot() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(2)).await;
    let before = sessions(&sim);
    let holder = tokio::spawn({
        let pool = pool.clone();
        async move {
            let _conn = pool.get().await.unwrap();
            panic!("the holder's own trouble");
        }
    });
    let panic = holder.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the holder's own trouble"));
    until("the slot is refilled", || pool.status().idle == 2).await;
    assert_eq!(pool.status().leased, 0);
    let after = sessions(&sim);
    assert_eq!(
        before.iter().filter(|session| after.contains(session)).count(),
        1,
        "one was closed"
    );
    assert_eq!(after.len(), 2);
}

/// A task that is aborted drops its guard in the ordinary way: what it left behind is cleaned up.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_task_is_aborted_gives_the_connection_back() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let holder = tokio::spawn({
        let pool = pool.clone();
        async move {
            let conn = pool.get().await.unwrap();
            conn.batch_execute("BEGIN; SELECT pg_sleep(1000)").await
        }
    });
    until("it sleeps", || {
        sim.sessions().iter().any(|session| session.running.is_some())
    })
    .await;
    pass(millis(1)).await;
    holder.abort();
    let conn = pool.get_timeout(seconds(5)).await.unwrap();
    assert_eq!(
        Conn::transaction_status(&conn),
        Some(pgsteer::TransactionStatus::Idle)
    );
    assert_eq!(
        pool.status().totals.opened,
        1,
        "cancelled and rolled back, not closed"
    );
}

/// Covers: E-249, E-256
#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_dies_is_replaced_on_its_host_which_is_not_marked() {
    let sim = three().build();
    let pool = full(&sim, config(&["b"]).pool_size(3)).await;
    let before = attempts(&sim, "a");
    let session = sim.server("a").sessions()[0].id;
    sim.kill_session(session, Death::Fin);
    until("it is replaced", || {
        pool.status().totals.opened == 4 && pool.status().idle == 3
    })
    .await;
    assert_eq!(attempts(&sim, "a"), before + 1);
    assert_eq!(placed(&pool.status()), "a:1 b:1 c:1");
    assert!(pool.cluster().snapshot().failures.is_empty());
    assert_eq!(pool.status().totals.lost, 1);
}

/// Covers: E-250
#[tokio::test(start_paused = true)]
async fn connections_past_their_life_are_replaced_though_nobody_asks() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(3).max_lifetime(millis(200))).await;
    let first = sessions(&sim);
    within("all are replaced", seconds(3), || {
        let now = sessions(&sim);
        first.iter().all(|session| !now.contains(session))
    })
    .await;
    assert!(pool.status().totals.expired >= 3);
}

/// Covers: E-252
#[tokio::test(start_paused = true)]
async fn with_every_host_down_a_checkout_fails_with_the_reason_before_its_time_is_up() {
    let sim = three().build();
    sim.servers().iter().for_each(refuse);
    let pool = start(&sim, abc().pool_size(2));
    let (result, took) = timed(pool.get_timeout(seconds(3))).await;
    let Err(Error::Connect(failed)) = &result else {
        panic!("{result:?}")
    };
    assert_eq!(failed.tried.len(), 3);
    assert!(
        failed
            .tried
            .iter()
            .all(|tried| tried.reason.contains("connection refused")),
        "{result:?}"
    );
    assert!(took < seconds(3), "{took:?}");
}

/// Covers: E-257
#[tokio::test(start_paused = true)]
async fn an_idle_pool_sends_nothing_and_reconnects_when_the_server_closes() {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).load_balance(LoadBalance::Off).pool_size(1)).await;
    let received = sim.server("a").counts().received;
    // More than fifty looks at the spread.
    pass(millis(5500)).await;
    assert_eq!(sim.server("a").counts().received, received);
    let session = sim.sessions()[0].id;
    sim.kill_session(session, Death::Fin);
    until("it is replaced", || sim.live() == 1 && pool.status().idle == 1).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_idle_pool_sends_nothing_for_as_long_as_its_connections_live() {
    let sim = three().build();
    let day = seconds(24 * 3600);
    let pool = full(
        &sim,
        abc()
            .load_balance(LoadBalance::Off)
            .pool_size(10)
            .max_lifetime(day)
            .rebalance_interval(seconds(30)),
    )
    .await;
    let received = sim.server("a").counts().received;
    pass(day / 2).await;
    assert_eq!(sim.server("a").counts().received, received);
    assert_eq!(pool.status().totals.opened, 10);
}

/// Covers: E-259
#[tokio::test(start_paused = true)]
async fn a_connection_killed_under_a_query_is_an_error_for_its_holder_alone() {
    let sim = three().build();
    let pool = full(
        &sim,
        config(&["a", "b"]).load_balance(LoadBalance::Off).pool_size(1),
    )
    .await;
    for death in [Death::Fin, Death::Rst] {
        let conn = pool.get().await.unwrap();
        let session = sim.sessions()[0].id;
        let (result, ()) = tokio::join!(conn.batch_execute("SELECT pg_sleep(1000)"), async {
            pass(seconds(1)).await;
            sim.kill_session(session, death);
        });
        assert!(matches!(result, Err(Error::ConnectionLost(_))), "{death}");
        assert!(conn.is_closed(), "{death}");
        drop(conn);
        let conn = pool.get().await.unwrap();
        assert_eq!(whoami(&conn).await.0, "a");
        assert!(pool.cluster().snapshot().failures.is_empty());
    }
    assert_eq!(pool.status().totals.lost, 2);
}

/// A pool of any size has no more sessions on the servers than that, while everything is replaced under load.
#[tokio::test(start_paused = true)]
async fn replacing_every_connection_never_takes_more_than_the_size() {
    let sim = three().build();
    let config = abc()
        .pool_size(8)
        .application_name("sized")
        .load_balance(LoadBalance::Off);
    let pool = full(&sim, config).await;
    for round in 0..20 {
        let held = pool.get().await.unwrap();
        pool.retire_all();
        if round % 3 == 0 {
            sim.server("a").terminate_all();
        }
        pass(millis(20)).await;
        drop(held);
        until("it is full again", || pool.status().idle == 8).await;
    }
    assert_eq!(sim.most_live_of("sized"), 8);
}

#[tokio::test(start_paused = true)]
async fn a_detached_connection_is_the_holders_own_and_is_replaced() {
    let sim = three().build();
    let pool = full(&sim, config(&["a"]).load_balance(LoadBalance::Off).pool_size(2)).await;
    let client = Conn::detach(pool.get().await.unwrap());
    until("it is replaced", || pool.status().idle == 2).await;
    assert_eq!(counted(&pool.cluster().snapshot()), "a:3");
    pool.close(seconds(1)).await;
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(sim.live(), 1);
    drop(client);
    until("it is closed", || sim.live() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_elastic_pool_grows_with_those_who_wait_and_shrinks_when_they_are_gone() {
    let sim = three().build();
    let config = abc().pool_size(8).min_idle(2).idle_timeout(seconds(30));
    let pool = start(&sim, config);
    pool.ready(2, seconds(5)).await.unwrap();
    pass(seconds(5)).await;
    assert_eq!(pool.status().idle, 2);
    let mut held = Vec::new();
    for _ in 0..8 {
        let (conn, took) = timed(pool.get()).await;
        held.push(conn.unwrap());
        assert!(took <= millis(10), "{took:?}");
    }
    drop(held);
    assert_eq!(pool.status().idle, 8);
    pass(seconds(29)).await;
    assert_eq!(pool.status().idle, 8);
    pass(seconds(5)).await;
    assert_eq!(pool.status().idle, 2);
    assert_eq!(sim.live(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_elastic_pool_without_a_floor_closes_its_last_connection_and_opens_on_demand() {
    let sim = three().build();
    let pool: Pool = start(&sim, abc().pool_size(4).min_idle(0).idle_timeout(seconds(1)));
    pass(seconds(10)).await;
    assert_eq!(pool.status().totals.opened, 0);
    pool.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(pool.status().totals.opened, 1);
    pass(seconds(5)).await;
    assert_eq!((sim.live(), pool.status().idle), (0, 0));
    let (answer, took) = timed(pool.query_one("SELECT 7::int", &[])).await;
    assert_eq!(answer.unwrap().get::<_, i32>(0), 7);
    assert!(took < Duration::from_millis(10), "{took:?}");
}
