//! Dialling the next host beside one that keeps silent (`connect_race_delay`).

use std::time::Duration;

use pgsteer::config::{HostOrder, LoadBalance, TargetSessionAttrs};
use pgsteer::{Cluster, Config, Error};
use pgsteer_sim::{ServerSpec, Sim};

use crate::rig::*;
use crate::roles::ordered;

const DELAY: Duration = Duration::from_millis(200);

fn raced() -> Config {
    ordered(&["a", "b", "c"], TargetSessionAttrs::Any).connect_race_delay(DELAY)
}

/// Three servers that take so many milliseconds to accept a connect.
fn slow(connects: [u64; 3]) -> Sim {
    let sim = three().build();
    for (server, latency) in sim.servers().iter().zip(connects) {
        server.set_connect_latency(millis(latency));
    }
    sim
}

/// Nothing is left of a race: no reservation, no mark, no session beside the one that won once the losers have had their
/// time.
async fn nothing_is_left(sim: &Sim, cluster: &Cluster) {
    assert!(cluster.snapshot().pending.is_empty());
    assert!(cluster.snapshot().failures.is_empty());
    within("the losers are gone", seconds(1), || sim.live() == 1).await;
    assert_eq!(cluster.snapshot().counts.values().sum::<u32>(), 1);
}

///
#[tokio::test(start_paused = true)]
async fn a_silent_host_costs_the_delay_until_its_own_time_is_over_and_it_is_left_out() {
    let sim = three().build();
    blackhole(&sim.server("a"));
    let config = raced()
        .connect_timeout(seconds(5))
        .failed_host_reconnect_delay_secs(60);
    let cluster = cluster(&sim, config).await;
    let (opened, took) = timed(open(&cluster, 1)).await;
    assert_eq!((hosts_of(&opened), took), (vec!["b"], DELAY));
    nothing_is_left(&sim, &cluster).await;

    let (more, took) = timed(open(&cluster, 3)).await;
    assert_eq!((hosts_of(&more), took), (vec!["b"; 3], DELAY * 3));
    assert!(cluster.snapshot().failures.is_empty(), "it has time yet");
    pass(seconds(5)).await;
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
    let dialled = attempts(&sim, "a");
    let (more, took) = timed(open(&cluster, 3)).await;
    assert_eq!((hosts_of(&more), took), (vec!["b"; 3], seconds(0)));
    assert_eq!(attempts(&sim, "a"), dialled);
}

/// It may be silent to one dial because it is slow. Nobody waits for it a second time, and nobody marks it.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_only_slow_is_not_marked_and_its_late_connection_is_closed() {
    let sim = slow([900, 0, 0]);
    let cluster = cluster(&sim, raced()).await;
    let opened = open(&cluster, 3).await;
    assert_eq!(hosts_of(&opened), ["b"; 3]);
    within("the late one has come and gone", seconds(3), || {
        sim.server("a").counts().logins == 1 && sim.live() == 3
    })
    .await;
    pass(seconds(10)).await;
    assert_eq!(sim.server("a").counts().logins, 1, "one at a time goes on");
    assert!(cluster.snapshot().failures.is_empty());
    assert!(cluster.snapshot().pending.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_goes_on_ends_with_its_cluster() {
    let before = tasks();
    let sim = three().build();
    blackhole(&sim.server("a"));
    let cluster = cluster(&sim, raced().connect_timeout(seconds(3_600))).await;
    drop(open(&cluster, 1).await);
    cluster.stop();
    until("all tasks have ended", || tasks() == before).await;
}

#[tokio::test(start_paused = true)]
async fn two_silent_hosts_cost_the_delay_twice() {
    let sim = three().build();
    ["a", "b"].iter().for_each(|name| blackhole(&sim.server(name)));
    let cluster = cluster(&sim, raced()).await;
    let (opened, took) = timed(open(&cluster, 1)).await;
    assert_eq!((hosts_of(&opened), took), (vec!["c"], DELAY * 2));
    nothing_is_left(&sim, &cluster).await;
}

#[tokio::test(start_paused = true)]
async fn who_wins_is_told_by_who_answers_first_and_among_equals_by_the_order() {
    // how long each host takes; who wins, after how long, and how many were dialled
    let table = [
        ([150, 0, 0], "a", 150, 1),
        ([300, 500, 0], "a", 300, 2),
        ([900, 100, 0], "b", 300, 2),
        ([350, 150, 0], "a", 350, 2),
        ([900, 900, 10], "c", 410, 3),
        ([900, 400, 200], "b", 600, 3),
    ];
    for (connects, winner, time, dialled) in table {
        let sim = slow(connects);
        let cluster = cluster(&sim, raced()).await;
        let (opened, took) = timed(open(&cluster, 1)).await;
        assert_eq!(hosts_of(&opened), [winner], "{connects:?}");
        assert_eq!(took, millis(time), "{connects:?}");
        let attempts: u64 = ["a", "b", "c"].iter().map(|name| attempts(&sim, name)).sum();
        assert_eq!(attempts, dialled, "{connects:?}");
        nothing_is_left(&sim, &cluster).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_in_a_race_is_marked_and_the_race_goes_on() {
    let sim = slow([400, 250, 0]);
    refuse(&sim.server("a"));
    let cluster = cluster(&sim, raced()).await;
    let (opened, took) = timed(open(&cluster, 1)).await;
    assert_eq!((hosts_of(&opened), took), (vec!["c"], DELAY * 2));
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn hosts_that_all_fail_are_all_told_of() {
    let sim = slow([300, 300, 300]);
    sim.servers().iter().for_each(refuse);
    let cluster = cluster(&sim, raced()).await;
    let (result, took) = timed(cluster.connect()).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error:?}");
    assert_eq!(tried(&error), "a down, b down, c down");
    assert_eq!(took, millis(700), "side by side, not one after the other");
    assert!(cluster.snapshot().pending.is_empty());
}

///
#[tokio::test(start_paused = true)]
async fn each_has_a_deadline_of_its_own() {
    let sim = three().build();
    sim.servers().iter().for_each(blackhole);
    let cluster = cluster(&sim, raced().connect_timeout(seconds(1))).await;
    let (result, took) = timed(cluster.connect()).await;
    assert_eq!(tried(&result.unwrap_err()), "a down, b down, c down");
    assert_eq!(took, seconds(1) + DELAY * 2);
}

#[tokio::test(start_paused = true)]
async fn a_race_is_won_by_what_is_wanted_and_not_by_who_is_quick() {
    let sim = plain([
        ServerSpec::new("a"),
        ServerSpec::new("b").standby(),
        ServerSpec::new("c").standby(),
    ]);
    sim.server("a").set_connect_latency(millis(700));
    let config = ordered(&["a", "b", "c"], TargetSessionAttrs::ReadWrite).connect_race_delay(DELAY);
    let cluster = cluster(&sim, config).await;
    let (opened, took) = timed(open(&cluster, 1)).await;
    assert_eq!((hosts_of(&opened), took), (vec!["a"], millis(700)));
    nothing_is_left(&sim, &cluster).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_option_or_without_an_order_hosts_are_dialled_one_after_the_other() {
    let off = ordered(&["a", "b", "c"], TargetSessionAttrs::Any);
    let table = [
        off.clone().connect_race_delay(None),
        off.connect_race_delay(DELAY)
            .load_balance_hosts(HostOrder::Random),
        raced().load_balance(LoadBalance::Any),
    ];
    for config in table {
        let sim = three().build();
        let cluster = cluster(&sim, config.connect_timeout(seconds(2))).await;
        let before: u64 = ["a", "b", "c"].iter().map(|name| attempts(&sim, name)).sum();
        sim.servers().iter().for_each(blackhole);
        let connecting = tokio::spawn({
            let cluster = cluster.clone();
            async move { cluster.connect().await.map(drop) }
        });
        pass(millis(1500)).await;
        let after: u64 = ["a", "b", "c"].iter().map(|name| attempts(&sim, name)).sum();
        assert_eq!(after - before, 1);
        connecting.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_race_given_up_at_any_moment_leaves_nothing() {
    for given_up in (0..700).step_by(7) {
        let sim = slow([500, 350, 150]);
        sim.servers()
            .iter()
            .for_each(|server| server.set_answer_latency(millis(20)));
        let cluster = cluster(&sim, raced()).await;
        let raced = tokio::time::timeout(millis(given_up), cluster.connect()).await;
        drop(raced);
        assert!(cluster.snapshot().pending.is_empty(), "{given_up} ms");
        assert!(cluster.snapshot().failures.is_empty(), "{given_up} ms");
        within("all sessions are gone", seconds(3), || {
            sim.live() == 0 && cluster.snapshot().counts.is_empty()
        })
        .await;
    }
}
