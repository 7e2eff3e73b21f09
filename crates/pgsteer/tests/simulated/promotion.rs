//! Through failovers: the primary dies or steps back, a standby is promoted, and the pools are where they should be.

use std::time::Duration;

use pgsteer::config::TargetSessionAttrs::{PreferStandby, ReadWrite};
use pgsteer::{Conn, Error, Pool};
use pgsteer_sim::{Death, ServerSpec, Sim};
use tokio::time::Instant;

use crate::log_lines::Lines;
use crate::rig::*;
use crate::roles::{ALL, ordered, primary_and_standbys};

/// The longest step in which a pool asks again while nothing fits, and a connect.
const STEP: Duration = Duration::from_millis(2010);

/// A pool of two that writes, full on the primary.
async fn writing(sim: &Sim) -> Pool {
    full(sim, ordered(&ALL, ReadWrite).pool_size(2)).await
}

/// Covers: F-13, R-01
#[tokio::test(start_paused = true)]
async fn a_waiting_checkout_is_served_within_one_step_of_the_promotion() {
    for outage in [millis(0), millis(90), millis(900), seconds(7), seconds(60)] {
        let sim = primary_and_standbys();
        let pool = writing(&sim).await;
        sim.server("pg1").kill(Death::Rst);
        pass(millis(5)).await;
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move {
                pool.get_timeout(seconds(120))
                    .await
                    .map(|conn| Conn::host(&conn).clone())
            }
        });
        pass(outage).await;
        let promoted = Instant::now();
        sim.server("pg2").promote();
        assert_eq!(waiting.await.unwrap().unwrap(), key("pg2"), "{outage:?}");
        assert!(promoted.elapsed() <= STEP, "{outage:?}: {:?}", promoted.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_over_in_a_short_step() {
    let sim = primary_and_standbys();
    let pool = writing(&sim).await;
    sim.server("pg1").kill(Death::Rst);
    pass(millis(300)).await;
    sim.server("pg2").promote();
    let (conn, took) = timed(pool.get()).await;
    drop(conn.unwrap());
    assert!(
        took <= millis(510),
        "steps begin at a quarter of a second: {took:?}"
    );
}

/// Covers: F-13, Q-07
#[tokio::test(start_paused = true)]
async fn a_caller_is_told_at_its_deadline_what_every_host_is() {
    let sim = primary_and_standbys();
    let pool = writing(&sim).await;
    sim.server("pg1").kill(Death::Rst);
    pass(seconds(20)).await;
    let (result, took) = timed(pool.get_timeout(millis(700))).await;
    let error = result.unwrap_err();
    assert_eq!(took, millis(700));
    let Error::CheckoutTimeout(exhausted) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(exhausted.nothing_fits, Some(ReadWrite));
    let mut states = tried(&error).split(", ").map(str::to_owned).collect::<Vec<_>>();
    states.sort();
    assert_eq!(states, ["pg1 down", "pg2 is a standby", "pg3 is a standby"]);
    let text = error.to_string();
    assert!(
        text.contains("no host fits target_session_attrs=read-write: ") && text.contains(" ago)"),
        "{text}"
    );
    // What is told is what was seen lately, not what was seen first.
    assert!(
        exhausted.failures.iter().all(|tried| tried.age <= seconds(3)),
        "{text}"
    );
}

/// Covers: F-03
#[tokio::test(start_paused = true)]
async fn an_old_primary_that_swallows_packets_does_not_hold_up_the_steps() {
    for delay in [0, 1, 5, 60] {
        let sim = primary_and_standbys();
        let config = ordered(&ALL, ReadWrite)
            .pool_size(2)
            .connect_timeout(seconds(10))
            .failed_host_reconnect_delay_secs(delay);
        let pool = full(&sim, config).await;
        blackhole(&sim.server("pg1"));
        sim.server("pg1").terminate_all();
        // The first search pays for it, once.
        pass(seconds(25)).await;
        let asked = attempts(&sim, "pg2");
        pass(seconds(20)).await;
        let asked = attempts(&sim, "pg2") - asked;
        assert!(asked >= 9, "{asked} times in 20 s, with a delay of {delay} s");
        sim.server("pg2").promote();
        let (conn, took) = timed(pool.get()).await;
        assert_eq!(Conn::host(&conn.unwrap()), &key("pg2"));
        assert!(took <= STEP, "{took:?}, with a delay of {delay} s");
    }
}

/// The primary was away for a moment and is the same again.
#[tokio::test(start_paused = true)]
async fn a_primary_that_is_back_is_found_by_the_probes_beside_the_steps() {
    for (delay, away) in [(0, 300), (1, 3_000), (5, 3_000), (60, 30_000)] {
        let sim = primary_and_standbys();
        let config = ordered(&ALL, ReadWrite)
            .pool_size(2)
            .failed_host_reconnect_delay_secs(delay);
        let pool = full(&sim, config).await;
        sim.server("pg1").kill(Death::Rst);
        pass(millis(away)).await;
        sim.server("pg1").start();
        let (conn, took) = timed(pool.get()).await;
        assert_eq!(Conn::host(&conn.unwrap()), &key("pg1"));
        assert!(took <= STEP, "{took:?}, with a delay of {delay} s");
    }
}

///
#[tokio::test(start_paused = true)]
async fn no_write_on_a_connection_opened_after_the_promotion_is_refused_as_read_only() {
    let sim = primary_and_standbys();
    let pool = full(
        &sim,
        ordered(&ALL, ReadWrite)
            .pool_size(4)
            .yb_servers_refresh_interval(seconds(1)),
    )
    .await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let (mut written, mut refused) = (0, 0);
                let until = Instant::now() + seconds(30);
                while Instant::now() < until {
                    let id = writer * 1_000_000 + written;
                    let insert = format!("INSERT INTO ledger VALUES ({id})");
                    match pool.batch_execute(&insert).await {
                        Ok(()) => written += 1,
                        Err(error) => refused += i32::from(error.code() == Some("25006")),
                    }
                    tokio::time::sleep(millis(7)).await;
                }
                (written, refused)
            })
        })
        .collect();
    pass(seconds(5)).await;
    sim.server("pg1").kill(Death::Rst);
    // The old primary is back as a standby, and taken for a primary still, before there is a new one.
    sim.server("pg1").demote();
    sim.server("pg1").start();
    pass(seconds(3)).await;
    sim.server("pg3").promote();
    for writer in writers {
        let (written, refused) = writer.await.unwrap();
        assert!(
            written > 100 && refused == 0,
            "{written} written, {refused} refused"
        );
    }
    assert_eq!(placed(&pool.status()), "pg3:4");
}

/// Covers: F-16, Q-01
#[tokio::test(start_paused = true)]
async fn an_old_primary_that_returns_as_a_standby_gets_no_connection() {
    let sim = primary_and_standbys();
    let pool = full(
        &sim,
        ordered(&ALL, ReadWrite)
            .pool_size(2)
            .yb_servers_refresh_interval(seconds(1)),
    )
    .await;
    sim.server("pg1").kill(Death::Fin);
    sim.server("pg2").promote();
    within("the pool has moved", seconds(5), || {
        placed(&pool.status()) == "pg2:2"
    })
    .await;
    sim.server("pg1").demote();
    sim.server("pg1").start();
    pool.retire_all();
    pass(seconds(30)).await;
    assert_eq!(placed(&pool.status()), "pg2:2");
    assert!(names(&pool.snapshot().unfit).contains(&"pg1"));
    assert!(pool.snapshot().failures.is_empty(), "a standby has not failed");
}

/// The server is exchanged under open sessions, as a proxy or a virtual address does it.
///
/// Covers: F-18, V-08, Q-28
#[tokio::test(start_paused = true)]
async fn a_refused_write_moves_the_pool_by_itself() {
    let sim = primary_and_standbys();
    let pool = writing(&sim).await;
    sim.server("pg1").demote();
    sim.server("pg2").promote();
    let insert = "INSERT INTO ledger VALUES (1)";
    assert_eq!(
        pool.batch_execute(insert).await.unwrap_err().code(),
        Some("25006")
    );
    within("all have moved", seconds(3), || placed(&pool.status()) == "pg2:2").await;
    pool.batch_execute(insert).await.unwrap();
    assert!(pool.snapshot().failures.is_empty(), "the host has not failed");
}

/// Covers: F-18, V-08
#[tokio::test(start_paused = true)]
async fn the_connection_of_a_refused_write_is_never_handed_out_again_in_or_out_of_a_transaction() {
    for begin in ["", "BEGIN"] {
        let sim = primary_and_standbys();
        let pool = full(&sim, ordered(&ALL, ReadWrite).pool_size(1)).await;
        sim.server("pg1").demote();
        let conn = pool.get().await.unwrap();
        let backend = whoami(&conn).await.1;
        conn.batch_execute(begin).await.unwrap();
        conn.batch_execute("INSERT INTO ledger VALUES (1)")
            .await
            .unwrap_err();
        drop(conn);
        // Nothing fits now; then the same server is a primary again.
        assert!(pool.get_timeout(seconds(1)).await.is_err(), "{begin:?}");
        sim.server("pg1").promote();
        let conn = pool.get().await.unwrap();
        assert_ne!(whoami(&conn).await.1, backend, "{begin:?}");
    }
}

/// Covers: V-10
#[tokio::test(start_paused = true)]
async fn a_pool_that_does_not_ask_for_a_writer_keeps_its_connection_after_a_refused_write() {
    for target in [PreferStandby, pgsteer::config::TargetSessionAttrs::Any] {
        let sim = plain([ServerSpec::new("pg1").standby()]);
        let pool = full(&sim, ordered(&["pg1"], target).pool_size(1)).await;
        let backend = whoami(&pool.get().await.unwrap()).await.1;
        pool.batch_execute("INSERT INTO ledger VALUES (1)")
            .await
            .unwrap_err();
        assert_eq!(whoami(&pool.get().await.unwrap()).await.1, backend, "{target}");
        assert_eq!(pool.status().totals.opened, 1, "{target}");
    }
}

///
#[tokio::test(start_paused = true)]
async fn connections_on_a_primary_go_to_a_standby_that_comes_up_a_batch_at_a_time() {
    let sim = plain([ServerSpec::new("pg1"), ServerSpec::new("pg2").standby()]);
    sim.server("pg2").kill(Death::Fin);
    let config = ordered(&["pg1", "pg2"], PreferStandby)
        .pool_size(6)
        .rebalance_interval(seconds(1))
        .rebalance_batch(2)
        .yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config).await;
    assert_eq!(placed(&pool.status()), "pg1:6");
    sim.server("pg2").start();
    until("it is found", || pool.snapshot().failures.is_empty()).await;
    let mut least = 6;
    within("all are on the standby", seconds(10), || {
        let status = pool.status();
        least = least.min(status.idle);
        placed(&status) == "pg2:6"
    })
    .await;
    assert!(least >= 3, "only a batch is under way at a time: {least} idle");
}

/// Covers: F-15, Q-06
#[tokio::test(start_paused = true)]
async fn a_promotion_moves_the_right_connections_of_two_pools_and_no_others() {
    let sim = primary_and_standbys();
    let config = ordered(&ALL, ReadWrite)
        .pool_size(2)
        .yb_servers_refresh_interval(seconds(1));
    let writes = full(&sim, config).await;
    let reads = writes.with_target(PreferStandby).unwrap();
    within("reads are on a standby", seconds(3), || {
        placed(&reads.status()) == "pg2:2"
    })
    .await;

    sim.server("pg1").kill(Death::Rst);
    sim.server("pg2").promote();
    // The writers follow the promoted server; the readers leave it for the standby that is left.
    within("both are where they should be", seconds(20), || {
        placed(&writes.status()) == "pg2:2" && placed(&reads.status()) == "pg3:2"
    })
    .await;
    let opened = (writes.status().totals.opened, reads.status().totals.opened);
    assert_eq!(
        opened,
        (4, 4),
        "each connection was opened once before and once after"
    );

    // The old primary returns as a standby: nobody has to move for that.
    sim.server("pg1").demote();
    sim.server("pg1").start();
    pass(seconds(30)).await;
    assert_eq!(placed(&writes.status()), "pg2:2");
    assert_eq!(writes.status().totals.opened, 4);
}

/// Whoever starts after a failover that did not end the old primary, and lists that first.
///
/// Covers: F-17
#[tokio::test(start_paused = true)]
async fn a_pool_that_starts_on_an_outranked_primary_leaves_it_long_before_its_first_refresh() {
    let sim = primary_and_standbys();
    sim.server("pg2").promote();
    let pool = full(&sim, ordered(&ALL, ReadWrite).pool_size(2)).await;
    within("writes go to the promoted one", seconds(3), || {
        placed(&pool.status()) == "pg2:2"
    })
    .await;
}

/// Covers: F-17
#[tokio::test(start_paused = true)]
async fn of_two_primaries_the_one_on_the_higher_timeline_is_written_to_and_people_are_warned_once() {
    let lines = Lines::listen();
    let sim = primary_and_standbys();
    let config = ordered(&ALL, ReadWrite)
        .pool_size(2)
        .role_ttl(seconds(1))
        .yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config).await;
    pass(seconds(3)).await;
    lines.all();
    sim.server("pg2").promote();
    within("writes go to the new primary", seconds(6), || {
        placed(&pool.status()) == "pg2:2"
    })
    .await;
    assert!(names(&pool.snapshot().unfit).contains(&"pg1"));
    pass(seconds(60)).await;
    let warnings: Vec<String> = lines
        .seen()
        .into_iter()
        .filter(|line| line.starts_with("WARN"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("pg1:5433 on 1") && warnings[0].contains("pg2:5433 on 2"),
        "{warnings:?}"
    );
    assert_eq!(placed(&pool.status()), "pg2:2");
}
