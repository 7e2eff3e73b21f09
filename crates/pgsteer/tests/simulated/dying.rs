//! Servers that die or fall silent under open connections.

use pgsteer::{Conn, Error, Pool};
use pgsteer_sim::{Death, Effect, Scope, Script, Server, Shutdown};

use crate::faults::two_hosts;
use crate::rig::*;

/// A way in which a server goes.
type Ending = (&'static str, fn(&Server));

/// Whatever befalls one of three servers, a pool of fixed size is full again on the others, and even again afterwards.
#[tokio::test(start_paused = true)]
async fn however_a_server_dies_its_connections_move_and_return() {
    let deaths: [Ending; 5] = [
        ("killed", |server| server.kill(Death::Fin)),
        ("reset", |server| server.kill(Death::Rst)),
        ("fast shutdown", |server| server.shut_down(Shutdown::Fast)),
        ("immediate shutdown", |server| {
            server.shut_down(Shutdown::Immediate)
        }),
        ("restarted in an instant", |server| server.restart(Shutdown::Fast)),
    ];
    for (death, die) in deaths {
        let sim = three().build();
        let pool = full(&sim, abc().pool_size(6).yb_servers_refresh_interval(seconds(1))).await;
        die(&sim.server("b"));
        if sim.server("b").is_up() {
            within(death, seconds(2), || {
                pool.status().totals.lost == 2 && pool.status().idle == 6
            })
            .await;
            assert!(
                pool.cluster().snapshot().failures.is_empty(),
                "{death}: it was never refused"
            );
            continue;
        }
        within(death, seconds(2), || {
            placed(&pool.status()) == "a:3 c:3" && pool.status().idle == 6
        })
        .await;
        assert_eq!(names(&pool.cluster().snapshot().failed()), ["b"], "{death}");
        sim.server("b").start();
        within(death, seconds(10), || placed(&pool.status()) == "a:2 b:2 c:2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_under_way_fails_at_once_when_its_server_dies_and_the_next_goes_elsewhere() {
    let deaths = [
        Effect::DieBefore(Death::Fin, Scope::Server),
        Effect::DieBefore(Death::Rst, Scope::Server),
        Effect::DieAfter(Death::Fin, Scope::Server),
        Effect::DieAfter(Death::Rst, Scope::Server),
        Effect::CutAnswer {
            bytes: 7,
            death: Death::Fin,
        },
        Effect::CutAnswer {
            bytes: 3,
            death: Death::Rst,
        },
    ];
    for death in deaths {
        let sim = three().build();
        let pool = full(&sim, two_hosts()).await;
        sim.server("a")
            .script(Script::on("select 1", death.clone()).once());
        let (result, took) = timed(pool.batch_execute("SELECT 1")).await;
        let Err(Error::ConnectionLost(lost)) = &result else {
            panic!("{death:?}: {result:?}")
        };
        assert!(took < millis(5), "{death:?}: {lost:?} after {took:?}");
        let after = pool
            .query_one("SELECT rig_whoami()", &[])
            .await
            .unwrap()
            .get::<_, String>(0);
        assert_eq!(
            after,
            if sim.server("a").is_up() { "a" } else { "b" },
            "{death:?}"
        );
    }
}

/// A server that is gone without a packet is found out by whoever uses it, and holds a slot up for a bounded time.
#[tokio::test(start_paused = true)]
async fn a_silent_death_costs_a_slot_the_return_timeout() {
    let sim = three().build();
    let pool = full(&sim, two_hosts().pool_size(1)).await;
    sim.server("a").kill(Death::Silence);
    let conn = pool.get().await.unwrap();
    assert!(
        tokio::time::timeout(seconds(1), conn.batch_execute("SELECT 1"))
            .await
            .is_err()
    );
    drop(conn);
    let (conn, took) = timed(pool.get_timeout(seconds(60))).await;
    assert_eq!(whoami(&conn.unwrap()).await.0, "b");
    // Cut after 5 s; the replacement finds out that nobody answers within 2 s.
    assert!((seconds(5)..=millis(7010)).contains(&took), "{took:?}");
    assert_eq!(pool.status().totals.cut, 1);
}

#[tokio::test(start_paused = true)]
async fn connections_to_a_host_that_was_replaced_without_a_word_fail_at_their_next_use() {
    let sim = three().build();
    let pool = full(&sim, two_hosts().pool_size(1)).await;
    sim.server("a").kill(Death::Silence);
    pass(seconds(60)).await;
    sim.server("a").start();
    assert!(
        pool.batch_execute("SELECT 1").await.is_err(),
        "the first to use it finds it reset"
    );
    pool.batch_execute("SELECT 1")
        .await
        .expect("and nobody else does");
    assert_eq!(pool.status().totals.lost, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_in_the_middle_of_a_query_does_not_disturb_others() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(6)).await;
    sim.server("b")
        .script(Script::on("select 1", Effect::Hang { cancellable: true }).times(2));
    let mut done = 0;
    for _ in 0..12 {
        let one = async { pool.get().await.unwrap().batch_execute("SELECT 1").await };
        done += usize::from(tokio::time::timeout(seconds(1), one).await.is_ok());
    }
    assert!(done >= 10, "{done}");
    pass(seconds(6)).await;
    assert_eq!(pool.status().idle, 6);
    assert!(
        pool.cluster().snapshot().failures.is_empty(),
        "a query says nothing of its host"
    );
}

/// A server that is cut off from its clients and then reachable again: no answer is lost or doubled.
#[tokio::test(start_paused = true)]
async fn a_short_partition_delays_answers_and_loses_none() {
    let sim = three().build();
    let pool: Pool = full(&sim, two_hosts().pool_size(1)).await;
    let conn = pool.get().await.unwrap();
    let partition = async {
        sim.server("a").partition();
        pass(seconds(20)).await;
        sim.server("a").heal();
    };
    let (row, ()) = tokio::join!(conn.query_one("SELECT 41::int + 1", &[]), partition);
    assert_eq!(row.unwrap().get::<_, i32>(0), 42);
    assert_eq!(
        Conn::transaction_status(&conn),
        Some(pgsteer::TransactionStatus::Idle)
    );
}

/// A server whose answers are no protocol loses its connection and nothing else.
#[tokio::test(start_paused = true)]
async fn nonsense_on_an_open_connection_costs_that_connection() {
    let sim = three().build();
    let pool = full(&sim, two_hosts().pool_size(1)).await;
    sim.server("a")
        .script(Script::on("select 1", Effect::Raw("\u{1}nonsense".into())).once());
    let result = tokio::time::timeout(seconds(1), pool.batch_execute("SELECT 1")).await;
    assert!(!matches!(result, Ok(Ok(()))));
    let conn = pool.get_timeout(seconds(10)).await.unwrap();
    whoami(&conn).await;
    assert!(pool.cluster().snapshot().failures.is_empty());
}
