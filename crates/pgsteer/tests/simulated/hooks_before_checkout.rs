//! `before_checkout` may refuse a connection; its caller gets another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pgsteer::config::LoadBalance;
use pgsteer::{Conn, Error};

use crate::rig::*;

#[tokio::test(start_paused = true)]
async fn it_sees_each_connection_with_its_host_age_and_uses_and_nothing_is_sent_for_it() {
    let sim = three().build();
    let asked = Arc::new(AtomicUsize::new(0));
    let config = abc()
        .load_balance(LoadBalance::Off)
        .pool_size(1)
        .before_checkout({
            let asked = asked.clone();
            move |candidate| {
                let count = asked.fetch_add(1, Ordering::Relaxed) as u64 + 1;
                assert_eq!(candidate.host(), &key("a"));
                assert_eq!(candidate.uses(), count);
                assert!(candidate.age() >= seconds(10), "{:?}", candidate.age());
                !candidate.client().is_closed()
            }
        });
    let pool = full(&sim, config).await;
    pass(seconds(10)).await;
    let received = sim.server("a").counts().received;
    drop(pool.get().await.unwrap());
    drop(pool.get_ref().await.unwrap());
    drop(pool.try_get().unwrap());
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(sim.server("a").counts().received, received);
    assert_eq!(pool.status().totals.refused, 0);
}

/// However the caller came by it: at once, after a wait, or by `try_get`.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_replaced_and_the_caller_gets_another() {
    let sim = three().build();
    let least = Arc::new(AtomicU64::new(0));
    let started = tokio::time::Instant::now();
    let config = abc().pool_size(2).before_checkout({
        let least = least.clone();
        move |candidate| {
            let opened = started.elapsed().saturating_sub(candidate.age());
            opened.as_millis() as u64 >= least.load(Ordering::Relaxed)
        }
    });
    let pool = full(&sim, config).await;
    pass(seconds(10)).await;
    let held = pool.get().await.unwrap();
    let (_, old) = whoami(&held).await;

    // when everything opened so far is refused from now on
    least.store(started.elapsed().as_millis() as u64, Ordering::Relaxed);
    let waiter = tokio::spawn({
        let pool = pool.clone();
        async move { whoami(&pool.get_timeout(seconds(20)).await.unwrap()).await.1 }
    });
    pass(millis(100)).await;
    assert_ne!(waiter.await.unwrap(), old);
    drop(held);
    assert!(pool.try_get().is_some_and(|conn| Conn::age(&conn) < seconds(1)));
    let conn = pool.get_timeout(seconds(20)).await.unwrap();
    assert!(Conn::age(&conn) < seconds(1));
    drop(conn);
    until("the pool is whole", || pool.status().idle == 2).await;
    assert_eq!(pool.status().totals.refused, 2);
    assert!(pool.snapshot().failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_refuses_everything_fails_checkouts_by_their_time_and_has_no_host_dialled_in_a_circle() {
    let sim = three().build();
    let refuses = Arc::new(AtomicBool::new(true));
    let config = abc().pool_size(2).before_checkout({
        let refuses = refuses.clone();
        move |_| !refuses.load(Ordering::Relaxed)
    });
    let pool = full(&sim, config).await;
    let (error, took) = timed(pool.get_timeout(seconds(10))).await;
    assert!(matches!(error, Err(Error::CheckoutTimeout(_))), "{error:?}");
    assert_eq!(took, seconds(10));
    let refused = pool.status().totals.refused;
    assert!((10..=60).contains(&refused), "a few a second: {refused}");
    refuses.store(false, Ordering::Relaxed);
    assert!(pool.get_timeout(seconds(5)).await.is_ok());
    until("the pool is whole", || pool.status().idle == 2).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_panics_refuses() {
    let sim = three().build();
    let calls = Arc::new(AtomicUsize::new(0));
    let config = abc()
        .load_balance(LoadBalance::Off)
        .pool_size(1)
        .before_checkout({
            let calls = calls.clone();
            move |_| {
                assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first");
                true
            }
        });
    let pool = full(&sim, config).await;
    assert!(pool.get_timeout(seconds(5)).await.is_ok());
    until("the pool is whole", || pool.status().idle == 1).await;
    let totals = pool.status().totals;
    assert_eq!((totals.refused, totals.opened), (1, 2));
}
