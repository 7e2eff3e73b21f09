//! A server that is frozen: its sockets stay open, and nothing comes from them.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use std::time::Duration;

use pgsteer::config::TargetSessionAttrs::ReadWrite;
use pgsteer::{Conn, Pool};
use pgsteer_sim::{Effect, Script, Sim};
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

const SILENCE: Duration = Duration::from_secs(1);

/// Two connections on each of a, b and c, and those on b.
async fn two_on_each() -> (Sim, Pool, [Conn; 2]) {
    let sim = three().build();
    let config = abc()
        .pool_size(6)
        .connect_timeout(seconds(2))
        .stall_timeout(SILENCE);
    let pool = full(&sim, config).await;
    let mut on_b = Vec::new();
    let mut others = Vec::new();
    for _ in 0..6 {
        let conn = pool.get().await.unwrap();
        match Conn::host(&conn) == &key("b") {
            true => on_b.push(conn),
            false => others.push(conn),
        }
    }
    let on_b = on_b.try_into().expect("there are two");
    (sim, pool, on_b)
}

/// One caller waits in vain; those after it are served by others.
#[tokio::test(start_paused = true)]
async fn callers_do_not_meet_the_connections_of_a_frozen_host_one_after_the_other() {
    let (sim, pool, [first, second]) = two_on_each().await;
    drop(second);
    sim.server("b").freeze();
    first.batch_execute("SELECT 1").await.unwrap_err();
    drop(first);
    within("none is left on b", seconds(3), || {
        placed(&pool.status()) == "a:3 c:3"
    })
    .await;
    assert_eq!(pool.status().totals.closes.frozen, 1);
    let mut held = Vec::new();
    for _ in 0..6 {
        let conn = pool.get().await.unwrap();
        let (answer, took) = timed(conn.batch_execute("SELECT 1")).await;
        answer.unwrap();
        assert!(took < millis(100), "{took:?}");
        held.push(conn);
    }
    drop(held);
    // It is used again once it is back.
    sim.server("b").thaw();
    within("two on each", seconds(600), || {
        placed(&pool.status()) == "a:2 b:2 c:2"
    })
    .await;
}

/// It goes by cancel requests that are not answered, too.
#[tokio::test(start_paused = true)]
async fn a_frozen_host_is_found_out_by_a_query_that_was_given_up() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(6).connect_timeout(seconds(2))).await;
    let mut held = Vec::new();
    while held.last().map(Conn::host) != Some(&key("b")) {
        held.push(pool.get().await.unwrap());
    }
    let conn = held.pop().unwrap();
    drop(held);
    sim.server("b").freeze();
    begun_and_dropped(conn.simple_query("SELECT 1")).await;
    drop(conn);
    within("none is left on b", seconds(6), || {
        placed(&pool.status()) == "a:3 c:3"
    })
    .await;
    let closes = pool.status().totals.closes;
    assert_eq!((closes.frozen, closes.unclean), (1, 1));
}

/// A host that takes no new connection for a while, and on which one statement hangs, works for all the others.
#[tokio::test(start_paused = true)]
async fn connections_that_are_answered_stay_though_their_host_takes_no_new_one() {
    let (sim, pool, [first, second]) = two_on_each().await;
    blackhole(&sim.server("b"));
    sim.server("b")
        .script(Script::on("'hangs'", Effect::Hang { cancellable: false }).once());
    let busy = async {
        for _ in 0..100 {
            second.batch_execute("SELECT 1").await.unwrap();
            pass(millis(100)).await;
        }
    };
    let stalled = async {
        first.batch_execute("SELECT 'hangs'").await.unwrap_err();
        drop(first);
    };
    futures_util::future::join(busy, stalled).await;
    assert_eq!(pool.cluster().snapshot().failed(), [key("b")]);
    assert!(pool.cluster().snapshot().frozen.is_empty());
    let pid = whoami(&second).await.1;
    drop(second);
    pass(seconds(1)).await;
    assert_eq!(pool.status().totals.closes.frozen, 0);
    assert!(sim.sessions().iter().any(|session| session.pid == pid));
}
