//! Waiting for a connection: strictly first come, first served, whatever leaves the queue meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::{Conn, Error};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rig::*;

#[tokio::test(start_paused = true)]
async fn callers_are_served_in_the_order_in_which_they_came() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(3)).await;
    let mut random = fastrand::Rng::with_seed(7);
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut callers = JoinSet::new();
    let mut gone = Vec::new();
    for number in 0..300u32 {
        let (pool, served) = (pool.clone(), served.clone());
        let hold = Duration::from_millis(random.u64(0..40));
        // A fifth lose their patience in the queue, some are dropped.
        let patience = if random.u32(0..5) == 0 {
            millis(random.u64(1..300))
        } else {
            seconds(3600)
        };
        let work = random.bool();
        let caller = callers.spawn(async move {
            match pool.get_timeout(patience).await {
                Ok(conn) => {
                    served.lock().unwrap().push(number);
                    if work {
                        conn.batch_execute("SELECT 1").await.unwrap();
                    }
                    tokio::time::sleep(hold).await;
                }
                Err(error) => assert!(matches!(error, Error::CheckoutTimeout(_))),
            }
        });
        if random.u32(0..10) == 0 {
            gone.push(caller);
        }
        if random.u32(0..3) == 0 {
            tokio::time::sleep(millis(random.u64(1..20))).await;
        } else {
            tokio::task::yield_now().await;
        }
        if random.u32(0..20) == 0 {
            gone.drain(..).for_each(|caller| caller.abort());
        }
    }
    while let Some(done) = callers.join_next().await {
        assert!(done.is_ok() || done.unwrap_err().is_cancelled());
    }
    let served = served.lock().unwrap().clone();
    assert!(served.is_sorted(), "{served:?}");
    assert!(served.len() > 150, "{}", served.len());
    assert_eq!((pool.status().idle, pool.status().waiting), (3, 0));
}

/// Nobody overtakes: a checkout that could have an idle connection waits behind those who came before it.
#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let held = pool.get().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(drop) }
    });
    until("somebody waits", || pool.status().waiting == 1).await;
    drop(held);
    assert!(
        pool.try_get().is_none(),
        "it has been given to the one who waited"
    );
    waiting.await.unwrap().unwrap();
    assert!(pool.try_get().is_some());
}

#[tokio::test(start_paused = true)]
async fn every_waiter_ends_at_its_own_time_however_they_come() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let _held = pool.get().await.unwrap();
    let mut callers = JoinSet::new();
    for limit in [5000, 100, 3000, 1, 50, 4999, 700, 100] {
        let pool = pool.clone();
        callers.spawn(async move {
            let started = Instant::now();
            let result = pool.get_timeout(millis(limit)).await;
            (limit, result.map(drop), started.elapsed())
        });
    }
    while let Some(caller) = callers.join_next().await {
        let (limit, result, took) = caller.unwrap();
        assert!(
            matches!(result, Err(Error::CheckoutTimeout(_))),
            "{limit}: {result:?}"
        );
        assert!(
            (millis(limit)..=millis(limit + 2)).contains(&took),
            "{limit}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_takes_what_is_idle_and_waits_for_nothing() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let held = pool.get_timeout(Duration::ZERO).await.unwrap();
    let (result, took) = timed(pool.get_timeout(Duration::ZERO)).await;
    assert!(matches!(result, Err(Error::CheckoutTimeout(_))));
    assert!(took <= millis(1), "{took:?}");
    drop(held);
}

/// Waiters go on waiting while a connection is merely leased: it may come back.
#[tokio::test(start_paused = true)]
async fn waiters_are_not_failed_by_a_failed_open_while_a_connection_is_out() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(2)).await;
    let held = pool.get().await.unwrap();
    sim.servers().iter().for_each(refuse);
    Conn::discard(pool.get().await.unwrap());
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { timed(pool.get_timeout(seconds(30))).await }
    });
    pass(seconds(10)).await;
    assert!(pool.status().totals.open_failures >= 5);
    drop(held);
    let (result, took) = waiting.await.unwrap();
    assert!(result.is_ok() && took >= seconds(10), "{took:?}");
}
