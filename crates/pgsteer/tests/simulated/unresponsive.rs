//! A server that is frozen: its sockets stay open, and nothing comes from them.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use pgsteer::Conn;
use pgsteer::config::TargetSessionAttrs::ReadWrite;
use tokio::time::Instant;

use crate::rig::*;
use crate::roles::{ALL, ordered, primary_and_standbys};

/// Polls the work once, so that its request is on its way, and drops it.
async fn begun_and_dropped(work: impl Future) {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        assert!(work.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn callers_that_gave_up_on_a_frozen_primary_are_served_by_the_new_one_soon_after() {
    let sim = primary_and_standbys();
    let config = ordered(&ALL, ReadWrite).pool_size(2).connect_timeout(seconds(2));
    let pool = full(&sim, config).await;
    let held = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    sim.server("pg1").freeze();
    sim.server("pg2").promote();
    for conn in &held {
        begun_and_dropped(conn.simple_query("SELECT 1")).await;
    }
    let gave_up = Instant::now();
    drop(held);
    let conn = pool.get_timeout(seconds(20)).await.unwrap();
    assert_eq!(Conn::host(&conn), &key("pg2"));
    // The slot is held for `return_timeout`, 5 s. By then the old primary is known to be down, so that no more is lost.
    assert!(gave_up.elapsed() <= millis(5200), "{:?}", gave_up.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_react_to_a_cancel_request_is_asked_at_once() {
    let sim = primary_and_standbys();
    let config = ordered(&ALL, ReadWrite).pool_size(1).connect_timeout(seconds(3));
    let pool = full(&sim, config).await;
    let held = pool.get().await.unwrap();
    sim.server("pg1").freeze();
    begun_and_dropped(held.simple_query("SELECT 1")).await;
    drop(held);
    within("it is known to be down", millis(6000), || {
        pool.cluster().snapshot().failed() == [key("pg1")]
    })
    .await;
}
